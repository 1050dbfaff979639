/* news.c - news of dead letters, for operators. Runs in the transaction that is open, so there is no other writer. */
#include "store/sqlite/sqlite.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* When operators were told last, and up to when; *due false: it is not time. */
static ob_code look(struct ob_sqlite_store *store, int64_t now, int64_t every_us, int64_t *told, int64_t *upto,
                    bool *due, struct outbox_error *err)
{
    sqlite3_stmt *stmt;
    *due = false;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_notice, OB_ARGS(OB_NUM(now), OB_NUM(every_us)), &stmt, err);
    if (!code)
        code = ob_sqlite_step(store, stmt, due, err);
    if (!code && *due) {
        *told = sqlite3_column_int64(stmt, 0);
        *upto = sqlite3_column_int64(stmt, 1);
    }
    ob_sqlite_done(stmt);
    return code;
}

ob_code ob_sqlite_dead_news(struct ob_store *base, const struct ob_news_terms *terms, struct ob_news *news,
                            ob_group_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    int64_t now = ob_clock_wall_us(), upto = 0;
    sqlite3_stmt *stmt;
    bool row = false, more = true;
    char text[24];
    *news = (struct ob_news){.total = 0};
    ob_code code = look(store, now, terms->every_us, &news->since_us, &upto, &row, err);
    if (code || !row)
        return code;
    code = ob_sqlite_start(
        store, OB_SQLITE_dead_news,
        OB_ARGS(OB_NUM(upto), OB_NUM(terms->minimum), OB_TEXT(terms->name_space), OB_TEXT(terms->topic), OB_NUM(now)),
        &stmt, err);
    while (!code && more) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        struct ob_group_row found = {.fingerprint = ob_sqlite_column(stmt, 0),
                                     .code = ob_sqlite_column(stmt, 1),
                                     .sample = ob_sqlite_column(stmt, 2),
                                     .count = sqlite3_column_int64(stmt, 3),
                                     .topics = ob_sqlite_column(stmt, 4),
                                     .message_id = ob_sqlite_column(stmt, 5)};
        found.dead = found.count;
        news->total = sqlite3_column_int64(stmt, 6);
        more = fn(ctx, &found);
    }
    ob_sqlite_done(stmt);
    if (code || !news->total)
        return code;
    sqlite3_snprintf(sizeof text, text, "%lld", (long long)now);
    news->upto = ob_strdup(text);
    return news->upto ? OUTBOX_OK : ob_error_nomem(err);
}

ob_code ob_sqlite_tell_news(struct ob_store *base, const char *payload, const char *recipient, const char *upto,
                            struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    struct outbox_message msg = {.size = sizeof msg,
                                 .topic = OB_NEWS_TOPIC,
                                 .name_space = OB_NEWS_NAMESPACE,
                                 .recipient = recipient,
                                 .payload = payload,
                                 .payload_len = strlen(payload),
                                 .priority = -1};
    struct outbox_receipt receipt;
    char id[37];
    ob_code code = ob_sqlite_enqueue(base, &msg, &receipt, err);
    if (code)
        return code;
    outbox_uuid_format(&receipt.id, id);
    return ob_sqlite_run(store, OB_SQLITE_tell_news,
                         OB_ARGS(OB_NUM(ob_clock_wall_us()), OB_NUM(strtoll(upto, NULL, 10)), OB_TEXT(id)), NULL, err);
}
