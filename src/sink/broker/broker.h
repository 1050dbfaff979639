/* broker.h - the shared part of the sinks for brokers: a thread that owns one connection, and the queues to and from it.
 *
 * The client libraries of brokers block: on name resolution, on connecting, some on a full socket. So each such sink has
 * its own thread. A message becomes a job on the loop's thread: address, headers and body are copied, because after a
 * cancel the host takes its message back. The job goes to the broker thread, is sent by the driver, and comes back with a
 * verdict.
 *
 * Order: a job that follows another is handed to the broker thread only after the earlier one was accepted; otherwise it
 * comes back as not sent. So no message can overtake another, whatever the broker does, and all sinks built on this keep
 * order.
 *
 * Time: a job that was sent and not answered within ack_timeout is unknown, together with all others in flight, and the
 * connection is closed. The next job opens a new one; there is no other reconnecting. */
#ifndef OB_SINK_BROKER_BROKER_H
#define OB_SINK_BROKER_BROKER_H

#include "base/buf.h"
#include "base/list.h"
#include "base/resolve.h"
#include "base/uuid.h"
#include "sink/broker/url.h"
#include "sink/common/header.h"
#include "sink/common/option.h"
#include "sink/common/render.h"
#include "sink/common/template.h"
#include "sink/common/tls.h"

#include <outbox/sink.h>

#include <pthread.h>
#include <stdatomic.h>

struct ob_broker;

/* A verdict with room for its texts. */
struct ob_verdict {
    enum outbox_sink_outcome outcome;
    enum outbox_sink_scope scope;
    bool unreachable, local;
    int64_t not_before_us;
    char code[64], text[320], reference[160];
};

/* One message between deliver and its verdict. */
struct ob_broker_job {
    struct ob_list node; /* in the list of its current holder: queue, todo, out or back */
    struct ob_list live; /* in the list of all jobs, on the loop's thread */
    uint64_t handle;
    const struct outbox_delivery *msg; /* borrowed, for the loop's thread only; NULL: cancelled, or a ping */
    struct ob_broker_job *ahead, *behind;
    bool ping, handed;
    atomic_bool cancelled;
    /* read by the driver */
    struct ob_buf address, body;
    struct ob_headers headers;
    char id[OB_UUID_TEXT], content_type[256], correlation_id[256];
    int64_t seq, created_at_us, expires_at_us;
    int attempt;
    bool keyed;
    /* written by the driver */
    uint64_t tag;
    int stage, tries;
    int64_t sent_us;
    struct ob_verdict verdict;
};

/* The implementation of one protocol. All functions but open, check and fini run on the broker thread. */
struct ob_broker_driver {
    size_t size; /* of the driver's state, self, which is zeroed at first */
    const struct outbox_sink_setting *settings;
    const char *prefix;         /* of codes: "redis" */
    const struct ob_wire *wire; /* of headers */
    const char *address;        /* name of the setting with the template of addresses */
    /* Reads its settings, before the thread starts; texts may be kept in the broker's arena. */
    enum outbox_code (*open)(void *self, struct ob_broker *broker, const struct ob_options *options,
                             struct outbox_error *err);
    /* Whether this address and this body may be sent. If not, it fills the verdict. On the loop's thread. */
    bool (*check)(void *self, const struct ob_broker_job *job, struct ob_verdict *verdict);
    /* May block, in total no longer than ob_broker_left_us. On failure it fills the verdict and returns false. */
    bool (*connect)(void *self, struct ob_verdict *verdict);
    void (*disconnect)(void *self);       /* also called at the end, connected or not */
    int (*fd)(void *self, short *events); /* to be polled; -1: none */
    /* Leads to ob_broker_job_end, now or later, or to ob_broker_lost. */
    void (*send)(void *self, struct ob_broker_job *job);
    void (*flush)(void *self); /* after one or more sends; may be NULL */
    /* The descriptor is readable or writable, the thread was kicked, or tick_us passed. */
    void (*serve)(void *self, short revents);
    /* Further checks once connected. Fills the verdict. May be NULL. */
    void (*ping)(void *self, struct ob_verdict *verdict);
    /* From another thread: makes a blocking call return. May be NULL. */
    void (*interrupt)(void *self);
    void (*fini)(void *self); /* after the last disconnect, also when open failed; may be NULL */
    int64_t tick_us;
};

struct ob_broker {
    const struct ob_broker_driver *driver;
    void *self; /* the driver's */
    const struct outbox_sink_host *host;
    struct ob_arena arena; /* of settings; the driver's too */
    struct ob_render render;
    ob_template *address;
    bool reads_payload, one_address;
    int64_t connect_timeout_us, ack_timeout_us;

    /* the loop's thread */
    struct ob_list live;
    bool handed; /* the queue has jobs that the thread was not woken for */

