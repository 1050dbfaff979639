/* store.h - what every store can do. The contract suite is written against this table and nothing else.
 *
 * A store is one connection to one outbox. Calls block, and only one thread may use a store at a time. Each call that changes
 * something is a transaction of its own, except between begin and commit (or rollback), where enqueue joins the open one.
 *
 * Nothing in this interface depends on rows, locks or SQL: a store that reads a log instead of a queue table could have it. */
#ifndef OB_CORE_STORE_H
#define OB_CORE_STORE_H

#include <outbox/outbox.h>

struct outbox_batch;
struct ob_store;
struct ob_tail;

enum ob_status { OB_PENDING, OB_PROCESSING, OB_STATUS_DELIVERED, OB_DEAD, OB_DISCARDED, OB_STATUS_COUNT };

/* A row of the view `messages`. Texts are borrowed for the duration of the callback; NULL where there is none. */
struct ob_message_row {
    struct outbox_uuid id;
    enum ob_status status;
    const char *name_space, *topic, *tenant_id, *key, *dedupe_key, *subject, *recipient, *correlation_id, *headers,
        *content_type, *locked_by, *last_code, *last_error, *dead_reason;
    const void *payload; /* NULL unless the filter requested it; also NULL when there is a fault other than NOT_JSON */
    size_t payload_len;
    enum outbox_fault fault;
    int64_t seq;
    int priority, attempts, spent, max_attempts;
    const char *max_attempts_from; /* message, sink or namespace */
    int deferred;                  /* how many times in a row it was limited, blocked or silent */
    bool redriven, parked;
    int64_t created_at_us, updated_at_us, next_attempt_at_us, locked_until_us, delivered_at_us,
        expires_at_us; /* 0: none */
};

/* A row of the view `attempts`; an attempt under way has outcome 0. */
struct ob_attempt_row {
    struct outbox_uuid message_id;
    int attempt;
    enum outbox_outcome outcome; /* 0: in progress */
    const char *worker, *code, *error, *reference;
    int64_t claimed_at_us, completed_at_us, latency_us; /* latency -1: not measured */
};

/* An act of an operator. The record is append-only. */
struct ob_act_row {
    int64_t at_us;
    const char *actor, *action, *reason, *message_id, *detail;
};

/* Something that happened to a message, or an act of an operator. Texts are borrowed; NULL where there is none. */
enum ob_transition { OB_TRANSITION_ENQUEUED, OB_TRANSITION_ATTEMPT, OB_TRANSITION_DEAD, OB_TRANSITION_ACT };
struct ob_transition_row {
    enum ob_transition kind;
    int64_t at_us;
    bool has_id; /* an act may be of no message */
    struct outbox_uuid id;
    const char *name_space, *topic, *tenant_id, *key, *subject, *recipient,
        *correlation_id; /* NULL also if it is gone */
    int64_t created_at_us;
    int attempt; /* of an attempt its number, of a dead letter how many there were */
    enum outbox_outcome outcome;
    const char *worker, *code, *error, *reference;
    int64_t latency_us;                           /* -1: not measured */
    const char *actor, *action, *reason, *detail; /* reason: of a dead letter too */
};

struct ob_status_row {
    const char *name_space, *topic;
    int64_t pending, due, processing, stuck, parked, dead; /* stuck: processing, and the lease has run out */
    int64_t delayed;                                       /* of the pending ones: never tried, and due later */
    int64_t retrying;                                      /* of the pending ones: tried already */
    double oldest_due_s;                                   /* age of the oldest due message; 0 when none */
    double
        oldest_undelivered_s; /* age of the oldest one that is neither delivered nor dead, since enqueue or the requested delay */
    const char *last_code, *last_error; /* of the last failure among those that are retried or dead; NULL: none */
    int64_t last_error_at_us;
    int64_t dead_last_hour; /* of the dead letters: died within the last hour */
    bool estimated;         /* some of the counts are estimates */
    bool paused;
};

/* The heartbeat of a relay, and a relay as the store has recorded it. The store sets the times. */
struct ob_beat {
    const char *worker, *host, *version;
    const char *state; /* "running", "disabled", "paused", "stopping"; the last heartbeat says "stopped" */
    const char *info;  /* a JSON object; NULL: none */
    int pid;
    int64_t every_us; /* until the next beat */
};
struct ob_relay_row {
    const char *worker, *host, *version, *state, *info;
    int pid;
    int64_t started_at_us, seen_at_us;
    bool alive; /* its last heartbeat is less than three intervals old */
};

