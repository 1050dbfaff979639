/* doorbell.c - the doorbell's proof on a real server: producers that commit late, relays that are busy and calm by turns,
 * and relays killed while they hold the doorbell. Of every message it is known when it was committed and when, by whom and
 * for what reason it was noticed.
 *
 * Proves: S9, N4: no message waits longer than the fallback poll, whatever happens; and while nobody is killed none is
 * left to the fallback poll at all.
 *
 * OUTBOX_STRESS_SECONDS is the length of each test (2). Producers and relays are processes; they write what they know
 * into memory that all share, so that it survives a kill. The clock is the machine's. */
#include "../system/pg_fixture.h"
#include "base/clock.h"
#include "store/pg/pg.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

enum { MS = 1000, FALLBACK_US = 250 * MS, SLACK_US = 500 * MS, GRACE_US = 100 * MS };
enum { PRODUCERS = 5, RELAYS = 3, MESSAGES = 1000000, LIMIT = 100 };

struct message {
    _Atomic int64_t committed, noticed; /* us; 0: not yet */
    int reason;
    bool slept_over; /* noticed by a fallback poll though nothing else would have found it */
};

/* What a relay tells of itself. */
struct relay {
    pid_t pid;
    _Atomic int state;    /* an ob_doorbell_state */
    _Atomic bool looking; /* it has reason to look, or is looking */
};

static struct shared {
    _Atomic int next;
    _Atomic bool stop, over; /* producers; relays */
    int64_t begun_us;
    int relay_count;
    _Atomic int held, fenced;
    _Atomic int64_t killed_us; /* the last kill */
    struct relay relays[RELAYS];
    struct message messages[MESSAGES];
} * shared;

static int64_t seconds(void)
{
    const char *text = getenv("OUTBOX_STRESS_SECONDS");
    return text ? atoll(text) : 2;
}

