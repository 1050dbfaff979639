/* outbox.h - the public API of liboutbox: errors, messages, and a store handle to claim and settle them.
 *
 * To enqueue inside your own transaction include <outbox/pq.h> (PostgreSQL) or <outbox/sqlite.h>. This header is for the
 * other side: a worker that opens a store, claims messages under a lease, delivers them and says how it went.
 *
 *     outbox_store *store;
 *     struct outbox_error err;
 *     if (outbox_open("postgresql:///shop", NULL, &store, &err)) { fprintf(stderr, "%s\n", err.text); exit(1); }
 *     struct outbox_claim want = OUTBOX_CLAIM_INIT;
 *     want.worker = "mailer-1";
 *     outbox_batch *batch;
 *     while (outbox_claim(store, &want, &batch, &err) == OUTBOX_OK && outbox_batch_size(batch) > 0) {
 *         for (size_t i = 0; i < outbox_batch_size(batch); i++) {
 *             const struct outbox_delivery *msg = outbox_batch_at(batch, i);
 *             if (deliver(msg)) outbox_ack(store, msg, NULL, &err);
 *             else outbox_nack(store, msg, "smtp_451", "greylisted", &err);
 *         }
 *         outbox_batch_free(batch);
 *     }
 *
 * Threads: a store handle belongs to one thread at a time. Handles share nothing.
 * Ownership: what a function hands out through a pointer to a handle is yours to free; every `const char *` inside a
 * struct is borrowed from the object that gave you the struct. Destructors accept NULL.
 * Versions: structs begin with their size, set by their _INIT macro; new fields are added at the end only. */
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

/* ---- errors ---------------------------------------------------------------------------------------------------- */

enum outbox_code {
#define OUTBOX_CODE(name, number, sqlstate, class_, exit_, what, todo) OUTBOX_##name = (number),
#include <outbox/errors.def>
#undef OUTBOX_CODE
};

enum outbox_error_class { OUTBOX_CLASS_CALLER, OUTBOX_CLASS_RETRY, OUTBOX_CLASS_OPERATOR };

/* Filled by a failing call when the caller passes one; NULL is always accepted. Lives on the caller's stack. */
struct outbox_error {
    enum outbox_code code;
    enum outbox_error_class class_;
    char sqlstate[6]; /* "" when the database had no part in it */
    char text[512];   /* what happened, to what, and what to do */
};

/* A short name such as "LEASE_LOST", and the sentence of errors.def. Never NULL. */
OUTBOX_API const char *outbox_code_name(enum outbox_code code);
OUTBOX_API const char *outbox_code_text(enum outbox_code code);

/* ---- messages -------------------------------------------------------------------------------------------------- */

struct outbox_uuid {
    uint8_t bytes[16];
};

/* Writes 36 characters and a NUL. */
OUTBOX_API void outbox_uuid_format(const struct outbox_uuid *id, char text[37]);
/* False when the text is no uuid. */
OUTBOX_API bool outbox_uuid_parse(const char *text, struct outbox_uuid *id) OUTBOX_MUST_CHECK;

/* What a producer hands in. Only topic and payload are needed. All text is UTF-8. */
struct outbox_message {
    size_t size;
    const char *topic;
    const void *payload;
    size_t payload_len;
    const char *content_type; /* NULL: the payload is JSON. Otherwise bytes of that type. */
    const char *name_space;   /* NULL: "default" */
    const char *key;          /* messages of one key are delivered in commit order */
    const char *dedupe_key;   /* the same key again is the same message */
    const char *tenant_id;    /* uuid text */
    const char *subject;      /* the id of the domain object this is about */
    const char *recipient;    /* whom it goes to */
    const char *headers;      /* a JSON object of strings */
    const char *correlation_id;
    int priority;             /* 0 to 9, 9 first; -1: the default, 4 */
    int max_attempts;         /* 0: the namespace's default */
    int64_t deliver_after_us; /* microseconds since 1970; 0: at once */
    int64_t expires_at_us;    /* 0: never */
    int64_t compress_over;    /* a payload of more bytes is stored compressed if that pays; 0: 16384, -1: never */
};
#define OUTBOX_MESSAGE_INIT \
    { \
        .size = sizeof(struct outbox_message), .priority = -1 \
    }

/* What a producer gets back. */
struct outbox_receipt {
    struct outbox_uuid id;
    bool created; /* false: the dedupe key was there already, and this is that message */
    int64_t seq;  /* position within its key, from 1; 0 without a key */
};

/* ---- the store: claim, settle ---------------------------------------------------------------------------------- */

typedef struct outbox_store outbox_store;
typedef struct outbox_batch outbox_batch;

