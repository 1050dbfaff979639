/* test_verdict.c - verdicts of sinks that were built with another header. Proves: V5: what is not understood is never a
 * success. */
#include "core/verdict.h"

#include "base/versioned.h"
#include "ob_test.h"

static void what_is_known_is_taken(void **state)
{
    (void)state;
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = OUTBOX_SINK_NOT_SENT;
    verdict.scope = OUTBOX_SCOPE_RECIPIENT;
    verdict.code = "c";
    struct outbox_verdict taken = ob_verdict_take(&verdict);
    assert_memory_equal(&taken, &verdict, sizeof taken);
    assert_int_equal(ob_verdict_take(NULL).outcome, OUTBOX_SINK_ACCEPTED);
}

static void what_is_not_known_is_unknown(void **state)
{
    (void)state;
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = (enum outbox_sink_outcome)(OUTBOX_SINK_NOT_SENT + 1);
    struct outbox_verdict taken = ob_verdict_take(&verdict);
    assert_int_equal(taken.outcome, OUTBOX_SINK_UNKNOWN);
    assert_string_equal(taken.code, "bad_verdict");

    verdict.size = 0; /* no OUTBOX_VERDICT_INIT: nothing of it can be trusted */
    verdict.outcome = OUTBOX_SINK_ACCEPTED;
    assert_int_equal(ob_verdict_take(&verdict).outcome, OUTBOX_SINK_UNKNOWN);

    verdict = (struct outbox_verdict)OUTBOX_VERDICT_INIT;
    verdict.outcome = OUTBOX_SINK_BLOCKED;
    verdict.scope = (enum outbox_sink_scope)99;
    assert_int_equal(ob_verdict_take(&verdict).scope, OUTBOX_SCOPE_MESSAGE);
}

static void arrays_change_their_stride(void **state)
{
    (void)state;
    const struct {
        int64_t a, b;
    } small[] = {{1, 2}, {3, 4}};
    struct {
        int64_t a, b, c;
    } large[2] = {{9, 9, 9}, {9, 9, 9}};
    ob_copy_elements(large, sizeof *large, small, sizeof *small, 2);
    assert_int_equal(large[1].a, 3);
    assert_int_equal(large[1].b, 4);
    assert_int_equal(large[0].c + large[1].c, 0);
    struct {
        int64_t a;
    } least[2];
    ob_copy_elements(least, sizeof *least, large, sizeof *large, 2);
    assert_int_equal(least[0].a, 1);
    assert_int_equal(least[1].a, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known_is_taken),
        cmocka_unit_test(what_is_not_known_is_unknown),
        cmocka_unit_test(arrays_change_their_stride),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