static void pause_us(int64_t us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static int64_t upto(int64_t us)
{
    return us > 0 ? random() % us : 0;
}

/* For the children: cmocka's asserts belong to the parent. */
static void die(const char *what, const char *why)
{
    fprintf(stderr, "# %s: %s\n", what, why);
    _exit(1);
}

/* ---- producers ---- */

static void run_sql(PGconn *conn, const char *sql, const char *param)
{
    PGresult *res = PQexecParams(conn, sql, param ? 1 : 0, NULL, &param, NULL, NULL, 0);
    if (PQresultStatus(res) != PGRES_COMMAND_OK && PQresultStatus(res) != PGRES_TUPLES_OK)
        die(sql, PQerrorMessage(conn));
    PQclear(res);
}

/* What the producer's transaction does between the enqueue and its commit. Most commit at once; the others are what the
 * fence is for. */
static int64_t until_commit(void)
{
    int64_t dice = upto(100);
    return dice < 2 ? upto(900 * MS) : dice < 8 ? upto(250 * MS) : dice < 20 ? upto(10 * MS) : 0;
}

/* A burst of 120 ms, then 480 ms with nearly nothing, so that no ring of others hides one that was lost. */
static int64_t think(void)
{
    int64_t phase = (ob_clock_mono_us() - shared->begun_us) % (600 * MS);
    if (phase < 120 * MS)
        return upto(2 * MS);
    return upto(10) == 0 ? upto(250 * MS) : 600 * MS - phase + upto(5 * MS);
}

static void produce(int number)
{
    srandom((unsigned)number + (unsigned)time(NULL));
    PGconn *conn = PQconnectdb(pg_conninfo);
    if (PQstatus(conn) != CONNECTION_OK)
        die("connect", PQerrorMessage(conn));
    while (!shared->stop) {
        int n = shared->next++;
        if (n >= MESSAGES)
            break;
        char payload[32];
        snprintf(payload, sizeof payload, "%d", n);
        run_sql(conn, "begin", NULL);
        run_sql(conn, "select outbox.enqueue('stress', $1::jsonb)", payload);
        pause_us(until_commit());
        run_sql(conn, "commit", NULL);
        shared->messages[n].committed = ob_clock_mono_us();
        pause_us(think());
    }
    PQfinish(conn);
}

/* ---- relays ---- */

static bool others_sleep(int me)
{
    for (int i = 0; i < RELAYS; i++)
        if (i != me && shared->relays[i].pid &&
            (shared->relays[i].state != OB_DOORBELL_CALM || shared->relays[i].looking))
            return false;
    return true;
}

static void note(const struct outbox_delivery *msg, int me, enum ob_doorbell_reason reason, bool calm)
{
    int n = atoi(msg->payload);
    struct message *message = &shared->messages[n];
    int64_t now = ob_clock_mono_us(), since = message->committed;
    message->reason = reason;
    message->slept_over = reason == OB_WAKE_FALLBACK && calm && since && now - since > GRACE_US && others_sleep(me);
    message->noticed = now;
}

static size_t look(struct ob_store *store, int me, enum ob_doorbell_reason reason, bool calm)
{
    char worker[32];
    struct outbox_error err;
    struct outbox_claim want = OUTBOX_CLAIM_INIT;
    struct outbox_settle settles[LIMIT];
    snprintf(worker, sizeof worker, "relay %d", (int)getpid());
    want.worker = worker;
    want.limit = LIMIT;
    want.lease_us = 3600 * 1000000LL; /* what a killed relay took stays taken */
    outbox_batch *batch;
    if (store->ops->claim(store, &want, &batch, &err))
        die("claim", err.text);
    size_t count = outbox_batch_size(batch);
    for (size_t i = 0; i < count; i++) {
        const struct outbox_delivery *msg = outbox_batch_at(batch, i);
        note(msg, me, reason, calm);
        settles[i] = (struct outbox_settle){
            .id = msg->id, .token = msg->token, .outcome = OUTBOX_DELIVERED, .delay_us = -1, .latency_us = -1};
    }
    if (count && store->ops->settle(store, settles, count, &err))
        die("settle", err.text);
    outbox_batch_free(batch);
    return count;
}

static void tell(struct relay *self, const struct ob_pg_doorbell *doorbell)
{
    int was = self->state;
    self->state = ob_pg_doorbell_state(doorbell);
    if (was != self->state) {
        shared->held += self->state == OB_DOORBELL_HELD;
        shared->fenced += self->state == OB_DOORBELL_FENCING;
    }
}

static void relay(int me)
{
    /* Low numbers, so that they go to and fro even on a slow machine. */
    struct ob_pg_options options = {.doorbell_settings = {.busy_per_s = 200 / shared->relay_count,
                                                          .sample_us = 60 * MS,
                                                          .fallback_us = FALLBACK_US,
                                                          .debounce_us = 25 * MS}};
    struct relay *self = &shared->relays[me];
    struct ob_store *store;
    struct outbox_error err;
    bool woken;
    if (ob_pg_open(pg_conninfo, &options, &store, &err) || store->ops->wait(store, 0, &woken, &err))
        die("relay", err.text);
    struct ob_pg_doorbell *doorbell = ob_pg_store_of(store)->doorbell;
    enum ob_doorbell_reason reason = OB_WAKE_UNHEARD;
    while (!shared->over) {
        bool calm = ob_pg_doorbell_state(doorbell) == OB_DOORBELL_CALM;
        size_t count = look(store, me, reason, calm);
        tell(self, doorbell);
        if (count == LIMIT)
            continue;
        self->looking = false;
        if (ob_pg_doorbell_wait(doorbell, FALLBACK_US, &reason, &err))
            die("wait", err.text);
        self->looking = true;
        tell(self, doorbell);
        if (reason == OB_WAKE_NOT)
            reason = OB_WAKE_FALLBACK;
    }
    store->ops->close(store);
}

/* ---- the test ---- */

static pid_t start(void (*run)(int), int number)
{
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing stays behind */
        run(number);
        _exit(0);
    }
    return pid;
}

