/* sqlite.h - what the files of this folder share: the store's struct, its statements, and how one is run.
 *
 * SQLite has one writer. So a write transaction here is short: everything that can be read before or after it is read there;
 * and it leaves the lock to others: see tx.c. The caller's own transaction:
 *
 *   NONE ──begin──▶ OPEN ──commit, rollback──▶ NONE      (enqueue joins it; claims and settles are refused meanwhile)
 *
 * Must not be shared between threads: sqlite3 is opened without its mutexes. */
#ifndef OB_STORE_SQLITE_SQLITE_H
#define OB_STORE_SQLITE_SQLITE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "store/sqlite/store.h"

#include <sqlite3.h>

enum ob_sqlite_stmt {
#define STATEMENT(name) OB_SQLITE_##name,
#include "store/sqlite/statements.def"
#undef STATEMENT
    OB_SQLITE_STMT_COUNT
};

/* The states of outbox_queue.state: see sql/sqlite/001_tables.sql. */
enum ob_sqlite_state { OB_SQLITE_READY, OB_SQLITE_LEASED, OB_SQLITE_PARKED, OB_SQLITE_HELD };

/* A token names a claim of a message: the message's number, and the attempt's in the low bits. A worker that settles a million
 * attempts late, with the same low bits, would be taken for the holder. */
enum { OB_SQLITE_TOKEN_BITS = 20 };

static inline int64_t ob_sqlite_token(int64_t n, int64_t attempt)
{
    return n << OB_SQLITE_TOKEN_BITS | (attempt & ((1 << OB_SQLITE_TOKEN_BITS) - 1));
}

static inline int64_t ob_sqlite_token_number(int64_t token)
{
    return token > 0 ? token >> OB_SQLITE_TOKEN_BITS : 0;
}

/* A row of the queue as a claim sees it, in the order of sql/sqlite/stmt/ready.sql. Times are 0 where there is none. */
struct ob_sqlite_entry {
    int64_t n, lane, due, sid, seq, expires_at, claimed_at, bytes;
    int64_t until; /* lease end; only set by expired.sql */
    int state, prio, max_attempts, attempts, spent, lost, deferred;
    bool redriven;
    char *holder; /* in the arena of the claim; NULL unless leased */
};

/* How write transactions share the file with producers; times are on the monotonic clock. See tx.c. */
struct ob_sqlite_pace {
    int64_t began_us, released_us, held_us; /* of the last write transaction */
    int64_t owed_us;                        /* to others: how long we must not take the lock, from released_us on */
    bool urgent;                            /* the next one records deliveries: it need not wait for a small debt */
    int64_t window_us, window_held_us;      /* when the window began, and how long we held the lock in it */
    int64_t contended_until_us;             /* another connection wrote recently */
    int64_t version;
};

/* Which lanes a claim may take from, as stmt/lanes.sql reads it; NULL: no restriction. */
struct ob_sqlite_scope {
    const char *name_space;
    const char *topics, *only, *skip, *rules; /* JSON */
};

/* What wait.c remembers of the last claim. */
struct ob_sqlite_watch {
    int fd, directory, file;                         /* inotify and its two watches; -1: none */
    int interrupt;                                   /* ends a wait by being readable; -1: none. Borrowed. */
    char *wal_path;                                  /* what is watched */
    const char *wal_name;                            /* its last component, within wal_path */
    char *name_space, *topics, *only, *skip, *rules; /* the scope of the last claim */
    int64_t version;                                 /* data_version when it read the queue */
    int64_t looked_us;                               /* it saw what was due up to this time; wall clock */
    bool full;                                       /* it took as much as it was allowed to */
    bool stale;                                      /* it may have left something behind, or we have written since */
};

enum { OB_SQLITE_WOKEN = 256 };

/* How many lanes a claim reads one by one. The index outbox_queue_next has the lanes with higher numbers. */
enum { OB_SQLITE_LANES_FEW = 32 };

/* With many lanes: how far the rows that no claim may take reach, at the front of each priority, and when to read from the
 * beginning again. See due_scan.c. */
