/* plans_pg.c - a million messages, and how PostgreSQL finds the few that are asked for.
 *
 * A claim is a function, so its plan cannot be had by EXPLAIN from outside; what it read can: the statistics of the
 * transaction count every row that a scan or an index gave. */
#include "fixture_pg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLAIMED = 100, READ_MAX = 3000 };

/* In bulk: rows first, indexes after them. The partition is one that the ids fall into. */
static const char *const fill_steps[] = {
    "SELECT outbox.enqueue('t', '{}'), outbox.enqueue('lost', '{}')",
    "DROP TABLE IF EXISTS outbox.message_big, pg_temp.definition", /* of an earlier test: places are emptied, not made anew */
    "CREATE TABLE outbox.message_big (LIKE outbox.message)",
    "INSERT INTO outbox.message_big (id, created_at, tenant_id, priority, max_attempts, namespace, topic, subject, payload)"
    " SELECT ('018f0000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, now(),"
    "        ('00000000-0000-4000-8000-' || lpad((i % 1000)::text, 12, '0'))::uuid, 4, 5, 'default',"
    "        CASE WHEN i % 1000 = 0 THEN 'lost' ELSE 't' END, 's' || i / 10, 'null'"
    " FROM generate_series(1, current_setting('contract.rows')::bigint) i",
    "ALTER TABLE outbox.message ATTACH PARTITION outbox.message_big"
    " FOR VALUES FROM ('018f0000-0000-7000-8000-000000000000') TO ('018f0000-0000-7000-8001-000000000000')",
    "CREATE TEMPORARY TABLE definition AS SELECT pg_get_indexdef(indexrelid) AS text, indexrelid::regclass::text AS name,"
    " indisprimary FROM pg_index WHERE indrelid = 'outbox.queue'::regclass",
    "DO $$ DECLARE d record; BEGIN FOR d IN SELECT * FROM definition LOOP"
    " IF d.indisprimary THEN ALTER TABLE outbox.queue DROP CONSTRAINT queue_pkey;"
    " ELSE EXECUTE format('DROP INDEX %s', d.name); END IF; END LOOP; END $$",
    "INSERT INTO outbox.queue (id, lane, due, until, holder, since, attempts, spent, tenant_id, max_attempts, prio,"
    "                          shard)"
    " SELECT m.id, l.id, now() - interval '1 h',"
    "        CASE WHEN m.topic = 'lost' THEN now() - interval '1 min' END, CASE WHEN m.topic = 'lost' THEN 'gone' END,"
    "        CASE WHEN m.topic = 'lost' THEN now() - interval '2 min' END, (m.topic = 'lost')::int,"
    "        (m.topic = 'lost')::int, m.tenant_id, 5, 4, -1"
    " FROM outbox.message_big m JOIN outbox.lane l ON l.topic = m.topic",
    "DO $$ DECLARE d record; BEGIN FOR d IN SELECT * FROM definition LOOP EXECUTE d.text; END LOOP; END $$",
    "ANALYZE outbox.message, outbox.queue",
};

void pg_fill(const char *place, long rows)
{
    char text[32];
    const char *param = text;
    PGconn *conn = pg_back_door(place);
    snprintf(text, sizeof text, "%ld", rows);
    pg_query(conn, "SELECT set_config('contract.rows', $1, false)", &param, 1, NULL);
    for (size_t i = 0; i < sizeof fill_steps / sizeof fill_steps[0]; i++)
        pg_query(conn, fill_steps[i], NULL, 0, NULL);
}

/* A claim must find a full batch and read little more than that. */
static void claim_reads(PGconn *conn, const char *sql, char text[TEXT_MAX])
{
    char claimed[TEXT_MAX], read[TEXT_MAX];
    pg_query(conn, "BEGIN", NULL, 0, NULL);
    pg_query(conn, sql, NULL, 0, claimed);
    pg_query(conn,
             "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_all_tables"
             " WHERE schemaname = 'outbox' AND relname IN ('queue', 'message_big')",
             NULL, 0, read);
    pg_query(conn, "ROLLBACK", NULL, 0, NULL);
    text[0] = '\0';
    if (atoi(claimed) != CLAIMED || atol(read) > READ_MAX)
        snprintf(text, TEXT_MAX, "%.512s: %.32s messages claimed, %.32s rows read", sql, claimed, read);
}

/* EXPLAIN must not show a scan of a whole big table. */
static void explained(PGconn *conn, const char *sql, char text[TEXT_MAX])
{
    char plan[TEXT_MAX] = "";
    size_t n = 0;
    PGresult *res = PQexec(conn, sql);
    if (PQresultStatus(res) != PGRES_TUPLES_OK)
        pg_give_up(sql, PQerrorMessage(conn));
    for (int i = 0; i < PQntuples(res) && n < sizeof plan; i++)
        n += (size_t)snprintf(plan + n, sizeof plan - n, "%s\n", PQgetvalue(res, i, 0));
    PQclear(res);
    bool whole = strstr(plan, "Seq Scan on message_big") || strstr(plan, "Seq Scan on queue");
    bool index = strstr(plan, "on message_big");
    snprintf(text, TEXT_MAX, "%s", whole || !index ? plan : "");
}

void pg_plan(const char *place, enum lookup what, char text[TEXT_MAX])
{
    PGconn *conn = pg_back_door(place);
    switch (what) {
    case LOOKUP_DUE: claim_reads(conn, "SELECT count(*) FROM outbox.claim('probe', 100, topics => '{t}')", text); break;
    case LOOKUP_EXPIRED:
        claim_reads(conn, "SELECT count(*) FROM outbox.claim('probe', 100, topics => '{lost}') WHERE attempt = 2",
                    text);
        break;
    case LOOKUP_TENANT_DUE:
        claim_reads(conn,
                    "SELECT count(*) FROM outbox.claim('probe', 100, tenant => '00000000-0000-4000-8000-000000000077')",
                    text);
        break;
    case LOOKUP_TENANT:
        explained(conn,
                  "EXPLAIN SELECT * FROM outbox.messages WHERE tenant_id = '00000000-0000-4000-8000-000000000077'",
                  text);
        break;
    case LOOKUP_SUBJECT: explained(conn, "EXPLAIN SELECT * FROM outbox.messages WHERE subject = 's77'", text); break;
    case LOOKUP_COUNT: break;
    }
}
