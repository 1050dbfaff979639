/* purge.c - retention and erasure: the only code that deletes messages, attempts and acts.
 *
 * The guards allow a deletion only while outbox_gate permits it, which is set and cleared inside the same transaction.
 * Retention depends on when a message was created and settled; it deletes in small transactions, and searches for old messages
 * outside of them. Undelivered and dead messages are kept, and dedupe keys are kept forever. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"

enum { WINDOW = 2000, CHUNK = 250 };

struct purge {
    int64_t message_before, attempt_before; /* what is older is deleted; 0: nothing */
    int64_t numbers[CHUNK];
    size_t count;
    bool archived;          /* the numbers are those of archived messages */
    int64_t created_before; /* of the messages being deleted */
    int64_t removed;
};

/* ---- retention --------------------------------------------------------------------------------------------------- */

static ob_code read_retention(struct ob_sqlite_store *store, struct purge *purge, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row = false;
    int64_t now = ob_clock_wall_us();
    ob_code code = ob_sqlite_start(store, OB_SQLITE_retention, OB_NO_ARGS, &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (code || !row)
        return code;
    int64_t messages = sqlite3_column_int64(stmt, 0), attempts = sqlite3_column_int64(stmt, 1);
    ob_sqlite_done(stmt);
    purge->message_before = messages < 0 || messages >= now ? 0 : now - messages;
    purge->attempt_before = attempts < 0 || attempts >= now ? 0 : now - attempts;
    return OUTBOX_OK;
}

/* Removes a message, or what is left of it. */
static ob_code remove_one(struct ob_sqlite_store *store, struct purge *purge, int64_t n, struct outbox_error *err)
{
    const struct ob_sqlite_arg args[] = {OB_NUM(n)};
    bool attempts = purge->archived || purge->attempt_before >= purge->created_before;
    bool message = !purge->archived && purge->message_before >= purge->created_before;
    int64_t changed = 0;
    ob_code code = OUTBOX_OK;
    if (attempts)
        code = ob_sqlite_run(store, OB_SQLITE_purge_attempts, args, 1, NULL, err);
    else
        code = ob_sqlite_run(store, OB_SQLITE_purge_archive, args, 1, NULL, err);
    if (!code && message)
        code = ob_sqlite_run(store, OB_SQLITE_undead, args, 1, NULL, err); /* the row of a discarded dead letter */
    if (!code && message)
        code = ob_sqlite_run(store, OB_SQLITE_purge_message, args, 1, &changed, err);
    if (!code && purge->archived)
        code = ob_sqlite_run(store, OB_SQLITE_purge_archived, args, 1, NULL, err);
    purge->removed += changed;
    return code;
}

/* newest: the highest number before anything was deleted. */
static ob_code close_gate(struct ob_sqlite_store *store, int64_t newest, struct outbox_error *err)
{
    ob_code code = ob_sqlite_run(store, OB_SQLITE_stub, OB_ARGS(OB_NUM(newest), OB_NUM(ob_clock_wall_us())), NULL, err);
    return code ? code : ob_sqlite_run(store, OB_SQLITE_gate_close, OB_NO_ARGS, NULL, err);
}

static ob_code remove_chunk(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    struct purge *purge = ctx;
    int64_t newest = 0;
    ob_code code =
        ob_sqlite_run(store, OB_SQLITE_gate_open, OB_ARGS(OB_NUM(purge->created_before), OB_NULL), NULL, err);
    if (!code)
        code = ob_sqlite_number(store, OB_SQLITE_newest, OB_NO_ARGS, 0, &newest, err);
    for (size_t i = 0; i < purge->count && !code; i++)
        code = remove_one(store, purge, purge->numbers[i], err);
    return code ? code : close_gate(store, newest, err);
}

/* Reads numbers from a bound statement into the chunk; *row is false at its end. */
static ob_code read_numbers(struct ob_sqlite_store *store, sqlite3_stmt *stmt, struct purge *purge,
                            struct outbox_error *err)
{
    purge->count = 0;
    while (purge->count < CHUNK) {
        bool row;
        ob_code code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            return code;
        purge->numbers[purge->count++] = sqlite3_column_int64(stmt, 0);
    }
    ob_sqlite_done(stmt);
    return OUTBOX_OK;
}

/* The messages up to a number that are old and done. */
static ob_code purge_window(struct ob_sqlite_store *store, struct purge *purge, int64_t after, int64_t last,
                            struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    do {
        sqlite3_stmt *stmt;
        code = ob_sqlite_start(store, OB_SQLITE_purge_pick,
                               OB_ARGS(OB_NUM(after), OB_NUM(last), OB_NUM(purge->created_before)), &stmt, err);
        if (!code)
            code = read_numbers(store, stmt, purge, err);
        if (!code && purge->count) {
            after = purge->numbers[purge->count - 1];
            code = ob_sqlite_transact(store, remove_chunk, purge, err);
        }
    } while (!code && purge->count == CHUNK);
    return code;
}

/* In order of numbers, which is the order of age unless the clock was set back; so the first window that has nothing old, and
 * nothing dated in the future, is the end. */
static ob_code purge_messages(struct ob_sqlite_store *store, struct purge *purge, int64_t before,
                              struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    purge->created_before = before;
    for (int64_t after = 0, last; before && !code; after = last) {
        sqlite3_stmt *stmt;
        bool row = false;
        code = ob_sqlite_start(store, OB_SQLITE_purge_window,
                               OB_ARGS(OB_NUM(after), OB_NUM(before), OB_NUM(WINDOW), OB_NUM(ob_clock_wall_us())),
                               &stmt, err);
        if (!code)
            code = ob_sqlite_step(store, stmt, &row, err);
        if (code)
            break;
        last = sqlite3_column_int64(stmt, 0);
        int64_t old = sqlite3_column_int64(stmt, 1);
        ob_sqlite_done(stmt);
        if (old == 0)
            break;
        code = purge_window(store, purge, after, last, err);
    }
    return code;
}

static ob_code purge_archived(struct ob_sqlite_store *store, struct purge *purge, struct outbox_error *err)
{
    ob_code code = OUTBOX_OK;
    purge->archived = true;
    purge->created_before = purge->attempt_before;
    do {
        sqlite3_stmt *stmt;
        purge->count = 0;
        if (!purge->attempt_before)
            break;
        code = ob_sqlite_start(store, OB_SQLITE_purge_archived_pick,
                               OB_ARGS(OB_NUM(purge->attempt_before), OB_NUM(CHUNK)), &stmt, err);
        if (!code)
            code = read_numbers(store, stmt, purge, err);
        if (!code && purge->count)
            code = ob_sqlite_transact(store, remove_chunk, purge, err);
    } while (!code && purge->count == CHUNK);
    return code;
}

/* After the clock was ahead for a while: otherwise leases would not expire, and messages not be due, until that time. */
static ob_code repair_times(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    const struct ob_sqlite_arg now[] = {OB_NUM(ob_clock_wall_us())};
    (void)ctx;
    ob_code code = ob_sqlite_run(store, OB_SQLITE_repair_leases, now, 1, NULL, err);
    return code ? code : ob_sqlite_run(store, OB_SQLITE_repair_due, now, 1, NULL, err);
}

ob_code ob_sqlite_purge(struct ob_store *base, int64_t *removed, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct purge purge = {0};
    ob_code code = read_retention(store, &purge, err);
    if (!code)
        code = purge_messages(store, &purge, purge.message_before, err);
    /* Attempts that are kept for less time than their messages. */
    if (!code && purge.attempt_before > purge.message_before)
        code = purge_messages(store, &purge, purge.attempt_before, err);
    if (!code)
        code = purge_archived(store, &purge, err);
    if (!code)
        code = ob_sqlite_transact(store, repair_times, NULL, err);
    if (removed)
        *removed = purge.removed;
    return code;
}

/* ---- erasure ----------------------------------------------------------------------------------------------------- */

struct erasure {
    const char *tenant;
    const struct ob_actor *actor;
    int64_t messages, attempts;
};

static ob_code record(struct ob_sqlite_store *store, const struct erasure *erasure, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    bool row = false;
    ob_code code = ob_sqlite_start(
        store, OB_SQLITE_detail_erasure,
        OB_ARGS(OB_TEXT(erasure->tenant), OB_NUM(erasure->messages), OB_NUM(erasure->attempts)), &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (!code)
        code = ob_sqlite_act(store, erasure->actor, "erase_tenant", NULL, NULL, row ? ob_sqlite_column(stmt, 0) : NULL,
                             ob_clock_wall_us(), err);
    ob_sqlite_done(stmt);
    return code;
}

static ob_code erase(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    struct erasure *erasure = ctx;
    const struct ob_sqlite_arg args[] = {OB_TEXT(erasure->tenant)};
    /* Messages come after all rows that find their tenant through them. */
    static const enum ob_sqlite_stmt order[] = {
        OB_SQLITE_erase_queue,    OB_SQLITE_erase_dead,   OB_SQLITE_erase_attempts, OB_SQLITE_erase_messages,
        OB_SQLITE_erase_archived, OB_SQLITE_erase_dedupe, OB_SQLITE_erase_stream,   OB_SQLITE_erase_hook_failure,
        OB_SQLITE_erase_acts,     OB_SQLITE_erase_tokens,
    };
    int64_t newest = 0;
    ob_code code = ob_sqlite_run(store, OB_SQLITE_gate_open, OB_ARGS(OB_NULL, OB_TEXT(erasure->tenant)), NULL, err);
    if (!code)
        code = ob_sqlite_number(store, OB_SQLITE_newest, OB_NO_ARGS, 0, &newest, err);
    for (size_t i = 0; i < sizeof order / sizeof order[0] && !code; i++) {
        int64_t changed;
        code = ob_sqlite_run(store, order[i], args, 1, &changed, err);
        if (order[i] == OB_SQLITE_erase_messages)
            erasure->messages = changed;
        if (order[i] == OB_SQLITE_erase_attempts)
            erasure->attempts = changed;
    }
    if (!code)
        code = close_gate(store, newest, err);
    return code ? code : record(store, erasure, err);
}

ob_code ob_sqlite_erase_tenant(struct ob_store *base, const char *tenant_id, const struct ob_actor *actor,
                               int64_t *removed, struct outbox_error *err)
{
    struct erasure erasure = {.actor = actor};
    char tenant[37];
    if (!tenant_id)
        return ob_error_set(err, OUTBOX_INVALID, "the tenant is missing; give its uuid");
    ob_code code = ob_sqlite_check_tenant(tenant_id, tenant, &erasure.tenant, err);
    if (!code)
        code = ob_sqlite_transact(ob_sqlite_store_of(base), erase, &erasure, err);
    if (removed)
        *removed = code ? 0 : erasure.messages;
    return code;
}
