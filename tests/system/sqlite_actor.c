/* sqlite_actor.c - the processes of the SQLite tests: producers, workers, claimers, waiters, holders of the relay's lock.
 *
 *   produce PATH LEDGER SEED       orders and their messages in one transaction each, until it is killed
 *   work PATH LEDGER SEED NAME     claims, delivers into the ledger, settles, until it is killed
 *   drain PATH LEDGER              the same without any failure, until nothing is left
 *   claim PATH LIMIT RUN           claims once; a line "ID ATTEMPT KEY SEQ" each
 *   settle PATH LIMIT OUTCOME N    claims and settles all at once with that outcome, N of them as delivered instead
 *   grind PATH SECONDS             claims and settles 500 at a time without a pause; then prints how long it held the lock
 *   wait PATH MS                   waits for work, for every line it hears; prints "woken MS SWITCHES" or "timeout ..."
 *   lock PATH                      takes the relay's lock, says "locked", and keeps it until its input ends
 *   purge PATH, erase PATH TENANT, configure PATH NAMESPACE NAME VALUE, hooks PATH
 *
 * What the world outside could see goes into the ledger first: 'P' a committed message, 'A' an accepted one. */
#include "base/clock.h"
#include "base/error.h"
#include "core/batch.h"
#include "store/sqlite/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { KEYS = 8, GRIND = 500 };

static struct ob_store *store;
static struct outbox_error err;
static uint64_t dice;

static void check(ob_code code)
{
    if (!code)
        return;
    fprintf(stderr, "%s: %s\n", outbox_code_name(code), err.text);
    exit(ob_code_exit(code));
}

static uint32_t roll(uint32_t sides)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice >> 33) % sides;
}

static int ledger_open(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (fd < 0)
        exit(1);
    return fd;
}

/* One write, so that a kill leaves a whole line or none. */
static void ledger_write(int fd, char deed, const struct outbox_uuid *id, const char *key, int64_t seq)
{
    char line[128], text[37];
    outbox_uuid_format(id, text);
    int len = snprintf(line, sizeof line, "%c %s %s %lld\n", deed, text, key ? key : "-", (long long)seq);
    if (write(fd, line, (size_t)len) != len)
        exit(1);
}

/* ---- producers --------------------------------------------------------------------------------------------------- */

