/* outcome.c - shared by claim, settle and operators: makes a message a dead letter, and records an act. All run inside the
 * caller's write transaction. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"
#include "core/fingerprint.h"

#include <pwd.h>
#include <unistd.h>

ob_code ob_sqlite_bury(struct ob_sqlite_store *store, int64_t n, int64_t sid, int attempt, const char *reason,
                       const char *code_text, const char *error, const char *worker, int64_t now,
                       struct outbox_error *err)
{
    int64_t held = 0, died = 0;
    ob_code code = ob_sqlite_run(store, OB_SQLITE_bury,
                                 OB_ARGS(OB_NUM(n), OB_TEXT(reason), OB_TEXT(code_text), OB_TEXT(error), OB_NUM(now),
                                         OB_NUM(ob_fingerprint(code_text, error))),
                                 &died, err);
    if (code || !died) /* a claim may find it twice: as the successor in a key, and among rows read ahead */
        return code;
    if (!code && sid)
        code = ob_sqlite_run(store, OB_SQLITE_hold, OB_ARGS(OB_NUM(n)), &held, err);
    if (!code && !held)
        code = ob_sqlite_run(store, OB_SQLITE_gone, OB_ARGS(OB_NUM(n), OB_NUM(n)), NULL, err);
    if (!code && !held && sid)
        code = ob_sqlite_wake(store, OB_SQLITE_wake_head, OB_ARGS(OB_NUM(sid)), err);
    if (code)
        return code;
    return ob_sqlite_fire(store,
                          &(struct ob_sqlite_event){.n = n,
                                                    .now = now,
                                                    .event = "dead",
                                                    .status = "dead",
                                                    .attempt = attempt,
                                                    .actor = worker,
                                                    .code = code_text,
                                                    .error = error},
                          err);
}

/* SQLite has no users of its own: an act without an actor is recorded under the user who runs the program. */
static const char *user_name(char text[64])
{
    struct passwd entry, *found = NULL;
    char buffer[1024];
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found)
        sqlite3_snprintf(64, text, "%s", found->pw_name);
    else
        sqlite3_snprintf(64, text, "uid %d", (int)geteuid());
    return text;
}

ob_code ob_sqlite_act(struct ob_sqlite_store *store, const struct ob_actor *actor, const char *action,
                      const char *message_id, const char *tenant_id, const char *detail, int64_t now,
                      struct outbox_error *err)
{
    char user[64];
    const char *who = actor && actor->actor ? actor->actor : user_name(user);
    return ob_sqlite_run(store, OB_SQLITE_act,
                         OB_ARGS(OB_NUM(now), OB_TEXT(who), OB_TEXT(action), OB_TEXT(actor ? actor->reason : NULL),
                                 OB_TEXT(message_id), OB_TEXT(tenant_id), OB_TEXT(detail)),
                         NULL, err);
}
