/* bulk.h - an act of an operator on many messages: those that a filter finds, the oldest first, in small transactions.
 *
 * First ob_bulk_find, which changes nothing: it collects the ids, a page at a time, so an act does what was counted and meets
 * none twice. Then ob_bulk_run. Both ask `stop` now and then. After an interruption the same act can be begun again: what was done
 * is in another state, or known to the run of the redelivery. No output, no signals, no threads in here. */
#ifndef OB_LIB_BULK_H
#define OB_LIB_BULK_H

#include "base/buf.h"
#include "core/store.h"

enum { OB_BULK_STEP = 500, OB_BULK_REASONS = 16 };

/* Messages to which nothing was done, all for one reason. */
struct ob_bulk_refusal {
    char result[16], detail[200]; /* detail: of the first */
    struct outbox_uuid first;
    int64_t count;
};

struct ob_bulk {
    /* What to do: set these. Texts are borrowed. */
    struct ob_store *store;
    struct ob_operation operation; /* without ids and status */
    struct ob_filter filter;       /* without a status: the usual one of the lever, unless there are ids */
    int64_t limit;                 /* at most so many; 0: all that are found */
    int64_t rate, period_us;       /* so many per time; 0: as fast as it goes */
    bool enters;                   /* each step has the rights of a request only: ops->enter, */
    const char *tenant_id;         /* of this tenant; NULL: all */
    bool (*stop)(void *ctx);       /* true: end soon; NULL: never */
    void (*progress)(void *ctx, const struct ob_bulk *bulk); /* after each page and step; NULL: not wanted */
    void *ctx;

    /* What is known so far. */
    int64_t total;    /* found */
    bool more;        /* there are more than were collected, or the search was stopped */
    bool searched;    /* no index finds these: all messages were looked through */
    int64_t tried;    /* of the total, */
    int64_t done;     /* and to so many it was done, */
    int64_t refused;  /* and to so many not */
    bool interrupted; /* stop said so */
    struct ob_bulk_refusal refusals[OB_BULK_REASONS];
    struct ob_buf ids; /* newest first */
    struct outbox_uuid last;
    int page;
    ob_message_fn *sample;
    void *sample_ctx;
};

/* Whether lever, filter and the rest fit together; sets the status that is meant. OUTBOX_INVALID says what does not. */
ob_code ob_bulk_check(struct ob_bulk *bulk, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Finds at most `most` of them. sample is called for each that is found, the newest first; NULL: not wanted. */
ob_code ob_bulk_find(struct ob_bulk *bulk, int64_t most, ob_message_fn *sample, void *ctx,
                     struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Does it to those that were found. The counts are right also after an error. */
ob_code ob_bulk_run(struct ob_bulk *bulk, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Found, and not tried yet. */
int64_t ob_bulk_left(const struct ob_bulk *bulk);
void ob_bulk_fini(struct ob_bulk *bulk);

#endif
