/* exec_plan.c - see exec.h. */
#include "sink/local/exec.h"

#include "base/error.h"
#include "base/uuid.h"
#include "sink/common/header.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

enum { METADATA_MOST = 20 };
static const char default_path[] = "/usr/local/bin:/usr/bin:/bin";

/* ---- what a status means ---- */

static const struct {
    const char *name;
    enum outbox_sink_outcome outcome;
} outcomes[] = {
    {"accept", OUTBOX_SINK_ACCEPTED}, {"retry", OUTBOX_SINK_RETRY},     {"terminal", OUTBOX_SINK_TERMINAL},
    {"blocked", OUTBOX_SINK_BLOCKED}, {"unknown", OUTBOX_SINK_UNKNOWN},
};

static int outcome_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++)
        if (strcmp(outcomes[i].name, name) == 0)
            return (int)outcomes[i].outcome;
    return -1;
}

static enum outbox_sink_outcome by_table(const struct ob_exec *plan, int64_t status)
{
    switch (status) {
    case EX_OK: return OUTBOX_SINK_ACCEPTED;
    case EX_DATAERR:
    case EX_NOINPUT:
    case EX_NOUSER:
    case EX_NOHOST: return OUTBOX_SINK_TERMINAL;
    case EX_UNAVAILABLE:
    case EX_SOFTWARE:
    case EX_OSERR:
    case EX_CANTCREAT:
    case EX_IOERR:
    case EX_TEMPFAIL:
    case EX_PROTOCOL: return OUTBOX_SINK_RETRY;
    case EX_USAGE:
    case EX_OSFILE:
    case EX_NOPERM:
    case EX_CONFIG:
    case 126:
    case 127: return OUTBOX_SINK_BLOCKED;
    default: return plan->other;
    }
}

void ob_exec_verdict(const struct ob_exec *plan, int64_t status, int number, char code[32],
                     struct outbox_verdict *verdict)
{
    verdict->scope = OUTBOX_SCOPE_SINK;
    if (number) {
        verdict->outcome = OUTBOX_SINK_UNKNOWN;
        snprintf(code, 32, "signal_%d", number);
    } else {
        bool set = status >= 0 && status < OB_EXEC_STATUSES && plan->exits[status] >= 0;
        verdict->outcome = set ? (enum outbox_sink_outcome)plan->exits[status] : by_table(plan, status);
        verdict->unreachable = !set && status == EX_UNAVAILABLE;
        snprintf(code, 32, "exit_%d", (int)status);
    }
    verdict->code = verdict->outcome == OUTBOX_SINK_ACCEPTED ? NULL : code;
}

static enum outbox_code read_exits(struct ob_exec *plan, const struct ob_options *options, struct outbox_error *err)
{
    const char *word, *key;
    memset(plan->exits, -1, sizeof plan->exits);
    for (size_t i = 0; (word = ob_option_below(options, "exit", &i, &key));) {
        char *end;
        long status = strtol(key, &end, 10);
        int outcome = outcome_by_name(word);
        if (end == key || *end || status < 0 || status >= OB_EXEC_STATUSES)
            return ob_error_set(err, OUTBOX_INVALID, "exit.%.20s: an exit status is a number from 0 to 255", key);
        if (outcome < 0)
            return ob_error_set(err, OUTBOX_INVALID,
                                "exit.%s is \"%.40s\", but must be accept, retry, terminal, blocked or unknown", key,
                                word);
        plan->exits[status] = (signed char)outcome;
    }
    int other = outcome_by_name(ob_option_string(options, "other"));
    plan->other = other >= 0 ? (enum outbox_sink_outcome)other : OUTBOX_SINK_RETRY;
    return OUTBOX_OK;
}

/* ---- command and environment ---- */

static char *pair(struct ob_arena *arena, const char *name, const char *value)
{
    size_t size = strlen(name) + 1 + strlen(value) + 1;
    char *text = ob_arena_alloc(arena, size);
    if (text)
        snprintf(text, size, "%s=%s", name, value);
    return text;
}

static bool is_variable(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    return *name && !(*name >= '0' && *name <= '9') && strspn(name, letters) == strlen(name) &&
           strncmp(name, "OUTBOX_", 7) != 0;
}

static enum outbox_code read_command(struct ob_exec *plan, const struct ob_options *options, struct outbox_error *err)
{
    const char *word;
    size_t count = ob_option_count(options, "command"), used = 0;
    plan->words = ob_arena_calloc(&plan->arena, count + 1, sizeof *plan->words);
    if (!plan->words)
        return ob_error_nomem(err);
    for (size_t i = 0; (word = ob_option_next(options, "command", &i)); used++)
        if (!(plan->words[used] = ob_arena_strdup(&plan->arena, word)))
            return ob_error_nomem(err);
    if (!used || !*plan->words[0])
        return ob_error_set(err, OUTBOX_INVALID, "command must name a program");
    word = ob_option_text(options, "directory");
    plan->directory = word ? ob_arena_strdup(&plan->arena, word) : NULL;
    return word && !plan->directory ? ob_error_nomem(err) : OUTBOX_OK;
}

