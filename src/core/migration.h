/* migration.h - how a store reports its migrations. The store has the SQL; the command line shows these rows. */
#ifndef OB_CORE_MIGRATION_H
#define OB_CORE_MIGRATION_H

#include <outbox/outbox.h>

/*   PENDING ──apply──▶ APPLIED ──text edited after it ran──▶ DRIFTED
 * NEWER: applied by a later version of Outbox; this one does not know it. */
enum ob_migration_state { OB_MIGRATION_PENDING, OB_MIGRATION_APPLIED, OB_MIGRATION_DRIFTED, OB_MIGRATION_NEWER };

/* Texts are borrowed for the duration of the callback. */
struct ob_migration_row {
    int version;
    const char *name;
    enum ob_migration_state state;
    int64_t applied_at_us;  /* 0: not applied */
    const char *applied_by; /* NULL: not applied, or the store does not know */
};

typedef void ob_migration_fn(void *ctx, const struct ob_migration_row *row);

/* Options of a run. adopt: take over an existing schema and roles of these names that were created by others; `adopted` is
 * called with each statement before it runs, or would run. `applied` is called after each migration that ran; also in a dry
 * run, before everything is rolled back. */
struct ob_migrate {
    bool dry_run, adopt;
    void (*adopted)(void *ctx, const char *statement);
    ob_migration_fn *applied;
    void *ctx;
};

#endif
