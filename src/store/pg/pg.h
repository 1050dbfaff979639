/* pg.h - what the files of this folder share: the store's struct, its statements, and how one is called.
 *
 * State of the connection, kept by store.c:
 *
 *   READY ──a call finds it dead──▶ DEAD ──next call reconnects──▶ READY
 *
 * and of the caller's transaction:
 *
 *   NONE ──begin──▶ OPEN ──commit, rollback──▶ NONE
 *                    └─connection lost──▶ LOST ──rollback──▶ NONE     (LOST ──commit──▶ NONE, and an error)
 *
 * LOST keeps a transaction atomic: otherwise, after a reconnect, the rest of it would commit on its own. */
#ifndef OB_STORE_PG_PG_H
#define OB_STORE_PG_PG_H

#include "base/buf.h"
#include "base/error.h"
#include "store/pg/borrow.h"
#include "store/pg/conn.h"
#include "store/pg/doorbell.h"
#include "store/pg/log.h"
#include "store/pg/param.h"
#include "store/pg/store.h"
#include "store/pg/wire.h"

/* Every statement of the store: its file in sql/postgres/stmt, and the group role that may run it. */
#define OB_PG_STATEMENTS(X) \
    X(enqueue, "producer") \
    X(enqueue_bytes, "producer") \
    X(enqueue_many, "producer") \
    X(claim, "relay") \
    X(settle, "relay") \
    X(extend, "relay") \
    X(take, "relay") \
    X(page, "relay") \
    X(settle_window, "relay") \
    X(rebase, "relay") \
    X(retry, "operator") \
    X(discard, "operator") \
    X(operate, "operator") \
    X(pause, "operator") \
    X(resume, "operator") \
    X(configure, "operator") \
    X(settings, "auditor") \
    X(purge, "operator") \
    X(hooks, "relay") \
    X(hooks_limit, "relay") \
    X(erase_tenant, "operator") \
    X(list, "auditor") \
    X(list_queue, "auditor") \
    X(list_taken, "auditor") \
    X(list_dead, "auditor") \
    X(list_failed, "auditor") \
    X(list_discarded, "auditor") \
    X(list_group, "auditor") \
    X(list_edge, "auditor") \
    X(list_edge_queue, "auditor") \
    X(list_edge_taken, "auditor") \
    X(list_edge_dead, "auditor") \
    X(list_edge_failed, "auditor") \
    X(list_edge_discarded, "auditor") \
    X(list_edge_group, "auditor") \
    X(groups, "auditor") \
    X(record_history, "relay") \
    X(dead_news, "relay") \
    X(tell_news, "relay") \
    X(history, "auditor") \
    X(waiting_keys, "auditor") \
    X(log_depth, "auditor") \
    X(attempts, "auditor") \
    X(acts, "auditor") \
    X(tail_begin, "auditor") \
    X(tail_log, "auditor") \
    X(tail_queue, "auditor") \
    X(tail_attempts, "auditor") \
    X(tail_dead, "auditor") \
    X(tail_acts, "auditor") \
    X(explain, "auditor") \
    X(prefix, "auditor") \
    X(status, "auditor") \
    X(tune, "operator") \
    X(beat, "relay") \
    X(relays, "auditor") \
    X(control, "relay") \
    X(gauges, "auditor") \
    X(rights, "auditor") \
    X(log_problems, "auditor") \
    X(enter, "auditor") \
    X(token_create, "operator") \
    X(token_revoke, "operator") \
    X(token_check, "relay") \
    X(tokens, "auditor")

enum ob_pg_stmt {
#define X(name, role) OB_PG_##name,
    OB_PG_STATEMENTS(X)
#undef X
        OB_PG_STMT_COUNT
};

enum ob_pg_tx { OB_PG_TX_NONE, OB_PG_TX_OPEN, OB_PG_TX_LOST };

struct ob_pg_store {
    struct ob_store base; /* first: the ops find us by a cast */
    PGconn *conn;
    struct ob_pg_doorbell *doorbell; /* of wait.c; NULL until the first wait */
    int doorbell_number;
    struct ob_doorbell_settings doorbell_settings;
    const struct ob_log *log; /* borrowed; may be NULL */
    char *conninfo, *application, *schema;
    bool dead; /* reconnect before the next use */
    enum ob_pg_tx tx;
    bool entered;   /* the open transaction has the rights of another role: rights.c */
    unsigned epoch; /* in the names of prepared statements, so that stale names are never reused */
    bool prepared[OB_PG_STMT_COUNT];
    char *sql[OB_PG_STMT_COUNT]; /* rendered on first use */
    struct ob_buf scratch;       /* parameters of the call under way */
};

static inline struct ob_pg_store *ob_pg_store_of(struct ob_store *store)
{
    return (struct ob_pg_store *)(void *)store;
}

/* ---- statements: stmt.c ---- */

