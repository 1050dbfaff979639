/* batch.c - what a claim hands out: the messages, read after the claim has committed. They are immutable and ours by then,
 * so nobody is kept waiting while payloads are copied. */
#include "store/sqlite/sqlite.h"

#include "base/alloc.h"
#include "core/batch.h"

enum { BLOCK = 65536 };

struct batch {
    struct outbox_batch base; /* first: free finds us by a cast */
    struct ob_arena arena;    /* the messages borrow from it */
    struct outbox_delivery items[];
};

static void batch_free(struct outbox_batch *base)
{
    struct batch *batch = (struct batch *)(void *)base;
    ob_arena_fini(&batch->arena);
    ob_free(batch);
}

/* A copy in the arena; ok becomes false when memory ran out. */
static const char *keep(struct ob_arena *arena, sqlite3_stmt *stmt, int column, bool *ok)
{
    if (sqlite3_column_type(stmt, column) == SQLITE_NULL)
        return NULL;
    const void *data = sqlite3_column_blob(stmt, column);
    const char *copy = ob_arena_memdup(arena, data ? data : "", (size_t)sqlite3_column_bytes(stmt, column));
    *ok = *ok && copy;
    return copy;
}

/* In the order of sql/sqlite/stmt/message.sql. */
static bool read_message(sqlite3_stmt *stmt, struct ob_arena *arena, struct outbox_delivery *msg)
{
    bool ok = outbox_uuid_parse(ob_sqlite_column(stmt, 0), &msg->id);
    msg->name_space = keep(arena, stmt, 1, &ok);
    msg->topic = keep(arena, stmt, 2, &ok);
    msg->tenant_id = keep(arena, stmt, 3, &ok);
    msg->key = keep(arena, stmt, 4, &ok);
    msg->seq = sqlite3_column_int64(stmt, 5);
    msg->dedupe_key = keep(arena, stmt, 6, &ok);
    msg->subject = keep(arena, stmt, 7, &ok);
    msg->recipient = keep(arena, stmt, 8, &ok);
    msg->headers = keep(arena, stmt, 9, &ok);
    msg->correlation_id = keep(arena, stmt, 10, &ok);
    msg->content_type = keep(arena, stmt, 11, &ok);
    msg->payload = keep(arena, stmt, 12, &ok);
    msg->payload_len = (size_t)sqlite3_column_bytes(stmt, 12);
    msg->priority = sqlite3_column_int(stmt, 13);
    msg->created_at_us = sqlite3_column_int64(stmt, 14);
    msg->expires_at_us = sqlite3_column_int64(stmt, 15);
    return ok;
}

static ob_code fill(struct ob_sqlite_store *store, struct batch *batch, const struct ob_sqlite_taken *all, size_t count,
                    int64_t lease_us, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    for (size_t i = 0; i < count && !code; i++) {
        const struct ob_sqlite_taken *taken = &all[i];
        struct outbox_delivery *msg = &batch->items[batch->base.size];
        sqlite3_stmt *stmt;
        bool row = false;
        code = ob_sqlite_start(store, OB_SQLITE_message, OB_ARGS(OB_NUM(taken->entry.n)), &stmt, err);
        if (!code)
            code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row) /* no row: erased with its tenant, a moment ago */
            continue;
        *msg = (struct outbox_delivery){
            .size = sizeof *msg,
            .token = taken->entry.attempts + 1,
            .attempt = taken->entry.attempts + 1,
            .spent = taken->entry.spent + 1,
            .max_attempts = taken->ceiling,
            .redriven = taken->entry.redriven,
            .claimed_at_us = taken->claimed_at,
            .locked_until_us = taken->claimed_at + lease_us,
        };
        if (!read_message(stmt, &batch->arena, msg))
            code = ob_error_nomem(err);
        ob_sqlite_done(stmt);
        batch->base.size++;
    }
    return code;
}

ob_code ob_sqlite_batch_new(struct ob_sqlite_store *store, const struct ob_sqlite_taken *taken, size_t count,
                            int64_t lease_us, struct outbox_batch **out, struct outbox_error *err)
{
    bool began = false;
    struct batch *batch = ob_alloc(sizeof *batch + count * sizeof batch->items[0]);
    if (!batch)
        return ob_error_nomem(err);
    batch->base = (struct outbox_batch){.size = 0, .items = batch->items, .free = batch_free};
    ob_arena_init(&batch->arena, BLOCK);
    ob_code code = count ? ob_sqlite_begin_read(store, &began, err) : OUTBOX_OK;
    if (!code)
        code = fill(store, batch, taken, count, lease_us, err);
    ob_sqlite_end_read(store, began);
    if (code)
        batch_free(&batch->base);
    else
        *out = &batch->base;
    return code;
}
