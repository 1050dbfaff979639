/* outbox.h - the public API of liboutbox: errors, messages, and a store handle to claim and settle them.
 *
 * To enqueue inside your own transaction include <outbox/pq.h> (PostgreSQL) or <outbox/sqlite.h>. This header is for the
 * other side: a worker that opens a store, claims messages under a lease, delivers them and reports the outcome.
 *
 *     outbox_store *store;
 *     struct outbox_error err;
 *     if (outbox_open("postgresql:///shop", NULL, &store, &err)) { fprintf(stderr, "%s\n", err.text); exit(1); }
 *     struct outbox_claim want = OUTBOX_CLAIM_INIT;
 *     want.worker = "mailer-1";
 *     want.limit = 1;
 *     outbox_batch *batch;
 *     while (outbox_claim(store, &want, &batch, &err) == OUTBOX_OK && outbox_batch_size(batch) > 0) {
 *         const struct outbox_delivery *msg = outbox_batch_at(batch, 0);
 *         enum outbox_code code = msg->fault     ? outbox_nack(store, msg, "unreadable", "no payload", &err)
 *                                 : deliver(msg) ? outbox_ack(store, msg, NULL, &err)
 *                                                : outbox_nack(store, msg, "smtp_451", "greylisted", &err);
 *         if (code) fprintf(stderr, "%s\n", err.text); // OUTBOX_LEASE_LOST: another worker has it; go on
 *         outbox_batch_free(batch);
 *     }
 *
 * Claim only as many messages as you can deliver within the lease, or extend the lease (outbox_extend) while you work.
 *
 * Results: a function that can fail returns an enum outbox_code, OUTBOX_OK (0) for success, and fills `err` when it is not
 * NULL. Unless its comment says more, it fails with OUTBOX_INVALID for a bad argument, OUTBOX_NOMEM, and what the database
 * can answer: OUTBOX_UNREACHABLE, OUTBOX_BUSY, OUTBOX_SCHEMA, OUTBOX_FORBIDDEN, OUTBOX_FULL, OUTBOX_READONLY,
 * OUTBOX_CORRUPT, OUTBOX_DATABASE. docs/errors.md explains each code.
 *
 * Threads: use a store handle from one thread at a time. Handles share nothing.
 *
 * Ownership: a handle that a function returns through a pointer is yours to close or free. Every pointer inside a struct is
 * borrowed: the library does not keep the ones you pass beyond the call, and the ones that it gives you live as long as the
 * object they came from. Functions that free or close accept NULL.
 *
 * Versions: a program or plugin built with an older or newer header works with this library. A struct that can grow begins
 * with its size, set by its _INIT macro, and new members are only added at its end. Where arrays of structs are passed, the
 * size of an element is passed too. The library never reads or writes beyond the size it was given; what an older caller
 * does not know has its default. Read a member that is newer than the oldest version you support only if OUTBOX_HAS says
 * that it is there. Structs without a size never change. */
#ifndef OUTBOX_OUTBOX_H
#define OUTBOX_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OUTBOX_API __attribute__((visibility("default")))
#define OUTBOX_MUST_CHECK __attribute__((warn_unused_result))

/* Whether a struct that the library or the host gave you is recent enough to have this member. */
#define OUTBOX_HAS(object, member) \
    ((size_t)((const char *)(&(object)->member + 1) - (const char *)(object)) <= (object)->size)

/* ---- errors ---------------------------------------------------------------------------------------------------- */

enum outbox_code {
#define OUTBOX_CODE(name, number, sqlstate, class_, exit_, what, todo) OUTBOX_##name = (number),
#include <outbox/errors.def>
#undef OUTBOX_CODE
};

/* Who can resolve an error: fix the call; repeat the same call later; an operator must act. */
enum outbox_error_class { OUTBOX_CLASS_CALLER, OUTBOX_CLASS_RETRY, OUTBOX_CLASS_OPERATOR };

/* Filled by a call that fails; need not be initialised. Every function accepts NULL instead. This struct never changes. */
struct outbox_error {
    enum outbox_code code;
    enum outbox_error_class class_;
    char sqlstate[6]; /* "" when the error does not come from the database */
    char text[512];   /* what happened, to what, and what to do; UTF-8 */
};

/* A short name such as "LEASE_LOST". Never NULL, never freed. */
OUTBOX_API const char *outbox_code_name(enum outbox_code code);
/* One sentence that describes the code. Never NULL, never freed. */
OUTBOX_API const char *outbox_code_text(enum outbox_code code);

/* ---- messages -------------------------------------------------------------------------------------------------- */

/* This struct never changes. */
struct outbox_uuid {
    uint8_t bytes[16];
};

