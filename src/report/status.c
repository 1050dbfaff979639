/* status.c - the document of `outbox status --json`: the queue by topic, relays, sinks, pauses and tunings. */
#include "report/report.h"

struct totals {
    struct ob_json *json;
    struct ob_status_row sum; /* ages: the highest */
};

static void put_counts(struct ob_json *json, const struct ob_status_row *row)
{
    ob_json_count(json, "pending", row->pending);
    ob_json_count(json, "due", row->due);
    ob_json_count(json, "delayed", row->delayed);
    ob_json_count(json, "retrying", row->retrying);
    ob_json_count(json, "processing", row->processing);
    ob_json_count(json, "stuck", row->stuck);
    ob_json_count(json, "parked", row->parked);
    ob_json_count(json, "dead", row->dead);
    ob_json_count(json, "dead_last_hour", row->dead_last_hour);
    ob_json_key(json, "oldest_due_s"), ob_json_double(json, row->oldest_due_s);
    ob_json_key(json, "oldest_undelivered_s"), ob_json_double(json, row->oldest_undelivered_s);
    ob_json_key(json, "estimated"), ob_json_bool(json, row->estimated);
}

static void add(struct ob_status_row *sum, const struct ob_status_row *row)
{
    sum->pending += row->pending;
    sum->due += row->due;
    sum->delayed += row->delayed;
    sum->retrying += row->retrying;
    sum->processing += row->processing;
    sum->stuck += row->stuck;
    sum->parked += row->parked;
    sum->dead += row->dead;
    sum->dead_last_hour += row->dead_last_hour;
    sum->estimated = sum->estimated || row->estimated;
    if (row->oldest_due_s > sum->oldest_due_s)
        sum->oldest_due_s = row->oldest_due_s;
    if (row->oldest_undelivered_s > sum->oldest_undelivered_s)
        sum->oldest_undelivered_s = row->oldest_undelivered_s;
}

static bool put_topic(void *ctx, const struct ob_status_row *row)
{
    struct totals *totals = ctx;
    struct ob_json *json = totals->json;
    add(&totals->sum, row);
    ob_json_object(json);
    ob_json_text(json, "namespace", row->name_space);
    ob_json_text(json, "topic", row->topic);
    put_counts(json, row);
    ob_json_text(json, "last_code", row->last_code);
    ob_json_text(json, "last_error", row->last_error);
    ob_json_time(json, "last_error_at", row->last_error_at_us);
    ob_json_key(json, "paused"), ob_json_bool(json, row->paused);
    ob_json_end(json);
    return true;
}

static void put_place(struct ob_json *json, struct ob_store *store)
{
    struct ob_store_place place;
    store->ops->place(store, &place);
    ob_json_key(json, "store");
    ob_json_object(json);
    ob_json_text(json, "kind", store->ops->kind);
    ob_json_text(json, "file", place.file);
    ob_json_text(json, "host", place.host);
    ob_json_text(json, "port", place.port);
    ob_json_text(json, "database", place.database);
    ob_json_text(json, "user", place.user);
    ob_json_text(json, "schema", place.schema);
    ob_json_end(json);
}

static enum outbox_code put_pauses(struct ob_store *store, struct ob_json *json, struct outbox_error *err)
{
    struct ob_pauses pauses;
    enum outbox_code code = ob_pauses_read(store, &pauses, err);
    ob_json_key(json, "pauses");
    ob_pauses_json(json, &pauses);
    ob_pauses_fini(&pauses);
    return code;
}

static enum outbox_code put_tunings(struct ob_store *store, struct ob_json *json, struct outbox_error *err)
{
    struct ob_tunings tunings;
    enum outbox_code code = ob_tunings_read(store, &tunings, err);
    ob_json_key(json, "tunings");
    ob_tunings_json(json, &tunings);
    ob_tunings_fini(&tunings);
    return code;
}

static enum outbox_code put_relays(struct ob_store *store, struct ob_json *json, struct outbox_error *err)
{
    struct ob_relays *relays = NULL;
    enum outbox_code code = ob_relays_read(store, &relays, err);
    if (!code)
        ob_relays_json(json, relays);
    ob_relays_free(relays);
    return code;
}

enum outbox_code ob_report_status(struct ob_store *store, struct ob_json *json, struct outbox_error *err)
{
    struct totals totals = {.json = json};
    ob_json_object(json);
    put_place(json, store);
    ob_json_key(json, "topics");
    ob_json_array(json);
    enum outbox_code code = store->ops->status(store, put_topic, &totals, err);
    if (code)
        return code;
    ob_json_end(json);
    code = put_pauses(store, json, err);
    if (!code)
        code = put_tunings(store, json, err);
    if (!code)
        code = put_relays(store, json, err);
    if (code)
        return code;
    put_counts(json, &totals.sum);
    ob_json_end(json);
    return OUTBOX_OK;
}
