/* amqp.c - the RabbitMQ sink: publisher confirms are the proof; an unroutable message is confirmed too, but returned
 * before, and is not accepted.
 *
 * When the broker closes a channel, it says what was wrong with a message, but not with which. If only one was in flight,
 * it is that one. Otherwise all are unknown, and for a while messages are sent one at a time, until the wrong one is found.
 *
 * During an alarm (memory, disk) the broker stops reading: messages not sent yet come back as limited, at no cost.
 *
 * The library blocks without limit when a socket is full. So it runs on the broker thread, with a send timeout kept by the
 * kernel, and everything received is read before every publish: a receive deadline that passes inside publish would, in
 * this version, block it forever.
 *
 * Thread: the broker thread's, except for amqp_check, amqp_interrupt and open. */
#include "sink/broker/amqp/amqp_int.h"

#include "base/error.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

extern const struct outbox_sink_ops ob_sink_amqp;

enum {
    CAREFUL = 1000, /* messages sent one at a time after a channel was closed */
    KEY_MOST = 255  /* of a routing key */
};

#define UNPUBLISHED UINT64_MAX /* the tag of a job that the broker cannot speak of yet */

/* ---- verdicts ---- */

/* The only job that was published and not answered; NULL if there is none, or several (then *several is set). */
static struct ob_broker_job *only_one_out(const struct ob_amqp *amqp, bool *several)
{
    struct ob_broker_job *found = NULL;
    *several = false;
    OB_LIST_EACH (it, &amqp->broker->out) {
        struct ob_broker_job *job = OB_CONTAINER(it, struct ob_broker_job, node);
        if (job->tag == UNPUBLISHED)
            continue;
        *several = found != NULL;
        if (found)
            return NULL;
        found = job;
    }
    return found;
}

static void carefree(struct ob_amqp *amqp)
{
    amqp->careful = 0;
    amqp->broker->in_flight_max = amqp->in_flight_max;
}

static void confirmed(struct ob_amqp *amqp, struct ob_broker_job *job)
{
    if (amqp->careful > 0 && --amqp->careful == 0)
        carefree(amqp);
    if (!job->stage) {
        char reference[32];
        snprintf(reference, sizeof reference, "%" PRIu64, job->tag);
        ob_broker_job_accepted(amqp->broker, job, reference, NULL);
        return;
    }
    char name[16];
    snprintf(name, sizeof name, "%d", job->stage);
    ob_verdict_set(&job->verdict, amqp->unroutable_terminal ? OUTBOX_SINK_TERMINAL : OUTBOX_SINK_BLOCKED, "amqp", name,
                   "the broker returned the message: no queue is bound for %.200s", ob_buf_text(&job->address));
    if (!amqp->broker->one_address)
        job->verdict.scope = OUTBOX_SCOPE_MESSAGE;
    ob_broker_job_end(amqp->broker, job);
}

static void refused(struct ob_amqp *amqp, struct ob_broker_job *job)
{
    ob_verdict_set(&job->verdict, OUTBOX_SINK_RETRY, "amqp", "nack", "a queue rejected the message");
    job->verdict.scope = OUTBOX_SCOPE_MESSAGE;
    ob_broker_job_end(amqp->broker, job);
}

static void settle(struct ob_amqp *amqp, uint64_t tag, bool multiple,
                   void (*end)(struct ob_amqp *, struct ob_broker_job *))
{
    OB_LIST_EACH_SAFE (it, &amqp->broker->out) {
        struct ob_broker_job *job = OB_CONTAINER(it, struct ob_broker_job, node);
        if (job->tag > tag)
            return;
        if (multiple || job->tag == tag)
            end(amqp, job);
    }
}

static void channel_closed(struct ob_amqp *amqp, const amqp_channel_close_t *said)
{
    bool several;
    struct ob_broker_job *job = only_one_out(amqp, &several);
    if (job) {
        ob_amqp_rule_close(&job->verdict, said->reply_code, said->reply_text);
        ob_broker_job_end(amqp->broker, job);
        carefree(amqp);
    } else if (several) {
        amqp->careful = CAREFUL;
        amqp->broker->in_flight_max = 1;
    }
    ob_broker_lost(amqp->broker, "channel_closed", "the broker closed the channel: %d %.*s", said->reply_code,
                   (int)(said->reply_text.len < 200 ? said->reply_text.len : 200), (char *)said->reply_text.bytes);
}