/* Writes 36 characters and a NUL. */
OUTBOX_API void outbox_uuid_format(const struct outbox_uuid *id, char text[37]);
/* Reads the usual form of 36 characters, in either case. False when the text is not a uuid; id is then unchanged. */
OUTBOX_API bool outbox_uuid_parse(const char *text, struct outbox_uuid *id) OUTBOX_MUST_CHECK;

/* A message to enqueue. Only topic and payload are required. All text is UTF-8 and ends with a NUL. */
struct outbox_message {
    size_t size;
    const char *topic;
    const void *payload;
    size_t payload_len;
    const char *content_type; /* NULL: the payload is JSON; otherwise bytes of this type */
    const char *name_space;   /* NULL: "default" */
    const char *key;          /* messages of one key are delivered in commit order */
    const char *dedupe_key;   /* enqueued again with the same key, it is the same message */
    const char *tenant_id;    /* uuid text */
    const char *subject;      /* the id of the object that the message is about */
    const char *recipient;    /* who gets it, for sinks that address people: an email address, a chat */
    const char *headers;      /* a JSON object of strings */
    const char *correlation_id;
    int priority;             /* 0 to 9, 9 first; -1: the default, 4 */
    int max_attempts;         /* 0: the namespace's default */
    int64_t deliver_after_us; /* microseconds since 1970; 0: at once */
    int64_t expires_at_us;    /* 0: never */
    int64_t compress_over;    /* compress a payload of more bytes than this if that saves space; 0: 16384, -1: never */
};
#define OUTBOX_MESSAGE_INIT \
    { \
        .size = sizeof(struct outbox_message), .priority = -1 \
    }

/* What the producer gets back. Initialise it with OUTBOX_RECEIPT_INIT. */
struct outbox_receipt {
    size_t size;
    struct outbox_uuid id;
    bool created; /* false: a message with this dedupe key exists already, and this is its id */
    int64_t seq;  /* position within its key, from 1; 0 without a key */
};
#define OUTBOX_RECEIPT_INIT \
    { \
        .size = sizeof(struct outbox_receipt) \
    }

/* ---- the store: claim, settle ---------------------------------------------------------------------------------- */

typedef struct outbox_store outbox_store;
typedef struct outbox_batch outbox_batch;

/* How to open a store. Initialise it with OUTBOX_OPEN_INIT. */
struct outbox_open {
    size_t size;
    const char *schema;      /* PostgreSQL schema; NULL: "outbox" */
    const char *application; /* shown in pg_stat_activity; NULL: "outbox" */
};
#define OUTBOX_OPEN_INIT \
    { \
        .size = sizeof(struct outbox_open) \
    }

/* Opens "postgresql://...", "postgres://...", a libpq "key=value" string, or "sqlite:PATH". options: NULL for the defaults.
 * On success *store is yours to close; otherwise it is NULL. Fails with OUTBOX_UNSUPPORTED when this build lacks the store.
 * When there is no outbox in the database, this call (SQLite) or the first one after it (PostgreSQL) fails with
 * OUTBOX_SCHEMA. */
