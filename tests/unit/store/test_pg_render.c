/* test_pg_render.c - schema names in SQL. Proves: S3 (one identifier is substituted, quoted, and nothing else). */
#include "ob_test.h"
#include "store/pg/render.h"

#include <string.h>

static void renders(const char *sql, const char *schema, const char *wanted)
{
    struct ob_buf buf = OB_BUF_INIT;
    ob_pg_render(&buf, sql, schema);
    assert_string_equal(ob_buf_text(&buf), wanted);
    ob_buf_fini(&buf);
}

static void placeholders(void **state)
{
    (void)state;
    renders("select @schema@.f(), @relay@", "outbox", "select \"outbox\".f(), \"outbox_relay\"");
    renders("@owner@@api@@hooks@@nobody@@producer@@operator@@auditor@@tenant@", "x",
            "\"x_owner\"\"x_api\"\"x_hooks\"\"x_nobody\"\"x_producer\"\"x_operator\"\"x_auditor\"\"x_tenant\"");
    renders("@schema_text@ || @owner_text@", "x", "'x' || 'x_owner'");
    renders("", "x", "");
}

static void other_signs_stay(void **state)
{
    (void)state;
    renders("a @> b @@ c @unknown@ @schema @", "x", "a @> b @@ c @unknown@ @schema @");
    renders("'a@b.c' @schema@", "x", "'a@b.c' \"x\"");
}

static void quoting(void **state)
{
    (void)state;
    renders("@schema@.t", "my \"odd\" one", "\"my \"\"odd\"\" one\".t");
    renders("@schema_text@", "it's", "'it''s'");
    renders("@schema_text@", "a\\b'", " E'a\\\\b'''");
}

/* '@schema@.queue'::regclass: the identifier stands in a literal, so its apostrophes are doubled too. */
static void within_literals(void **state)
{
    (void)state;
    renders("'@schema@.queue'::regclass", "it's", "'\"it''s\".queue'::regclass");
    renders("'don''t' || @schema@ || '@schema@'", "i'", "'don''t' || \"i'\" || '\"i''\"'");
    renders("-- the session's @schema@\n@schema@ '@schema@'", "i'", "-- the session's \"i'\"\n\"i'\" '\"i''\"'");
    renders("as $$ '-- @schema@' $$ @schema@", "i'", "as $$ '-- \"i''\"' $$ \"i'\"");
}

static void schema_names(void **state)
{
    (void)state;
    static const char *const bad[] = {"",     "pg_x", "information_schema",
                                      "a$b",  "a\nb", "a\x7f",
                                      "a*/b", "\xff", "0123456789012345678901234567890123456789012345678901"};
    static const char *const good[] = {"outbox",   "a b", "\"",  "'",
                                       "\xc3\xa9", "pgx", "x.y", "01234567890123456789012345678901234567890123456789"};
    struct outbox_error err;
    for (size_t i = 0; i < OB_COUNT(bad); i++) {
        assert_int_equal(ob_pg_schema_check(bad[i], &err), OUTBOX_INVALID);
        assert_non_null(strstr(err.text, "schema name"));
    }
    for (size_t i = 0; i < OB_COUNT(good); i++)
        assert_int_equal(ob_pg_schema_check(good[i], NULL), OUTBOX_OK);
}

/* Memory runs out half-way: the buffer says so, and nothing leaks. */
static void failing_allocations(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t n = 0; failed; n++) {
        struct ob_buf buf = OB_BUF_INIT;
        ob_fail_alloc(n);
        ob_pg_render(&buf, "'@schema@' @schema_text@ @relay@", "it's");
        bool ok = ob_buf_ok(&buf);
        ob_buf_fini(&buf);
        failed = ob_fail_alloc_end();
        assert_int_equal(ok, !failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placeholders),    cmocka_unit_test(other_signs_stay), cmocka_unit_test(quoting),
        cmocka_unit_test(within_literals), cmocka_unit_test(schema_names),     cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
