/* history.c - the last hour: what relays did, in points of a minute, of the whole outbox. */
#include "suite.h"

#include "core/history.h"

struct seen {
    struct ob_point points[64];
    size_t count;
};

static bool keep_point(void *ctx, const struct ob_point *point)
{
    struct seen *seen = ctx;
    if (seen->count < 64)
        seen->points[seen->count++] = *point;
    return true;
}

static struct seen points_of(struct fx *fx, int minutes)
{
    struct seen seen = {.count = 0};
    check_(fx, ob_history_points(fx->store, minutes, keep_point, &seen, &fx->err), OUTBOX_OK, "points");
    return seen;
}

/* The rows of a test fall into one minute, or into two when it comes to its end. */
static struct ob_point sum_of(const struct seen *seen)
{
    struct ob_point sum = seen->points[seen->count - 1];
    for (size_t i = 0; i + 1 < seen->count; i++) {
        sum.delivered += seen->points[i].delivered;
        sum.failed += seen->points[i].failed;
        sum.dead += seen->points[i].dead;
        if (sum.pending < 0)
            sum.pending = seen->points[i].pending, sum.oldest_s = seen->points[i].oldest_s;
    }
    return sum;
}

static void of_all_relays(struct fx *fx)
{
    assert_int_equal(points_of(fx, 60).count, 0);
    struct ob_history_row one = {.worker = "a", .done = {.delivered = 100, .failed = 3, .dead = 1}};
    struct ob_history_row leader = {
        .worker = "b", .done = {.delivered = 100}, .told = true, .pending = 7, .open = 9, .oldest_s = 2.5};
    one.done.latencies[0] = 90;                /* up to 1 ms */
    one.done.latencies[OB_LATENCIES - 1] = 10; /* over an hour */
    leader.done.latencies[0] = 100;
    int64_t before = now_us();
    ok(fx, record_history, &one);
    ok(fx, record_history, &leader);
    struct seen seen = points_of(fx, 0);
    assert_in_range(seen.count, 1, 2);
    assert_true(seen.points[0].at_us % (60 * SECOND) == 0 && seen.points[0].at_us <= before);
    struct ob_point sum = sum_of(&seen);
    assert_int_equal(sum.delivered, 200);
    assert_int_equal(sum.failed, 3);
    assert_int_equal(sum.dead, 1);
    assert_int_equal(sum.pending, 7);
    assert_true(sum.oldest_s > 2.4 && sum.oldest_s < 2.6);
    if (seen.count == 1) {
        assert_int_equal(sum.enqueued, -1); /* of the minute before nothing is known */
        assert_true(sum.p50_ms > 0 && sum.p50_ms < 1);
        assert_true(sum.p95_ms >= 0.9 && sum.p95_ms <= 1.01);
    }
}

static void it_is_bounded(struct fx *fx)
{
    struct ob_history_row row = {.worker = "a", .done = {.delivered = 1}};
    for (int i = 0; i < 3; i++)
        ok(fx, record_history, &row);
    if (strcmp(fx->store->ops->kind, "sqlite") == 0)
        ok(fx, exec, "UPDATE outbox_series SET at = at - 2 * 3600000000");
    else
        scalar(
            fx,
            "with old as (update outbox.series set at = at - interval '2 hours' returning 1) select count(*)::text from old");
    assert_int_equal(points_of(fx, 60).count, 0);
    row.told = true;
    ok(fx, record_history, &row);
    const char *left = strcmp(fx->store->ops->kind, "sqlite") == 0 ? "SELECT count(*) FROM outbox_series"
                                                                   : "select count(*)::text from outbox.series";
    assert_string_equal(scalar(fx, left), "1");
}

/* Of the minutes, in any order of workers: arrivals follow from what left and what is there. */
struct row {
    int minute;
    struct ob_history_row row;
};
static const struct row rows[] = {
    {0, {.told = true, .open = 10, .pending = 10, .done = {.delivered = 5}}},
    {1, {.done = {.delivered = 20}}},
    {1, {.told = true, .open = 40, .pending = 38, .done = {.delivered = 30, .dead = 2}}},
    {2, {.told = true, .estimated = true, .open = 50000, .pending = 50000}},
    {3, {.told = true, .open = 0}},
    {4, {.told = true, .open = 0}},
    {6, {.told = true, .open = 3}},
};

static ob_code play(struct ob_store *store, int minutes, ob_history_fn *fn, void *ctx, struct outbox_error *err)
{
    (void)store, (void)minutes, (void)err;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ob_history_row row = rows[i].row;
        row.at_us = (1000 + rows[i].minute) * 60 * SECOND + (int64_t)i;
        if (!fn(ctx, &row))
            break;
    }
    return OUTBOX_OK;
}

static void arrivals(struct fx *fx)
{
    static const struct ob_store_ops ops = {.history = play};
    struct ob_store store = {.ops = &ops};
    struct seen seen = {.count = 0};
    check_(fx, ob_history_points(&store, 60, keep_point, &seen, &fx->err), OUTBOX_OK, "points");
    static const int64_t wanted[] = {-1, 82, -1, -1, 0, -1};
    assert_int_equal(seen.count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(seen.points[i].enqueued, wanted[i]);
    assert_int_equal(seen.points[2].pending, 50000);
    assert_true(seen.points[4].p50_ms < 0);
}

const struct contract_test history_tests[] = {
    {"S15 Y6: the last hour is that of all relays together", of_all_relays},
    {"S15: the last hour does not grow", it_is_bounded},
    {"S15: arrivals follow from deliveries and what is there", arrivals},
    {NULL, NULL, 0},
};