/* A pause in force: of what, as in pause; by whom, why, since when. */
struct ob_pause_row {
    const char *name_space, *topic, *sink, *actor, *reason;
    int64_t at_us;
};
/* A setting of relays that an operator changed: see core/tuning.h. */
struct ob_tuning_row {
    const char *name, *value, *actor, *reason;
    int64_t at_us;
};

/* What operators want of relays. Each function is called once per entry of its kind; NULL: not wanted. Texts are borrowed. */
struct ob_control {
    void *ctx;
    void (*paused)(void *ctx, const struct ob_pause_row *pause);
    void (*tuned)(void *ctx, const struct ob_tuning_row *tuning);
    void (*lane)(void *ctx, const char *name_space, const char *topic); /* one that has been used */
};

/* Counts that are cheap to get however long the queue is. */
struct ob_gauges_row {
    const char *name_space; /* NULL: the total, which comes first; then the largest namespaces, not all of them */
    int64_t pending, due, processing, stuck, parked, dead; /* as in ob_status_row */
    int64_t blocked_keys;        /* keys whose first message waits for its next attempt, or for an operator */
    double oldest_due_s;         /* always exact; 0 when none is due */
    bool estimated;              /* some of the counts are estimates */
    int64_t table_bytes;         /* of the queue; in the total only; -1: not known */
    int64_t dead_tuples;         /* likewise */
    int64_t repairs;             /* attempts ever lost with their worker; likewise */
    double oldest_undelivered_s; /* the next three, in the total only, as in ob_status_row; the caller sets them */
    int64_t retrying, dead_last_hour;
    int64_t partitions; /* partitions of the messages by period; 0: none, or not known */
};

/* How far a list looked: through a limited number of messages, where an index does not find those that are meant. */
struct ob_listed {
    bool capped; /* it stopped before the end, at the message upto: there may be more after that one */
    struct outbox_uuid upto;
};

/* Which messages; zeroed fields do not filter. core/filter.h makes one from text. */
struct ob_filter {
    const struct outbox_uuid *ids;
    size_t id_count;
    bool id_range;
    struct outbox_uuid id_first, id_last;  /* where id_range: both are in it */
    const char *name_space, *topic, *code; /* may be patterns with * and ? */
    const char *tenant_id, *key, *subject, *recipient, *correlation_id;
    const char *group;                  /* 16 hex digits: the fingerprint of the last failure, see core/fingerprint.h */
    const char *error;                  /* a part of the text of the last failure, in any case of letters */
    int status_plus_1;                  /* an ob_status + 1 */
    int64_t before_us, since_us;        /* created before; created at or after */
    int attempts_least, attempts_below; /* at least; fewer than */
    const struct outbox_uuid *after; /* for paging: list the messages after this one, the last of the previous page */
    int limit;                       /* 0: 100 */
    bool with_payload;
    struct ob_listed *listed; /* is filled in; NULL: not wanted */
};

/* Who acts, and why; both are recorded. */
struct ob_actor {
    const char *actor, *reason;
};

/* What a token of the API may do; each role may do what those before it may. */
enum ob_role { OB_ROLE_NONE, OB_ROLE_VIEWER, OB_ROLE_OPERATOR, OB_ROLE_ADMIN };
enum { OB_TOKEN_NAME = 65, OB_TOKEN_HASH = 32 };
/* A token to be made. */
struct ob_token {
    const char *name;
    enum ob_role role;
    const char *tenant_id; /* it reaches this tenant's rows only; NULL: all */
    int64_t expires_at_us; /* 0: never */
};
/* Who sent a request: the token's name and rights. */
struct ob_bearer {
    enum ob_role role; /* OB_ROLE_NONE: nobody that is known */
    char name[OB_TOKEN_NAME];
    char tenant_id[37]; /* "": all tenants */
};
/* A token as it is listed. */
struct ob_token_row {
    const char *name, *role, *tenant_id, *created_by, *revoked_by;
    int64_t created_at_us, expires_at_us, used_at_us, revoked_at_us; /* used: to the hour */
};
typedef bool ob_token_fn(void *ctx, const struct ob_token_row *row);

