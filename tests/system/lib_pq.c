/* lib_pq.c - outbox_pq_enqueue on connections that belong to the application.
 * Proves: M1 V2 V3 (atomic with the caller's transaction), M6, S3, and bad input in C. */
#include "pg_fixture.h"

#include <outbox/pq.h>

static PGconn *conn;
static struct outbox_error err;
static struct outbox_receipt receipt = OUTBOX_RECEIPT_INIT;

static int connect_app(void **state)
{
    pg_empty(state);
    conn = PQconnectdb(pg_conninfo);
    return PQstatus(conn) == CONNECTION_OK ? 0 : -1;
}

static int disconnect_app(void **state)
{
    (void)state;
    PQfinish(conn);
    return 0;
}

static struct outbox_message message(void)
{
    struct outbox_message msg = OUTBOX_MESSAGE_INIT;
    msg.topic = "t";
    msg.payload = "{\"n\": 1}";
    msg.payload_len = 8;
    return msg;
}

#define refuses(code, words) refuses_(code, words, __LINE__)
static struct outbox_message msg;
static void refuses_(enum outbox_code code, const char *words, int line)
{
    memset(&err, 'x', sizeof err);
    PGTransactionStatusType before = PQtransactionStatus(conn);
    enum outbox_code got = outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err);
    if (got != code || err.code != code || !strstr(err.text, words))
        fail_msg("line %d: %d \"%s\", wanted %d \"%s\"", line, got, err.text, code, words);
    assert_int_equal(PQtransactionStatus(conn), before);
}

/* M1 V2: what commits is there, and only then. */
static void commits_with_the_callers_transaction(void **state)
{
    (void)state;
    msg = message();
    pg_do(conn, "begin");
    pg_do(conn, "create table business (n int)");
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err), OUTBOX_OK);
    assert_int_equal(PQtransactionStatus(conn), PQTRANS_INTRANS);
    assert_int_equal(pg_messages(), 0);
    pg_do(conn, "commit");
    assert_int_equal(pg_messages(), 1);
    assert_true(receipt.created);
    assert_int_equal(pg_number("select count(*) from business"), 0);
    pg_do(conn, "drop table business");
}

/* M1 V3: a rollback leaves nothing, neither message nor key nor dedupe key (S18). */
static void rollback_leaves_nothing(void **state)
{
    (void)state;
    msg = message();
    msg.key = "k";
    msg.dedupe_key = "d";
    pg_do(conn, "begin");
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err), OUTBOX_OK);
    assert_int_equal(receipt.seq, 1);
    pg_do(conn, "rollback");
    assert_int_equal(pg_number("select (select count(*) from outbox.message) + (select count(*) from outbox.queue) + "
                               "(select count(*) from outbox.dedupe) + (select count(*) from outbox.stream)"),
                     0);
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err), OUTBOX_OK);
    assert_int_equal(receipt.seq, 1);
    assert_true(receipt.created);
}

/* M6: outside of a transaction it is one of its own. M4: again is the same message. */
static void outside_it_is_its_own_transaction(void **state)
{
    (void)state;
    struct outbox_receipt again = OUTBOX_RECEIPT_INIT;
    msg = message();
    msg.dedupe_key = "d";
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, NULL), OUTBOX_OK);
    assert_int_equal(PQtransactionStatus(conn), PQTRANS_IDLE);
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &again, NULL), OUTBOX_OK);
    assert_memory_equal(&receipt.id, &again.id, sizeof again.id);
    assert_false(again.created);
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, NULL, NULL), OUTBOX_OK);
    assert_int_equal(pg_messages(), 1);
}

