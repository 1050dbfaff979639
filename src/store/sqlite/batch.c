/* batch.c - what a claim hands out: the messages, read after the claim has committed. By then they are leased to us, and they
 * are immutable, so no writer has to wait while payloads are copied. */
#include "store/sqlite/sqlite.h"

#include "base/alloc.h"
#include "core/batch.h"
#include "core/codec.h"

enum { BLOCK = 65536 };

struct batch {
    struct outbox_batch base; /* first: free finds us by a cast */
    struct ob_arena arena;    /* the messages borrow from it */
    struct names *names;
    size_t left; /* for what is decompressed */
    struct outbox_delivery items[];
};

static void batch_free(struct outbox_batch *base)
{
    struct batch *batch = (struct batch *)(void *)base;
    ob_arena_fini(&batch->arena);
    ob_free(batch);
}

/* A copy in the arena; sets *ok to false if memory runs out. */
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
static bool read_message(sqlite3_stmt *stmt, struct batch *batch, struct outbox_delivery *msg)
{
    struct ob_arena *arena = &batch->arena;
    bool ok = outbox_uuid_parse(ob_sqlite_column(stmt, 1), &msg->id);
    msg->tenant_id = keep(arena, stmt, 2, &ok);
    msg->key = keep(arena, stmt, 3, &ok);
    msg->seq = sqlite3_column_int64(stmt, 4);
    msg->dedupe_key = keep(arena, stmt, 5, &ok);
    msg->subject = keep(arena, stmt, 6, &ok);
    msg->recipient = keep(arena, stmt, 7, &ok);
    msg->headers = keep(arena, stmt, 8, &ok);
    msg->correlation_id = keep(arena, stmt, 9, &ok);
    msg->content_type = keep(arena, stmt, 10, &ok);
    /* A frame is decompressed straight from the statement into the arena. */
    bool plain = sqlite3_column_type(stmt, 15) == SQLITE_NULL;
    msg->payload = plain ? keep(arena, stmt, 11, &ok) : sqlite3_column_blob(stmt, 11);
    msg->payload_len = (size_t)sqlite3_column_bytes(stmt, 11);
    ob_codec_deliver(plain ? NULL : ob_sqlite_column(stmt, 15), arena, &batch->left, msg);
    msg->priority = sqlite3_column_int(stmt, 12);
    msg->created_at_us = sqlite3_column_int64(stmt, 13);
    msg->expires_at_us = sqlite3_column_int64(stmt, 14);
    msg->own_attempts = sqlite3_column_int(stmt, 16) != 0;
    return ok;
}

/* The names of a lane, read once per batch. */
struct names {
    int64_t lane;
    const char *name_space, *topic;
    struct names *next;
};

static ob_code name_lane(struct ob_sqlite_store *store, struct batch *batch, int64_t lane, struct outbox_delivery *msg,
                         struct outbox_error *err)
{
    struct names *names = batch->names;
    sqlite3_stmt *stmt;
    bool row = false, ok = true;
    ob_code code = OUTBOX_OK;
    while (names && names->lane != lane)
        names = names->next;
    if (!names) {
        names = ob_arena_calloc(&batch->arena, 1, sizeof *names);
        if (!names)
            return ob_error_nomem(err);
        code = ob_sqlite_start(store, OB_SQLITE_lane, OB_ARGS(OB_NUM(lane)), &stmt, err);
        if (!code)
            code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            return code ? code : ob_error_set(err, OUTBOX_CORRUPT, "outbox_lane has no row %lld", (long long)lane);
        *names =
            (struct names){lane, keep(&batch->arena, stmt, 0, &ok), keep(&batch->arena, stmt, 1, &ok), batch->names};
        ob_sqlite_done(stmt);
        batch->names = names;
    }
    msg->name_space = names->name_space;
    msg->topic = names->topic;
    return ok ? OUTBOX_OK : ob_error_nomem(err);
}

/* Messages are mostly claimed in the order of their numbers: one statement reads such a stretch. */
static ob_code fill_stretch(struct ob_sqlite_store *store, struct batch *batch, const struct ob_sqlite_taken *all,
                            size_t first, size_t end, int64_t lease_us, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_message,
                                   OB_ARGS(OB_NUM(all[first].entry.n), OB_NUM(all[end - 1].entry.n)), &stmt, err);
    while (!code) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row) /* a message without a row has just been erased with its tenant */
            break;
        const struct ob_sqlite_taken *taken =
            &all[first + (size_t)(sqlite3_column_int64(stmt, 0) - all[first].entry.n)];
        struct outbox_delivery *msg = &batch->items[batch->base.size++];
        *msg = (struct outbox_delivery){
            .size = sizeof *msg,
            .token = ob_sqlite_token(taken->entry.n, taken->entry.attempts + 1),
            .attempt = taken->entry.attempts + 1,
            .spent = taken->entry.spent + 1,
            .max_attempts = taken->ceiling,
            .redriven = taken->entry.redriven,
            .claimed_at_us = taken->claimed_at,
            .locked_until_us = taken->claimed_at + lease_us,
            .stream = taken->entry.sid,
            .deferred = taken->entry.deferred,
            .lost = taken->entry.lost + (taken->entry.state == OB_SQLITE_LEASED),
            .retry_base_us = taken->retry_base,
            .retry_cap_us = taken->retry_cap,
        };
        code =
            read_message(stmt, batch, msg) ? name_lane(store, batch, taken->entry.lane, msg, err) : ob_error_nomem(err);
    }
    ob_sqlite_done(stmt);
    return code;
}

static ob_code fill(struct ob_sqlite_store *store, struct batch *batch, const struct ob_sqlite_taken *taken,
                    size_t count, int64_t lease_us, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    for (size_t first = 0, end; first < count && !code; first = end) {
        for (end = first + 1; end < count && taken[end].entry.n == taken[end - 1].entry.n + 1;)
            end++;
        code = fill_stretch(store, batch, taken, first, end, lease_us, err);
    }
    return code;
}

ob_code ob_sqlite_batch_new(struct ob_sqlite_store *store, const struct ob_sqlite_taken *taken, size_t count, bool more,
                            int64_t lease_us, struct outbox_batch **out, struct outbox_error *err)
{
    bool began = false;
    struct batch *batch = ob_alloc(sizeof *batch + count * sizeof batch->items[0]);
    if (!batch)
        return ob_error_nomem(err);
    batch->base = (struct outbox_batch){.size = 0, .items = batch->items, .more = more, .free = batch_free};
    batch->names = NULL;
    batch->left = OB_CODEC_BATCH;
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
