/* test_error.c - errors and their table. Proves: S13 (explicit codes, never by substring). */
#include "base/error.h"
#include "base/utf8.h"
#include "ob_test.h"

#include <string.h>

/* S13 */
static void an_error_carries_code_class_and_text(void **state)
{
    (void)state;
    struct outbox_error err;
    assert_int_equal(ob_error_set(&err, OUTBOX_INVALID, "limit is %d", -1), OUTBOX_INVALID);
    assert_int_equal(err.code, OUTBOX_INVALID);
    assert_int_equal(err.class_, OUTBOX_CLASS_CALLER);
    assert_string_equal(err.sqlstate, "");
    assert_string_equal(err.text, "limit is -1");
    assert_int_equal(ob_error_set_sqlstate(&err, OUTBOX_CONFLICT, "40P01", "deadlock"), OUTBOX_CONFLICT);
    assert_int_equal(err.class_, OUTBOX_CLASS_RETRY);
    assert_string_equal(err.sqlstate, "40P01");
    ob_error_clear(&err);
    assert_int_equal(err.code, OUTBOX_OK);
    assert_string_equal(err.text, "");
}

static void no_error_struct_is_fine(void **state)
{
    (void)state;
    assert_int_equal(ob_error_set(NULL, OUTBOX_BUSY, "x"), OUTBOX_BUSY);
    assert_int_equal(ob_error_set_sqlstate(NULL, OUTBOX_FULL, "53100", "x"), OUTBOX_FULL);
    assert_int_equal(ob_error_nomem(NULL), OUTBOX_NOMEM);
    ob_error_clear(NULL);
}

static void long_texts_are_cut_between_characters(void **state)
{
    (void)state;
    static const char *const characters[] = {"a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x93\xa6"};
    for (size_t width = 1; width <= 4; width++) {
        for (size_t shift = 0; shift < 4; shift++) {
            char text[1024] = "";
            memset(text, 'x', shift);
            while (strlen(text) < 1000)
                strcat(text, characters[width - 1]);
            struct outbox_error err;
            (void)ob_error_set(&err, OUTBOX_INVALID, "%s", text);
            size_t len = strlen(err.text);
            assert_true(len < sizeof err.text && len > sizeof err.text - 1 - width);
            assert_true(ob_utf8_valid(err.text, len));
            assert_memory_equal(err.text, text, len);
        }
    }
}

/* S13 */
static void every_row_of_the_table_is_whole(void **state)
{
    (void)state;
    for (int code = 0; code <= OUTBOX_UNSUPPORTED; code++) {
        assert_string_not_equal(outbox_code_name(code), "UNKNOWN");
        assert_true(strlen(outbox_code_text(code)) > 3);
        assert_true(strlen(ob_code_todo(code)) > 3);
        assert_true(ob_code_exit(code) >= 0 && ob_code_exit(code) <= 78);
        const char *sqlstate = ob_code_sqlstate(code);
        if (strcmp(sqlstate, "-") == 0)
            continue;
        assert_int_equal(strlen(sqlstate), 5);
        assert_int_equal(ob_code_by_sqlstate(sqlstate), code);
    }
    assert_int_equal(ob_code_exit(OUTBOX_OK), 0);
    assert_int_equal(ob_code_by_sqlstate("OB004"), OUTBOX_LEASE_LOST);
    assert_int_equal(ob_code_by_sqlstate("22012"), OUTBOX_DATABASE);
    assert_int_equal(ob_code_by_sqlstate("-"), OUTBOX_DATABASE);
}

static void unknown_codes_have_names_too(void **state)
{
    (void)state;
    assert_string_equal(outbox_code_name((enum outbox_code)9999), "UNKNOWN");
    assert_string_equal(outbox_code_text((enum outbox_code)9999), "an unknown error");
    assert_int_equal(ob_code_exit((enum outbox_code)9999), ob_code_exit(OUTBOX_DATABASE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_carries_code_class_and_text),  cmocka_unit_test(no_error_struct_is_fine),
        cmocka_unit_test(long_texts_are_cut_between_characters), cmocka_unit_test(every_row_of_the_table_is_whole),
        cmocka_unit_test(unknown_codes_have_names_too),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
