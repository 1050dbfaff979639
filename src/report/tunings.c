/* tunings.c - the settings of running relays that operators changed. */
#include "report/report.h"

static const char *copy(struct ob_tunings *tunings, const char *text)
{
    return text ? ob_arena_strdup(&tunings->arena, text) : NULL;
}

static void keep(void *ctx, const struct ob_tuning_row *row)
{
    struct ob_tunings *tunings = ctx;
    if (tunings->count < OB_TUNINGS_MOST)
        tunings->rows[tunings->count++] =
            (struct ob_tuning_row){copy(tunings, row->name), copy(tunings, row->value), copy(tunings, row->actor),
                                   copy(tunings, row->reason), row->at_us};
}

enum outbox_code ob_tunings_read(struct ob_store *store, struct ob_tunings *tunings, struct outbox_error *err)
{
    struct ob_control control = {.ctx = tunings, .tuned = keep};
    tunings->count = 0;
    ob_arena_init(&tunings->arena, 0);
    return store->ops->control(store, &control, err);
}

void ob_tunings_fini(struct ob_tunings *tunings)
{
    ob_arena_fini(&tunings->arena);
    tunings->count = 0;
}

void ob_tunings_json(struct ob_json *json, const struct ob_tunings *tunings)
{
    ob_json_array(json);
    for (size_t i = 0; i < tunings->count; i++) {
        ob_json_object(json);
        ob_json_text(json, "name", tunings->rows[i].name);
        ob_json_text(json, "value", tunings->rows[i].value);
        ob_json_text(json, "actor", tunings->rows[i].actor);
        ob_json_text(json, "reason", tunings->rows[i].reason);
        ob_json_time(json, "at", tunings->rows[i].at_us);
        ob_json_end(json);
    }
    ob_json_end(json);
}