/* M3 M19: every field arrives; bytes too. */
static void every_field_arrives(void **state)
{
    (void)state;
    msg = message();
    msg.payload = "a\0b";
    msg.payload_len = 3;
    msg.content_type = "application/x";
    msg.name_space = "n";
    msg.key = "k\xc3\xa9y";
    msg.tenant_id = "0a0a0a0a-1111-4222-8333-444444444444";
    msg.dedupe_key = "0a0a0a0a-1111-4222-8333-444444444444/d";
    msg.subject = "s";
    msg.recipient = "r";
    msg.headers = "{\"h\": \"v\"}";
    msg.correlation_id = "c";
    msg.priority = 0;
    msg.max_attempts = 7;
    msg.deliver_after_us = 4102444800000001; /* 2100-01-01 and a microsecond */
    msg.expires_at_us = 4133980800000000;
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err), OUTBOX_OK);
    assert_int_equal(
        pg_number("select count(*) from outbox.messages where body = 'a\\000b' and content_type = 'application/x' and "
                  "namespace = 'n' and key = 'k\xc3\xa9y' and tenant_id = '0a0a0a0a-1111-4222-8333-444444444444' and "
                  "dedupe_key = tenant_id || '/d' and subject = 's' and recipient = 'r' and "
                  "headers = '{\"h\": \"v\"}' and correlation_id = 'c' and priority = 0 and max_attempts = 7 and "
                  "next_attempt_at = '2100-01-01 00:00:00.000001+00' and expires_at = '2101-01-01 00:00+00'"),
        1);
}

/* Bad input: a failed transaction is told without asking the server. */
static void failed_transaction(void **state)
{
    (void)state;
    msg = message();
    pg_do(conn, "begin");
    PQclear(PQexec(conn, "select 1 / 0"));
    refuses(OUTBOX_FAILED_TRANSACTION, "roll back");
    assert_string_equal(err.sqlstate, "25P02");
    pg_do(conn, "rollback");
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err), OUTBOX_OK);
}

/* Bad input: what can be told from here does not cost the caller the transaction. */
static void invalid_text_keeps_the_transaction(void **state)
{
    (void)state;
    const char *const bad = "a\xff";
    pg_do(conn, "begin");
    const struct {
        size_t offset;
        const char *words;
    } fields[] = {
        {offsetof(struct outbox_message, topic), "\"topic\" is not valid UTF-8"},
        {offsetof(struct outbox_message, content_type), "\"content_type\" is not valid UTF-8"},
        {offsetof(struct outbox_message, name_space), "\"namespace\" is not valid UTF-8"},
        {offsetof(struct outbox_message, key), "\"key\" is not valid UTF-8"},
        {offsetof(struct outbox_message, dedupe_key), "\"dedupe_key\" is not valid UTF-8"},
        {offsetof(struct outbox_message, subject), "\"subject\" is not valid UTF-8"},
        {offsetof(struct outbox_message, recipient), "\"recipient\" is not valid UTF-8"},
        {offsetof(struct outbox_message, headers), "\"headers\" is not valid UTF-8"},
        {offsetof(struct outbox_message, correlation_id), "\"correlation_id\" is not valid UTF-8"},
    };
    for (size_t i = 0; i < OB_COUNT(fields); i++) {
        msg = message();
        memcpy((char *)&msg + fields[i].offset, &bad, sizeof bad);
        refuses(OUTBOX_INVALID, fields[i].words);
    }
    msg = message();
    msg.payload = "\"\xc0\x80\"";
    msg.payload_len = 4;
    refuses(OUTBOX_INVALID, "\"payload\" is JSON but not valid UTF-8");
    msg.payload = "\"\0\"";
    msg.payload_len = 3;
    refuses(OUTBOX_INVALID, "NUL");
    msg = message();
    msg.tenant_id = "tenant";
    refuses(OUTBOX_INVALID, "tenant_id");
    msg = message();
    msg.expires_at_us = INT64_MIN;
    refuses(OUTBOX_INVALID, "expires_at");
    msg = message();
    msg.payload_len = (size_t)1 << 40;
    refuses(OUTBOX_TOO_LARGE, "bytes");
    msg = message();
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err), OUTBOX_OK);
    pg_do(conn, "commit");
    assert_int_equal(pg_messages(), 1);
}

