/* pool.h - connections to one mail server, each with a thread of its own.
 *
 * libcurl waits for the reply to a finished mail, and to QUIT, inside of its functions, also in its multi interface: on
 * the relay's loop one slow server would hold up every other sink. So mails are sent from threads. A thread has one
 * connection and sends mail after mail over it; it is started when there is more to do than idle threads can, up to the
 * cap, and ends with a QUIT when it had nothing to do for a while.
 *
 * Threads: add, cancel, take and free are called on the loop's. wake is called from the others. */
#ifndef OB_SINK_SMTP_POOL_H
#define OB_SINK_SMTP_POOL_H

#include "base/list.h"
#include "sink/smtp/mail.h"
#include "sink/smtp/reply.h"

#include <stdatomic.h>

typedef struct ob_smtp_pool ob_smtp_pool;

/* A mail to send, or a ping; then how it went. */
struct ob_smtp_job {
    struct ob_list node;
    uint64_t handle;
    int64_t since_us; /* when it was added, by the host's clock */
    bool ping;
    atomic_bool cancelled;
    struct ob_smtp_mail mail;
    struct outbox_verdict verdict; /* its texts are below */
    char code[OB_SMTP_CODE], text[1200], reference[128];
};

/* NULL when there is no memory. */
struct ob_smtp_job *ob_smtp_job_new(uint64_t handle);
void ob_smtp_job_free(struct ob_smtp_job *job);

/* config and host are borrowed. NULL when there is no memory. */
ob_smtp_pool *ob_smtp_pool_new(const struct ob_smtp_config *config, const struct outbox_sink_host *host);
/* Stops what is under way; connections without work get a moment to say goodbye. */
void ob_smtp_pool_free(ob_smtp_pool *pool);

/* Owns the job from now on. False: no thread could be started, and the job is the caller's. */
bool ob_smtp_pool_add(ob_smtp_pool *pool, struct ob_smtp_job *job) OUTBOX_MUST_CHECK;
/* Forgets it, wherever it is. */
void ob_smtp_pool_cancel(ob_smtp_pool *pool, uint64_t handle);
/* One that has waited since then or longer, and is the caller's now: nothing was sent. NULL when there is none; *oldest_us
 * is then since when the first of the others waits, INT64_MAX when nobody does. */
struct ob_smtp_job *ob_smtp_pool_late(ob_smtp_pool *pool, int64_t since_us, int64_t *oldest_us);
/* A job that is done, to be freed; NULL when there is none. */
struct ob_smtp_job *ob_smtp_pool_take(ob_smtp_pool *pool);

#endif