/* ---- frames ---- */

/* The job that this return is about. A cancelled copy of the message may be in flight before the current one: returns come
 * in the order of publishing, so it is the first job without a return. */
static struct ob_broker_job *find(const struct ob_amqp *amqp, amqp_bytes_t id)
{
    OB_LIST_EACH (it, &amqp->broker->out) {
        struct ob_broker_job *job = OB_CONTAINER(it, struct ob_broker_job, node);
        if (job->stage || job->tag == UNPUBLISHED)
            continue;
        if (strlen(job->id) == id.len && memcmp(job->id, id.bytes, id.len) == 0)
            return job;
    }
    return NULL;
}

/* A return is a method, a header that names the message, and its body. */
static void read_return(struct ob_amqp *amqp, const amqp_frame_t *frame)
{
    if (frame->frame_type == AMQP_FRAME_HEADER) {
        const amqp_basic_properties_t *props = frame->payload.properties.decoded;
        struct ob_broker_job *job =
            props && props->_flags & AMQP_BASIC_MESSAGE_ID_FLAG ? find(amqp, props->message_id) : NULL;
        if (job)
            job->stage = amqp->return_code;
        amqp->return_left = frame->payload.properties.body_size;
    } else {
        size_t len = frame->payload.body_fragment.len;
        amqp->return_left -= len < amqp->return_left ? len : amqp->return_left;
    }
    amqp->returning = amqp->return_left > 0;
}

static void read_method(struct ob_amqp *amqp, const amqp_method_t *method)
{
    switch (method->id) {
    case AMQP_BASIC_ACK_METHOD: {
        const amqp_basic_ack_t *ack = method->decoded;
        settle(amqp, ack->delivery_tag ? ack->delivery_tag : UNPUBLISHED - 1, ack->multiple, confirmed);
        break;
    }
    case AMQP_BASIC_NACK_METHOD: {
        const amqp_basic_nack_t *nack = method->decoded;
        settle(amqp, nack->delivery_tag ? nack->delivery_tag : UNPUBLISHED - 1, nack->multiple, refused);
        break;
    }
    case AMQP_BASIC_RETURN_METHOD: {
        const amqp_basic_return_t *back = method->decoded;
        amqp->return_code = back->reply_code;
        amqp->returning = true;
        break;
    }
    case AMQP_CHANNEL_CLOSE_METHOD: channel_closed(amqp, method->decoded); break;
    case AMQP_CONNECTION_CLOSE_METHOD: {
        const amqp_connection_close_t *said = method->decoded;
        ob_broker_lost(amqp->broker, "connection_closed", "the broker closed the connection: %d %.*s", said->reply_code,
                       (int)(said->reply_text.len < 200 ? said->reply_text.len : 200), (char *)said->reply_text.bytes);
        break;
    }
    case AMQP_CONNECTION_BLOCKED_METHOD:
        ob_broker_hold(amqp->broker, "alarm", "the broker blocks publishers: a memory or disk alarm is active");
        break;
    case AMQP_CONNECTION_UNBLOCKED_METHOD: ob_broker_unhold(amqp->broker); break;
    default: break;
    }
}

/* Reads everything received. Also lets the library send its heartbeats. */
static void drain(struct ob_amqp *amqp)
{
    struct timeval now = {0};
    while (!amqp->broker->lost) {
        amqp_frame_t frame;
        int status = amqp_simple_wait_frame_noblock(amqp->state, &frame, &now);
        if (status == AMQP_STATUS_TIMEOUT)
            return;
        if (status != AMQP_STATUS_OK) {
            ob_broker_lost(amqp->broker, status == AMQP_STATUS_HEARTBEAT_TIMEOUT ? "heartbeat" : "lost",
                           "reading from RabbitMQ: %s", amqp_error_string2(status));
            return;
        }
        if (frame.frame_type == AMQP_FRAME_METHOD)
            read_method(amqp, &frame.payload.method);
        else if (amqp->returning)
            read_return(amqp, &frame);
        amqp_maybe_release_buffers(amqp->state);
    }
}