/* The group role of a statement, such as "relay". */
const char *ob_pg_stmt_role(enum ob_pg_stmt which);
/* True if the statement calls hooks. */
bool ob_pg_stmt_hooks(enum ob_pg_stmt which);
/* Renders a statement's file into *sql, which the caller frees with ob_free. */
ob_code ob_pg_stmt_render(enum ob_pg_stmt which, const char *schema, char **sql, struct outbox_error *err);

/* Runs a prepared statement with sealed parameters. *res has rows in binary; the caller owns it: PQclear. */
ob_code ob_pg_call(struct ob_pg_store *store, enum ob_pg_stmt which, const struct ob_pg_params *params, PGresult **res,
                   struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The same, but planned for these parameters: for filters, where null means "all". */
ob_code ob_pg_call_once(struct ob_pg_store *store, enum ob_pg_stmt which, const struct ob_pg_params *params,
                        PGresult **res, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Makes sure that the connection is usable, or returns why not. */
ob_code ob_pg_ready(struct ob_pg_store *store, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Fills err from a failed result, and notes if the connection or the transaction is lost. */
ob_code ob_pg_failed(struct ob_pg_store *store, const struct ob_pg_cause *cause, const PGresult *res,
                     struct outbox_error *err);
/* After a reconnect, or if the server has forgotten its statements: all will be prepared again. */
void ob_pg_unprepare(struct ob_pg_store *store);

/* ---- parameters and results, for blocking and asynchronous calls ---- */

/* admit: messages of the log go to the queue first; without, only what is there already is claimed. */
void ob_pg_claim_params(struct ob_pg_params *params, const struct outbox_claim *want, bool admit);
/* hint: the shard to try first; OB_PG_SHARD_ANY: all are looked at. */
enum { OB_PG_SHARD_ANY = -2 };
void ob_pg_take_params(struct ob_pg_params *params, const struct outbox_claim *want, int64_t nonce, int hint);
/* True if a window can serve the claim: it asks for all messages of the lanes it does not leave out, under the usual policy. */
bool ob_pg_claim_takes(const struct outbox_claim *want);
/* True if the claim is restricted to some messages. */
bool ob_pg_claim_filtered(const struct outbox_claim *want);
/* The batch owns res; on failure it is cleared. */
ob_code ob_pg_claim_read(PGresult *res, struct outbox_batch **out, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* What the messages of a window have in common, unless one or its namespace has its own. */
struct ob_pg_terms {
    int64_t taken_at_us, until_us;
    int max_attempts, retry_base_ms, retry_cap_ms;
};
/* Likewise. terms NULL: no message, whatever is in res. */
ob_code ob_pg_page_read(PGresult *res, const struct ob_pg_terms *terms, struct outbox_batch **out,
                        struct outbox_error *err) OUTBOX_MUST_CHECK;

ob_code ob_pg_settle_check(size_t count, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* How texts of sinks and receivers are sent to the server: if it refuses one form, the next one is tried. */
enum ob_pg_words {
    OB_PG_WORDS_AS_SAID,
    OB_PG_WORDS_ASCII, /* and only ASCII: the database's encoding may not have other letters */
};
/* worker: prefix of the name that they were claimed under; NULL: any name. */
void ob_pg_settle_params(struct ob_pg_params *params, const struct outbox_settle *items, size_t count,
                         const char *worker, enum ob_pg_words words);
/* The same for messages of windows. windows and held: of each item; the windows' marks number them from 1 in the order in which
 * they first occur. under_way: instead of outcomes, they all go on as leased rows of the queue. */
struct ob_pg_window_settle {
    const struct outbox_settle *items;
    struct ob_pg_window *const *windows;
    struct ob_pg_held *const *held;
    size_t count;
    int window_count;
    bool under_way, again;
};
void ob_pg_settle_window_params(struct ob_pg_params *params, const struct ob_pg_window_settle *what, const char *worker,
                                enum ob_pg_words words);
/* True if a text may have caused the failure. */
bool ob_pg_settle_is_ugly(const struct outbox_error *err);
void ob_pg_settle_read(const PGresult *res, struct outbox_settle *items, size_t count);
void ob_pg_extend_params(struct ob_pg_params *params, const struct outbox_settle *items, size_t count,
                         const char *worker, int64_t lease_us);
void ob_pg_extend_read(const PGresult *res, struct outbox_settle *items, size_t count);

/* ---- the operations, one file per kind ---- */

ob_code ob_pg_enqueue(struct ob_store *, const struct outbox_message *, struct outbox_receipt *, struct outbox_error *);
ob_code ob_pg_enqueue_many(struct ob_store *, const struct outbox_message *, size_t count, struct outbox_receipt *,
                           struct outbox_error *);
ob_code ob_pg_claim(struct ob_store *, const struct outbox_claim *, struct outbox_batch **, struct outbox_error *);
ob_code ob_pg_settle(struct ob_store *, struct outbox_settle *, size_t count, struct outbox_error *);
ob_code ob_pg_extend(struct ob_store *, struct outbox_settle *, size_t count, int64_t lease_us, struct outbox_error *);
ob_code ob_pg_retry(struct ob_store *, const struct ob_filter *, const struct ob_actor *, int64_t *,
                    struct outbox_error *);
ob_code ob_pg_discard(struct ob_store *, const struct ob_filter *, const struct ob_actor *, int64_t *,
                      struct outbox_error *);
ob_code ob_pg_operate(struct ob_store *, const struct ob_operation *, ob_operated_fn *, void *, struct outbox_error *);
ob_code ob_pg_pause(struct ob_store *, const char *, const char *, const char *, const struct ob_actor *,
                    struct outbox_error *);
ob_code ob_pg_resume(struct ob_store *, const char *, const char *, const char *, const struct ob_actor *,
                     struct outbox_error *);
ob_code ob_pg_configure(struct ob_store *, const char *, const char *, const char *, const struct ob_actor *,
                        struct outbox_error *);
ob_code ob_pg_settings(struct ob_store *, ob_setting_fn *, void *, struct outbox_error *);
ob_code ob_pg_rights(struct ob_store *, ob_problem_fn *, void *ctx, struct outbox_error *);
ob_code ob_pg_log_problems(struct ob_store *, ob_problem_fn *, void *ctx, struct outbox_error *);
ob_code ob_pg_enter(struct ob_store *, enum ob_rights, const char *, struct outbox_error *);
ob_code ob_pg_leave(struct ob_store *, bool, struct outbox_error *);
ob_code ob_pg_token_create(struct ob_store *, const struct ob_token *, const unsigned char *, const struct ob_actor *,
                           struct outbox_error *);
ob_code ob_pg_token_revoke(struct ob_store *, const char *, const struct ob_actor *, struct outbox_error *);
ob_code ob_pg_token_check(struct ob_store *, const unsigned char *, struct ob_bearer *, struct outbox_error *);
ob_code ob_pg_tokens(struct ob_store *, ob_token_fn *, void *, struct outbox_error *);
/* The names of the outbox's roles, as an array. */
void ob_pg_put_roles(struct ob_pg_params *, const char *schema);
/* Refuses objects with our names that somebody else created, or takes them over. */
ob_code ob_pg_check_foreign(PGconn *, const char *schema, bool migrated, const struct ob_migrate *,
                            struct outbox_error *);
ob_code ob_pg_purge(struct ob_store *, int64_t *, struct outbox_error *);
ob_code ob_pg_run_hooks(struct ob_store *, int64_t *, struct outbox_error *);
ob_code ob_pg_erase_tenant(struct ob_store *, const char *, const struct ob_actor *, int64_t *, struct outbox_error *);
ob_code ob_pg_list(struct ob_store *, const struct ob_filter *, ob_message_fn *, void *, struct outbox_error *);
ob_code ob_pg_attempts(struct ob_store *, const struct outbox_uuid *, ob_attempt_fn *, void *, struct outbox_error *);
ob_code ob_pg_record_history(struct ob_store *, const struct ob_history_row *, struct outbox_error *);
ob_code ob_pg_history(struct ob_store *, int minutes, ob_history_fn *, void *, struct outbox_error *);
ob_code ob_pg_dead_news(struct ob_store *, const struct ob_news_terms *, struct ob_news *, ob_group_fn *, void *,
                        struct outbox_error *);
ob_code ob_pg_tell_news(struct ob_store *, const char *payload, const char *recipient, const char *upto,
                        struct outbox_error *);
ob_code ob_pg_groups(struct ob_store *, int limit, ob_group_fn *, void *, struct outbox_error *);
ob_code ob_pg_waiting_keys(struct ob_store *, int limit, ob_key_fn *, void *, struct outbox_error *);
ob_code ob_pg_explain(struct ob_store *, const struct outbox_uuid *, ob_explain_fn *, void *, struct outbox_error *);
ob_code ob_pg_ids_between(struct ob_store *, const struct outbox_uuid *, const struct outbox_uuid *, ob_id_fn *, void *,
                          struct outbox_error *);
ob_code ob_pg_acts(struct ob_store *, const struct outbox_uuid *, ob_act_fn *, void *, struct outbox_error *);
ob_code ob_pg_tail_begin(struct ob_store *, int64_t, struct ob_tail **, struct outbox_error *);
ob_code ob_pg_tail(struct ob_store *, struct ob_tail *, const struct ob_filter *, ob_transition_fn *, void *, bool *,
                   struct outbox_error *);
ob_code ob_pg_status(struct ob_store *, ob_status_fn *, void *, struct outbox_error *);
ob_code ob_pg_tune(struct ob_store *, const char *, const char *, const struct ob_actor *, struct outbox_error *);
ob_code ob_pg_beat(struct ob_store *, const struct ob_beat *, bool *, struct outbox_error *);
ob_code ob_pg_relays(struct ob_store *, ob_relay_fn *, void *, struct outbox_error *);
ob_code ob_pg_control(struct ob_store *, const struct ob_control *, struct outbox_error *);
ob_code ob_pg_gauges(struct ob_store *, ob_gauges_fn *, void *, struct outbox_error *);
ob_code ob_pg_wait(struct ob_store *, int64_t, bool *, struct outbox_error *);

#endif