static enum outbox_code read_env(struct ob_exec *plan, const struct ob_options *options, struct outbox_error *err)
{
    const char *value, *name, *path = getenv("PATH");
    bool has_path = false;
    plan->env = ob_arena_calloc(&plan->arena, options->count + 2, sizeof *plan->env);
    if (!plan->env)
        return ob_error_nomem(err);
    for (size_t i = 0; (value = ob_option_below(options, "env", &i, &name));) {
        if (!is_variable(name))
            return ob_error_set(err, OUTBOX_INVALID,
                                "env.%.60s: a variable name has letters, digits and _, and must not begin with OUTBOX_",
                                name);
        if (!(plan->env[plan->env_count++] = pair(&plan->arena, name, value)))
            return ob_error_nomem(err);
        has_path = has_path || strcmp(name, "PATH") == 0;
    }
    if (has_path)
        return OUTBOX_OK;
    plan->env[plan->env_count] = pair(&plan->arena, "PATH", path && *path ? path : default_path);
    return plan->env[plan->env_count++] ? OUTBOX_OK : ob_error_nomem(err);
}

enum outbox_code ob_exec_init(struct ob_exec *plan, const struct ob_options *options, struct outbox_error *err)
{
    ob_arena_init(&plan->arena, 1024);
    enum outbox_code code = read_command(plan, options, err);
    if (!code)
        code = read_env(plan, options, err);
    if (!code)
        code = read_exits(plan, options, err);
    return code;
}

void ob_exec_fini(struct ob_exec *plan)
{
    ob_arena_fini(&plan->arena);
}

char **ob_exec_env(const struct ob_exec *plan, const struct outbox_delivery *msg, struct ob_arena *arena)
{
    char id[OB_UUID_TEXT], seq[24], attempt[16];
    struct ob_headers trace;
    char **env = ob_arena_calloc(arena, plan->env_count + METADATA_MOST, sizeof *env);
    if (!env)
        return NULL;
    outbox_uuid_format(&msg->id, id);
    snprintf(seq, sizeof seq, "%" PRId64, msg->seq);
    snprintf(attempt, sizeof attempt, "%d", msg->attempt);
    ob_headers_init(&trace);
    ob_headers_add_trace(&trace, msg, false);
    const struct ob_header pairs[] = {
        {"OUTBOX_ID", id},
        {"OUTBOX_NAMESPACE", msg->name_space},
        {"OUTBOX_TOPIC", msg->topic},
        {"OUTBOX_KEY", msg->key},
        {"OUTBOX_SEQ", msg->seq ? seq : NULL},
        {"OUTBOX_ATTEMPT", attempt},
        {"OUTBOX_DEDUPE_KEY", msg->dedupe_key},
        {"OUTBOX_TENANT", msg->tenant_id},
        {"OUTBOX_SUBJECT", msg->subject},
        {"OUTBOX_RECIPIENT", msg->recipient},
        {"OUTBOX_CORRELATION_ID", msg->correlation_id},
        {"OUTBOX_CONTENT_TYPE", msg->content_type ? msg->content_type : "application/json"},
        {"OUTBOX_HEADERS", msg->headers},
        {"OUTBOX_REDRIVEN", msg->redriven ? "true" : NULL},
        {"OUTBOX_TRACEPARENT", ob_headers_get(&trace, "traceparent")},
        {"OUTBOX_TRACESTATE", ob_headers_get(&trace, "tracestate")},
    };
    _Static_assert(sizeof pairs / sizeof pairs[0] < METADATA_MOST, "the last place is for NULL");
    size_t used = plan->env_count;
    memcpy(env, plan->env, used * sizeof *env);
    for (size_t i = 0; env && i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i].value && !(env[used++] = pair(arena, pairs[i].name, pairs[i].value)))
            env = NULL;
    ob_headers_fini(&trace);
    return env;
}

/* ---- a look before the first message ---- */

static const char *path_of(const struct ob_exec *plan)
{
    for (size_t i = 0; i < plan->env_count; i++)
        if (strncmp(plan->env[i], "PATH=", 5) == 0)
            return plan->env[i] + 5;
    return default_path;
}

/* A program, as seen from where it will run; len bytes of folder before it. */
static int look_at(int from, const char *folder, size_t len, const char *name)
{
    char full[PATH_MAX];
    struct stat what;
    int need = snprintf(full, sizeof full, "%.*s%s%s", (int)len, folder, len ? "/" : "", name);
    if (need < 0 || (size_t)need >= sizeof full)
        return ENAMETOOLONG;
    if (fstatat(from, full, &what, 0))
        return errno;
    if (!S_ISREG(what.st_mode)) /* one may enter a folder, but not run it */
        return EACCES;
    return faccessat(from, full, X_OK, AT_EACCESS) ? errno : 0;
}

static int look_from(int from, const struct ob_exec *plan)
{
    const char *program = plan->words[0];
    if (strchr(program, '/'))
        return look_at(from, "", 0, program);
    for (const char *at = path_of(plan); *at;) {
        size_t len = strcspn(at, ":");
        if (look_at(from, at, len, program) == 0)
            return 0;
        at += len + (at[len] == ':');
    }
    return ENOENT;
}

int ob_exec_look(const struct ob_exec *plan)
{
    if (!plan->directory)
        return look_from(AT_FDCWD, plan);
    int from = open(plan->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (from < 0)
        return errno;
    int number = faccessat(from, ".", X_OK, AT_EACCESS) ? errno : look_from(from, plan);
    close(from);
    return number;
}
