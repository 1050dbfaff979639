/* pauses.c - the pauses in force, as text and as JSON: without them a status would not explain why nothing is delivered. */
#include "report/report.h"

#include "base/clock.h"
#include "base/error.h"

#include <string.h>

void ob_pause_text(struct ob_buf *buf, const struct ob_pause_row *pause)
{
    if (pause->sink)
        ob_buf_puts(buf, "sink ");
    else if (pause->name_space && !pause->topic)
        ob_buf_puts(buf, "namespace ");
    ob_buf_puts(buf, pause->sink ? pause->sink : pause->name_space ? pause->name_space : "everything");
    if (pause->topic)
        ob_buf_printf(buf, "/%s", pause->topic);
}

void ob_by_text(struct ob_buf *buf, const char *actor, const char *reason, int64_t at_us)
{
    char at[OB_CLOCK_TEXT], age[32];
    if (actor && actor[0])
        ob_buf_printf(buf, " by %s", actor);
    if (at_us) {
        ob_clock_format(at_us, at);
        ob_age_text((double)(ob_clock_wall_us() - at_us) / 1e6, age);
        ob_buf_printf(buf, " since %.19sZ (%s)", at, age);
    }
    ob_buf_printf(buf, "%s%s", reason ? ": " : "", reason ? reason : "");
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

bool ob_pauses_have(const struct ob_pauses *pauses, const struct ob_pause_row *pause)
{
    for (size_t i = 0; i < pauses->count; i++)
        if (same(pauses->items[i].name_space, pause->name_space) && same(pauses->items[i].topic, pause->topic) &&
            same(pauses->items[i].sink, pause->sink))
            return true;
    return false;
}

static const char *copy(struct ob_pauses *pauses, const char *text)
{
    const char *kept = text ? ob_arena_strdup(&pauses->arena, text) : NULL;
    pauses->failed = pauses->failed || (text && !kept);
    return kept;
}

static void paused(void *ctx, const struct ob_pause_row *row)
{
    struct ob_pauses *pauses = ctx;
    if (pauses->count == pauses->room) {
        size_t room = pauses->room ? 2 * pauses->room : 16;
        struct ob_pause_row *items = ob_arena_calloc(&pauses->arena, room, sizeof *items);
        pauses->failed = pauses->failed || !items;
        if (!items)
            return;
        if (pauses->count)
            memcpy(items, pauses->items, pauses->count * sizeof *items);
        pauses->items = items;
        pauses->room = room;
    }
    pauses->items[pauses->count++] =
        (struct ob_pause_row){copy(pauses, row->name_space), copy(pauses, row->topic),  copy(pauses, row->sink),
                              copy(pauses, row->actor),      copy(pauses, row->reason), row->at_us};
}

enum outbox_code ob_pauses_read(struct ob_store *store, struct ob_pauses *pauses, struct outbox_error *err)
{
    struct ob_control control = {.ctx = pauses, .paused = paused};
    *pauses = (struct ob_pauses){0};
    ob_arena_init(&pauses->arena, 0);
    enum outbox_code code = store->ops->control(store, &control, err);
    return code || !pauses->failed ? code : ob_error_nomem(err);
}

void ob_pauses_fini(struct ob_pauses *pauses)
{
    ob_arena_fini(&pauses->arena);
    *pauses = (struct ob_pauses){0};
}

void ob_pauses_text(struct ob_buf *buf, const struct ob_pauses *pauses, const struct ob_pauses *without)
{
    size_t told = 0;
    for (size_t i = 0; i < pauses->count; i++) {
        if (without && ob_pauses_have(without, &pauses->items[i]))
            continue;
        ob_buf_puts(buf, told++ ? ", " : "");
        ob_pause_text(buf, &pauses->items[i]);
    }
}

void ob_pauses_json(struct ob_json *json, const struct ob_pauses *pauses)
{
    ob_json_array(json);
    for (size_t i = 0; i < pauses->count; i++) {
        ob_json_object(json);
        ob_json_text(json, "namespace", pauses->items[i].name_space);
        ob_json_text(json, "topic", pauses->items[i].topic);
        ob_json_text(json, "sink", pauses->items[i].sink);
        ob_json_text(json, "actor", pauses->items[i].actor);
        ob_json_text(json, "reason", pauses->items[i].reason);
        ob_json_time(json, "at", pauses->items[i].at_us);
        ob_json_end(json);
    }
    ob_json_end(json);
}
