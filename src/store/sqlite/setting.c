/* setting.c - the settings of a namespace, parsed from text as in PostgreSQL. One table lists them all. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"
#include "base/glob.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "base/value.h"
#include "core/names.h"

#include <string.h>

enum kind { WORD, SWITCH, COUNT, INTERVAL, AGE };

static const struct setting {
    const char *name;
    enum kind kind;
    const char *takes; /* for the error message; NULL: its limit */
    const char *words[2];
    enum ob_limit limit; /* of a number */
} settings[] = {
    {"dedupe_scope", WORD, "topic or namespace", {"topic", "namespace"}, 0},
    {"order_scope", WORD, "topic or namespace", {"topic", "namespace"}, 0},
    {"tenant_prefix", SWITCH, "on or off", {NULL, NULL}, 0},
    {"on_dead", WORD, "continue or hold", {"continue", "hold"}, 0},
    {"max_payload", COUNT, NULL, {NULL, NULL}, OB_LIMIT_max_payload},
    {"max_attempts", COUNT, NULL, {NULL, NULL}, OB_LIMIT_max_attempts},
    {"retry_base", INTERVAL, NULL, {NULL, NULL}, OB_LIMIT_retry_base},
    {"retry_cap", INTERVAL, NULL, {NULL, NULL}, OB_LIMIT_retry_cap},
    {"retention", AGE, "an interval such as 7 days, or forever", {NULL, NULL}, 0},
    {"attempt_retention", AGE, "an interval such as 90 days, or forever", {NULL, NULL}, 0},
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

static const struct setting *find(const char *name)
{
    for (size_t i = 0; i < SETTINGS; i++)
        if (strcmp(settings[i].name, name) == 0)
            return &settings[i];
    return NULL;
}

static bool read_switch(const char *value, int64_t *number)
{
    static const char *const words[2][4] = {{"off", "false", "no", "0"}, {"on", "true", "yes", "1"}};
    for (int on = 0; on < 2; on++)
        for (size_t i = 0; i < 4; i++)
            if (strcmp(words[on][i], value) == 0) {
                *number = on;
                return true;
            }
    return false;
}

static bool read_count(const char *value, int64_t *number)
{
    size_t len = strspn(value, "0123456789");
    *number = 0;
    for (size_t i = 0; i < len && len < 18; i++)
        *number = 10 * *number + (value[i] - '0');
    return len > 0 && len < 18 && !value[len];
}

static bool read_value(const struct setting *setting, const char *value, struct ob_sqlite_arg *arg)
{
    int64_t number;
    switch (setting->kind) {
    case WORD:
        *arg = OB_TEXT(value);
        return strcmp(value, setting->words[0]) == 0 || strcmp(value, setting->words[1]) == 0;
    case SWITCH:
        if (!read_switch(value, &number))
            return false;
        break;
    case COUNT:
        if (!read_count(value, &number))
            return false;
        break;
    case INTERVAL:
    case AGE:
        if (!ob_sqlite_interval(value, &number))
            return false;
        break;
    }
    *arg = OB_NUM(number);
    return setting->takes || ob_limit_allows(setting->limit, number);
}

struct change {
    const char *name_space, *name, *value;
    const struct ob_actor *actor;
    struct ob_sqlite_arg arg;
};

static ob_code check(struct change *change, struct outbox_error *err)
{
    char range[64];
    const char *space = change->name_space ? change->name_space : "";
    size_t len = strlen(space);
    const struct setting *setting = find(change->name);
    if (strcmp(change->name, "doorbell") == 0 || strcmp(change->name, "lane") == 0 ||
        strcmp(change->name, "partition_width") == 0)
        return ob_error_set(err, OUTBOX_UNSUPPORTED, "the setting \"%s\" has no effect on SQLite", change->name);
    if (!setting)
        return ob_error_set(
            err, OUTBOX_INVALID,
            "unknown setting \"%.64s\"; the settings are dedupe_scope, order_scope, tenant_prefix, on_dead, "
            "max_payload, max_attempts, retry_base, retry_cap, retention, attempt_retention",
            change->name);
    if (!ob_limit_allows(OB_LIMIT_namespace, (int64_t)len) || !ob_utf8_valid(space, len))
        return ob_error_set(err, OUTBOX_INVALID, "the namespace has %zu bytes; it takes %s of UTF-8", len,
                            ob_limit_range(OB_LIMIT_namespace, range));
    bool all = len == 1 && space[0] == '*';
    if (!all && ob_glob_is(space))
        return ob_error_set(err, OUTBOX_INVALID,
                            "the namespace is \"%s\"; namespaces have no spaces, no \"*\" and no \"?\"", space);
    ob_code code = ob_names_check(space, NULL, NULL, err);
    if (code)
        return code;
    if (setting->kind == AGE && !all)
        return ob_error_set(err, OUTBOX_INVALID, "the setting \"%s\" applies to all namespaces; use the namespace '*'",
                            change->name);
    change->arg = OB_NULL;
    if (!change->value) {
        if (all && strcmp(change->name, "attempt_retention") != 0)
            return ob_error_set(err, OUTBOX_INVALID, "the default of \"%s\" cannot be removed; give a value",
                                change->name);
        return OUTBOX_OK;
    }
    if (!read_value(setting, change->value, &change->arg))
        return ob_error_set(err, OUTBOX_INVALID, "the setting \"%s\" does not take \"%.64s\"; it takes %s",
                            change->name, change->value,
                            setting->takes ? setting->takes : ob_limit_range(setting->limit, range));
    return OUTBOX_OK;
}

static ob_code apply(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err)
{
    const struct change *change = ctx;
    sqlite3_stmt *stmt;
    bool row = false;
    ob_code code = ob_sqlite_run(store, OB_SQLITE_setting_row, OB_ARGS(OB_TEXT(change->name_space)), NULL, err);
    if (!code)
        code = ob_sqlite_run(store, OB_SQLITE_setting,
                             OB_ARGS(OB_TEXT(change->name_space), OB_TEXT(change->name), change->arg), NULL, err);
    if (code)
        return code;
    code = ob_sqlite_start(store, OB_SQLITE_detail_setting,
                           OB_ARGS(OB_TEXT(change->name_space), OB_TEXT(change->name), OB_TEXT(change->value)), &stmt,
                           err);
    if (!code)
        code = ob_sqlite_step(store, stmt, &row, err);
    if (!code)
        code = ob_sqlite_act(store, change->actor, "configure", NULL, NULL, row ? ob_sqlite_column(stmt, 0) : NULL,
                             ob_clock_wall_us(), err);
    ob_sqlite_done(stmt);
    return code;
}

ob_code ob_sqlite_configure(struct ob_store *base, const char *name_space, const char *name, const char *value,
                            const struct ob_actor *actor, struct outbox_error *err)
{
    struct change change = {.name_space = name_space, .name = name ? name : "", .value = value, .actor = actor};
    ob_code code = check(&change, err);
    return code ? code : ob_sqlite_transact(ob_sqlite_store_of(base), apply, &change, err);
}

ob_code ob_sqlite_settings(struct ob_store *base, ob_setting_fn *fn, void *ctx, struct outbox_error *err)
{
    struct ob_sqlite_store *store = ob_sqlite_store_of(base);
    sqlite3_stmt *stmt;
    bool row, more = true;
    ob_code code = ob_sqlite_start(store, OB_SQLITE_settings, OB_NO_ARGS, &stmt, err);
    while (!code && more) {
        code = ob_sqlite_step(store, stmt, &row, err);
        if (code || !row)
            break;
        char span[OB_VALUE_TEXT] = "forever";
        bool timed = sqlite3_column_type(stmt, 3) != SQLITE_NULL;
        if (timed && sqlite3_column_int64(stmt, 3) >= 0)
            ob_value_duration_text(sqlite3_column_int64(stmt, 3), span);
        more = fn(ctx, ob_sqlite_column(stmt, 0), ob_sqlite_column(stmt, 1), timed ? span : ob_sqlite_column(stmt, 2));
    }
    ob_sqlite_done(stmt);
    return code;
}
