/* pool.h - connections to one mail server, each with its own thread.
 *
 * libcurl blocks while it waits for the reply to a finished mail, and to QUIT, even in its multi interface: on the relay's
 * loop one slow server would block every other sink. So mails are sent from threads. A thread has one connection and sends
 * one mail after another over it. It is started when there are more mails than idle threads, up to the limit, and ends with
 * a QUIT after it was idle for a while.
 *
 * Threads: add, cancel, late, take and free are called on the loop's. The workers call the host's wake. */
#ifndef OB_SINK_SMTP_POOL_H
#define OB_SINK_SMTP_POOL_H

#include "base/list.h"
#include "sink/smtp/mail.h"
#include "sink/smtp/reply.h"

#include <stdatomic.h>

typedef struct ob_smtp_pool ob_smtp_pool;

/* A mail to send, or a ping; and its verdict. */
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

/* NULL: out of memory. */
struct ob_smtp_job *ob_smtp_job_new(uint64_t handle);
void ob_smtp_job_free(struct ob_smtp_job *job);

/* config and host are borrowed. NULL: out of memory. */
ob_smtp_pool *ob_smtp_pool_new(const struct ob_smtp_config *config, const struct outbox_sink_host *host);
/* Aborts the current mails; idle connections get a short time for QUIT. */
void ob_smtp_pool_free(ob_smtp_pool *pool);

/* The pool owns the job from now on. False: no thread could be started, and the caller keeps the job. */
bool ob_smtp_pool_add(ob_smtp_pool *pool, struct ob_smtp_job *job) OUTBOX_MUST_CHECK;
/* Drops the job, waiting or not; it is not reported. */
void ob_smtp_pool_cancel(ob_smtp_pool *pool, uint64_t handle);
/* A job that has waited since since_us or longer; nothing was sent, and the caller now owns it. NULL if there is none; then
 * *oldest_us is since when the oldest job waits, INT64_MAX if none does. */
struct ob_smtp_job *ob_smtp_pool_late(ob_smtp_pool *pool, int64_t since_us, int64_t *oldest_us);
/* A job that is done, which the caller frees; NULL if there is none. */
struct ob_smtp_job *ob_smtp_pool_take(ob_smtp_pool *pool);

#endif
