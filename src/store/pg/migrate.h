/* migrate.h - what migrate.c and upgrade.c share: a run of migrations on one connection. */
#pragma once

#include "base/buf.h"
#include "base/embed.h"
#include "store/pg/pg.h"

struct ob_migrate_run {
    PGconn *conn;
    const char *schema;
    struct ob_buf sql; /* the statement under way, rendered */
    bool migrated;     /* the table of migrations exists */
    bool *applied;     /* per embedded migration */
    const char *role;  /* our role with the rights for this: the one to grant if they are missing */
};

/* Runs a statement of the stmt folder; params may be NULL. With out, the caller owns the rows, in binary. */
ob_code ob_migrate_query(struct ob_migrate_run *run, const char *file, struct ob_pg_params *params, PGresult **out,
                         struct outbox_error *err);

/* Runs a file of many statements. */
ob_code ob_migrate_execute(struct ob_migrate_run *run, const struct ob_sql_file *file, struct outbox_error *err);

/* Notes the embedded migration i. */
ob_code ob_migrate_record(struct ob_migrate_run *run, size_t i, struct outbox_error *err);

/* Where the tables are those of an earlier version that there is an upgrade from: carries it out, which ends with all migrations
 * applied. Else does nothing. */
ob_code ob_migrate_upgrade(struct ob_migrate_run *run, bool dry_run, bool *upgraded, struct outbox_error *err);
