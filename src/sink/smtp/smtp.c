/* smtp.c - the email sink: every message is one mail to one recipient, and the server's reply decides.
 *
 * Mails are built here and sent by the threads of pool.c. The host sends at most one mail of a key at a time. A mail is
 * never sent again here, with one exception: the connection was closed after the last mail, before this one began.
 *
 * Thread: the loop's. It must not know where messages come from, nor when they are tried again. */
#include "base/alloc.h"
#include "base/error.h"
#include "sink/shortage.h"
#include "sink/smtp/pool.h"

#include <curl/curl.h>
#include <pthread.h>
#include <uv.h>

enum { WAIT_US = 5000000 }; /* for a connection, at most: a mail that has none by then is better off in the store */

struct outbox_sink {
    const struct outbox_sink_host *host;
    struct ob_smtp_config config;
    ob_smtp_pool *pool;
    uv_timer_t late; /* looks for mails that wait too long */
    int64_t wait_us; /* what is too long */
};

extern const struct outbox_sink_ops ob_sink_smtp;

static void on_closed(uv_handle_t *late)
{
    ob_free(late->data);
}

static void sink_free(outbox_sink *sink)
{
    ob_smtp_pool_free(sink->pool);
    ob_smtp_config_fini(&sink->config);
    if (sink->late.data)
        uv_close((uv_handle_t *)&sink->late, on_closed);
    else
        ob_free(sink);
}

static void answer(outbox_sink *sink, uint64_t handle, const struct outbox_verdict *verdict)
{
    sink->host->done(sink->host->ctx, handle, verdict);
}

/* A message that failed before it got a connection. */
static void answer_unsent(outbox_sink *sink, uint64_t handle, enum outbox_code code, const char *problem,
                          const char *text)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    bool wrong = code == OUTBOX_INVALID, lacking = code == OUTBOX_BUSY; /* of the message, what it refers to */
    verdict.outcome = wrong ? OUTBOX_SINK_TERMINAL : lacking ? OUTBOX_SINK_RETRY : OUTBOX_SINK_NOT_SENT;
    verdict.not_before_us = wrong || lacking ? -1 : OB_SHORTAGE_US;
    verdict.local = true;
    verdict.code = (wrong || lacking) && problem ? problem : "out_of_memory";
    verdict.text = text;
    answer(sink, handle, &verdict);
}

static void curl_begin(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static enum outbox_code smtp_open(const struct outbox_sink_option *options, size_t count,
                                  const struct outbox_sink_host *host, outbox_sink **out, struct outbox_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    outbox_sink *sink = ob_calloc(1, sizeof *sink);
    if (!sink)
        return ob_error_nomem(err);
    pthread_once(&once, curl_begin);
    sink->host = host;
    enum outbox_code code = ob_smtp_config_init(&sink->config, options, count, err);
    if (!code && !(sink->pool = ob_smtp_pool_new(&sink->config, host)))
        code = ob_error_nomem(err);
    if (code) {
        sink_free(sink);
        return code;
    }
    uv_timer_init(host->loop, &sink->late);
    sink->late.data = sink;
    sink->wait_us = host->timeout_us && host->timeout_us / 2 < WAIT_US ? host->timeout_us / 2 : WAIT_US;
    *out = sink;
    return OUTBOX_OK;
}

/* ---- mails that wait --------------------------------------------------------------------------------------------- */

static void answer_late(outbox_sink *sink, struct ob_smtp_job *job)
{
    struct outbox_verdict verdict = OUTBOX_VERDICT_INIT;
    verdict.outcome = OUTBOX_SINK_NOT_SENT;
    verdict.not_before_us = OB_SHORTAGE_US;
    verdict.code = "smtp_busy";
    verdict.text = "no connection became free in time: raise `connections`, or lower the concurrency";
    answer(sink, job->handle, &verdict);
    ob_smtp_job_free(job);
}

/* Otherwise the host would cancel them later, without knowing that nothing was sent. */
static void on_late(uv_timer_t *timer)
{
    outbox_sink *sink = timer->data;
    int64_t now = sink->host->now_us(sink->host->ctx), oldest = INT64_MAX;
    struct ob_smtp_job *job;
    while ((job = ob_smtp_pool_late(sink->pool, now - sink->wait_us, &oldest)))
        answer_late(sink, job);
    if (oldest < INT64_MAX)
        uv_timer_start(timer, on_late, (uint64_t)(oldest + sink->wait_us - now) / 1000 + 1, 0);
}

/* ---- what the host asks for -------------------------------------------------------------------------------------- */

static void deliver_one(outbox_sink *sink, const struct outbox_sink_item *item)
{
    struct outbox_error err;
    struct ob_smtp_job *job = ob_smtp_job_new(item->handle);
    enum outbox_code code = job ? ob_smtp_mail_build(&job->mail, &sink->config, item->msg, &err) : ob_error_nomem(&err);
    if (!code && !ob_smtp_pool_add(sink->pool, job))
        code = ob_error_nomem(&err);
    if (!code)
        return;
    answer_unsent(sink, item->handle, code, job ? job->mail.code : NULL, err.text);
    ob_smtp_job_free(job);
}

static void smtp_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        deliver_one(sink, &items[i]);
    if (!uv_is_active((uv_handle_t *)&sink->late))
        uv_timer_start(&sink->late, on_late, (uint64_t)sink->wait_us / 1000 + 1, 0);
}

static void smtp_ping(outbox_sink *sink, uint64_t handle)
{
    struct ob_smtp_job *job = ob_smtp_job_new(handle);
    if (job)
        job->ping = true;
    if (!job || !ob_smtp_pool_add(sink->pool, job)) {
        answer_unsent(sink, handle, OUTBOX_NOMEM, NULL, "out of memory");
        ob_smtp_job_free(job);
    }
}

static void smtp_step(outbox_sink *sink)
{
    struct ob_smtp_job *job;
    while ((job = ob_smtp_pool_take(sink->pool))) {
        answer(sink, job->handle, &job->verdict);
        ob_smtp_job_free(job);
    }
}

static void smtp_cancel(outbox_sink *sink, uint64_t handle)
{
    ob_smtp_pool_cancel(sink->pool, handle);
}

static void smtp_close(outbox_sink *sink)
{
    if (sink)
        sink_free(sink);
}

const struct outbox_sink_ops ob_sink_smtp = {
    OUTBOX_SINK_OPS_HEAD,
    .kind = "smtp",
    .also = "email e-mail mail mailer smtps sendmail ses",
    .keeps_order = false,
    .open = smtp_open,
    .deliver = smtp_deliver,
    .cancel = smtp_cancel,
    .step = smtp_step,
    .close = smtp_close,
    .settings = ob_smtp_settings,
    .ping = smtp_ping,
    .limit = "response_timeout",
    .limit_margin_us = 10000000, /* for a mail to get its turn */
    .check = ob_smtp_config_check,
    .descriptors = 6,
    .descriptors_each = 2,
    .connections = "connections",
    .summary = "email: one mail to one recipient per message, many over one connection",
    .peer = "url",
};