/* What the calls between enter and leave may do. */
enum ob_rights { OB_RIGHTS_READ, OB_RIGHTS_ACT, OB_RIGHTS_SEND, OB_RIGHTS_NONE };
/* What an operator does with messages, by id, in whatever state they are; 013_levers.sql says what each means. */
enum ob_lever {
    OB_LEVER_RETRY,
    OB_LEVER_DISCARD,
    OB_LEVER_SKIP,
    OB_LEVER_REDELIVER,
    OB_LEVER_EXPIRE,
    OB_LEVER_MOVE,
    OB_LEVER_COUNT
};
enum { OB_OPERATE_IDS = 1000 }; /* of one call */
struct ob_operation {
    enum ob_lever lever;
    const struct outbox_uuid *ids;
    size_t id_count;
    const char *name_space, *topic; /* of MOVE: where to; name_space NULL: the same */
    const char
        *run; /* of REDELIVER: the same run redelivers a message only once, and none that it made; NULL: no run */
    int status_plus_1; /* only messages in this state; 0: in any */
    struct ob_actor actor;
};
/* What became of one of the ids. */
struct ob_operated_row {
    struct outbox_uuid id;
    bool done;
    const char *
        result; /* "ok", or why nothing was done: leased, behind, due, delivered, discarded, dead, pending, changed, same, done,
                           busy, invalid, unknown */
    const char *detail; /* the same as a sentence; NULL: none */
    const char *made;   /* the new message of MOVE and REDELIVER; NULL: none */
};
typedef bool ob_operated_fn(void *ctx, const struct ob_operated_row *row);

typedef bool ob_message_fn(void *ctx, const struct ob_message_row *row); /* false stops */
typedef bool ob_attempt_fn(void *ctx, const struct ob_attempt_row *row);
typedef bool ob_act_fn(void *ctx, const struct ob_act_row *row);
typedef void ob_transition_fn(void *ctx, const struct ob_transition_row *row);
typedef bool ob_status_fn(void *ctx, const struct ob_status_row *row);
/* Why a message is not delivered yet: the first row says it, further rows what else is in the way. */
struct ob_explain_row {
    int step; /* 2: about the message that it waits for, the first of its key */
    const char *message_id, *state, *reason;
    const char *facts;   /* a JSON object */
    const char *command; /* what changes it; NULL: nothing needs to be done */
};
typedef bool ob_explain_fn(void *ctx, const struct ob_explain_row *row);
/* Failures that are alike: dead letters, and messages that wait for another attempt. */
struct ob_group_row {
    const char *fingerprint;                /* 16 hex digits, for the filter term group: */
    const char *code, *sample, *message_id; /* of its newest message */
    const char *topics, *sinks;             /* JSON arrays; NULL: not known */
    int64_t count, dead, retrying;          /* messages that are in this state now */
    int64_t first_seen_us, last_seen_us;
    bool estimated; /* there are more than were counted */
};
typedef bool ob_group_fn(void *ctx, const struct ob_group_row *row);

/* News of dead letters, for operators. The messages that tell them are in this namespace and topic, and are never told of themselves. */
#define OB_NEWS_NAMESPACE "outbox"
#define OB_NEWS_TOPIC "dead_letters"
struct ob_news_terms {
    int64_t every_us;
    int minimum;
    const char *name_space, *topic; /* may be patterns; NULL: all */
};
struct ob_news {
    int64_t total, since_us; /* total 0: nothing to tell, or not yet */
    char *upto;              /* for tell_news; the caller frees it */
};

/* What a relay counted; latencies by the bounds of core/history.h. */
enum { OB_LATENCIES = 19 };
struct ob_figures {
    uint64_t delivered, failed, dead, latencies[OB_LATENCIES];
};
/* A row of the last hour: see core/history.h. */
struct ob_history_row {
    int64_t at_us; /* the store sets it */
    const char *worker;
    struct ob_figures done; /* since the relay's last row */
    bool told;              /* by the leader: how the outbox stood */
    bool estimated;
    int64_t pending, open; /* open: neither delivered nor dead */
    double oldest_s;
};
typedef bool ob_history_fn(void *ctx, const struct ob_history_row *row);
/* A key with messages that wait behind its first one. */
struct ob_key_row {
    const char *name_space, *topic, *key, *tenant_id;
    const char *head, *head_status; /* the first message */
    const char *why;                /* it is not delivered yet */
    int64_t waiting;                /* messages behind it */
    int64_t since_us;               /* when the oldest of those was enqueued */
};
typedef bool ob_key_fn(void *ctx, const struct ob_key_row *row);
typedef bool ob_id_fn(void *ctx, const char *id);
typedef bool ob_relay_fn(void *ctx, const struct ob_relay_row *row);
typedef void ob_problem_fn(void *ctx, const char *problem, const char *fix);
/* value has the form that configure takes; NULL: none. Texts are borrowed. */
typedef bool ob_setting_fn(void *ctx, const char *name_space, const char *name, const char *value);
typedef bool ob_gauges_fn(void *ctx, const struct ob_gauges_row *row);