static void amqp_send(void *self, struct ob_broker_job *job)
{
    struct ob_amqp *amqp = self;
    job->stage = 0;
    job->tag = UNPUBLISHED;
    drain(amqp);
    if (amqp->broker->lost || amqp->broker->held) {
        struct ob_verdict why = amqp->broker->why;
        if (amqp->broker->lost) /* nothing of it was written */
            why.outcome = OUTBOX_SINK_RETRY;
        job->verdict = why;
        ob_broker_job_end(amqp->broker, job);
        return;
    }
    int status = ob_amqp_publish(amqp, job);
    if (status > 0) {
        if (status == OB_AMQP_SHORTAGE)
            ob_verdict_shortage(&job->verdict);
        else
            ob_verdict_set(&job->verdict, OUTBOX_SINK_TERMINAL, "amqp", "headers_too_large",
                           "the headers do not fit into one frame of this broker (%d bytes)",
                           amqp_get_frame_max(amqp->state));
        ob_broker_job_end(amqp->broker, job);
        return;
    }
    job->tag = ++amqp->tags;
    if (status == AMQP_STATUS_TABLE_TOO_BIG) { /* it was partly written: the channel cannot be used any more */
        ob_verdict_set(&job->verdict, OUTBOX_SINK_TERMINAL, "amqp", "headers_too_large", "%s",
                       amqp_error_string2(status));
        ob_broker_job_end(amqp->broker, job);
    }
    if (status != AMQP_STATUS_OK)
        ob_broker_lost(amqp->broker, status == AMQP_STATUS_HEARTBEAT_TIMEOUT ? "heartbeat" : "lost",
                       "writing to RabbitMQ: %s", amqp_error_string2(status));
}

static void amqp_serve(void *self, short revents)
{
    (void)revents;
    drain(self);
}

static int amqp_fd(void *self, short *events)
{
    const struct ob_amqp *amqp = self;
    *events = POLLIN;
    return amqp_get_sockfd(amqp->state);
}

static void amqp_interrupt(void *self)
{
    struct ob_amqp *amqp = self;
    pthread_mutex_lock(&amqp->mutex);
    if (amqp->fd >= 0)
        shutdown(amqp->fd, SHUT_RDWR);
    pthread_mutex_unlock(&amqp->mutex);
}

static bool amqp_check(void *self, const struct ob_broker_job *job, struct ob_verdict *verdict)
{
    (void)self;
    if (job->address.len <= KEY_MOST)
        return true;
    ob_verdict_set(verdict, OUTBOX_SINK_TERMINAL, "amqp", "address", "a routing key has at most 255 bytes");
    return false;
}

static void amqp_ping(void *self, struct ob_verdict *verdict)
{
    const struct ob_amqp *amqp = self;
    snprintf(verdict->text, sizeof verdict->text, "connected to %s; %s%s exists", amqp->url.host,
             amqp->exchange[0] ? "the exchange " : "the default exchange", amqp->exchange);
}

static void amqp_fini(void *self)
{
    struct ob_amqp *amqp = self;
    pthread_mutex_destroy(&amqp->mutex);
}

/* ---- settings ---- */

