/* broker.h - what the sinks of brokers share: a thread that keeps one connection, the queue to it and the way back.
 *
 * The client libraries of brokers wait: for names, for connections, some for room in a socket. So each such sink has a
 * thread of its own. A message becomes a job on the loop's thread: address, headers and body are copied, because after
 * a cancel the host takes its message back. The job goes to the thread, is sent by the driver, and comes back with a
 * verdict.
 *
 * Order: a job that follows another is handed to the thread only after that one was accepted; if it was not, it comes
 * back as not sent. So nothing can overtake, whatever the broker does, and all sinks built on this keep order.
 *
 * Time: what was sent and not answered within ack_timeout is unknown, together with all else that is out, and the
 * connection is given up. The next job makes a new one; there is no other reconnecting. */
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
    struct ob_list node; /* of the list of whoever has it: queue, todo, out, back */
    struct ob_list live; /* of all, on the loop's thread */
    uint64_t handle;
    const struct outbox_delivery *msg; /* borrowed, for the loop's thread only; NULL: cancelled, or a ping */
    struct ob_broker_job *ahead, *behind;
    bool ping, handed;
    atomic_bool cancelled;
    /* for the driver */
    struct ob_buf address, body;
    struct ob_headers headers;
    char id[OB_UUID_TEXT], content_type[256], correlation_id[256];
    int64_t seq, created_at_us, expires_at_us;
    int attempt;
    bool keyed;
    /* of the driver */
    uint64_t tag;
    int stage, tries;
    int64_t sent_us;
    struct ob_verdict verdict;
};

/* How one protocol is spoken. All but open, check and fini run on the broker thread. */
struct ob_broker_driver {
    size_t size; /* of what the driver keeps: self, which begins as zeros */
    const struct outbox_sink_setting *settings;
    const char *prefix;         /* of codes: "redis" */
    const struct ob_wire *wire; /* of headers */
    const char *address;        /* name of the setting with the template of addresses */
    /* Reads its settings, before there is a thread; texts may be kept in the broker thread's arena. */
    enum outbox_code (*open)(void *self, struct ob_broker *broker, const struct ob_options *options,
                             struct outbox_error *err);
    /* May this address and this body go out? False after it filled the verdict. On the loop's thread. */
    bool (*check)(void *self, const struct ob_broker_job *job, struct ob_verdict *verdict);
    /* May wait, all in all no longer than ob_broker_left_us. False after it filled the verdict. */
    bool (*connect)(void *self, struct ob_verdict *verdict);
    void (*disconnect)(void *self);       /* once more at the end, connected or not */
    int (*fd)(void *self, short *events); /* to be polled; -1: none */
    /* Ends in ob_broker_job_end, now or later, or in ob_broker_lost. */
    void (*send)(void *self, struct ob_broker_job *job);
    void (*flush)(void *self); /* after some were sent; may be NULL */
    /* Something can be read or written, the thread was kicked, or tick_us passed. */
    void (*serve)(void *self, short revents);
    /* Connected: is there more to look at? Fills the verdict. May be NULL. */
    void (*ping)(void *self, struct ob_verdict *verdict);
    /* From another thread: makes whatever waits return. May be NULL. */
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
    bool handed; /* something is in the queue that the thread was not woken for */

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

/* For ops of sinks, whose handle is the broker thread. */
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

/* For connect: what is left of connect_timeout; a moment when nothing is, because libraries take 0 for no limit. */
int64_t ob_broker_left_us(const struct ob_broker *broker);

/* For connect: waits for a descriptor to be ready within that time. False: it is over, or the sink is being closed. */
bool ob_broker_wait(struct ob_broker *broker, int fd, short events);
/* For connect: the addresses of a host within that time. False after it filled the verdict: nothing was sent. */
bool ob_broker_resolve(struct ob_broker *broker, const char *host, const char *place, struct ob_addresses *found,
                       struct ob_verdict *verdict);
/* For connect: a socket that is connected, non-blocking; the driver's to close. -1 after it filled the verdict. */
int ob_broker_dial(struct ob_broker *broker, const struct ob_broker_url *url, struct ob_verdict *verdict);

/* Fills a verdict; the code is prefix_name. */
void ob_verdict_set(struct ob_verdict *verdict, enum outbox_sink_outcome outcome, const char *prefix, const char *name,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));
/* No connection to place, for a reason that may pass. */
void ob_verdict_unreachable(struct ob_verdict *verdict, const char *prefix, const char *place, const char *why);
/* That place took longer than connect_timeout. */
void ob_verdict_silent(const struct ob_broker *broker, struct ob_verdict *verdict, const char *place);
/* We ourselves lack memory: nothing was tried. */
void ob_verdict_shortage(struct ob_verdict *verdict);
/* The job goes back with its verdict. */
void ob_broker_job_end(struct ob_broker *broker, struct ob_broker_job *job);
/* text: what is to be said about it; NULL for nothing. */
void ob_broker_job_accepted(struct ob_broker *broker, struct ob_broker_job *job, const char *reference,
                            const char *text);
/* It was certainly not taken, and goes out once more before all that waits. */
void ob_broker_job_again(struct ob_broker *broker, struct ob_broker_job *job);
/* The connection is no good: what is out is unknown. */
void ob_broker_lost(struct ob_broker *broker, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sends nothing more over this connection; when nothing is out any more it is closed. */
void ob_broker_drain(struct ob_broker *broker);
/* The broker wants no messages for now, or wants them again. */
void ob_broker_hold(struct ob_broker *broker, const char *name, const char *text);
void ob_broker_unhold(struct ob_broker *broker);
/* From any thread: serve is called soon. */
void ob_broker_kick(struct ob_broker *broker);

#endif
