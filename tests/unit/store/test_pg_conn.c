/* test_pg_conn.c - SQLSTATEs and passwords. Proves: S13 (errors by explicit codes), and that no password is shown. */
#include "ob_test.h"
#include "store/pg/conn.h"
#include "store/pg/store.h"

#include <string.h>

/* S13: by SQLSTATE, never by the words. In SQL of the application's own a missing table is not our schema missing. */
static void codes(void **state)
{
    (void)state;
    static const struct {
        const char *sqlstate;
        enum outbox_code ours, theirs;
    } rows[] = {
        {"OB001", OUTBOX_INVALID, OUTBOX_INVALID},
        {"OB003", OUTBOX_DEDUPE, OUTBOX_DEDUPE},
        {"OB007", OUTBOX_ISOLATION, OUTBOX_ISOLATION},
        {"40001", OUTBOX_CONFLICT, OUTBOX_CONFLICT},
        {"40P01", OUTBOX_CONFLICT, OUTBOX_CONFLICT},
        {"42501", OUTBOX_FORBIDDEN, OUTBOX_FORBIDDEN},
        {"55P03", OUTBOX_BUSY, OUTBOX_BUSY},
        {"57014", OUTBOX_BUSY, OUTBOX_BUSY},
        {"57P01", OUTBOX_UNREACHABLE, OUTBOX_UNREACHABLE},
        {"08006", OUTBOX_UNREACHABLE, OUTBOX_UNREACHABLE},
        {"08P01", OUTBOX_UNREACHABLE, OUTBOX_UNREACHABLE},
        {"53300", OUTBOX_UNREACHABLE, OUTBOX_UNREACHABLE},
        {"53100", OUTBOX_FULL, OUTBOX_FULL},
        {"53200", OUTBOX_NOMEM, OUTBOX_NOMEM},
        {"25006", OUTBOX_READONLY, OUTBOX_READONLY},
        {"25P02", OUTBOX_FAILED_TRANSACTION, OUTBOX_FAILED_TRANSACTION},
        {"XX001", OUTBOX_CORRUPT, OUTBOX_CORRUPT},
        {"3F000", OUTBOX_SCHEMA, OUTBOX_DATABASE},
        {"42883", OUTBOX_SCHEMA, OUTBOX_DATABASE},
        {"42P01", OUTBOX_SCHEMA, OUTBOX_DATABASE},
        {"22P02", OUTBOX_INVALID, OUTBOX_DATABASE},
        {"22021", OUTBOX_INVALID, OUTBOX_DATABASE},
        {"22P05", OUTBOX_INVALID, OUTBOX_DATABASE},
        {"54000", OUTBOX_TOO_LARGE, OUTBOX_DATABASE},
        {"23505", OUTBOX_DATABASE, OUTBOX_DATABASE},
        {"P0001", OUTBOX_DATABASE, OUTBOX_DATABASE},
        {"00000", OUTBOX_DATABASE, OUTBOX_DATABASE},
    };
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        if (ob_pg_code(rows[i].sqlstate, true) != rows[i].ours || ob_pg_code(rows[i].sqlstate, false) != rows[i].theirs)
            fail_msg("%s: %d, %d", rows[i].sqlstate, ob_pg_code(rows[i].sqlstate, true),
                     ob_pg_code(rows[i].sqlstate, false));
    }
}

static void redacted(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"postgresql://u:secret@h/d", "postgresql://u:***@h/d"},
        {"postgres://u:secret@h:1,i:2/d?connect_timeout=1", "postgres://u:***@h:1,i:2/d?connect_timeout=1"},
        {"postgresql://u@h/d", "postgresql://u@h/d"},
        {"postgresql:///d", "postgresql:///d"},
        {"postgresql://h:5432/d", "postgresql://h:5432/d"},
        {"postgresql://u:secret%40@h/a%40b", "postgresql://u:***@h/a%40b"},
        {"postgresql://h/d?password=secret&connect_timeout=1", "postgresql://h/d?password=***&connect_timeout=1"},
        {"postgresql://h/d?sslpassword=secret", "postgresql://h/d?sslpassword=***"},
        {"host=h password=secret user=u", "host=h password=*** user=u"},
        {"host=h password = 'se\\'c ret' user=u", "host=h password = *** user=u"},
        {"passfile=/x", "passfile=/x"},
        {"", ""},
        /* What cannot be read, or not as it was meant, shows its shape: where the password is, nobody knows. */
        {"postgresql://u:sec@ret/c@h/d", "postgresql://... (28 bytes)"},
        {"postgresql://u:sec@ret@h/d", "postgresql://... (26 bytes)"},
        {"postgresql://u:sec/ret@h/d", "postgresql://... (26 bytes)"},
        {"postgresql://u:123/secret@h/d", "postgresql://... (29 bytes)"},
        {"postgresql://u:sec?ret@h/d", "postgresql://u:***@h/d"},
        {"postgresql://u:secret", "postgresql://... (21 bytes)"},
        {"postgresql://u:secret%zz@h/d", "postgresql://... (28 bytes)"},
        {"postgresql://h/d?pasword=secret", "postgresql://... (31 bytes)"},
        {"host=h pasword=secret", "... (21 bytes)"},
        {"password=my secret host=h", "... (25 bytes)"},
        {"password='never closed", "... (22 bytes)"},
        {"PASSWORD=secret", "... (15 bytes)"},
        {"passfile=/x password", "... (20 bytes)"},
    };
    char text[200];
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        ob_pg_redact(rows[i][0], text, sizeof text);
        assert_string_equal(text, rows[i][1]);
    }
    ob_pg_redact("postgresql://user:secret@host/database", text, 20);
    assert_string_equal(text, "postgresql://user:*");
}

/* A string that libpq cannot read is refused without being quoted. */
static void malformed_conninfo(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"postgresql://u:se%zzcret@h/d", "se%zz"},
                                          {"password=secret nonsense", "secret"},
                                          {"postgresql://u:sec@ret@h/d", "ret"},
                                          {"postgresql://u:sec/ret@h/d", "sec"},
                                          {"postgresql://u:123/secret@h/d", "secret"}};
    struct outbox_error err;
    PGconn *conn;
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        assert_int_equal(ob_pg_connect(rows[i][0], NULL, &conn, &err), OUTBOX_INVALID);
        assert_null(conn);
        assert_null(strstr(err.text, rows[i][1]));
        assert_non_null(strstr(err.text, "not a connection string"));
    }
}

static void nobody_there(void **state)
{
    (void)state;
    struct outbox_error err;
    PGconn *conn;
    assert_int_equal(ob_pg_connect("host=/nonexistent password=secret", NULL, &conn, &err), OUTBOX_UNREACHABLE);
    assert_int_equal(err.class_, OUTBOX_CLASS_RETRY);
    assert_null(strstr(err.text, "secret"));
    assert_null(strchr(err.text, '\n'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes),
        cmocka_unit_test(redacted),
        cmocka_unit_test(malformed_conninfo),
        cmocka_unit_test(nobody_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