struct ob_sqlite_lead {
    int64_t until_us; /* monotonic */
    struct {
        int64_t due, n;
    } at[10];
    int64_t
        woken[OB_SQLITE_WOKEN]; /* numbers of rows among them that were parked when we read them, and no longer are */
    size_t woken_count;
};

/* Whose turn is next: fairness.c. */
struct ob_sqlite_fairness {
    int64_t lower_us, tenants_us; /* when to search again for lower priorities, and for tenants; monotonic */
    int64_t rest_us;              /* since when no lower priority has waited for its turn */
    char tenant[37];              /* the last one that had its turn; "": start with the first */
    int64_t lane;
    int prio;
};

struct ob_sqlite_store {
    struct ob_store base; /* first: the ops find us by a cast */
    sqlite3 *db;
    char *path;
    const char
        *worker;  /* borrowed; only claims whose worker name has this prefix are settled and extended; NULL: all */
    bool open_tx; /* the caller's */
    int64_t schema_version;
    bool hooked;          /* the application has triggers on outbox_event, as of schema_version */
    bool hooks_muted;     /* a trigger has rolled back our transaction: keep the events, fire no trigger */
    char hook_error[256]; /* that trigger's error text; "" for none */
    bool checkpoint;      /* the log is long enough for a checkpoint */
    struct ob_sqlite_pace pace;
    struct ob_sqlite_watch watch;
    struct ob_sqlite_fairness turn;
    struct ob_sqlite_lead lead;
    bool alone;         /* the last batch was a message that goes alone: see claim.c */
    int64_t alone_next; /* a message that waits to go alone; 0: none known */
    char tenant[37];    /* between enter and leave: the tenant whose rows may be reached; "": all */
    bool narrowed;      /* likewise: the views of rights.c hide the other tenants' rows */
    sqlite3_stmt *stmts[OB_SQLITE_STMT_COUNT];
};

static inline struct ob_sqlite_store *ob_sqlite_store_of(struct ob_store *store)
{
    return (struct ob_sqlite_store *)(void *)store;
}

/* ---- statements: stmt.c ---- */

enum ob_sqlite_type { OB_SQLITE_ARG_NULL, OB_SQLITE_ARG_INT, OB_SQLITE_ARG_TEXT, OB_SQLITE_ARG_BYTES };

struct ob_sqlite_arg {
    enum ob_sqlite_type type;
    int64_t number; /* or the length */
    const void *data;
};
#define OB_NULL ((struct ob_sqlite_arg){OB_SQLITE_ARG_NULL, 0, NULL})
#define OB_NUM(n) ((struct ob_sqlite_arg){OB_SQLITE_ARG_INT, (n), NULL})
#define OB_NUM_OR_NULL(n) ((n) ? OB_NUM(n) : OB_NULL)
#define OB_TEXT(t) ((struct ob_sqlite_arg){OB_SQLITE_ARG_TEXT, -1, (t)}) /* NULL binds null */
#define OB_TEXT_N(t, n) ((struct ob_sqlite_arg){OB_SQLITE_ARG_TEXT, (int64_t)(n), (t)})
#define OB_BYTES(p, n) ((struct ob_sqlite_arg){OB_SQLITE_ARG_BYTES, (int64_t)(n), (p)})
#define OB_ARGS(...) \
    (const struct ob_sqlite_arg[]){__VA_ARGS__}, \
        sizeof((const struct ob_sqlite_arg[]){__VA_ARGS__}) / sizeof(struct ob_sqlite_arg)
#define OB_NO_ARGS NULL, 0

/* The text of a file in sql/sqlite/stmt. */
const char *ob_sqlite_text(const char *file);
/* Prepares on first use and binds; the arguments must live until the statement is reset. Then step it with ob_sqlite_step and,
 * unless that returned no row or failed, end with ob_sqlite_done. */
