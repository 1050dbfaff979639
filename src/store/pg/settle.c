/* settle.c - records outcomes and extends leases. Arrays in, one statement per call, one result per element.
 *
 * An outcome must never be refused because of its text: a receiver's text may be invalid UTF-8, or have letters that the
 * database's encoding does not have; and a sink's output may not be JSON (as_json in the schema handles that). All are stored
 * as faithfully as possible: one refusal would hold up every outcome of the batch forever. */
#include "store/pg/pg.h"

#include "base/limits.h"

#include <string.h>

static enum outbox_settled result_of(const char *text)
{
    if (text && strcmp(text, "ok") == 0)
        return OUTBOX_SETTLED;
    return text && strcmp(text, "lost") == 0 ? OUTBOX_SETTLE_LOST : OUTBOX_SETTLE_UNKNOWN;
}

static void put_ids(struct ob_pg_params *params, const struct outbox_settle *items, size_t count)
{
    ob_pg_array_begin(params, OB_PG_UUID, count);
    for (size_t i = 0; i < count; i++)
        ob_pg_array_uuid(params, &items[i].id);
    ob_pg_array_end(params);
}

static void put_claims(struct ob_pg_params *params, const struct outbox_settle *items, size_t count)
{
    put_ids(params, items, count);
    ob_pg_array_begin(params, OB_PG_INT8, count);
    for (size_t i = 0; i < count; i++)
        ob_pg_array_int8(params, ob_pg_token_attempt(items[i].token));
    ob_pg_array_end(params);
}

/* Writes a question mark for each character that is not ASCII. */
static void ascii(struct ob_buf *buf, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x80)
            ob_buf_putc(buf, *text);
        else if (c >= 0xc0)
            ob_buf_putc(buf, '?');
    }
}

static void put_text(struct ob_pg_params *params, const char *text, enum ob_pg_words words)
{
    struct ob_buf plain = OB_BUF_INIT;
    if (!text || words != OB_PG_WORDS_ASCII) {
        ob_pg_array_text_lossy(params, text);
        return;
    }
    ascii(&plain, text);
    ob_pg_array_text_lossy(params, ob_buf_text(&plain));
    params->scratch->failed |= !ob_buf_ok(&plain);
    ob_buf_fini(&plain);
}

/* A column without any value is sent as null: most batches are plain acks. */
static void put_texts(struct ob_pg_params *params, const struct outbox_settle *items, size_t count, size_t offset,
                      enum ob_pg_words words)
{
#define TEXT_AT(i) (*(const char *const *)(const void *)((const char *)&items[i] + offset))
    size_t first = 0;
    while (first < count && !TEXT_AT(first))
        first++;
    if (first == count) {
        ob_pg_put_null(params);
        return;
    }
    ob_pg_array_begin(params, OB_PG_TEXT, count);
    for (size_t i = 0; i < count; i++)
        put_text(params, TEXT_AT(i), words);
    ob_pg_array_end(params);
#undef TEXT_AT
}

/* Of the negative numbers only `never` is sent; 0: none. */
static void put_numbers(struct ob_pg_params *params, const struct outbox_settle *items, size_t count, size_t offset,
                        int64_t never)
{
#define NUMBER_AT(i) (*(const int64_t *)(const void *)((const char *)&items[i] + offset))
#define TOLD_AT(i) (NUMBER_AT(i) >= 0 || NUMBER_AT(i) == never)
    size_t first = 0;
    while (first < count && !TOLD_AT(first))
        first++;
    if (first == count) {
        ob_pg_put_null(params);
        return;
    }
    ob_pg_array_begin(params, OB_PG_INT8, count);
    for (size_t i = 0; i < count; i++) {
        if (TOLD_AT(i))
            ob_pg_array_int8(params, NUMBER_AT(i));
        else
            ob_pg_array_null(params);
    }
    ob_pg_array_end(params);
#undef TOLD_AT
#undef NUMBER_AT
}

/* Where the claim saw the rows. If one place is unknown, the server looks up all of them. */
static void put_places(struct ob_pg_params *params, const struct outbox_settle *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ob_pg_token_place(items[i].token) == 0) {
            ob_pg_put_null(params);
            return;
        }
    }
    ob_pg_array_begin(params, OB_PG_TID, count);
    for (size_t i = 0; i < count; i++)
        ob_pg_array_tid(params, ob_pg_token_place(items[i].token));
    ob_pg_array_end(params);
}

