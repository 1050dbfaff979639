/* upgrade.c - from the tables of an earlier version to those of this one.
 *
 * The files of sql/postgres/upgrade change tables; the first line of each names the checksum of the 002_tables that it starts from.
 * All other migrations are code: an upgrade drops it and runs them again. Everything is one transaction. Producers and
 * relays may go on meanwhile: they wait for it, shortly; if it does not get its locks in half a second, it gives up, lets them
 * pass and comes again. A function that was called before may still run after it, as it was: so an upgrade ends when all
 * transactions of that time have ended. */
#include "store/pg/migrate.h"

#include "pg_migrations.h"
#include "pg_upgrades.h"

#include <string.h>

enum { TABLES = 2, TRIES = 60, PATIENCE = 120 /* pauses */ };

/* The upgrade from the tables with this checksum, or NULL. */
static const struct ob_sql_file *upgrade_from(const char *checksum)
{
    for (size_t i = 0; i < ob_pg_upgrades_count; i++) {
        const char *found = strstr(ob_pg_upgrades[i].text, checksum);
        if (found && found < strchr(ob_pg_upgrades[i].text, '\n'))
            return &ob_pg_upgrades[i];
    }
    return NULL;
}

static ob_code upgrade_find(struct ob_migrate_run *run, const struct ob_sql_file **found, struct outbox_error *err)
{
    PGresult *res = NULL;
    struct ob_buf scratch = OB_BUF_INIT;
    struct ob_pg_params params;
    ob_pg_params_init(&params, &scratch);
    ob_code code = ob_migrate_query(run, "migrate_applied.sql", &params, &res, err);
    ob_buf_fini(&scratch);
    for (int row = 0; !code && row < PQntuples(res); row++)
        if (ob_pg_int4(res, row, 0) == TABLES)
            *found = upgrade_from(ob_pg_text(res, row, 2));
    PQclear(res);
    return code;
}

static ob_code upgrade_once(struct ob_migrate_run *run, const struct ob_sql_file *from, bool dry_run,
                            struct outbox_error *err)
{
    ob_code code = ob_migrate_query(run, "migrate_begin.sql", NULL, NULL, err);
    if (!code)
        code = ob_migrate_execute(run, from, err);
    for (size_t i = TABLES; !code && i < ob_pg_migrations_count; i++)
        code = ob_migrate_execute(run, &ob_pg_migrations[i], err);
    if (!code)
        code = ob_migrate_query(run, "migrate_forget.sql", NULL, NULL, err);
    for (size_t i = 0; !code && i < ob_pg_migrations_count; i++)
        code = ob_migrate_record(run, i, err);
    if (!code)
        code = ob_migrate_query(run, dry_run ? "rollback.sql" : "commit.sql", NULL, NULL, err);
    if (code)
        (void)ob_migrate_query(run, "rollback.sql", NULL, NULL, NULL);
    return code;
}

/* Waits for the transactions that run now, then turns the log on. Where one does not end, the log stays off. */
static ob_code upgrade_end(struct ob_migrate_run *run, struct outbox_error *err)
{
    PGresult *running = NULL, *res = NULL;
    struct ob_buf scratch = OB_BUF_INIT;
    struct ob_pg_params params;
    ob_pg_params_init(&params, &scratch);
    ob_code code = ob_migrate_query(run, "migrate_running.sql", &params, &running, err);
    bool on = false;
    for (int i = 0; !code && !on && i < PATIENCE; i++) {
        ob_pg_params_init(&params, &scratch);
        ob_pg_put_text(&params, ob_pg_text(running, 0, 0));
        code = ob_migrate_query(run, "migrate_log.sql", &params, &res, err);
        on = !code && PQntuples(res) > 0;
        PQclear(res);
        res = NULL;
        if (!code && !on)
            code = ob_migrate_query(run, "migrate_pause.sql", NULL, NULL, err);
    }
    PQclear(running);
    ob_buf_fini(&scratch);
    return code;
}

ob_code ob_migrate_upgrade(struct ob_migrate_run *run, bool dry_run, bool *upgraded, struct outbox_error *err)
{
    const struct ob_sql_file *from = NULL;
    ob_code code = upgrade_find(run, &from, err);
    if (code || !from)
        return code;
    for (int tries = 1;; tries++) {
        code = upgrade_once(run, from, dry_run, err);
        bool locked = code && (strcmp(err->sqlstate, "55P03") == 0 || strcmp(err->sqlstate, "40P01") == 0);
        if (!locked || tries == TRIES)
            break;
        code = ob_migrate_query(run, "migrate_pause.sql", NULL, NULL, err);
        if (code)
            break;
    }
    if (!code && !dry_run)
        code = upgrade_end(run, err);
    *upgraded = code == OUTBOX_OK;
    return code;
}