/* Bad input: what only the server can tell names the field, and nothing is stored. M5. */
static void refused_by_the_server(void **state)
{
    (void)state;
    msg = message();
    msg.payload = "{\"a\": \"\\u0000\"}";
    msg.payload_len = strlen(msg.payload);
    refuses(OUTBOX_INVALID, "payload");
    msg.payload = "{";
    msg.payload_len = 1;
    refuses(OUTBOX_INVALID, "payload");
    msg = message();
    msg.topic = "";
    refuses(OUTBOX_INVALID, "topic");
    msg = message();
    msg.headers = "[]";
    refuses(OUTBOX_INVALID, "headers");
    msg = message();
    msg.priority = 10;
    refuses(OUTBOX_INVALID, "priority");
    msg = message();
    msg.tenant_id = "0a0a0a0a-1111-4222-8333-444444444444";
    msg.dedupe_key = "d";
    refuses(OUTBOX_DEDUPE, "0a0a0a0a-1111-4222-8333-444444444444/");
    char *large = malloc(1 << 21);
    memset(large, '1', 1 << 21);
    msg = message();
    msg.payload = large;
    msg.payload_len = 1 << 21;
    msg.content_type = "text/plain";
    refuses(OUTBOX_TOO_LARGE, "1048576");
    free(large);
    assert_int_equal(pg_messages(), 0);
}

/* Bad input: what is missing gets its name. */
static void missing_arguments(void **state)
{
    (void)state;
    msg = message();
    assert_int_equal(outbox_pq_enqueue(NULL, NULL, &msg, &receipt, &err), OUTBOX_INVALID);
    assert_string_equal(err.text, "conn is NULL");
    assert_int_equal(outbox_pq_enqueue(conn, NULL, NULL, &receipt, &err), OUTBOX_INVALID);
    assert_string_equal(err.text, "msg is NULL");
    msg.topic = NULL;
    refuses(OUTBOX_INVALID, "\"topic\" is missing");
    msg = message();
    msg.payload = NULL;
    refuses(OUTBOX_INVALID, "\"payload\" is missing");
    msg = message();
    msg.size = 0;
    refuses(OUTBOX_INVALID, "OUTBOX_MESSAGE_INIT");
}

/* A caller compiled with an older header: what its struct lacks is not read. */
static void older_callers(void **state)
{
    (void)state;
    msg = message();
    msg.size = offsetof(struct outbox_message, priority);
    msg.priority = 77;
    msg.max_attempts = -5;
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err), OUTBOX_OK);
    assert_int_equal(pg_number("select priority * 100 + max_attempts from outbox.messages"), 415);
}

/* The schema is chosen by name, and a wrong one is told with what to do. */
static void schema_by_name(void **state)
{
    (void)state;
    msg = message();
    assert_int_equal(outbox_pq_enqueue(conn, "outbox", &msg, &receipt, &err), OUTBOX_OK);
    assert_int_equal(outbox_pq_enqueue(conn, "no\"such", &msg, &receipt, &err), OUTBOX_SCHEMA);
    assert_non_null(strstr(err.text, "outbox migrate --schema no\"such"));
    assert_int_equal(outbox_pq_enqueue(conn, "pg_x", &msg, &receipt, &err), OUTBOX_INVALID);
    assert_int_equal(outbox_pq_enqueue(conn, "", &msg, &receipt, &err), OUTBOX_INVALID);
    assert_int_equal(pg_messages(), 1);
}

/* A connection in the middle of something is left alone. */
static void busy_connections(void **state)
{
    (void)state;
    msg = message();
    assert_int_equal(PQsendQuery(conn, "select 7"), 1);
    refuses(OUTBOX_INVALID, "still running");
    PGresult *res = PQgetResult(conn);
    assert_string_equal(PQgetvalue(res, 0, 0), "7");
    PQclear(res);
    assert_null(PQgetResult(conn));
    assert_int_equal(PQenterPipelineMode(conn), 1);
    refuses(OUTBOX_INVALID, "pipeline");
    assert_int_equal(PQexitPipelineMode(conn), 1);
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err), OUTBOX_OK);
}

