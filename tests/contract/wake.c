/* wake.c - a worker that waits is woken by a commit, and by nothing that did not happen. */
#include "proc.h"

enum { LONG_MS = 20000, SHORT_MS = 300, SOON_MS = 15000 };

/* The waiter must say that it was woken, long before its time was up. */
static void expect_woken(struct fx *fx, struct proc *waiter)
{
    int ms = 0;
    const char *line = proc_hear_(fx, waiter);
    if (sscanf(line, "woken %d", &ms) != 1 || ms > SOON_MS)
        blame(fx, "the waiter says \"%s\"", line);
}

static struct proc *start_waiting(struct fx *fx, const char *timeout_ms)
{
    struct proc *waiter = proc_start_(fx, "waiter", timeout_ms, (char *)NULL);
    proc_tell(fx, waiter, "wait");
    proc_expect_(fx, waiter, "waiting");
    return waiter;
}

static void a_commit_wakes(struct fx *fx)
{
    struct proc *waiter = start_waiting(AT(fx), "20000");
    for (int i = 0; i < 5; i++) {
        put(fx);
        expect_woken(AT(fx), waiter);
        ack(fx, take(fx));
        proc_tell(fx, waiter, "wait");
        proc_expect(fx, waiter, "waiting");
    }
    ok(fx, begin);
    put(fx);
    put(fx);
    ok(fx, commit);
    expect_woken(AT(fx), waiter);
}

static void another_process_wakes(struct fx *fx)
{
    struct proc *producer = proc_start(fx, "producer", "t", "k", "-");
    proc_expect(fx, producer, "held 1 1");
    struct proc *waiter = start_waiting(AT(fx), "20000");
    proc_tell(fx, producer, "commit");
    expect_woken(AT(fx), waiter);
    assert_int_equal(take(fx)->seq, 1);
}

static void every_waiter_wakes(struct fx *fx)
{
    struct proc *waiters[3];
    for (int i = 0; i < 3; i++)
        waiters[i] = start_waiting(AT(fx), "20000");
    put(fx);
    for (int i = 0; i < 3; i++)
        expect_woken(AT(fx), waiters[i]);
}

static void expect_timeout(struct fx *fx, struct proc *waiter)
{
    int ms = 0;
    const char *line = proc_hear_(fx, waiter);
    if (sscanf(line, "timeout %d", &ms) != 1 || ms < SHORT_MS - 5 || ms > LONG_MS)
        blame(fx, "the waiter says \"%s\"", line);
}

static void nothing_wakes(struct fx *fx)
{
    expect_timeout(AT(fx), start_waiting(AT(fx), "300"));
}

static void a_rollback_does_not_wake(struct fx *fx)
{
    struct proc *waiter = start_waiting(AT(fx), "300");
    ok(fx, begin);
    put(fx);
    ok(fx, rollback);
    expect_timeout(AT(fx), waiter);
}

/* Work that comes between the last empty claim and the wait is not slept over. */
static void no_gap_before_the_wait(struct fx *fx)
{
    bool woken = false;
    ok(fx, wait, 1000, &woken);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(outbox_batch_size(claim(fx)), 0);
        put(another(fx));
        woken = false;
        int64_t start = now_us();
        ok(fx, wait, LONG_MS * 1000LL, &woken);
        assert_true(woken);
        assert_true(now_us() - start < SOON_MS * 1000LL);
        ack_all(fx, claim(fx, .limit = 1));
        assert_int_equal(count_status(fx, OB_STATUS_DELIVERED), i + 1);
    }
}

static void an_operators_act_wakes(struct fx *fx)
{
    struct outbox_uuid id = make_dead(fx);
    struct proc *waiter = start_waiting(AT(fx), "20000");
    int64_t n = 0;
    ok(fx, retry, &(struct ob_filter){.ids = &id, .id_count = 1}, &(struct ob_actor){"ann", NULL}, &n);
    expect_woken(AT(fx), waiter);
}

static void a_wait_of_nothing(struct fx *fx)
{
    bool woken = true;
    int64_t start = now_us();
    ok(fx, wait, 0, &woken);
    assert_true(now_us() - start < PATIENCE);
}

const struct contract_test wake_tests[] = {
    {"S9 N4: a commit wakes a waiting worker", a_commit_wakes},
    {"S9 N4: also one of another process that had begun before the wait", another_process_wakes},
    {"S9 N4: every waiting worker wakes", every_waiter_wakes},
    {"S9: without work a wait lasts its time", nothing_wakes},
    {"S9 N4 M1: a rollback wakes nobody", a_rollback_does_not_wake},
    {"S9 N4: no wake-up is lost between a claim and the wait", no_gap_before_the_wait},
    {"S9 T4: a redrive wakes a waiting worker", an_operators_act_wakes},
    {"S9: a wait of no time", a_wait_of_nothing},
    {NULL, NULL, 0},
};
