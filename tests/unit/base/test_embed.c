/* test_embed.c - SQL files inside the program. Proves: what tools/embed-sql writes is the file, byte for byte (style, SQL). */
#include "base/embed.h"
#include "ob_test.h"
#include "unit_sql.h"

#include <string.h>

static void files_are_sorted_and_whole(void **state)
{
    (void)state;
    assert_int_equal(ob_unit_sql_count, 3);
    assert_string_equal(ob_unit_sql[0].name, "001_first.sql");
    assert_string_equal(ob_unit_sql[0].text, "-- A quote \" a backslash \\ and \xc3\xbc.\nSELECT 1;\n");
    assert_string_equal(ob_unit_sql[1].text, "SELECT 2; -- no newline at the end?\?/");
    assert_string_equal(ob_unit_sql[2].text, "");
    for (size_t i = 0; i < ob_unit_sql_count; i++)
        assert_int_equal(ob_unit_sql[i].len, strlen(ob_unit_sql[i].text));
}

static void checksums_are_sha256(void **state)
{
    (void)state;
    assert_string_equal(ob_unit_sql[2].sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_int_equal(strlen(ob_unit_sql[0].sha256), 64);
    assert_string_not_equal(ob_unit_sql[0].sha256, ob_unit_sql[1].sha256);
}

static void files_are_found_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < ob_unit_sql_count; i++)
        assert_ptr_equal(ob_sql_find(ob_unit_sql, ob_unit_sql_count, ob_unit_sql[i].name), &ob_unit_sql[i]);
    assert_null(ob_sql_find(ob_unit_sql, ob_unit_sql_count, "000"));
    assert_null(ob_sql_find(ob_unit_sql, ob_unit_sql_count, "002_seconds.sql"));
    assert_null(ob_sql_find(ob_unit_sql, ob_unit_sql_count, "zzz"));
    assert_null(ob_sql_find(ob_unit_sql, 0, "001_first.sql"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_sorted_and_whole),
        cmocka_unit_test(checksums_are_sha256),
        cmocka_unit_test(files_are_found_by_name),
    };
    return cmocka_run_group_tests_name("embed", tests, NULL, NULL);
}