/* Our text is UTF-8: another client encoding would store something else. */
static void other_client_encodings(void **state)
{
    (void)state;
    pg_do(conn, "set client_encoding = latin1");
    msg = message();
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err), OUTBOX_OK);
    msg.payload = "\"\xc3\xa9\"";
    msg.payload_len = 4;
    refuses(OUTBOX_INVALID, "client_encoding is LATIN1");
    pg_do(conn, "set client_encoding = utf8");
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err), OUTBOX_OK);
    assert_int_equal(pg_number("select count(*) from outbox.message where payload = '\"\xc3\xa9\"'"), 1);
}

/* A lost connection: UNREACHABLE, first as it breaks, then at once. */
static void lost_connection(void **state)
{
    (void)state;
    char sql[64];
    msg = message();
    pg_do(conn, "begin");
    snprintf(sql, sizeof sql, "select pg_terminate_backend(%d, 10000)", PQbackendPID(conn));
    pg_do(pg_side, sql);
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err), OUTBOX_UNREACHABLE);
    assert_int_equal(err.class_, OUTBOX_CLASS_RETRY);
    assert_int_equal(outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err), OUTBOX_UNREACHABLE);
    assert_int_equal(pg_messages(), 0);
}

/* Rights: a producer may enqueue with nothing but its role (S5), others are told which role they lack. */
static void rights(void **state)
{
    (void)state;
    msg = message();
    pg_do(pg_side, "create role lib_app login; grant outbox_producer to lib_app; create role lib_other login");
    char info[1100];
    for (int i = 0; i < 2; i++) {
        snprintf(info, sizeof info, "%s user=%s", pg_conninfo, i ? "lib_other" : "lib_app");
        PGconn *app = PQconnectdb(info);
        assert_int_equal(PQstatus(app), CONNECTION_OK);
        assert_int_equal(outbox_pq_enqueue(app, NULL, &msg, &receipt, &err), i ? OUTBOX_FORBIDDEN : OUTBOX_OK);
        PQfinish(app);
    }
    assert_non_null(strstr(err.text, "GRANT \"outbox_producer\" TO \"lib_other\""));
    pg_do(pg_side, "drop role lib_app; drop role lib_other");
}

/* Every allocation of the library's may fail: NOMEM, no leak, no message, and the transaction lives on. */
static void survives_failing_allocations(void **state)
{
    (void)state;
    bool failed = true;
    for (size_t n = 0; failed; n++) {
        assert_true(n < 1000);
        msg = message();
        msg.key = "k";
        msg.headers = "{\"h\": \"v\"}";
        pg_do(conn, "begin");
        ob_fail_alloc(n);
        enum outbox_code code = outbox_pq_enqueue(conn, NULL, &msg, &receipt, &err);
        failed = ob_fail_alloc_end();
        assert_int_equal(code, failed ? OUTBOX_NOMEM : OUTBOX_OK);
        assert_int_equal(PQtransactionStatus(conn), PQTRANS_INTRANS);
        pg_do(conn, "commit");
        assert_int_equal(pg_messages(), failed ? 0 : 1);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, connect_app, disconnect_app)
    const struct CMUnitTest tests[] = {
        TEST(commits_with_the_callers_transaction),
        TEST(rollback_leaves_nothing),
        TEST(outside_it_is_its_own_transaction),
        TEST(every_field_arrives),
        TEST(failed_transaction),
        TEST(invalid_text_keeps_the_transaction),
        TEST(refused_by_the_server),
        TEST(missing_arguments),
        TEST(older_callers),
        TEST(schema_by_name),
        TEST(busy_connections),
        TEST(other_client_encodings),
        TEST(lost_connection),
        TEST(rights),
        TEST(survives_failing_allocations),
    };
    return pg_given() ? cmocka_run_group_tests(tests, pg_setup, pg_teardown) : 0;
}
