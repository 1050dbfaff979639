/* test_uuid.c - uuids. Proves: M3 (id uuid), M9 (ids sort by time). */
#include "base/uuid.h"
#include "ob_test.h"

#include <string.h>

/* M3 */
static void text_goes_round(void **state)
{
    (void)state;
    struct outbox_uuid id;
    char text[OB_UUID_TEXT];
    assert_true(outbox_uuid_parse("018f3a2b-4C5d-7e6f-8a9B-0123456789ab", &id));
    assert_memory_equal(id.bytes, "\x01\x8f\x3a\x2b\x4c\x5d\x7e\x6f\x8a\x9b\x01\x23\x45\x67\x89\xab", 16);
    outbox_uuid_format(&id, text);
    assert_string_equal(text, "018f3a2b-4c5d-7e6f-8a9b-0123456789ab");
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "-",
        "018f3a2b",
        "018f3a2b-4c5d-7e6f-8a9b-0123456789a",
        "018f3a2b-4c5d-7e6f-8a9b-0123456789abc",
        "018f3a2b-4c5d-7e6f-8a9b-0123456789ag",
        "018f3a2b4c5d-7e6f-8a9b-0123456789abcd",
        "018f3a2b-4c5d-7e6f-8a9b_0123456789ab",
        "{018f3a2b-4c5d-7e6f-8a9b-0123456789ab}",
        " 018f3a2b-4c5d-7e6f-8a9b-0123456789ab",
    };
    struct outbox_uuid id = {{42}};
    for (size_t i = 0; i < OB_COUNT(bad); i++)
        assert_false(outbox_uuid_parse(bad[i], &id));
    assert_false(outbox_uuid_parse(NULL, &id));
    assert_int_equal(id.bytes[0], 42);
}

/* M9 */
static void version_7_holds_time_and_chance(void **state)
{
    (void)state;
    static const uint8_t ones[10] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t zeros[10] = {0};
    struct outbox_uuid id, later;
    char text[OB_UUID_TEXT];
    ob_uuid_v7(&id, 0x017f22e279b0, ones);
    outbox_uuid_format(&id, text);
    assert_string_equal(text, "017f22e2-79b0-7fff-bfff-ffffffffffff");
    assert_int_equal(ob_uuid_ms(&id), 0x017f22e279b0);
    ob_uuid_v7(&later, 0x017f22e279b1, zeros);
    outbox_uuid_format(&later, text);
    assert_string_equal(text, "017f22e2-79b1-7000-8000-000000000000");
    assert_true(ob_uuid_compare(&id, &later) < 0);
    assert_true(ob_uuid_compare(&later, &id) > 0);
    assert_int_equal(ob_uuid_compare(&id, &id), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_goes_round),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(version_7_holds_time_and_chance),
    };
    return cmocka_run_group_tests_name("uuid", tests, NULL, NULL);
}