ob_code ob_sqlite_start(struct ob_sqlite_store *store, enum ob_sqlite_stmt which, const struct ob_sqlite_arg *args,
                        size_t count, sqlite3_stmt **stmt, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* *row is false at the end, when the statement is reset too. */
ob_code ob_sqlite_step(struct ob_sqlite_store *store, sqlite3_stmt *stmt, bool *row,
                       struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_sqlite_done(sqlite3_stmt *stmt);
/* Runs to the end. *changed gets the number of changed rows, unless changed is NULL. */
ob_code ob_sqlite_run(struct ob_sqlite_store *store, enum ob_sqlite_stmt which, const struct ob_sqlite_arg *args,
                      size_t count, int64_t *changed, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* For rollback and clean-up, where a second error would only hide the first. */
void ob_sqlite_try(struct ob_sqlite_store *store, enum ob_sqlite_stmt which);
/* The first column of the first row as a number; `none` if it is null or there is no row. */
ob_code ob_sqlite_number(struct ob_sqlite_store *store, enum ob_sqlite_stmt which, const struct ob_sqlite_arg *args,
                         size_t count, int64_t none, int64_t *number, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* NULL if the column is null. */
static inline const char *ob_sqlite_column(sqlite3_stmt *stmt, int i)
{
    return (const char *)sqlite3_column_text(stmt, i);
}
void ob_sqlite_entry_read(sqlite3_stmt *stmt, struct ob_sqlite_entry *entry);

/* ---- errors: error.c ---- */

/* From SQLite's last error on this connection. */
ob_code ob_sqlite_error(sqlite3 *db, int rc, struct outbox_error *err);

/* ---- connections: conn.c ---- */

struct ob_sqlite_target {
    char *path;  /* owned; without the settings after "?" */
    bool normal; /* synchronous */
    int busy_ms;
};

ob_code ob_sqlite_target_parse(const char *text, struct ob_sqlite_target *target,
                               struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_sqlite_target_fini(struct ob_sqlite_target *target);
/* Opens the file and reads a page, so that one that is no database is detected. Writes nothing. */
ob_code ob_sqlite_connect(const struct ob_sqlite_target *target, bool create, sqlite3 **db,
                          struct outbox_error *err) OUTBOX_MUST_CHECK;

/* WAL mode, which stays with the file. */
ob_code ob_sqlite_use_wal(sqlite3 *db, const char *path, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* What a file is. */
struct ob_sqlite_schema {
    int64_t tables; /* not SQLite's own */
    bool ours;      /* it has our record of migrations */
    char clash[64]; /* an object that is not ours but has a name that we need; "" for none */
};

ob_code ob_sqlite_read(sqlite3 *db, struct ob_sqlite_schema *schema, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* OUTBOX_OK when the file has exactly the migrations that this program knows. */
ob_code ob_sqlite_check(sqlite3 *db, const char *path, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Applies what is missing on an open connection. */
ob_code ob_sqlite_migrate_on(sqlite3 *db, const char *path, const struct ob_migrate *how,
                             struct outbox_error *err) OUTBOX_MUST_CHECK;
ob_code ob_sqlite_exec(sqlite3 *db, const char *sql, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* ---- transactions: tx.c ---- */

/* How long a write that can wait should still leave the lock to others. */
int64_t ob_sqlite_pace_left(const struct ob_sqlite_pace *pace);
/* A write transaction of our own. Refused inside the caller's. */
ob_code ob_sqlite_begin(struct ob_sqlite_store *store, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Commits when code is OUTBOX_OK, rolls back otherwise; returns code, or why the commit failed. */
ob_code ob_sqlite_end(struct ob_sqlite_store *store, ob_code code, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* A whole write transaction. The body may run twice: see hook.c. */
typedef ob_code ob_sqlite_body(struct ob_sqlite_store *store, void *ctx, struct outbox_error *err);
ob_code ob_sqlite_transact(struct ob_sqlite_store *store, ob_sqlite_body *body, void *ctx,
                           struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The caller's transaction: begin, commit and rollback of the store. */
ob_code ob_sqlite_open_tx(struct ob_store *base, struct outbox_error *err);
ob_code ob_sqlite_commit_tx(struct ob_store *base, struct outbox_error *err);
ob_code ob_sqlite_rollback_tx(struct ob_store *base, struct outbox_error *err);
/* One snapshot for several reads; joins an open transaction. Ends with ob_sqlite_end_read. */
ob_code ob_sqlite_begin_read(struct ob_sqlite_store *store, bool *began, struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_sqlite_end_read(struct ob_sqlite_store *store, bool began);

/* ---- shared by claim, settle and operators: outcome.c, hook.c ---- */

struct ob_sqlite_event {
    int64_t n, now;
    const char *event, *status;
    int attempt;
    const char *actor, *code, *error, *reference, *output;
};

/* Passes an event to the application's triggers. A trigger's failure is recorded and fails nothing else. */
ob_code ob_sqlite_fire(struct ob_sqlite_store *store, const struct ob_sqlite_event *event,
                       struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Makes a message of the queue a dead letter; its key continues or is held. */
ob_code ob_sqlite_bury(struct ob_sqlite_store *store, int64_t n, int64_t sid, int attempt, const char *reason,
                       const char *code, const char *error, const char *worker, int64_t now,
                       struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Records an act. detail may be NULL. */
ob_code ob_sqlite_act(struct ob_sqlite_store *store, const struct ob_actor *actor, const char *action,
                      const char *message_id, const char *tenant_id, const char *detail, int64_t now,
                      struct outbox_error *err) OUTBOX_MUST_CHECK;

/* ---- checks: check.c ---- */

ob_code ob_sqlite_check_utf8(const char *name, const char *text, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Lower-case uuid text; NULL stays NULL. */
ob_code ob_sqlite_check_tenant(const char *given, char text[37], const char **tenant,
                               struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Any text, converted to UTF-8 of at most max characters. NULL stays NULL; also NULL if memory ran out. */
const char *ob_sqlite_lossy(struct ob_arena *arena, const char *text, size_t max);
/* "30 s", "7 days", "1h30m", "forever" (-1). False for anything else. */
bool ob_sqlite_interval(const char *text, int64_t *us);
/* ["a", "b"], for json_each. */
void ob_sqlite_json_texts(struct ob_buf *buf, const char *const *texts, size_t count);
void ob_sqlite_json_lanes(struct ob_buf *buf, const struct outbox_lane *lanes, size_t count);
/* Writes globs as SQLite's GLOB patterns. */
void ob_sqlite_json_rules(struct ob_buf *buf, const struct outbox_lane_rule *rules, size_t count);
void ob_sqlite_json_ids(struct ob_buf *buf, const struct outbox_uuid *ids, size_t count);

/* ---- the choice of a claim: due_scan.c ---- */

struct ob_sqlite_lane {
    int64_t n, retry_base, retry_cap;
};
struct ob_sqlite_due_scan;

/* What is due for this claim, best first: by priority, then age. The scan is in the arena; fini frees the rest. */
ob_code ob_sqlite_due_scan_new(struct ob_sqlite_store *store, struct ob_arena *arena,
                               const struct ob_sqlite_scope *scope, const char *tenant, int limit, int64_t now,
                               struct ob_sqlite_due_scan **scan, struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_sqlite_due_scan_fini(struct ob_sqlite_due_scan *scan);
/* False when nothing is left. */
ob_code ob_sqlite_due_scan_next(struct ob_sqlite_due_scan *scan, struct ob_sqlite_entry *entry, bool *has,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
/* NULL if the claim may not take from that lane. */
const struct ob_sqlite_lane *ob_sqlite_due_scan_lane(struct ob_sqlite_due_scan *scan, int64_t lane);
/* True if there are many lanes: the scan returns rows of any of them. */
bool ob_sqlite_due_scan_wide(const struct ob_sqlite_due_scan *scan);
/* Runs wake_head or wake_next; claims will see the row. */
ob_code ob_sqlite_wake(struct ob_sqlite_store *store, enum ob_sqlite_stmt which, const struct ob_sqlite_arg *args,
                       size_t count, struct outbox_error *err);

/* All lanes that the claim may take from, ordered by number; if there are many, one with number 0 represents them. */
const struct ob_sqlite_lane *ob_sqlite_due_scan_lanes(const struct ob_sqlite_due_scan *scan, size_t *count);

/* A message that a claim has taken. */
struct ob_sqlite_taken {
    struct ob_sqlite_entry entry; /* as it was before the claim */
    int ceiling;
    int64_t claimed_at, retry_base, retry_cap;
};

/* ---- what goes out of turn: fairness.c ---- */

/* What a claim takes out of turn, before the rest, given its room. The entries are in the arena. Some may occur twice. */
ob_code ob_sqlite_fairness_take(struct ob_sqlite_store *store, struct ob_arena *arena, struct ob_sqlite_due_scan *scan,
                                size_t room, int64_t now, struct ob_sqlite_entry **entries, size_t *count,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Sorts what was taken as in a claim without turns: by priority and age, each key in its order. */
ob_code ob_sqlite_fairness_sort(struct ob_arena *arena, struct ob_sqlite_taken *taken, size_t count,
                                struct outbox_error *err) OUTBOX_MUST_CHECK;
/* A claim has left nothing behind, so no lower priority is waiting. */
void ob_sqlite_fairness_rest(struct ob_sqlite_store *store);

/* ---- what a claim hands out: batch.c ---- */

/* Reads the messages that were taken. If that fails, they stay leased until their lease ends: nothing is lost. */
ob_code ob_sqlite_batch_new(struct ob_sqlite_store *store, const struct ob_sqlite_taken *taken, size_t count, bool more,
                            int64_t lease_us, struct outbox_batch **out, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* ---- the wake-up: wait.c ---- */

void ob_sqlite_watch_init(struct ob_sqlite_watch *watch);
void ob_sqlite_watch_fini(struct ob_sqlite_watch *watch);
/* A claim reads the queue now: what comes later is new. */
/* Whether messages wait in the log for a claim to admit them. */
ob_code ob_sqlite_log_waits(struct ob_sqlite_store *store, bool *waits, struct outbox_error *err) OUTBOX_MUST_CHECK;
ob_code ob_sqlite_watch_look(struct ob_sqlite_store *store, const struct ob_sqlite_scope *scope,
                             struct outbox_error *err) OUTBOX_MUST_CHECK;

/* ---- the operations, one file per kind ---- */

ob_code ob_sqlite_enqueue(struct ob_store *, const struct outbox_message *, struct outbox_receipt *,
                          struct outbox_error *);
ob_code ob_sqlite_enqueue_many(struct ob_store *, const struct outbox_message *, size_t, struct outbox_receipt *,
                               struct outbox_error *);
ob_code ob_sqlite_claim(struct ob_store *, const struct outbox_claim *, struct outbox_batch **, struct outbox_error *);
ob_code ob_sqlite_settle(struct ob_store *, struct outbox_settle *, size_t, struct outbox_error *);
ob_code ob_sqlite_extend(struct ob_store *, struct outbox_settle *, size_t, int64_t, struct outbox_error *);
ob_code ob_sqlite_retry(struct ob_store *, const struct ob_filter *, const struct ob_actor *, int64_t *,
                        struct outbox_error *);
ob_code ob_sqlite_discard(struct ob_store *, const struct ob_filter *, const struct ob_actor *, int64_t *,
                          struct outbox_error *);
ob_code ob_sqlite_operate(struct ob_store *, const struct ob_operation *, ob_operated_fn *, void *,
                          struct outbox_error *);
ob_code ob_sqlite_pause(struct ob_store *, const char *, const char *, const char *, const struct ob_actor *,
                        struct outbox_error *);
ob_code ob_sqlite_resume(struct ob_store *, const char *, const char *, const char *, const struct ob_actor *,
                         struct outbox_error *);
ob_code ob_sqlite_configure(struct ob_store *, const char *, const char *, const char *, const struct ob_actor *,
                            struct outbox_error *);
ob_code ob_sqlite_settings(struct ob_store *, ob_setting_fn *, void *, struct outbox_error *);
ob_code ob_sqlite_purge(struct ob_store *, int64_t *, struct outbox_error *);
ob_code ob_sqlite_erase_tenant(struct ob_store *, const char *, const struct ob_actor *, int64_t *,
                               struct outbox_error *);
ob_code ob_sqlite_list(struct ob_store *, const struct ob_filter *, ob_message_fn *, void *, struct outbox_error *);
ob_code ob_sqlite_attempts(struct ob_store *, const struct outbox_uuid *, ob_attempt_fn *, void *,
                           struct outbox_error *);
ob_code ob_sqlite_record_history(struct ob_store *, const struct ob_history_row *, struct outbox_error *);
ob_code ob_sqlite_history(struct ob_store *, int minutes, ob_history_fn *, void *, struct outbox_error *);
ob_code ob_sqlite_dead_news(struct ob_store *, const struct ob_news_terms *, struct ob_news *, ob_group_fn *, void *,
                            struct outbox_error *);
ob_code ob_sqlite_tell_news(struct ob_store *, const char *payload, const char *recipient, const char *upto,
                            struct outbox_error *);
ob_code ob_sqlite_groups(struct ob_store *, int limit, ob_group_fn *, void *, struct outbox_error *);
ob_code ob_sqlite_waiting_keys(struct ob_store *, int limit, ob_key_fn *, void *, struct outbox_error *);
ob_code ob_sqlite_explain(struct ob_store *, const struct outbox_uuid *, ob_explain_fn *, void *,
                          struct outbox_error *);
ob_code ob_sqlite_ids_between(struct ob_store *, const struct outbox_uuid *, const struct outbox_uuid *, ob_id_fn *,
                              void *, struct outbox_error *);
ob_code ob_sqlite_acts(struct ob_store *, const struct outbox_uuid *, ob_act_fn *, void *, struct outbox_error *);
ob_code ob_sqlite_tail_begin(struct ob_store *, int64_t, struct ob_tail **, struct outbox_error *);
ob_code ob_sqlite_tail(struct ob_store *, struct ob_tail *, const struct ob_filter *, ob_transition_fn *, void *,
                       bool *, struct outbox_error *);
ob_code ob_sqlite_status(struct ob_store *, ob_status_fn *, void *, struct outbox_error *);
ob_code ob_sqlite_tune(struct ob_store *, const char *, const char *, const struct ob_actor *, struct outbox_error *);
ob_code ob_sqlite_beat(struct ob_store *, const struct ob_beat *, bool *, struct outbox_error *);
ob_code ob_sqlite_relays(struct ob_store *, ob_relay_fn *, void *, struct outbox_error *);
ob_code ob_sqlite_control(struct ob_store *, const struct ob_control *, struct outbox_error *);
ob_code ob_sqlite_gauges(struct ob_store *, ob_gauges_fn *, void *, struct outbox_error *);
ob_code ob_sqlite_enter(struct ob_store *, enum ob_rights, const char *, struct outbox_error *);
ob_code ob_sqlite_leave(struct ob_store *, bool, struct outbox_error *);
/* Between enter and leave: a tenant that is not given becomes the one whose rows may be reached; another one is refused. */
ob_code ob_sqlite_own_tenant(const struct ob_sqlite_store *store, const char **tenant,
                             struct outbox_error *err) OUTBOX_MUST_CHECK;
ob_code ob_sqlite_token_create(struct ob_store *, const struct ob_token *, const unsigned char *,
                               const struct ob_actor *, struct outbox_error *);
ob_code ob_sqlite_token_revoke(struct ob_store *, const char *, const struct ob_actor *, struct outbox_error *);
ob_code ob_sqlite_token_check(struct ob_store *, const unsigned char *, struct ob_bearer *, struct outbox_error *);
ob_code ob_sqlite_tokens(struct ob_store *, ob_token_fn *, void *, struct outbox_error *);
ob_code ob_sqlite_wait(struct ob_store *, int64_t, bool *, struct outbox_error *);

#endif
