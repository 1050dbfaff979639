/* order_load.c - the proof of order: many processes, random failures, kills and late commits, and a ledger that must
 * balance: nothing lost, nothing delivered that rolled back, no gap, every key in order. */
#include "ledger.h"
#include "proc.h"

#include <unistd.h>

enum { PRODUCERS = 3, WORKERS = 4, TRANSACTIONS = 250, KILL_EVERY_US = 120000 };

struct load {
    struct fx *fx;
    struct dice dice;
    char ledger[PLACE_MAX];
    struct proc *producers[PRODUCERS], *workers[WORKERS];
    struct proc *victim; /* a producer without end */
    int started, killed, victims;
};

static void file_remove(void *path)
{
    unlink(path);
}

static void start_worker(struct load *load, int i)
{
    char seed[24], name[24];
    snprintf(seed, sizeof(seed), "%u", 1 + dice_roll(&load->dice, 1u << 30));
    snprintf(name, sizeof(name), "w%d", load->started++);
    load->workers[i] = proc_start(load->fx, "load_worker", load->ledger, seed, name);
}

static struct proc *start_producer(struct load *load, int transactions)
{
    char seed[24], number[24];
    snprintf(seed, sizeof(seed), "%u", 1 + dice_roll(&load->dice, 1u << 30));
    snprintf(number, sizeof(number), "%d", transactions);
    return proc_start(load->fx, "load_producer", load->ledger, seed, number);
}

static void start(struct load *load, struct fx *fx)
{
    const char *seed = getenv("OUTBOX_TEST_SEED"), *folder = getenv("TMPDIR");
    load->fx = fx;
    load->dice.state = seed ? strtoull(seed, NULL, 10) : (uint64_t)now_us();
    print_message("# OUTBOX_TEST_SEED=%llu\n", (unsigned long long)load->dice.state);
    snprintf(load->ledger, sizeof(load->ledger), "%s/ob-ledger-%d", folder ? folder : "/tmp", (int)getpid());
    file_remove(load->ledger);
    keep(fx, load->ledger, file_remove);
    for (int i = 0; i < PRODUCERS; i++)
        load->producers[i] = start_producer(load, TRANSACTIONS);
    load->victim = start_producer(load, INT32_MAX);
    for (int i = 0; i < WORKERS; i++)
        start_worker(load, i);
}

/* Until the producers are done: workers and a producer die, by their own hand or ours, and others take their place. */
static void unrest(struct load *load)
{
    int64_t end = now_us() + 60 * SECOND, next_kill = now_us() + KILL_EVERY_US;
    for (int busy = 1; busy;) {
        if (now_us() > end)
            blame(AT(load->fx), "the producers do not come to an end");
        if (now_us() > next_kill) {
            proc_kill(load->workers[dice_roll(&load->dice, WORKERS)]);
            proc_kill(load->victim);
            load->victim = start_producer(load, INT32_MAX);
            load->victims++;
            next_kill = now_us() + KILL_EVERY_US;
        }
        for (int i = 0; i < WORKERS; i++)
            if (proc_gone(load->workers[i])) {
                load->killed++;
                start_worker(load, i);
            }
        busy = 0;
        for (int i = 0; i < PRODUCERS; i++)
            busy |= !proc_gone(load->producers[i]);
        tick();
    }
    proc_kill(load->victim);
    load->victims++;
    for (int i = 0; i < PRODUCERS; i++)
        proc_expect(load->fx, load->producers[i], "done");
}

static size_t undelivered(struct fx *fx)
{
    struct ob_status_row status = status_of_(fx, NULL, NULL);
    return (size_t)(status.pending + status.processing + status.dead);
}

/* The rest, in peace: what killed workers held comes back, and nothing is stranded. */
static void drain(struct load *load)
{
    struct fx *fx = load->fx;
    for (int i = 0; i < WORKERS; i++)
        proc_kill(load->workers[i]);
    int ledger = ledger_open(load->ledger);
    for (int64_t end = now_us() + PATIENCE; undelivered(AT(fx)) > 0;) {
        if (now_us() > end)
            blame(AT(fx), "%zu messages are stranded", undelivered(fx));
        expire_all(fx);
        outbox_batch *batch = claim(fx, .worker = "last", .run = 50, .limit = 1000);
        for (size_t i = 0; i < outbox_batch_size(batch); i++) {
            const struct outbox_delivery *msg = outbox_batch_at(batch, i);
            struct ledger_line line = {.deed = 'A', .seq = msg->seq};
            line.ghost = memcmp(msg->payload, "{\"ghost\": 0}", 12) != 0;
            outbox_uuid_format(&msg->id, line.id);
            snprintf(line.key, sizeof(line.key), "%s", msg->key ? msg->key : "");
            ledger_write(ledger, &line);
        }
        ack_all(fx, batch);
    }
    close(ledger);
}

/* ---- the balance ---- */