struct outbox_open {
    size_t size;
    const char *schema;      /* PostgreSQL schema; NULL: "outbox" */
    const char *application; /* shown in pg_stat_activity; NULL: "outbox" */
};
#define OUTBOX_OPEN_INIT \
    { \
        .size = sizeof(struct outbox_open) \
    }

/* Opens "postgresql://...", "postgres://...", a libpq "key=value" string, or "sqlite:PATH". */
OUTBOX_API enum outbox_code outbox_open(const char *url, const struct outbox_open *options, outbox_store **store,
                                        struct outbox_error *err) OUTBOX_MUST_CHECK;
OUTBOX_API void outbox_close(outbox_store *store);

/* Enqueues in a transaction of its own. Inside yours: outbox_pq_enqueue, outbox_sqlite_enqueue. */
OUTBOX_API enum outbox_code outbox_send(outbox_store *store, const struct outbox_message *msg,
                                        struct outbox_receipt *receipt, struct outbox_error *err) OUTBOX_MUST_CHECK;

/* A topic of a namespace. */
struct outbox_lane {
    const char *name_space, *topic;
};

/* Lanes by patterns: `*` is any number of characters, `?` is one, a backslash takes the next one as it is; NULL matches all. */
struct outbox_lane_rule {
    const char *name_space, *topic;
    bool skip; /* none of these; otherwise they may be taken */
};

struct outbox_claim {
    size_t size;
    const char *worker;        /* who claims; required, at most 200 bytes */
    int limit;                 /* at most so many messages; 1 to 10000 */
    int64_t lease_us;          /* how long they are mine */
    const char *name_space;    /* NULL: every namespace */
    const char *const *topics; /* NULL: every topic */
    size_t topic_count;
    const char *tenant_id; /* NULL: every tenant */
    int max_attempts;      /* 0: the message's own limit; otherwise the lower of the two */
    int run;               /* at most so many messages of one key at once. Above 1 you promise to deliver a key's
                                  messages in the order given and to stop at its first failure, releasing the rest. */
    bool prefetch;         /* messages of a key may be claimed while their predecessors are out under this very
                                  worker name: you promise to keep their order */
    int64_t retry_base_us; /* the policy that nack uses when no delay is given; 0: the namespace's */
    int64_t retry_cap_us;
    const struct outbox_lane *only; /* these lanes only; NULL: all that the fields above leave */
    size_t only_count;
    const struct outbox_lane *skip; /* none of these */
    size_t skip_count;
    size_t max_bytes; /* of payloads, as they are delivered; one message is taken whatever its size. 0: no limit */
    const struct outbox_lane_rule *rules; /* the first that matches decides; lanes that none matches may be taken */
    size_t rule_count;
};
#define OUTBOX_CLAIM_INIT \
    { \
        .size = sizeof(struct outbox_claim), .limit = 100, .lease_us = 30000000, .run = 1 \
    }

/* Why the payload of a claimed message cannot be had. */
enum outbox_fault {
    OUTBOX_FAULT_NONE = 0,
    OUTBOX_FAULT_DAMAGED = 1, /* what is stored cannot be decompressed, and never will: settle it as OUTBOX_FAILED */
    OUTBOX_FAULT_UNSUPPORTED = 2, /* it was compressed in a way that this build does not know */
    OUTBOX_FAULT_MEMORY = 3,   /* there was no memory for it, or the batch would become over 64 MiB by it: release it */
    OUTBOX_FAULT_NOT_JSON = 4, /* it has no content type, but is no JSON either, and never will be: OUTBOX_FAILED */
};

/* One claimed message. Everything is borrowed from its batch. */
struct outbox_delivery {
    size_t size;
    struct outbox_uuid id;
    int64_t token; /* names this claim of this message; opaque */
    const char *name_space, *topic;
    const char *tenant_id, *key; /* NULL when there is none, like all text below */
    int64_t seq;                 /* 0 without a key */
    const char *dedupe_key, *subject, *recipient, *headers, *correlation_id, *content_type;
    const void *payload;
    size_t payload_len;
    int priority;
    int attempt; /* the number of this attempt, from 1: never falls, never repeats */
    int spent;   /* how many of the attempts allowed are spent, this one included */
    int max_attempts;
    bool redriven; /* an operator sent it again */
    int64_t created_at_us, claimed_at_us, locked_until_us, expires_at_us;
    enum outbox_fault fault; /* not NONE: payload is NULL though there is one */
    int64_t stream; /* where seq counts: a key has another in each tenant, and in each topic unless its order spans
                              * them. 0: it has no order to keep, though it may have a key (it was dead, and its key went on) */
    int deferred;   /* how many times in a row it was put off before this attempt: limited, blocked, silent */
    int lost;       /* how many of the spent attempts ended without a word of their worker */
};