    /* both */
    pthread_mutex_t mutex;
    struct ob_list queue, back;
    bool stop, finished, abandoned;
    int event_fd;
    pthread_t thread;

    /* the broker thread */
    struct ob_list todo, out;
    size_t out_count, in_flight_max;
    bool connected, lost, draining, held;
    int64_t connect_until_us;
    struct ob_verdict why; /* of lost and held */
};

#define OB_BROKER_SETTINGS \
    {.name = "connect_timeout", \
     .type = OUTBOX_OPTION_DURATION, \
     .fallback = "3s", \
     .least = 1000, \
     .most = 3600000000, \
     .doc = "time limit for connecting, TLS and login together"}, \
        {.name = "ack_timeout", \
         .type = OUTBOX_OPTION_DURATION, \
         .fallback = "5s", \
         .least = 1000, \
         .most = 3600000000, \
         .doc = "time without an answer after which deliveries in flight are unknown and the connection is closed; " \
                "ack_timeout plus connect_timeout must be below `timeout`"}, \
    { \
        .name = "in_flight", .type = OUTBOX_OPTION_INT, .fallback = "256", .least = 1, .most = 100000, \
        .doc = "most unacknowledged messages in flight" \
    }

/* For the ops of sinks whose handle is a struct ob_broker. */
#define OB_BROKER_OPS \
    OUTBOX_SINK_OPS_HEAD, .keeps_order = true, .deliver = ob_broker_deliver, .cancel = ob_broker_cancel, \
                          .step = ob_broker_step, .close = ob_broker_close, .ping = ob_broker_ping, .descriptors = 8

/* Reads the settings above, those of render.h, the address and the driver's own. */
enum outbox_code ob_broker_open(const struct ob_broker_driver *driver, const struct outbox_sink_option *options,
                                size_t count, const struct outbox_sink_host *host, outbox_sink **sink,
                                struct outbox_error *err);
void ob_broker_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count);
void ob_broker_cancel(outbox_sink *sink, uint64_t handle);
void ob_broker_step(outbox_sink *sink);
void ob_broker_close(outbox_sink *sink);
void ob_broker_ping(outbox_sink *sink, uint64_t handle);

/* For open: the text of a setting, copied; NULL for none. *failed becomes true when memory ran out. */
const char *ob_broker_keep(struct ob_broker *broker, const struct ob_options *options, const char *name, bool *failed);

/* ---- for drivers, on the broker thread ---- */

/* For connect: what is left of connect_timeout; never 0, because libraries take 0 for no limit. */
int64_t ob_broker_left_us(const struct ob_broker *broker);

/* For connect: waits for a descriptor to be ready within that time. False: time is up, or the sink is being closed. */
bool ob_broker_wait(struct ob_broker *broker, int fd, short events);
/* For connect: resolves a host within that time. On failure it fills the verdict (nothing was sent) and returns false. */
bool ob_broker_resolve(struct ob_broker *broker, const char *host, const char *place, struct ob_addresses *found,
                       struct ob_verdict *verdict);
/* For connect: a connected, non-blocking socket; the driver closes it. On failure it fills the verdict and returns -1. */
int ob_broker_dial(struct ob_broker *broker, const struct ob_broker_url *url, struct ob_verdict *verdict);

/* Fills a verdict; the code is prefix_name. */
void ob_verdict_set(struct ob_verdict *verdict, enum outbox_sink_outcome outcome, const char *prefix, const char *name,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));
/* No connection to place, for a reason that may pass. */
void ob_verdict_unreachable(struct ob_verdict *verdict, const char *prefix, const char *place, const char *why);
/* place did not answer within connect_timeout. */
void ob_verdict_silent(const struct ob_broker *broker, struct ob_verdict *verdict, const char *place);
/* This process is out of memory: nothing was tried. */
void ob_verdict_shortage(struct ob_verdict *verdict);
/* The job goes back with its verdict. */
void ob_broker_job_end(struct ob_broker *broker, struct ob_broker_job *job);
/* text: the text of the verdict; may be NULL. */
void ob_broker_job_accepted(struct ob_broker *broker, struct ob_broker_job *job, const char *reference,
                            const char *text);
/* The broker certainly did not take it: it is sent again, ahead of all waiting jobs. */
void ob_broker_job_again(struct ob_broker *broker, struct ob_broker_job *job);
/* The connection is lost: all jobs in flight are unknown. */
void ob_broker_lost(struct ob_broker *broker, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sends nothing more over this connection, and closes it once nothing is in flight. */
void ob_broker_drain(struct ob_broker *broker);
/* The broker accepts no messages for now, or accepts them again. */
void ob_broker_hold(struct ob_broker *broker, const char *name, const char *text);
void ob_broker_unhold(struct ob_broker *broker);
/* From any thread: serve is called soon. */
void ob_broker_kick(struct ob_broker *broker);

#endif