/* The budgets of the messages; nearly always none is given. */
static void put_budgets(struct ob_pg_params *params, const struct outbox_settle *items, size_t count)
{
    size_t first = 0;
    while (first < count && !items[first].max_attempts)
        first++;
    if (first == count) {
        ob_pg_put_null(params);
        return;
    }
    ob_pg_array_begin(params, OB_PG_INT4, count);
    for (size_t i = 0; i < count; i++) {
        if (items[i].max_attempts)
            ob_pg_array_int4(params, items[i].max_attempts);
        else
            ob_pg_array_null(params);
    }
    ob_pg_array_end(params);
}

/* Outcomes, and what is said about them. */
static void put_outcomes(struct ob_pg_params *params, const struct outbox_settle *items, size_t count, bool under_way,
                         enum ob_pg_words words)
{
    ob_pg_array_begin(params, OB_PG_INT4, count);
    for (size_t i = 0; i < count; i++) {
        if (under_way)
            ob_pg_array_null(params);
        else
            ob_pg_array_int4(params, items[i].outcome);
    }
    ob_pg_array_end(params);
    put_texts(params, items, count, offsetof(struct outbox_settle, code), words);
    put_texts(params, items, count, offsetof(struct outbox_settle, error), words);
    put_texts(params, items, count, offsetof(struct outbox_settle, reference), words);
    put_texts(params, items, count, offsetof(struct outbox_settle, output), words);
    put_numbers(params, items, count, offsetof(struct outbox_settle, delay_us), OUTBOX_NEVER);
    put_numbers(params, items, count, offsetof(struct outbox_settle, latency_us), 0);
}

void ob_pg_settle_params(struct ob_pg_params *params, const struct outbox_settle *items, size_t count,
                         const char *worker, enum ob_pg_words words)
{
    put_claims(params, items, count);
    put_outcomes(params, items, count, false, words);
    put_places(params, items, count);
    ob_pg_put_text(params, worker);
    put_budgets(params, items, count);
}

/* ---- windows ---- */

enum window_column { SHARD, NUMBER, NONCE, MISSING, WINDOW_COLUMNS };

static void put_window(struct ob_pg_params *params, const struct ob_pg_window *window, enum window_column column)
{
    switch (column) {
    case SHARD: ob_pg_array_int4(params, window->taken.shard); break;
    case NUMBER: ob_pg_array_int8(params, window->taken.id); break;
    case NONCE: ob_pg_array_int8(params, window->taken.nonce); break;
    default: ob_pg_array_int4(params, window->missing); break;
    }
}

static void put_windows(struct ob_pg_params *params, const struct ob_pg_window_settle *what)
{
    for (int column = 0; column < WINDOW_COLUMNS; column++) {
        int type = column == NUMBER || column == NONCE ? OB_PG_INT8 : OB_PG_INT4, put = 0;
        ob_pg_array_begin(params, type, (size_t)what->window_count);
        for (size_t i = 0; i < what->count; i++) {
            if (what->windows[i]->mark != put + 1)
                continue;
            put_window(params, what->windows[i], (enum window_column)column);
            put++;
        }
        ob_pg_array_end(params);
    }
    ob_pg_array_begin(params, OB_PG_INT4, what->count);
    for (size_t i = 0; i < what->count; i++)
        ob_pg_array_int4(params, what->windows[i]->mark);
    ob_pg_array_end(params);
}

static void put_tenants(struct ob_pg_params *params, const struct ob_pg_window_settle *what)
{
    size_t first = 0;
    while (first < what->count && !what->held[first]->has_tenant)
        first++;
    if (first == what->count) {
        ob_pg_put_null(params);
        return;
    }
    ob_pg_array_begin(params, OB_PG_UUID, what->count);
    for (size_t i = 0; i < what->count; i++) {
        if (what->held[i]->has_tenant)
            ob_pg_array_uuid(params, &what->held[i]->tenant);
        else
            ob_pg_array_null(params);
    }
    ob_pg_array_end(params);
}