OUTBOX_API enum outbox_code outbox_open(const char *url, const struct outbox_open *options, outbox_store **store,
                                        struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Closes the connection. Batches that came from it stay valid until they are freed. */
OUTBOX_API void outbox_close(outbox_store *store);

/* Enqueues in a transaction of its own; to enqueue in yours, use outbox_pq_enqueue or outbox_sqlite_enqueue. receipt may be
 * NULL. Fails also with OUTBOX_TENANT, OUTBOX_DEDUPE, OUTBOX_TOO_LARGE, OUTBOX_CONFLICT. */
OUTBOX_API enum outbox_code outbox_send(outbox_store *store, const struct outbox_message *msg,
                                        struct outbox_receipt *receipt, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* One topic of one namespace. */
struct outbox_lane {
    const char *name_space, *topic;
};

/* Lanes by pattern: `*` matches any characters, `?` matches one, a backslash quotes the next one; NULL matches all. */
struct outbox_lane_rule {
    const char *name_space, *topic;
    bool skip;                 /* true: claim none of these; false: claim them */
    unsigned char reserved[7]; /* zero */
};

/* What to claim. The filters are combined: a message must pass all of them. */
struct outbox_claim {
    size_t size;
    const char *worker;        /* who claims; required, at most 200 bytes, unique among running workers */
    int limit;                 /* at most this many messages; 1 to 10000 */
    int64_t lease_us;          /* how long the claim holds; extend it with outbox_extend */
    const char *name_space;    /* NULL: every namespace */
    const char *const *topics; /* NULL: every topic */
    size_t topic_count;
    const char *tenant_id; /* NULL: every tenant */
    int max_attempts;      /* 0: the message's own limit; otherwise the lower of the two */
    int run;       /* at most this many messages of one key at once. Above 1 you promise to deliver a key's messages in
                            * the order given and to stop at its first failure, releasing the rest. */
    bool prefetch; /* also claim messages of a key while earlier ones are claimed under this worker name: you
                            * promise to keep their order */
    int64_t retry_base_us; /* how long outbox_nack delays the next attempt: the first delay; 0: as the namespace says */
    int64_t retry_cap_us;  /* and the longest; 0: as the namespace says */
    size_t lane_size;      /* size of an element of only and skip; set by OUTBOX_CLAIM_INIT */
    size_t rule_size;      /* size of an element of rules; set by OUTBOX_CLAIM_INIT */
    const struct outbox_lane *only; /* only these lanes; NULL: all */
    size_t only_count;
    const struct outbox_lane *skip; /* none of these lanes */
    size_t skip_count;
    size_t max_bytes; /* of all payloads together; one message is claimed whatever its size. 0: no limit */
    const struct outbox_lane_rule *rules; /* the first that matches decides; a lane that none matches is claimed */
    size_t rule_count;
};
#define OUTBOX_CLAIM_INIT \
    { \
        .size = sizeof(struct outbox_claim), .limit = 100, .lease_us = 30000000, .run = 1, \
        .lane_size = sizeof(struct outbox_lane), .rule_size = sizeof(struct outbox_lane_rule) \
    }

/* Why the payload of a claimed message is missing. Do not deliver such a message. */
enum outbox_fault {
    OUTBOX_FAULT_NONE = 0,
    OUTBOX_FAULT_DAMAGED = 1,     /* it cannot be decompressed and never will be: settle as OUTBOX_FAILED */
    OUTBOX_FAULT_UNSUPPORTED = 2, /* it is compressed in a way that this build does not know: release it */
    OUTBOX_FAULT_MEMORY = 3,      /* not enough memory, or more than 64 MiB in one batch: release it */
    OUTBOX_FAULT_NOT_JSON = 4, /* it has no content type but is not JSON, and never will be: settle as OUTBOX_FAILED */
};

/* The place of one attempt in a trace (W3C trace context). All zero: a relay sets it, and only if it records this attempt or
 * tells its receiver not to. */
struct outbox_trace {
    unsigned char trace_id[16];
    unsigned char span_id[8]; /* of this attempt */
    unsigned char
        parent_id[8];    /* the span in the message's header `traceparent`; zero: none was given, or an invalid one */
    unsigned char flags; /* 1: sampled */
    unsigned char reserved[7]; /* zero */
};

/* One claimed message. Everything in it is borrowed from its batch. Text is NULL when there is none. */
struct outbox_delivery {
    size_t size;
    struct outbox_uuid id;
    int64_t token; /* identifies this claim of this message; opaque */
    const char *name_space, *topic;
    const char *tenant_id, *key;
    int64_t seq; /* position within its key, from 1; 0 without a key */
    const char *dedupe_key, *subject, *recipient, *headers, *correlation_id, *content_type;
    const void *payload; /* decompressed */
    size_t payload_len;
    int priority;
    int attempt; /* the number of this attempt, from 1; it only ever grows */
    int spent;   /* how many of max_attempts are used, including this one */
    int max_attempts;
    bool redriven; /* an operator sent it again */
    int64_t created_at_us, claimed_at_us, locked_until_us, expires_at_us;
    enum outbox_fault fault; /* not OUTBOX_FAULT_NONE: payload is NULL although the message has one */
    int64_t
        stream; /* what seq counts in: a key has one per tenant, and one per topic unless its order spans topics. 0: no
                     * order to keep, though there may be a key (it was dead, and later messages of its key went on) */
    int deferred;      /* how often in a row it was put off before this attempt: limited, blocked or silent */
    int lost;          /* how many of the spent attempts ended because the worker's lease expired */
    bool own_attempts; /* max_attempts is what its producer asked for */
    int64_t retry_base_us, retry_cap_us; /* the policy of this claim: its own, or the namespace's */
    struct outbox_trace trace;           /* what the receiver gets as traceparent instead of the message's own */
};

/* Claims messages that are due. On success *batch is yours to free, even when it is empty; otherwise it is NULL. Fails also
 * with OUTBOX_ISOLATION. */
OUTBOX_API enum outbox_code outbox_claim(outbox_store *store, const struct outbox_claim *want, outbox_batch **batch,
                                         struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The number of messages; 0 for NULL. */
OUTBOX_API size_t outbox_batch_size(const outbox_batch *batch);
/* Message number i, from 0, borrowed from the batch; NULL behind the last. */
OUTBOX_API const struct outbox_delivery *outbox_batch_at(const outbox_batch *batch, size_t i);
/* Frees the batch and its messages. It settles nothing: what was not settled is claimed again when its lease expires. */
OUTBOX_API void outbox_batch_free(outbox_batch *batch);

/* How an attempt ended. The numbers are stable: the attempt table stores them. "Nothing spent" means that the attempt does
 * not count towards max_attempts. */
enum outbox_outcome {
    OUTBOX_DELIVERED = 1, /* the receiver accepted it: done */
    OUTBOX_RETRY = 2,     /* failed: try again after a delay; dead when the attempts are spent */
    OUTBOX_FAILED = 3,    /* this message can never be delivered: dead now */
    OUTBOX_LOST = 4,      /* the lease expired; written by the store, never passed to outbox_settle */
    OUTBOX_LIMITED = 5,   /* the receiver asked to slow down: later, nothing spent, recorded once in a row */
    OUTBOX_BLOCKED =
        6, /* the receiver or its configuration is at fault: later, nothing spent, recorded once in a row */
    OUTBOX_UNKNOWN = 7,     /* sent, but no answer came: try again with the same id */
    OUTBOX_RELEASED = 8,    /* nothing was sent: at once or later, nothing spent, not recorded */
    OUTBOX_INTERRUPTED = 9, /* this worker shut down during the delivery: at once, with the same id, nothing spent */
    OUTBOX_SILENT = 10,     /* as OUTBOX_UNKNOWN, from a receiver that answers nothing at all: nothing spent */
};

/* Whether an outcome was recorded. */
enum outbox_settled {
    OUTBOX_SETTLED = 0,       /* it was */
    OUTBOX_SETTLE_LOST = 1,   /* the lease is no longer held: nothing was changed */
    OUTBOX_SETTLE_UNKNOWN = 2 /* there is no such message */
};

/* As delay_us: no further attempt. After OUTBOX_RETRY or OUTBOX_UNKNOWN the message is dead, even if attempts are left. */
#define OUTBOX_NEVER INT64_MIN

/* The outcome of one attempt. Initialise it with OUTBOX_SETTLE_INIT; take id and token from the delivery. */
struct outbox_settle {
    size_t size;
    struct outbox_uuid id;
    int64_t token;
    enum outbox_outcome outcome;
    enum outbox_settled result; /* set by outbox_settle */
    bool dead;                  /* set by outbox_settle: the message is a dead letter now */
    int max_attempts;           /* what the message may spend in all, where its producer did not say; 0: as it is */
    const char *code;           /* for programs, e.g. "http_503"; NULL for none */
    const char *error;          /* for people; NULL for none */
    const char *reference;      /* the receiver's own id for what it accepted; NULL for none */
    const char *output;         /* JSON for outcome hooks; NULL for none */
    int64_t delay_us;           /* until the next attempt; -1: by the retry policy of the claim; or OUTBOX_NEVER */
    int64_t latency_us;         /* how long the delivery took; -1: not measured */
};
#define OUTBOX_SETTLE_INIT \
    { \
        .size = sizeof(struct outbox_settle), .delay_us = -1, .latency_us = -1 \
    }

/* Settles many attempts in one transaction; each element's .result tells whether its outcome was recorded. A lost lease is
 * not a failure of the call: it returns OUTBOX_OK. All elements must have the same .size; it is the stride of the array. */
OUTBOX_API enum outbox_code outbox_settle(outbox_store *store, struct outbox_settle *items, size_t count,
                                          struct outbox_error *err) OUTBOX_MUST_CHECK;

/* One message at a time, for simple workers. They fail also with OUTBOX_LEASE_LOST: another worker has the message or it is
 * settled; log it and go on, and never answer it with a nack. And with OUTBOX_UNKNOWN_MESSAGE. */

/* It was delivered. reference: the receiver's own id for it; NULL for none. */
OUTBOX_API enum outbox_code outbox_ack(outbox_store *store, const struct outbox_delivery *msg, const char *reference,
                                       struct outbox_error *err) OUTBOX_MUST_CHECK;
/* It failed: try again after the delay of the retry policy; dead when the attempts are spent. code and error: NULL for
 * none. */
OUTBOX_API enum outbox_code outbox_nack(outbox_store *store, const struct outbox_delivery *msg, const char *code,
                                        const char *error, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Gives it back: nothing was sent, so no attempt is spent. */
OUTBOX_API enum outbox_code outbox_release(outbox_store *store, const struct outbox_delivery *msg,
                                           struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Moves the end of the lease to lease_us from now. */
OUTBOX_API enum outbox_code outbox_extend(outbox_store *store, const struct outbox_delivery *msg, int64_t lease_us,
                                          struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Replaces malloc and free in all of liboutbox. Call it before any other function, with both or neither. */
OUTBOX_API void outbox_set_allocator(void *(*alloc)(size_t), void (*release)(void *));

/* The version of the library that runs, such as "0.1.0". */
OUTBOX_API const char *outbox_version(void);

#ifdef __cplusplus
}
#endif
#endif
