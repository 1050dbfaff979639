/* demo.c - the first minute: a shop, its orders, and a receiver that is not always well. Told as it happens.
 *
 *     outbox init --store sqlite:shop.db && ./demo shop.db
 *
 * The shop writes its orders and its messages with plain SQL in its own transactions; the worker below claims, delivers
 * and settles them through liboutbox. Nothing here is staged but the receiver's moods. */
#include <outbox/sqlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool colour;

static const char *bold(void)
{
    return colour ? "\033[1m" : "";
}

static const char *plain(void)
{
    return colour ? "\033[0m" : "";
}

static void heading(const char *text)
{
    printf("\n%s%s%s\n", bold(), text, plain());
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "demo: %s: %s\n", what, why);
    exit(1);
}

static void run(sqlite3 *db, const char *sql)
{
    char *problem = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &problem) != SQLITE_OK)
        die(sql, problem ? problem : sqlite3_errmsg(db));
}

/* The first row of a query, its columns joined by a blank. */
static const char *ask(sqlite3 *db, const char *sql, char *answer, size_t size)
{
    sqlite3_stmt *stmt;
    answer[0] = '\0';
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        die(sql, sqlite3_errmsg(db));
    if (sqlite3_step(stmt) == SQLITE_ROW)
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            const char *text = (const char *)sqlite3_column_text(stmt, i);
            size_t used = strlen(answer);
            snprintf(answer + used, size - used, "%s%s", i ? " " : "", text ? text : "-");
        }
    sqlite3_finalize(stmt);
    return answer;
}

/* ---- the shop: any language could do this, it is only SQL ---- */

static void open_shop(sqlite3 *db)
{
    char answer[128];
    heading("A shop takes orders");
    run(db, "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, state TEXT)");

    run(db, "BEGIN IMMEDIATE;"
            "INSERT INTO orders VALUES (1, 'ada', 'paid');"
            "INSERT INTO outbox (topic, payload, key) VALUES ('orders.paid', '{\"order\": 1}', 'ada');"
            "INSERT INTO outbox (topic, payload, key) VALUES ('orders.packed', '{\"order\": 1}', 'ada');"
            "COMMIT");
    printf("  order 1 is paid and packed: one transaction, two messages, in order because both have the key \"ada\"\n");

    run(db, "BEGIN IMMEDIATE;"
            "INSERT INTO orders VALUES (2, 'bob', 'paid');"
            "INSERT INTO outbox (topic, payload) VALUES ('orders.paid', '{\"order\": 2}');"
            "ROLLBACK");
    ask(db, "SELECT count(*), (SELECT count(*) FROM outbox_messages) FROM orders", answer, sizeof(answer));
    printf("  order 2 is rolled back: no order, no message (orders and messages now: %s)\n", answer);

    run(db, "BEGIN IMMEDIATE;"
            "INSERT INTO orders VALUES (3, 'cyd', 'paid');"
            "INSERT INTO outbox (topic, payload, dedupe_key) VALUES ('orders.paid', '{\"order\": 3}', 'order-3');"
            "COMMIT");
    run(db, "BEGIN IMMEDIATE;"
            "INSERT INTO outbox (topic, payload, dedupe_key) VALUES ('orders.paid', '{\"order\": 3}', 'order-3');"
            "COMMIT");
    ask(db, "SELECT count(*) FROM outbox_messages WHERE dedupe_key = 'order-3'", answer, sizeof(answer));
    printf("  order 3 is sent twice by mistake, with the same dedupe key: there is %s message\n", answer);

    run(db, "BEGIN IMMEDIATE;"
            "INSERT INTO orders VALUES (4, 'dot', 'paid');"
            "INSERT INTO outbox (topic, payload) VALUES ('mail.receipt', '{\"order\": 4}');"
            "INSERT INTO outbox (topic, payload) VALUES ('mail.nobody', '{\"order\": 4}');"
            "COMMIT");
    printf("  order 4 wants two mails: one goes to a busy server, one to an address that does not exist\n");
}