typedef enum outbox_code ob_code;

/* Which store it is, for display; borrowed from the store. NULL: does not apply, or is not known. */
struct ob_store_place {
    const char *host, *port, *database, *user, *schema, *file;
};

struct ob_store_ops {
    const char *kind; /* "postgresql", "sqlite" */
    void (*place)(struct ob_store *store, struct ob_store_place *place);
    void (*close)(struct ob_store *store);

    ob_code (*begin)(struct ob_store *, struct outbox_error *);
    ob_code (*commit)(struct ob_store *, struct outbox_error *);
    ob_code (*rollback)(struct ob_store *, struct outbox_error *);
    /* Runs SQL of the application itself, for tests and the examples. */
    ob_code (*exec)(struct ob_store *, const char *sql, struct outbox_error *);

    ob_code (*enqueue)(struct ob_store *, const struct outbox_message *, struct outbox_receipt *,
                       struct outbox_error *);
    /* All or nothing; receipts in the order of the messages. */
    ob_code (*enqueue_many)(struct ob_store *, const struct outbox_message *, size_t count, struct outbox_receipt *,
                            struct outbox_error *);

    ob_code (*claim)(struct ob_store *, const struct outbox_claim *, struct outbox_batch **, struct outbox_error *);
    ob_code (*settle)(struct ob_store *, struct outbox_settle *, size_t count, struct outbox_error *);
    /* Uses id and token, fills result. */
    ob_code (*extend)(struct ob_store *, struct outbox_settle *, size_t count, int64_t lease_us, struct outbox_error *);

    /* retry and discard act on dead letters only; *count is the number changed. */
    ob_code (*retry)(struct ob_store *, const struct ob_filter *, const struct ob_actor *, int64_t *count,
                     struct outbox_error *);
    ob_code (*discard)(struct ob_store *, const struct ob_filter *, const struct ob_actor *, int64_t *count,
                       struct outbox_error *);
    /* One lever on some messages, in one transaction. One row for each id, in no order. What a worker has is never touched. */
    ob_code (*operate)(struct ob_store *, const struct ob_operation *, ob_operated_fn *, void *ctx,
                       struct outbox_error *);
    /* name_space NULL: everything; topic NULL: the whole namespace; sink: the sink of this name instead. */
    ob_code (*pause)(struct ob_store *, const char *name_space, const char *topic, const char *sink,
                     const struct ob_actor *, struct outbox_error *);
    ob_code (*resume)(struct ob_store *, const char *name_space, const char *topic, const char *sink,
                      const struct ob_actor *, struct outbox_error *);
    /* A setting of a namespace, see docs/sql.md: dedupe_scope, tenant_prefix, on_dead, max_payload ... The namespace '*' holds
     * the defaults; value NULL restores the default. */
    ob_code (*configure)(struct ob_store *, const char *name_space, const char *name, const char *value,
                         const struct ob_actor *, struct outbox_error *);
    /* All settings of '*', then those that each namespace overrides. */
    ob_code (*settings)(struct ob_store *, ob_setting_fn *, void *ctx, struct outbox_error *);
    /* Applies retention completely; *removed is the number of messages removed. */
    ob_code (*purge)(struct ob_store *, int64_t *removed, struct outbox_error *);
    /* Runs the outcome hooks on the events that wait for them; *taken is their number. NULL: events never wait. */
    ob_code (*run_hooks)(struct ob_store *, int64_t *taken, struct outbox_error *);
    ob_code (*erase_tenant)(struct ob_store *, const char *tenant_id, const struct ob_actor *, int64_t *removed,
                            struct outbox_error *);