static const struct outbox_sink_setting settings[] = {
    {"url", OUTBOX_OPTION_TEXT, .required = true,
     .doc = "broker URL: `amqp://host:port/vhost`, or `amqps://` for TLS; the vhost defaults to `/`"},
    {"username", OUTBOX_OPTION_TEXT, .fallback = "guest", .doc = "user name"},
    {"password", OUTBOX_OPTION_TEXT, .fallback = "guest", .secret = true, .doc = "password"},
    OB_TLS_SETTINGS,
    {"exchange", OUTBOX_OPTION_TEXT,
     .doc = "exchange to publish to (default: the default exchange, whose routing keys are queue names)"},
    {"routing_key", OUTBOX_OPTION_TEXT, .fallback = "{{@topic}}", .doc = "routing key: a text or a template"},
    {"mandatory", OUTBOX_OPTION_BOOL, .fallback = "true",
     .doc = "the broker returns messages that no queue takes; off: they count as accepted and are dropped"},
    {"unroutable", OUTBOX_OPTION_ENUM, .choices = "blocked terminal", .fallback = "blocked",
     .doc = "outcome of a returned message"},
    {"persistent", OUTBOX_OPTION_BOOL, .fallback = "true", .doc = "delivery mode 2: messages survive a broker restart"},
    {"heartbeat", OUTBOX_OPTION_DURATION, .fallback = "30s", .least = 0, .most = 3600000000,
     .doc = "heartbeat interval; a broker silent for twice as long counts as lost; 0: no heartbeat"},
    OB_BROKER_SETTINGS,
    OB_RENDER_SETTINGS,
    {NULL},
};

static enum outbox_code read_settings(void *self, struct ob_broker *broker, const struct ob_options *options,
                                      struct outbox_error *err)
{
    struct ob_amqp *amqp = self;
    bool failed = false;
    amqp->broker = broker;
    amqp->in_flight_max = broker->in_flight_max;
    amqp->fd = -1;
    pthread_mutex_init(&amqp->mutex, NULL);
    const char *exchange = ob_broker_keep(broker, options, "exchange", &failed);
    amqp->exchange = exchange ? exchange : "";
    amqp->username = ob_broker_keep(broker, options, "username", &failed);
    amqp->password = ob_broker_keep(broker, options, "password", &failed);
    amqp->persistent = ob_option_bool(options, "persistent");
    amqp->mandatory = ob_option_bool(options, "mandatory");
    amqp->unroutable_terminal = ob_option_is(options, "unroutable", "terminal");
    amqp->heartbeat = (int)((ob_option_int(options, "heartbeat") + 999999) / 1000000);
    const char *url = ob_option_string(options, "url");
    bool tls = strncmp(url, "amqps:", 6) == 0;
    enum outbox_code code = ob_broker_url_parse(&amqp->url, url, "amqp amqps", tls ? 5671 : 5672, err);
    if (code)
        return code;
    amqp->secure = tls;
    amqp->vhost = amqp->url.has_path ? amqp->url.path : "/";
    if (failed)
        return ob_error_nomem(err);
    if ((code = ob_tls_read(&amqp->tls, options, &broker->arena, err)))
        return code;
    if (strlen(amqp->exchange) > KEY_MOST)
        return ob_error_set(err, OUTBOX_INVALID, "an exchange name has at most 255 bytes");
    if (!amqp->username || !amqp->password)
        return ob_error_set(err, OUTBOX_INVALID, "username and password must not be empty");
    return OUTBOX_OK;
}

static const struct ob_broker_driver driver = {
    .size = sizeof(struct ob_amqp),
    .settings = settings,
    .open = read_settings,
    .prefix = "amqp",
    .wire = &ob_wire_amqp,
    .address = "routing_key",
    .check = amqp_check,
    .connect = ob_amqp_connect,
    .disconnect = ob_amqp_disconnect,
    .fd = amqp_fd,
    .send = amqp_send,
    .serve = amqp_serve,
    .ping = amqp_ping,
    .interrupt = amqp_interrupt,
    .fini = amqp_fini,
    .tick_us = 500000,
};

static enum outbox_code amqp_open(const struct outbox_sink_option *options, size_t count,
                                  const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    return ob_broker_open(&driver, options, count, host, sink, err);
}

const struct outbox_sink_ops ob_sink_amqp = {
    OB_BROKER_OPS,          .kind = "amqp",       .also = "rabbitmq rabbit amqps lapin",
    .open = amqp_open,      .settings = settings, .summary = "publishes to RabbitMQ (AMQP 0-9-1)",
    .protocol = "rabbitmq", .peer = "url",        .destination = "exchange:routing_key",
};