void ob_pg_settle_window_params(struct ob_pg_params *params, const struct ob_pg_window_settle *what, const char *worker,
                                enum ob_pg_words words)
{
    put_windows(params, what);
    put_ids(params, what->items, what->count);
    put_outcomes(params, what->items, what->count, what->under_way, words);
    put_budgets(params, what->items, what->count);
    put_tenants(params, what);
    ob_pg_put_text(params, worker);
    ob_pg_put_interval(params, what->windows[0]->taken.lease_us);
    ob_pg_put_bool(params, what->again);
}

/* ---- results ---- */

/* Rows: ord, result and, if there is a third column, dead. */
static void read_results(const PGresult *res, struct outbox_settle *items, size_t count, enum outbox_settled missing)
{
    for (size_t i = 0; i < count; i++) {
        items[i].result = missing;
        items[i].dead = false;
    }
    for (int row = 0; row < PQntuples(res); row++) {
        int ord = ob_pg_int4(res, row, 0);
        if (ord < 1 || (size_t)ord > count)
            continue;
        items[ord - 1].result = result_of(ob_pg_text(res, row, 1));
        items[ord - 1].dead = PQnfields(res) > 2 && ob_pg_bool(res, row, 2);
    }
}

void ob_pg_settle_read(const PGresult *res, struct outbox_settle *items, size_t count)
{
    read_results(res, items, count, OUTBOX_SETTLED); /* only the others are returned */
}

void ob_pg_extend_read(const PGresult *res, struct outbox_settle *items, size_t count)
{
    read_results(res, items, count, OUTBOX_SETTLE_UNKNOWN);
}

void ob_pg_extend_params(struct ob_pg_params *params, const struct outbox_settle *items, size_t count,
                         const char *worker, int64_t lease_us)
{
    put_claims(params, items, count);
    ob_pg_put_interval(params, lease_us);
    ob_pg_put_text(params, worker);
}

bool ob_pg_settle_is_ugly(const struct outbox_error *err)
{
    return (err->code == OUTBOX_INVALID && strncmp(err->sqlstate, "22", 2) == 0) ||
           (err->code == OUTBOX_TOO_LARGE && strncmp(err->sqlstate, "54", 2) == 0);
}

ob_code ob_pg_settle_check(size_t count, struct outbox_error *err)
{
    return count ? ob_limit_check(OB_LIMIT_settle, "count", (int64_t)count, err) : OUTBOX_OK;
}

ob_code ob_pg_settle(struct ob_store *base, struct outbox_settle *items, size_t count, struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    ob_code code = ob_pg_settle_check(count, err);
    if (code || count == 0)
        return code;
    struct outbox_error local;
    if (!err)
        err = &local;
    PGresult *res = NULL;
    for (int words = OB_PG_WORDS_AS_SAID; words <= OB_PG_WORDS_ASCII; words++) {
        struct ob_pg_params params;
        ob_pg_params_init(&params, &store->scratch);
        ob_pg_settle_params(&params, items, count, NULL, (enum ob_pg_words)words);
        if (!ob_pg_params_seal(&params))
            return ob_error_nomem(err);
        code = ob_pg_call(store, OB_PG_settle, &params, &res, err);
        if (!code || !ob_pg_settle_is_ugly(err) || store->tx != OB_PG_TX_NONE)
            break;
    }
    if (code)
        return code;
    ob_pg_settle_read(res, items, count);
    PQclear(res);
    return OUTBOX_OK;
}

ob_code ob_pg_extend(struct ob_store *base, struct outbox_settle *items, size_t count, int64_t lease_us,
                     struct outbox_error *err)
{
    struct ob_pg_store *store = ob_pg_store_of(base);
    ob_code code = ob_pg_settle_check(count, err);
    if (code || count == 0)
        return code;
    struct ob_pg_params params;
    ob_pg_params_init(&params, &store->scratch);
    ob_pg_extend_params(&params, items, count, NULL, lease_us);
    if (!ob_pg_params_seal(&params))
        return ob_error_nomem(err);
    PGresult *res;
    code = ob_pg_call(store, OB_PG_extend, &params, &res, err);
    if (code)
        return code;
    ob_pg_extend_read(res, items, count);
    PQclear(res);
    return OUTBOX_OK;
}