/* ---- the receiver: a mail server with a bad morning ---- */

struct verdict {
    enum outbox_outcome outcome;
    const char *code, *text;
};

static struct verdict receive(const struct outbox_delivery *msg)
{
    if (strcmp(msg->topic, "mail.nobody") == 0)
        return (struct verdict){OUTBOX_FAILED, "smtp_550", "no such mailbox"};
    if (strcmp(msg->topic, "mail.receipt") == 0 && msg->attempt < 3)
        return (struct verdict){OUTBOX_RETRY, "smtp_451", "try again later"};
    return (struct verdict){OUTBOX_DELIVERED, NULL, "accepted"};
}

/* ---- the worker ---- */

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void deliver(outbox_store *store, const struct outbox_delivery *msg, const struct timespec *start)
{
    struct outbox_error err;
    struct verdict verdict = receive(msg);
    struct outbox_settle item = {.id = msg->id,
                                 .token = msg->token,
                                 .outcome = verdict.outcome,
                                 .code = verdict.code,
                                 .error = verdict.outcome == OUTBOX_DELIVERED ? NULL : verdict.text,
                                 .delay_us = -1,
                                 .latency_us = -1};
    if (outbox_settle(store, &item, 1, &err))
        die("settle", err.text);
    printf("  %4.1f s  %-13s %-12.*s attempt %d: %s%s%s%s\n", seconds_since(start), msg->topic, (int)msg->payload_len,
           (const char *)msg->payload, msg->attempt, verdict.code ? verdict.code : "", verdict.code ? ", " : "",
           verdict.text,
           item.dead                         ? "  -> dead letter"
           : verdict.outcome == OUTBOX_RETRY ? "  -> waits, then again"
                                             : "");
}

static void work(outbox_store *store, sqlite3 *db)
{
    char answer[128];
    struct outbox_error err;
    struct timespec start;
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    want.worker = "demo";
    want.retry_base_us = 400000; /* a second would be the default; nobody likes to wait in a demo */
    heading("A worker delivers them");
    clock_gettime(CLOCK_MONOTONIC, &start);
    const char *open = "SELECT count(*) FROM outbox_messages WHERE status IN ('pending', 'processing')";
    while (strcmp(ask(db, open, answer, sizeof(answer)), "0") != 0 && seconds_since(&start) < 20) {
        outbox_batch *batch;
        if (outbox_claim(store, &want, &batch, &err))
            die("claim", err.text);
        for (size_t i = 0; i < outbox_batch_size(batch); i++)
            deliver(store, outbox_batch_at(batch, i), &start);
        if (outbox_batch_size(batch) == 0)
            usleep(20000);
        outbox_batch_free(batch);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE   (made by: outbox init --store sqlite:FILE)\n", argv[0]);
        return 2;
    }
    colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    setvbuf(stdout, NULL, _IOLBF, 0);
    char url[4096];
    snprintf(url, sizeof(url), "sqlite:%s", argv[1]);
    sqlite3 *db;
    if (sqlite3_open_v2(argv[1], &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        die(argv[1], sqlite3_errmsg(db));
    sqlite3_busy_timeout(db, 1000);
    outbox_store *store;
    struct outbox_error err;
    if (outbox_open(url, NULL, &store, &err))
        die(url, err.text);
    open_shop(db);
    work(store, db);

    char answer[128];
    heading("What is on record");
    printf("  delivered      %s\n",
           ask(db, "SELECT count(*) FROM outbox_messages WHERE status = 'delivered'", answer, sizeof(answer)));
    printf("  dead letters   %s  (%s)\n", ask(db, "SELECT count(*) FROM outbox_dead_letters", answer, sizeof(answer)),
           "kept until somebody retries or discards them");
    printf("  attempts       %s  (every one is a row that cannot be changed)\n",
           ask(db, "SELECT count(*) FROM outbox_attempts", answer, sizeof(answer)));
    outbox_close(store);
    sqlite3_close(db);
    return 0;
}