static void produce_one(int ledger, unsigned long number)
{
    char order[64], sql[128], key[16];
    struct outbox_receipt receipts[3];
    size_t count = 1 + roll(3);
    char keys[3][16];
    snprintf(order, sizeof order, "%d-%lu", (int)getpid(), number);
    snprintf(sql, sizeof sql, "INSERT INTO orders (id, messages) VALUES ('%s', %zu)", order, count);
    check(store->ops->begin(store, &err));
    check(store->ops->exec(store, sql, &err));
    for (size_t i = 0; i < count; i++) {
        struct outbox_message msg = OUTBOX_MESSAGE_INIT;
        snprintf(key, sizeof key, "k%u", roll(KEYS + 4));
        snprintf(keys[i], sizeof keys[i], "%s", roll(3) ? key : "");
        msg.topic = "orders";
        msg.payload = "{\"n\": 1}";
        msg.payload_len = 8;
        msg.subject = order;
        msg.max_attempts = 1000;
        msg.key = keys[i][0] ? keys[i] : NULL;
        check(store->ops->enqueue(store, &msg, &receipts[i], &err));
    }
    if (roll(10) == 0) {
        check(store->ops->rollback(store, &err));
        return;
    }
    check(store->ops->commit(store, &err));
    for (size_t i = 0; i < count; i++)
        ledger_write(ledger, 'P', &receipts[i].id, keys[i][0] ? keys[i] : NULL, receipts[i].seq);
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static struct outbox_settle answer(const struct outbox_delivery *msg, enum outbox_outcome outcome)
{
    return (struct outbox_settle){
        .id = msg->id, .token = msg->token, .outcome = outcome, .delay_us = 0, .latency_us = 1000};
}

static size_t work_once(int ledger, const char *name, bool steady)
{
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    struct outbox_settle items[64];
    struct outbox_batch *batch;
    char stopped[16] = "";
    want.worker = name;
    want.limit = steady ? 64 : 1 + (int)roll(64);
    want.run = steady ? 10 : 1 + (int)roll(4);
    want.lease_us = steady ? 30000000 : 300000;
    check(store->ops->claim(store, &want, &batch, &err));
    for (size_t i = 0; i < batch->size; i++) {
        const struct outbox_delivery *msg = &batch->items[i];
        bool fails = !steady && roll(10) == 0, behind = msg->key && strcmp(msg->key, stopped) == 0;
        items[i] = answer(msg, behind ? OUTBOX_RELEASED : fails ? OUTBOX_RETRY : OUTBOX_DELIVERED);
        if (fails && msg->key && !behind)
            snprintf(stopped, sizeof stopped, "%s", msg->key);
        if (items[i].outcome == OUTBOX_DELIVERED)
            ledger_write(ledger, 'A', &msg->id, msg->key, msg->seq);
    }
    check(store->ops->settle(store, items, batch->size, &err));
    size_t size = batch->size;
    batch->free(batch);
    return size;
}

static void wait_a_little(void)
{
    bool woken;
    check(store->ops->wait(store, 50000, &woken, &err));
}

static bool count_one(void *ctx, const struct ob_status_row *row)
{
    *(int64_t *)ctx += row->pending + row->processing;
    return true;
}

static void drain(int ledger)
{
    for (int64_t left = 1; left > 0;) {
        while (work_once(ledger, "last", true) > 0)
            ;
        left = 0;
        check(store->ops->status(store, count_one, &left, &err));
        if (left)
            wait_a_little();
    }
}

static void claim_once(int limit, int run)
{
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    struct outbox_batch *batch;
    want.worker = "actor";
    want.limit = limit;
    want.run = run;
    check(store->ops->claim(store, &want, &batch, &err));
    for (size_t i = 0; i < batch->size; i++) {
        char id[37];
        outbox_uuid_format(&batch->items[i].id, id);
        printf("%s %d %s %lld\n", id, batch->items[i].attempt, batch->items[i].key ? batch->items[i].key : "-",
               (long long)batch->items[i].seq);
    }
    batch->free(batch);
}

static void settle_once(int limit, enum outbox_outcome outcome, size_t delivered)
{
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    struct outbox_batch *batch;
    want.worker = "actor";
    want.limit = limit;
    check(store->ops->claim(store, &want, &batch, &err));
    struct outbox_settle *items = calloc(batch->size + 1, sizeof *items);
    for (size_t i = 0; i < batch->size; i++) {
        items[i] = answer(&batch->items[i], i < delivered ? OUTBOX_DELIVERED : outcome);
        items[i].code = "c";
        items[i].error = "e";
        items[i].reference = "ref";
        items[i].output = "{\"said\": \"ok\"}";
    }
    check(store->ops->settle(store, items, batch->size, &err));
    for (size_t i = 0; i < batch->size; i++) {
        char id[37];
        outbox_uuid_format(&items[i].id, id);
        printf("%s %d %d\n", id, items[i].result, items[i].dead);
    }
    free(items);
    batch->free(batch);
}

/* A relay at its worst: it does nothing but claim and settle. */
static void grind(int seconds)
{
    static struct outbox_settle items[GRIND];
    int64_t end = ob_clock_mono_us() + seconds * 1000000LL;
    long batches = 0, messages = 0;
    while (ob_clock_mono_us() < end) {
        struct outbox_claim want = OUTBOX_CLAIM_INIT;
        struct outbox_batch *batch;
        want.worker = "grinder";
        want.limit = GRIND;
        check(store->ops->claim(store, &want, &batch, &err));
        for (size_t i = 0; i < batch->size; i++)
            items[i] = answer(&batch->items[i], OUTBOX_RETRY);
        check(store->ops->settle(store, items, batch->size, &err));
        batches++;
        messages += (long)batch->size;
        batch->free(batch);
    }
    printf("%ld batches %ld messages\n", batches, messages);
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static long switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

static void wait_for_lines(long timeout_ms)
{
    char line[64];
    bool woken;
    claim_once(1, 1); /* so that the wait knows what is news */
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        int64_t start = ob_clock_mono_us();
        long before = switches();
        check(store->ops->wait(store, timeout_ms * 1000, &woken, &err));
        printf("%s %lld %ld\n", woken ? "woken" : "timeout", (long long)(ob_clock_mono_us() - start) / 1000,
               switches() - before);
    }
}

static void hold_lock(const char *path)
{
    struct ob_sqlite_lock *lock;
    check(ob_sqlite_relay_lock(path, &lock, &err));
    puts("locked");
    while (getchar() != EOF)
        ;
    ob_sqlite_relay_unlock(lock);
}

static bool is(const char *verb, char **argv, int argc, int wanted)
{
    return strcmp(argv[1], verb) == 0 && argc == wanted;
}

static long number(const char *text)
{
    return strtol(text, NULL, 10);
}

static void act(int argc, char **argv)
{
    int64_t count = 0;
    if (is("claim", argv, argc, 5)) {
        claim_once((int)number(argv[3]), (int)number(argv[4]));
    } else if (is("settle", argv, argc, 6)) {
        settle_once((int)number(argv[3]), (enum outbox_outcome)number(argv[4]), (size_t)number(argv[5]));
    } else if (is("grind", argv, argc, 4)) {
        grind((int)number(argv[3]));
    } else if (is("wait", argv, argc, 4)) {
        wait_for_lines(number(argv[3]));
    } else if (is("purge", argv, argc, 3)) {
        check(store->ops->purge(store, &count, &err));
        printf("%lld\n", (long long)count);
    } else if (is("erase", argv, argc, 4)) {
        check(store->ops->erase_tenant(store, argv[3], &(struct ob_actor){"ann", "gone"}, &count, &err));
        printf("%lld\n", (long long)count);
    } else if (is("configure", argv, argc, 6)) {
        check(store->ops->configure(store, argv[3], argv[4], argv[5], NULL, &err));
    } else if (is("hooks", argv, argc, 3)) {
        check(ob_sqlite_run_failed_hooks(store, 1000, &count, &err));
        printf("%lld\n", (long long)count);
    } else {
        exit(2);
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 3)
        return 2;
    if (is("lock", argv, argc, 3)) {
        hold_lock(argv[2]);
        return 0;
    }
    check(ob_sqlite_open(argv[2], false, &store, &err));
    if (is("produce", argv, argc, 5) || is("work", argv, argc, 6) || is("drain", argv, argc, 4)) {
        int ledger = ledger_open(argv[3]);
        dice = argc > 4 ? strtoull(argv[4], NULL, 10) : 1;
        for (unsigned long n = 0; strcmp(argv[1], "produce") == 0; n++)
            produce_one(ledger, n);
        while (strcmp(argv[1], "work") == 0)
            if (work_once(ledger, argv[5], false) == 0)
                wait_a_little();
        drain(ledger);
        close(ledger);
    } else {
        act(argc, argv);
    }
    store->ops->close(store);
    return 0;
}