    ob_code (*list)(struct ob_store *, const struct ob_filter *, ob_message_fn *, void *ctx, struct outbox_error *);
    ob_code (*attempts)(struct ob_store *, const struct outbox_uuid *id, ob_attempt_fn *, void *ctx,
                        struct outbox_error *);
    ob_code (*acts)(struct ob_store *, const struct outbox_uuid *id_or_null, ob_act_fn *, void *ctx,
                    struct outbox_error *);
    /* What happens from now on, or from a time of the past on: the place of a reader, see core/tail.h. The caller frees it. */
    ob_code (*tail_begin)(struct ob_store *, int64_t since_us, struct ob_tail **, struct outbox_error *);
    /* What the filter selects of what happened since the last call, each once; filter NULL: all. *more: there is more to tell now.
     * Costs what happened, not what is stored. After an error the same place can be used again; something may be told twice then. */
    ob_code (*tail)(struct ob_store *, struct ob_tail *, const struct ob_filter *, ob_transition_fn *, void *ctx,
                    bool *more, struct outbox_error *);
    /* There is always a row: also for an id that no message has. */
    ob_code (*explain)(struct ob_store *, const struct outbox_uuid *id, ob_explain_fn *, void *ctx,
                       struct outbox_error *);
    /* Failures by fingerprint, the largest groups first. limit 0: 100. */
    ob_code (*groups)(struct ob_store *, int limit, ob_group_fn *, void *ctx, struct outbox_error *);
    /* Keys that wait behind their first message, the fullest first. limit 0: 100. */
    ob_code (*waiting_keys)(struct ob_store *, int limit, ob_key_fn *, void *ctx, struct outbox_error *);
    /* What became a dead letter since operators were last told, by group; and that they are told of it now, with a message. Both
     * between begin and commit. */
    ob_code (*dead_news)(struct ob_store *, const struct ob_news_terms *, struct ob_news *, ob_group_fn *, void *ctx,
                         struct outbox_error *);
    ob_code (*tell_news)(struct ob_store *, const char *payload, const char *recipient, const char *upto,
                         struct outbox_error *);
    /* The first ids from one to another, at most three: to find a message by the beginning of its id. */
    ob_code (*ids_between)(struct ob_store *, const struct outbox_uuid *from, const struct outbox_uuid *to, ob_id_fn *,
                           void *ctx, struct outbox_error *);
    ob_code (*status)(struct ob_store *, ob_status_fn *, void *ctx, struct outbox_error *);

    /* Changes a setting of running relays: see core/tuning.h. value NULL: back to the configured value. */
    ob_code (*tune)(struct ob_store *, const char *name, const char *value, const struct ob_actor *,
                    struct outbox_error *);
    /* *leads: whether this relay is the store's leader, which reports the gauges. leads may be NULL. */
    ob_code (*beat)(struct ob_store *, const struct ob_beat *, bool *leads, struct outbox_error *);
    /* Adds a row to the last hour; where `told`, also removes what is older. history: its rows, oldest first. */
    ob_code (*record_history)(struct ob_store *, const struct ob_history_row *, struct outbox_error *);
    ob_code (*history)(struct ob_store *, int minutes, ob_history_fn *, void *ctx, struct outbox_error *);
    ob_code (*relays)(struct ob_store *, ob_relay_fn *, void *ctx, struct outbox_error *);
    ob_code (*control)(struct ob_store *, const struct ob_control *, struct outbox_error *);
    ob_code (*gauges)(struct ob_store *, ob_gauges_fn *, void *ctx, struct outbox_error *);
    /* Reports rights that are wrong, each with the statement that fixes it. NULL: the store has no rights. */
    ob_code (*rights)(struct ob_store *, ob_problem_fn *, void *ctx, struct outbox_error *);
    /* Reports what is wrong with the log, each with what to do. NULL: the store has no log. */
    ob_code (*log_problems)(struct ob_store *, ob_problem_fn *, void *ctx, struct outbox_error *);

    /* Calls between enter and leave have these rights only, and reach the rows of this tenant only (NULL: all), whatever they ask
     * for: PostgreSQL's roles and row security see to that, or on SQLite views of the same names. With keep, what they changed
     * stays; otherwise it may be undone. leave always leaves, even when it fails. */
    ob_code (*enter)(struct ob_store *, enum ob_rights, const char *tenant_id, struct outbox_error *);
    ob_code (*leave)(struct ob_store *, bool keep, struct outbox_error *);
    /* Tokens of the API: see lib/token.h. hash: their SHA-256. */
    ob_code (*token_create)(struct ob_store *, const struct ob_token *, const unsigned char hash[OB_TOKEN_HASH],
                            const struct ob_actor *, struct outbox_error *);
    /* OUTBOX_UNKNOWN_NAME: there is none of this name that is not revoked already. */
    ob_code (*token_revoke)(struct ob_store *, const char *name, const struct ob_actor *, struct outbox_error *);
    ob_code (*token_check)(struct ob_store *, const unsigned char hash[OB_TOKEN_HASH], struct ob_bearer *,
                           struct outbox_error *);
    ob_code (*tokens)(struct ob_store *, ob_token_fn *, void *ctx, struct outbox_error *);

    /* Blocks until there may be work, for at most timeout_us. *woken is false if it timed out. */
    ob_code (*wait)(struct ob_store *, int64_t timeout_us, bool *woken, struct outbox_error *);
};

struct ob_store {
    const struct ob_store_ops *ops;
};

#endif