OUTBOX_API enum outbox_code outbox_claim(outbox_store *store, const struct outbox_claim *want, outbox_batch **batch,
                                         struct outbox_error *err) OUTBOX_MUST_CHECK;
OUTBOX_API size_t outbox_batch_size(const outbox_batch *batch);
OUTBOX_API const struct outbox_delivery *outbox_batch_at(const outbox_batch *batch, size_t i);
OUTBOX_API void outbox_batch_free(outbox_batch *batch);

/* How an attempt ended. Numbers are stable: they stand in the attempt table. */
enum outbox_outcome {
    OUTBOX_DELIVERED = 1,   /* accepted: done */
    OUTBOX_RETRY = 2,       /* failed; again after a delay, dead when the attempts are spent */
    OUTBOX_FAILED = 3,      /* this message is wrong: dead now */
    OUTBOX_LOST = 4,        /* written by the store when a lease ran out; never given to settle */
    OUTBOX_LIMITED = 5,     /* told to slow down: later, nothing spent, on record unless the last one is the same */
    OUTBOX_BLOCKED = 6,     /* the destination is wrong: likewise */
    OUTBOX_UNKNOWN = 7,     /* bytes left, no verdict: again, the same id */
    OUTBOX_RELEASED = 8,    /* nothing was sent: back at once or later, nothing spent, not on record */
    OUTBOX_INTERRUPTED = 9, /* cut off by our own shutdown: back at once, the same id, nothing spent, on record */
    OUTBOX_SILENT = 10,     /* as OUTBOX_UNKNOWN, and on record as such, from a destination that answers nobody: nothing
                             * spent */
};

enum outbox_settled {
    OUTBOX_SETTLED = 0,       /* the outcome stands */
    OUTBOX_SETTLE_LOST = 1,   /* the lease was not held any more: nothing was changed */
    OUTBOX_SETTLE_UNKNOWN = 2 /* there is no such message */
};

/* As a delay: no next attempt. What would be tried again (OUTBOX_RETRY, OUTBOX_UNKNOWN) is dead, its attempts spent,
 * though the message allows more of them. */
#define OUTBOX_NEVER INT64_MIN

struct outbox_settle {
    struct outbox_uuid id;
    int64_t token;
    enum outbox_outcome outcome;
    const char *code;           /* explicit code of the sink, e.g. "http_503"; NULL for none */
    const char *error;          /* text for people; NULL for none */
    const char *reference;      /* the receiver's own id for what it accepted */
    const char *output;         /* JSON the sink returned, for outcome hooks; NULL for none */
    int64_t delay_us;           /* until the next attempt; -1: by the retry policy of the claim; or OUTBOX_NEVER */
    int64_t latency_us;         /* how long the delivery took; -1: not measured */
    enum outbox_settled result; /* out */
    bool dead;                  /* out: the message is a dead letter now */
};

/* Settles many attempts in one transaction and one round trip; every element says how it went in .result. A lost lease
 * is no failure of the call: it returns OUTBOX_OK. */
OUTBOX_API enum outbox_code outbox_settle(outbox_store *store, struct outbox_settle *items, size_t count,
                                          struct outbox_error *err) OUTBOX_MUST_CHECK;

/* One message at a time, for simple workers. A lost lease is OUTBOX_LEASE_LOST here: log it and go on; never turn it
 * into a nack. */
OUTBOX_API enum outbox_code outbox_ack(outbox_store *store, const struct outbox_delivery *msg, const char *reference,
                                       struct outbox_error *err) OUTBOX_MUST_CHECK;
OUTBOX_API enum outbox_code outbox_nack(outbox_store *store, const struct outbox_delivery *msg, const char *code,
                                        const char *error, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Gives a message back unspent: nothing was sent. */
OUTBOX_API enum outbox_code outbox_release(outbox_store *store, const struct outbox_delivery *msg,
                                           struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The lease ends lease_us from now. */
OUTBOX_API enum outbox_code outbox_extend(outbox_store *store, const struct outbox_delivery *msg, int64_t lease_us,
                                          struct outbox_error *err) OUTBOX_MUST_CHECK;

/* Replaces malloc and free for all of liboutbox; call it before anything else. Both or neither. */
OUTBOX_API void outbox_set_allocator(void *(*alloc)(size_t), void (*release)(void *));

OUTBOX_API const char *outbox_version(void);

#ifdef __cplusplus
}
#endif
#endif
