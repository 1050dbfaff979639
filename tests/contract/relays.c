/* relays.c - what relays tell and are told: beats, settings changed at run time, and figures of the queue. */
#include "suite.h"

static const struct ob_actor ann = {"ann", "because"};

/* ---- beats ------------------------------------------------------------------------------------------------------- */

#define BEAT(...) \
    (&(struct ob_beat){.worker = "w1", \
                       .host = "h", \
                       .version = "1", \
                       .state = "running", \
                       .pid = 7, \
                       .every_us = 10 * SECOND, \
                       __VA_ARGS__})

struct seen {
    char text[TEXT_MAX];
    int64_t started_us, seen_us; /* of the last row */
};

static bool note_relay(void *ctx, const struct ob_relay_row *row)
{
    struct seen *seen = ctx;
    size_t len = strlen(seen->text);
    snprintf(seen->text + len, sizeof seen->text - len, "%s%s %s %d %s %s%s", len ? "; " : "", row->worker, row->host,
             row->pid, row->version, row->state, row->alive ? "" : " gone");
    seen->started_us = row->started_at_us;
    seen->seen_us = row->seen_at_us;
    return true;
}

static struct seen relays(struct fx *fx)
{
    struct seen seen = {""};
    ok(fx, relays, note_relay, &seen);
    return seen;
}

static void a_row_per_relay(struct fx *fx)
{
    int64_t before = now_us();
    ok(fx, beat, BEAT(.info = "{\"held\": 3}"), NULL);
    struct seen first = relays(fx);
    assert_string_equal(first.text, "w1 h 7 1 running");
    assert_in_range(first.seen_us, before, now_us());
    assert_int_equal(first.started_us, first.seen_us);
    tick();
    ok(fx, beat, BEAT(.state = "paused"), NULL);
    struct seen second = relays(fx);
    assert_string_equal(second.text, "w1 h 7 1 paused");
    assert_int_equal(second.started_us, first.started_us);
    assert_true(second.seen_us > first.seen_us);
    ok(fx, beat, BEAT(.pid = 8), NULL); /* the name of a process that is gone */
    struct seen third = relays(fx);
    assert_string_equal(third.text, "w1 h 8 1 running");
    assert_true(third.started_us > first.started_us);
    tick();
    ok(fx, beat, BEAT(.worker = "w2"), NULL);
    assert_string_equal(relays(fx).text, "w1 h 8 1 running; w2 h 7 1 running");
    ok(fx, beat, BEAT(.pid = 8, .state = "stopped"), NULL);
    assert_string_equal(relays(fx).text, "w2 h 7 1 running");
}

static void the_eldest_leads(struct fx *fx)
{
    bool leads = false;
    ok(fx, beat, BEAT(.worker = "b"), &leads);
    assert_true(leads);
    tick();
    ok(fx, beat, BEAT(.worker = "a"), &leads);
    assert_false(leads);
    ok(fx, beat, BEAT(.worker = "b"), &leads);
    assert_true(leads);
    ok(fx, beat, BEAT(.worker = "b", .state = "stopping"), &leads);
    assert_false(leads);
    ok(fx, beat, BEAT(.worker = "a"), &leads);
    assert_true(leads);
}

static void the_dead_do_not_lead(struct fx *fx)
{
    bool leads = true;
    ok(fx, beat, BEAT(.worker = "quick", .every_us = SECOND / 10), NULL);
    int64_t gone = now_us() + 3 * SECOND / 10;
    ok(fx, beat, BEAT(.worker = "slow"), &leads);
    until_us(gone + SECOND / 50);
    assert_string_equal(relays(fx).text, "quick h 7 1 running gone; slow h 7 1 running");
    ok(fx, beat, BEAT(.worker = "slow"), &leads);
    assert_true(leads);
}