static void expect_well(pid_t *pid)
{
    int status = 0;
    pid_t gone = waitpid(*pid, &status, 0);
    assert_int_equal(gone, *pid);
    *pid = 0;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void start_relay(int number)
{
    shared->relays[number].state = OB_DOORBELL_OFF;
    shared->relays[number].looking = true;
    shared->relays[number].pid = start(relay, number);
}

/* One that silences the producers, if there is one. */
static void kill_a_relay(int relays)
{
    int victim = -1;
    for (int i = 0; i < relays; i++)
        if (shared->relays[i].state == OB_DOORBELL_HELD || shared->relays[i].state == OB_DOORBELL_ASKED)
            victim = i;
    if (victim < 0)
        return;
    kill(shared->relays[victim].pid, SIGKILL);
    shared->killed_us = ob_clock_mono_us();
    waitpid(shared->relays[victim].pid, NULL, 0);
    start_relay(victim);
    pause_us(200 * MS + upto(600 * MS));
}

struct sum {
    int messages, unnoticed, slept_over, by[OB_WAKE_COUNT], kills;
    int64_t worst_us;
    int64_t *took;
};

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void add_up(struct sum *sum)
{
    sum->messages = shared->next < MESSAGES ? shared->next : MESSAGES;
    sum->took = calloc((size_t)sum->messages + 1, sizeof sum->took[0]);
    for (int i = 0; i < sum->messages; i++) {
        const struct message *message = &shared->messages[i];
        if (!message->noticed) {
            sum->unnoticed++;
            continue;
        }
        int64_t took = message->noticed - message->committed;
        sum->took[i] = took > 0 ? took : 0; /* the relay may hear of it before the producer does */
        sum->worst_us = took > sum->worst_us ? took : sum->worst_us;
        sum->slept_over += message->slept_over;
        sum->by[message->reason]++;
    }
    qsort(sum->took, (size_t)sum->messages, sizeof sum->took[0], compare);
}

static void report(const struct sum *sum, int relays)
{
    size_t n = (size_t)sum->messages;
    print_message(
        "# %d relays, %d messages in %lld s: p50 %.1f ms, p99 %.1f ms, worst %.1f ms; noticed by ring %d, busy %d, "
        "fence %d, new connection %d, fallback poll %d; slept over %d; doorbell held %d times, fences %d, kills %d\n",
        relays, sum->messages, (long long)seconds(), (double)sum->took[n / 2] / MS,
        (double)sum->took[n * 99 / 100] / MS, (double)sum->worst_us / MS, sum->by[OB_WAKE_RANG], sum->by[OB_WAKE_BUSY],
        sum->by[OB_WAKE_FENCE], sum->by[OB_WAKE_UNHEARD], sum->by[OB_WAKE_FALLBACK], sum->slept_over, shared->held,
        shared->fenced, sum->kills);
}

/* How many messages a relay took that was killed before it could write them down. */
static int taken_to_the_grave(void)
{
    PGresult *res = pg_query(pg_side, "select m.payload::text from outbox.queue q join outbox.message m using (id)"
                                      " where q.until is not null");
    int count = 0;
    for (int row = 0; row < PQntuples(res); row++)
        count += shared->messages[atoi(PQgetvalue(res, row, 0))].noticed == 0;
    PQclear(res);
    return count;
}

static bool all_noticed(void)
{
    for (int i = 0; i < shared->next; i++)
        if (!shared->messages[i].noticed)
            return false;
    return true;
}

static struct sum stress(int relays, bool kills)
{
    pid_t producers[PRODUCERS];
    struct sum sum = {0};
    pg_empty(NULL);
    memset(shared, 0, sizeof *shared);
    shared->begun_us = ob_clock_mono_us();
    shared->relay_count = relays;
    for (int i = 0; i < relays; i++)
        start_relay(i);
    for (int i = 0; i < PRODUCERS; i++)
        producers[i] = start(produce, i);
    while (ob_clock_mono_us() < shared->begun_us + seconds() * 1000000) {
        int64_t before = shared->killed_us;
        if (kills)
            kill_a_relay(relays);
        sum.kills += shared->killed_us != before;
        pause_us(1 * MS);
    }
    shared->stop = true;
    for (int i = 0; i < PRODUCERS; i++)
        expect_well(&producers[i]);
    for (int64_t end = ob_clock_mono_us() + FALLBACK_US + SLACK_US; ob_clock_mono_us() < end && !all_noticed();)
        pause_us(1 * MS);
    shared->over = true;
    for (int i = 0; i < relays; i++)
        expect_well(&shared->relays[i].pid);
    add_up(&sum);
    report(&sum, relays);
    return sum;
}

static void nothing_is_slept_over(int relays)
{
    struct sum sum = stress(relays, false);
    assert_int_equal(sum.unnoticed, 0);
    assert_int_equal(sum.slept_over, 0);
    assert_true(sum.worst_us <= FALLBACK_US + SLACK_US);
    /* Every way was gone, or this proves nothing. */
    assert_true(sum.by[OB_WAKE_RANG] > 0 && sum.by[OB_WAKE_BUSY] > 0 && shared->fenced > 0);
    free(sum.took);
}

/* S9, N4 */
static void one_relay(void **state)
{
    (void)state;
    nothing_is_slept_over(1);
}

/* S9, N4 */
static void three_relays(void **state)
{
    (void)state;
    nothing_is_slept_over(3);
}

/* S9, N4: with a killed holder those who kept silent for it are the fallback poll's. */
static void holders_are_killed(void **state)
{
    (void)state;
    struct sum sum = stress(2, true);
    assert_int_equal(sum.unnoticed, taken_to_the_grave());
    assert_true(sum.worst_us <= FALLBACK_US + SLACK_US);
    assert_true(sum.kills > 0);
    free(sum.took);
}

static int setup(void **state)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? -1 : pg_setup(state);
}

static int teardown(void **state)
{
    for (int i = 0; i < RELAYS; i++)
        if (shared->relays[i].pid)
            kill(shared->relays[i].pid, SIGKILL); /* left over only when a test failed */
    shared->stop = true;
    munmap(shared, sizeof *shared);
    return pg_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_relay),
        cmocka_unit_test(three_relays),
        cmocka_unit_test(holders_are_killed),
    };
    if (!pg_given())
        return 0;
    return cmocka_run_group_tests(tests, setup, teardown);
}
