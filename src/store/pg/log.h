/* log.h - the windows of the log that an async store holds: which messages they have, and how far each of them is.
 *
 *   a message of a window:  HELD ──its settle is sent──▶ SETTLING ──answered──▶ GONE
 *                            │ ▲───failed: in doubt──────────┘                   ▲
 *                            └──the window is ejected──▶ EJECTING ──answered─────┘
 *                                                        └─failed: ejected again before anything else
 *
 * GONE means: no longer in the window. It is settled, or it goes on as a row of the queue, or somebody else has it; the
 * statements of the queue say which. So a window with nothing but GONE messages is forgotten, and a token of a window
 * that is not known is one of the queue: attempt 1 of the message.
 *
 * In doubt: a settle with this message failed, and may have been carried out all the same.
 *
 * The order of a key rests on this: a message goes to the queue together with all messages of its key that are before it in the
 * window, or after them. So settles and ejects of windows are sent one after the other, and see ob_pg_log_precedes.
 *
 * Without I/O and clock. One thread. */
#ifndef OB_STORE_PG_LOG_H
#define OB_STORE_PG_LOG_H

#include "base/list.h"

#include <outbox/outbox.h>
#include <stdint.h>

struct outbox_batch;

enum ob_pg_held_state { OB_PG_HELD, OB_PG_SETTLING, OB_PG_EJECTING, OB_PG_GONE };

struct ob_pg_held {
    struct outbox_uuid id, tenant;
    int64_t stream; /* of its key; 0: none */
    enum ob_pg_held_state state;
    bool has_tenant, doubt;
};

/* What a take has answered. */
struct ob_pg_taken {
    int shard; /* -1: messages without keys */
    int64_t id, nonce;
    int size; /* messages in it, of which some may be erased before they are read */
    int64_t lease_us, asked_us;
};

struct ob_pg_window {
    struct ob_list node, timed; /* in all, and in those to be ejected at some time */
    struct ob_pg_window *next;  /* in its bucket */
    struct ob_pg_taken taken;
    uint32_t serial;
    int missing;      /* messages that were not read */
    int64_t eject_us; /* when; INT64_MAX: only if a lease is to be extended */
    int mark;         /* for who makes a list of windows */
    int count, left;  /* messages; those that are not GONE */
    struct ob_pg_held held[];
};

enum { OB_PG_LOG_BUCKETS = 256, OB_PG_EJECT_US = 400000 };

struct ob_pg_log {
    struct ob_list windows; /* in the order of their takes */
    struct ob_list timed;
    struct ob_pg_window *buckets[OB_PG_LOG_BUCKETS];
    uint32_t serial;
    int64_t nonce;
};

/* random: of the nonces, which must not repeat in any store. */
void ob_pg_log_init(struct ob_pg_log *log, uint64_t random);
void ob_pg_log_fini(struct ob_pg_log *log);

/* For the next take. */
int64_t ob_pg_log_nonce(struct ob_pg_log *log);
/* Remembers a window, and writes its tokens into the messages read. NULL: out of memory. Forgets windows whose leases ended
 * long ago. A window of a keyed shard is to be ejected soon: nobody else can take from the shard while it is open. */
struct ob_pg_window *ob_pg_log_open(struct ob_pg_log *log, const struct ob_pg_taken *taken, struct outbox_batch *batch,
                                    int64_t now_us);
/* The message of a token, and its window; NULL: it is in none. */
struct ob_pg_held *ob_pg_log_find(const struct ob_pg_log *log, int64_t token, const struct outbox_uuid *id,
                                  struct ob_pg_window **window);
int64_t ob_pg_log_token(const struct ob_pg_window *window, int index);
/* Whether an earlier message of the same key is HELD or EJECTING. */
bool ob_pg_log_precedes(const struct ob_pg_window *window, const struct ob_pg_held *held);

/* It left its window, which is forgotten with its last: returns true then. */
bool ob_pg_log_gone(struct ob_pg_log *log, struct ob_pg_window *window, struct ob_pg_held *held);
/* Somebody else has the window: all of it is GONE. */
void ob_pg_log_lost(struct ob_pg_log *log, struct ob_pg_window *window);
/* To be ejected at this time. */
void ob_pg_log_eject_at(struct ob_pg_log *log, struct ob_pg_window *window, int64_t at_us);
/* When the next window is to be ejected; INT64_MAX: never. */
int64_t ob_pg_log_due_us(const struct ob_pg_log *log);
/* Whether a window of keyed messages is open. */
bool ob_pg_log_keyed(const struct ob_pg_log *log);

#endif