struct account {
    char id[37], key[32];
    long long seq;
    int accepted;
};

struct book {
    struct account *accounts;
    size_t n, room;
};

static bool book_add(void *ctx, const struct ob_message_row *row)
{
    struct book *book = ctx;
    if (book->n == book->room)
        book->accounts = realloc(book->accounts, (book->room = book->room * 2 + 1024) * sizeof(*book->accounts));
    struct account *account = &book->accounts[book->n++];
    *account = (struct account){.seq = row->seq};
    outbox_uuid_format(&row->id, account->id);
    snprintf(account->key, sizeof(account->key), "%s", row->key ? row->key : "-");
    return true;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct account *)a)->id, ((const struct account *)b)->id);
}

static int by_key(const void *a, const void *b)
{
    const struct account *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->seq > y->seq) - (x->seq < y->seq);
}

/* The last seq first accepted of each key. */
struct heads {
    char key[64][32];
    long long seq[64];
    size_t n;
};

static long long *head_of(struct heads *heads, const char *key)
{
    for (size_t i = 0; i < heads->n; i++)
        if (strcmp(heads->key[i], key) == 0)
            return &heads->seq[i];
    assert_true(heads->n < 64);
    strcpy(heads->key[heads->n], key);
    heads->seq[heads->n] = 0;
    return &heads->seq[heads->n++];
}

static void expect_balance(struct load *load)
{
    struct fx *fx = load->fx;
    struct book book = {0};
    struct heads heads = {.n = 0};
    size_t lines_n, committed = 0, again = 0;
    ok(fx, list, &(struct ob_filter){.limit = 1000000}, book_add, &book);
    keep(fx, book.accounts, free);
    qsort(book.accounts, book.n, sizeof(book.accounts[0]), by_id);
    struct ledger_line *lines = ledger_read(AT(fx), load->ledger, &lines_n);
    for (size_t i = 0; i < lines_n; i++) {
        struct account probe, *account;
        strcpy(probe.id, lines[i].id);
        account = bsearch(&probe, book.accounts, book.n, sizeof(probe), by_id);
        if (!account || lines[i].ghost)
            blame(AT(fx), "%c %s: a message that is not there", lines[i].deed, lines[i].id);
        assert_string_equal(account->key, lines[i].key);
        assert_int_equal(account->seq, lines[i].seq);
        if (lines[i].deed == 'P') {
            committed++;
        } else if (account->accepted++) {
            again++;
        } else if (strcmp(account->key, "-") != 0) {
            long long *head = head_of(&heads, account->key);
            if (account->seq != *head + 1)
                blame(AT(fx), "key %s: %lld was accepted after %lld", account->key, account->seq, *head);
            *head = account->seq;
        }
    }
    qsort(book.accounts, book.n, sizeof(book.accounts[0]), by_key);
    for (size_t i = 0; i < book.n; i++) {
        struct account *account = &book.accounts[i];
        if (!account->accepted)
            blame(AT(fx), "%s was delivered to nobody", account->id);
        if (i && strcmp(account->key, "-") != 0 && strcmp(account[-1].key, account->key) == 0 &&
            account->seq != account[-1].seq + 1)
            blame(AT(fx), "key %s: a gap before %lld", account->key, account->seq);
    }
    assert_int_equal(count_status(fx, OB_STATUS_DELIVERED), book.n);
    /* A producer that was killed may have committed without hearing of it: one transaction each. */
    assert_in_range(book.n - committed, 0, load->victims * TRANSACTION_MAX);
    print_message("# %zu messages, %zu delivered again, %d workers and %d producers killed\n", book.n, again,
                  load->killed, load->victims);
}

/* Exactly one attempt delivered each message, and numbers rise by one or more. */
struct record {
    int last, delivered;
};

static bool record_add(void *ctx, const struct ob_attempt_row *row)
{
    struct record *record = ctx;
    assert_true(row->attempt > record->last);
    assert_int_equal(record->delivered, 0);
    record->last = row->attempt;
    record->delivered += row->outcome == OUTBOX_DELIVERED;
    return true;
}

static bool check_record(void *ctx, const struct ob_message_row *row)
{
    struct fx *fx = ctx;
    struct record record = {0};
    ok(fx, attempts, &row->id, record_add, &record);
    assert_int_equal(record.delivered, 1);
    assert_int_equal(record.last, row->attempts);
    return true;
}

static void order_holds(struct fx *fx)
{
    struct load *load = keep(fx, calloc(1, sizeof(*load)), free);
    start(load, fx);
    unrest(load);
    drain(load);
    expect_balance(load);
    assert_true(load->killed > 0);
    ok(fx, list, &(struct ob_filter){.limit = 1000000}, check_record, another(fx));
}

const struct contract_test order_load_tests[] = {
    {"N2 N7 S2 M1 V8 V10 M10: order, completeness and fencing under failures, kills and late commits", order_holds},
    {NULL, NULL, 0},
};
