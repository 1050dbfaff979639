/* dispatcher.c - a shop, its orders, and a receiver that is not always well: liboutbox delivers inside the program itself.
 *
 *     outbox init --store sqlite:shop.db && ./dispatcher shop.db
 *
 * The shop writes its orders and its messages with plain SQL in its own transactions; the dispatcher of
 * liboutbox delivers them to the receiver below, with the core of the relay: leases, order, retries. Nothing here is staged
 * but the receiver's moods. */
#include <outbox/dispatcher.h>
#include <outbox/sqlite.h>
#include <poll.h>
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
    fprintf(stderr, "dispatcher: %s: %s\n", what, why);
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

static void receive(const struct outbox_delivery *msg, struct outbox_verdict *verdict)
{
    verdict->text = "accepted";
    if (strcmp(msg->topic, "mail.nobody") == 0) {
        verdict->outcome = OUTBOX_SINK_TERMINAL;
        verdict->code = "smtp_550";
        verdict->text = "no such mailbox";
    } else if (strcmp(msg->topic, "mail.receipt") == 0 && msg->attempt < 3) {
        verdict->outcome = OUTBOX_SINK_RETRY;
        verdict->code = "smtp_451";
        verdict->text = "try again later";
    }
}

/* ---- the dispatcher ---- */

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void deliver(void *ctx, struct outbox_task *task, const struct outbox_delivery *msg)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    receive(msg, &verdict);
    printf("  %4.1f s  %-13s %-12.*s attempt %d: %s%s%s%s\n", seconds_since(ctx), msg->topic, (int)msg->payload_len,
           (const char *)msg->payload, msg->attempt, verdict.code ? verdict.code : "", verdict.code ? ", " : "",
           verdict.text,
           verdict.outcome == OUTBOX_SINK_TERMINAL ? "  -> dead letter"
           : verdict.outcome == OUTBOX_SINK_RETRY  ? "  -> waits, then again"
                                                   : "");
    outbox_task_done(task, &verdict);
}

static void dispatch(const char *url, sqlite3 *db)
{
    char answer[128];
    struct outbox_error err;
    struct timespec start;
    struct outbox_dispatch options = OUTBOX_DISPATCH_INIT;
    outbox_dispatcher *dispatcher;
    options.url = url;
    options.worker = "shop";
    options.deliver = deliver;
    options.ctx = &start;
    options.retry_base_us = 400000; /* a second would be the default; nobody likes to wait in an example */
    heading("A dispatcher delivers them");
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (outbox_dispatcher_new(&options, &dispatcher, &err))
        die("dispatcher", err.text);
    /* In a program of your own: outbox_dispatcher_start, and outbox_dispatcher_stop when it ends. */
    const char *open = "SELECT count(*) FROM outbox_messages WHERE status IN ('pending', 'processing')";
    while (strcmp(ask(db, open, answer, sizeof(answer)), "0") != 0 && seconds_since(&start) < 20) {
        outbox_dispatcher_step(dispatcher);
        struct pollfd fd = {.fd = outbox_dispatcher_fd(dispatcher), .events = POLLIN};
        poll(&fd, 1, outbox_dispatcher_timeout_ms(dispatcher));
    }
    outbox_dispatcher_free(dispatcher);
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
    open_shop(db);
    dispatch(url, db);

    char answer[128];
    heading("What is on record");
    printf("  delivered      %s\n",
           ask(db, "SELECT count(*) FROM outbox_messages WHERE status = 'delivered'", answer, sizeof(answer)));
    printf("  dead letters   %s  (%s)\n", ask(db, "SELECT count(*) FROM outbox_dead_letters", answer, sizeof(answer)),
           "kept until somebody retries or discards them");
    printf("  attempts       %s  (every one is a row that cannot be changed)\n",
           ask(db, "SELECT count(*) FROM outbox_attempts", answer, sizeof(answer)));
    sqlite3_close(db);
    return 0;
}