static void bad_beats(struct fx *fx)
{
    fails(fx, OUTBOX_INVALID, beat, BEAT(.worker = ""), NULL);
    fails(fx, OUTBOX_INVALID, beat, BEAT(.worker = NULL), NULL);
    fails(fx, OUTBOX_INVALID, beat, BEAT(.every_us = 0), NULL);
    assert_string_equal(relays(fx).text, "");
}

/* ---- run-time settings ------------------------------------------------------------------------------------------- */

struct heard {
    struct fx *fx;
    char text[TEXT_MAX];
};

static void hear(struct heard *heard, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void hear(struct heard *heard, const char *format, ...)
{
    size_t len = strlen(heard->text);
    va_list args;
    va_start(args, format);
    if (len)
        len += (size_t)snprintf(heard->text + len, sizeof heard->text - len, "; ");
    vsnprintf(heard->text + len, sizeof heard->text - len, format, args);
    va_end(args);
}

/* Each says by whom, why, and since when. */
static void paused(void *ctx, const struct ob_pause_row *row)
{
    hear(ctx, "%s/%s/%s", row->name_space ? row->name_space : "-", row->topic ? row->topic : "-",
         row->sink ? row->sink : "-");
    assert_string_equal(row->actor, "ann");
    assert_string_equal(row->reason, "because");
    assert_in_range(row->at_us, now_us() - HOUR, now_us());
}

static void tuned(void *ctx, const struct ob_tuning_row *row)
{
    hear(ctx, "%s=%s", row->name, row->value);
    assert_string_equal(row->actor, "ann");
    assert_in_range(row->at_us, now_us() - HOUR, now_us());
}

static void lane(void *ctx, const char *name_space, const char *topic)
{
    hear(ctx, "%s.%s", name_space, topic);
}

static void expect_control_(struct fx *fx, const char *pauses, const char *tunings, const char *lanes)
{
    struct heard heard[3] = {{fx, ""}, {fx, ""}, {fx, ""}};
    const char *wanted[3] = {pauses, tunings, lanes};
    for (int i = 0; i < 3; i++) {
        struct ob_control control = {&heard[i], i == 0 ? paused : NULL, i == 1 ? tuned : NULL, i == 2 ? lane : NULL};
        check_(fx, fx->store->ops->control(fx->store, &control, &fx->err), OUTBOX_OK, "control");
        if (strcmp(heard[i].text, wanted[i]) != 0)
            blame(fx, "control says \"%s\", not \"%s\"", heard[i].text, wanted[i]);
    }
}
#define expect_control(fx, ...) expect_control_(AT(fx), __VA_ARGS__)

static void a_setting(struct fx *fx)
{
    ok(fx, tune, "poll", "2s", &ann);
    expect_control(fx, "", "poll=2s", "");
    ok(fx, tune, "poll", "2s", &ann); /* it is so already: no act */
    ok(fx, tune, "poll", "250ms", &ann);
    expect_control(fx, "", "poll=250ms", "");
    ok(fx, tune, "poll", NULL, &ann);
    ok(fx, tune, "poll", NULL, &ann);
    expect_control(fx, "", "", "");
    expect_acts(fx, NULL, "tune ann because; tune ann because; tune ann because");
}

static void what_settings_take(struct fx *fx)
{
    static const struct {
        const char *name, *value, *stored;
    } good[] = {
        {"poll", "10ms", "10ms"},
        {"poll", "1h", "1h"},
        {"batch", "10000", "10000"},
        {"enabled", "false", "off"},
        {"enabled", "ON", "on"},
        {"sink.a.b.rate", "100", "100/s"},
        {"sink.a.b.rate", "600/m", "600/m"},
        {"sink.a.b.rate", "off", "off"},
        {"sink.x.concurrency", "1", "1"},
    };
    static const char *const bad[][2] = {
        {"poll", "9ms"},
        {"poll", "61m"},
        {"poll", "1"},
        {"poll", "1.5s"},
        {"poll", ""},
        {"batch", "0"},
        {"batch", "10001"},
        {"batch", "1e3"},
        {"enabled", "maybe"},
        {"nonsense", "1"},
        {"sink.rate", "1"},
        {"sink..rate", "1"},
        {"sink.a b.rate", "1/s"},
        {"sink.a.rate", "0"},
        {"sink.a.rate", "5/ms"},
        {"sink.a.rate", "5/d"},
        {"sink.a.concurrency", "100001"},
        {"sink.a.speed", "1"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        char wanted[128];
        snprintf(wanted, sizeof wanted, "%s=%s", good[i].name, good[i].stored);
        ok(fx, tune, good[i].name, good[i].value, &ann);
        expect_control(fx, "", wanted, "");
        ok(fx, tune, good[i].name, NULL, &ann);
    }
    const char *before = digest(fx);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        fails(fx, OUTBOX_INVALID, tune, bad[i][0], bad[i][1], &ann);
    expect_unchanged(fx, before, "a bad setting");
}

static void pauses_and_lanes(struct fx *fx)
{
    put(fx, .topic = "a");
    put(fx, .topic = "a");
    ok(fx, pause, NULL, NULL, "billing", &ann);
    expect_control(fx, "-/-/billing", "", "default.a");
    ok(fx, resume, NULL, NULL, "billing", &ann);
    ok(fx, pause, "n", "t", NULL, &ann);
    ok(fx, tune, "sink.billing.rate", "5/s", &ann);
    expect_control(fx, "n/t/-", "sink.billing.rate=5/s", "default.a");
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

struct figures {
    struct ob_gauges_row total;
    char namespaces[TEXT_MAX]; /* "name pending dead" each */
    int rows;
};

static bool note_figures(void *ctx, const struct ob_gauges_row *row)
{
    struct figures *figures = ctx;
    size_t len = strlen(figures->namespaces);
    if (figures->rows++ == 0) {
        assert_null(row->name_space);
        figures->total = *row;
        return true;
    }
    snprintf(figures->namespaces + len, sizeof figures->namespaces - len, "%s%s %lld %lld", len ? "; " : "",
             row->name_space, (long long)row->pending, (long long)row->dead);
    return true;
}

static struct figures gauges(struct fx *fx)
{
    struct figures figures = {.rows = 0};
    ok(fx, gauges, note_figures, &figures);
    return figures;
}

static void nothing_is_zero(struct fx *fx)
{
    struct figures figures = gauges(fx);
    assert_int_equal(figures.rows, 1);
    assert_int_equal(figures.total.pending, 0);
    assert_int_equal(figures.total.dead, 0);
    assert_true(figures.total.oldest_due_s == 0);
    assert_false(figures.total.estimated);
}

static void same_as_status(struct fx *fx)
{
    make_dead(fx, .topic = "d", .name_space = "other");
    for (int i = 0; i < 3; i++)
        put(fx, .key = "k");
    put(fx, .topic = "later", .deliver_after_us = now_us() + HOUR);
    put(fx, .topic = "out");
    struct outbox_uuid lost = put(fx, .topic = "lost", .name_space = "third").id;
    const char *out[] = {"out"}, *gone[] = {"lost"}, *keyed[] = {"t"};
    take(fx, .topics = out, .topic_count = 1);
    take(fx, .topics = gone, .topic_count = 1);
    expire(fx, lost);
    settle(fx, take(fx, .topics = keyed, .topic_count = 1), .outcome = OUTBOX_RETRY, .delay_us = HOUR);
    put(fx, .name_space = "fourth", .topic = "old");
    tick();
    struct figures figures = gauges(fx);
    struct ob_status_row status = status_of(fx, NULL, NULL);
    assert_int_equal(figures.total.pending, 5);
    assert_int_equal(figures.total.pending, status.pending);
    assert_int_equal(figures.total.due, status.due);
    assert_int_equal(figures.total.processing, 2);
    assert_int_equal(figures.total.processing, status.processing);
    assert_int_equal(figures.total.stuck, 1);
    assert_int_equal(figures.total.stuck, status.stuck);
    assert_int_equal(figures.total.parked, status.parked);
    assert_int_equal(figures.total.dead, 1);
    assert_int_equal(figures.total.blocked_keys, 1);
    assert_true(figures.total.oldest_due_s > 0 && figures.total.oldest_due_s < 60);
    assert_false(figures.total.estimated);
    assert_true(figures.total.table_bytes > 0);
    assert_string_equal(figures.namespaces, "default 4 0; fourth 1 0; other 0 1; third 0 0");
}

static void repairs_are_counted(struct fx *fx)
{
    int64_t before = gauges(fx).total.repairs; /* it never falls, not even for tests */
    for (int i = 0; i < 3; i++)
        put(fx);
    claim_n(fx, 3);
    expire_all(fx);
    assert_int_equal(gauges(fx).total.stuck, 3);
    assert_int_equal(gauges(fx).total.repairs, before); /* nobody has taken them over yet */
    claim_n(fx, 3, .worker = "w2");
    assert_int_equal(gauges(fx).total.repairs, before + 3);
    assert_int_equal(gauges(fx).total.stuck, 0);
}

static void a_held_key_is_blocked(struct fx *fx)
{
    ok(fx, configure, "default", "on_dead", "hold", NULL);
    make_dead(fx, .key = "k");
    put(fx, .key = "k");
    struct figures figures = gauges(fx);
    assert_int_equal(figures.total.blocked_keys, 1);
    assert_int_equal(figures.total.dead, 1);
    assert_int_equal(figures.total.pending, 1);
}

static void a_long_queue(struct fx *fx)
{
    fixture.fill(fx->place, 200000);
    double rows = atof(scalar(fx, fixture_lacks(NEEDS_MANY_WRITERS) ? "SELECT count(*) FROM outbox_queue"
                                                                    : "SELECT count(*) FROM outbox.queue"));
    gauges(fx); /* warm */
    int64_t before = now_us();
    struct figures figures = gauges(fx);
    int64_t took = now_us() - before;
    print_message("# gauges of %.0f messages: %lld ms\n", rows, (long long)(took / 1000));
    assert_true(figures.total.estimated);
    assert_in_range(figures.total.pending + figures.total.processing, rows * 0.9, rows * 1.1);
    assert_in_range(figures.total.stuck, rows / 1000 * 0.5, rows / 1000 * 1.5);
    assert_true(figures.total.oldest_due_s > 3000);
    assert_in_range(took, 0, PATIENCE); /* a fraction of it on a machine with nothing else to do */
    struct ob_control control = {0};
    before = now_us();
    ok(fx, control, &control);
    assert_in_range(now_us() - before, 0, PATIENCE);
}

const struct contract_test relays_tests[] = {
    {"S15: a relay that lives has a row, from its first beat to its last", a_row_per_relay},
    {"S15: of several relays the eldest that lives reports for all", the_eldest_leads},
    {"S15: a relay not seen for three beats is gone, and leads no more", the_dead_do_not_lead},
    {"S15: a beat needs a name and a time", bad_beats},
    {"T5: a setting changed at run time is there for every relay, on record, and can be taken back", a_setting},
    {"T5: what settings take, and what they refuse without a trace", what_settings_take},
    {"T5 M20: one look tells a relay of pauses, settings and lanes", pauses_and_lanes},
    {"S15: the figures of an empty queue are zero", nothing_is_zero},
    {"S15 Y6: the figures are those of the status view while the queue is short", same_as_status},
    {"S15 S14: attempts lost with their worker are counted as repairs", repairs_are_counted},
    {"S15: a key that waits for an operator counts as blocked", a_held_key_is_blocked},
    {"S15 M20: the figures of a long queue come fast, as estimates", a_long_queue},
    {NULL, NULL, 0},
};
