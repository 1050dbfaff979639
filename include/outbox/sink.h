/* sink.h - the interface of a sink: something that delivers messages to a receiver and reports the outcome.
 *
 * A sink is asynchronous and works on batches. deliver passes it messages and returns at once; later the sink calls
 * host->done once for each of them, in any order. It may do so before deliver returns.
 *
 * Order: an item with `follows` set has the same key as the item before it. The sink must not send it before that one was
 * accepted; if that one was not accepted, it reports OUTBOX_SINK_NOT_SENT. A sink that cannot promise this leaves keeps_order
 * false; then it never gets two messages of one key at the same time.
 *
 * Time limits: the host watches the clock. When a delivery takes too long or must not continue, it calls cancel. From then
 * on the sink does nothing more for that handle and need not report an outcome; if it does so, the host ignores it.
 *
 * Closing: the host calls close when it no longer needs the sink, but never from within host->done: when done returns, the
 * sink still exists. It does not call close after an open that failed: open itself must clean up.
 *
 * Threads: the host makes all calls on the thread of its loop, and the sink calls host->done on that thread only. A sink with
 * threads of its own calls host->wake, from any thread; the host then calls step on the thread of its loop.
 *
 * Versions: see outbox.h. A sink built with an older or newer header runs on this host: the host converts arrays to the
 * element sizes that the sink was built with, and ignores members that it does not know. A sink reads a member of the host or
 * of a message that its oldest host may lack only if OUTBOX_HAS says that it is there. OUTBOX_SINK_ABI changes only when this
 * is impossible; such a sink must be built again. */
#ifndef OUTBOX_SINK_H
#define OUTBOX_SINK_H

#include <outbox/outbox.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { OUTBOX_SINK_ABI = 1 };

enum outbox_log_level { OUTBOX_LOG_DEBUG, OUTBOX_LOG_INFO, OUTBOX_LOG_WARN, OUTBOX_LOG_ERROR };

/* How a delivery ended. Decide by codes, never by the text of a reply. */
enum outbox_sink_outcome {
    OUTBOX_SINK_ACCEPTED, /* the receiver has it */
    OUTBOX_SINK_RETRY,    /* the receiver certainly does not have it and may take it later */
    OUTBOX_SINK_LIMITED,  /* the receiver asked to slow down */
    OUTBOX_SINK_TERMINAL, /* the message itself is wrong: no receiver will ever take it */
    OUTBOX_SINK_BLOCKED,  /* not the message is wrong but what `scope` names: credentials, address, account */
    OUTBOX_SINK_UNKNOWN,  /* bytes were sent, no answer came: the receiver may have it */
    OUTBOX_SINK_NOT_SENT, /* nothing was sent; no attempt is spent */
};

/* What a limit or a block applies to. */
enum outbox_sink_scope {
    OUTBOX_SCOPE_MESSAGE,   /* this message only */
    OUTBOX_SCOPE_RECIPIENT, /* this recipient; messages to others continue */
    OUTBOX_SCOPE_SINK,      /* everything that goes through this sink */
};

/* The outcome of a delivery. Initialise it with OUTBOX_VERDICT_INIT. */
struct outbox_verdict {
    size_t size;
    enum outbox_sink_outcome outcome;
    /* Of LIMITED and BLOCKED. Of RETRY and UNKNOWN: a failure of one RECIPIENT does not count for the breaker, others do. Of
     * NOT_SENT: what a shortage on this side applies to. */
    enum outbox_sink_scope scope;
    bool unreachable;      /* of RETRY and UNKNOWN: the receiver seems to be down */
    bool local;            /* decided here, without an answer of the receiver: says nothing about whether it is up */
    const char *code;      /* stable, for programs, such as "http_503"; NULL for none */
    const char *text;      /* for people, cut at 4000 bytes; NULL for none */
    int64_t not_before_us; /* how long the receiver asks us to wait, from now; -1: it did not say */
    const char *reference; /* the receiver's own id for what it accepted; NULL for none */
    const char *output;    /* JSON for outcome hooks; NULL for none */
    int status;            /* the number that the protocol has for it, such as 204 of HTTP; 0: none */
    unsigned char reserved[4]; /* zero */
};
#define OUTBOX_VERDICT_INIT \
    { \
        .size = sizeof(struct outbox_verdict), .not_before_us = -1 \
    }

/* One message to deliver. msg is borrowed until done or cancel is called for the handle. */
struct outbox_sink_item {
    uint64_t handle;
    const struct outbox_delivery *msg;
    bool follows;              /* see the top of this file */
    unsigned char reserved[7]; /* zero */
};

/* What the host offers a sink. Valid until close returns; after an open that failed, until open returns. */
struct outbox_sink_host {
    size_t size;
    void *ctx;  /* to be passed to the functions below */
    void *loop; /* the uv_loop_t of the host, for handles of the sink's own */
    void (*done)(void *ctx, uint64_t handle, const struct outbox_verdict *verdict); /* copies what verdict points to */
    void (*wake)(void *ctx);                                                        /* asks for step; from any thread */
    int64_t (*now_us)(void *ctx);                                                   /* a monotonic clock */
    void (*log)(void *ctx, enum outbox_log_level level, const char *text);          /* one line, without secrets */
    const char *name;   /* of this sink in the configuration */
    int64_t timeout_us; /* a delivery that takes longer is cancelled; 0: unknown */
};

/* An option of the sink, as text. Nested options have dotted names ("tls.ca"). A list is one option per element, all with the
 * same name. References to secrets are resolved. Borrowed until open returns. */
struct outbox_sink_option {
    const char *name, *value;
};

enum outbox_option_type {
    OUTBOX_OPTION_TEXT,
    OUTBOX_OPTION_INT,      /* decimal */
    OUTBOX_OPTION_BOOL,     /* "true" or "false" */
    OUTBOX_OPTION_DURATION, /* written as "10s"; passed to open in microseconds, decimal */
    OUTBOX_OPTION_SIZE,     /* written as "64KiB"; passed to open in bytes, decimal */
    OUTBOX_OPTION_ENUM,     /* one of the words in `choices` */
    OUTBOX_OPTION_LIST,     /* of text */
    OUTBOX_OPTION_MAP,      /* any names below this one: "headers.X-Team", passed to open with the full dotted name */
    OUTBOX_OPTION_FILE,     /* text: a file that open reads. When the file changed, a reload opens the sink again. */
};

/* An option that a kind of sink knows. From this table the host checks names, types and ranges, fills in defaults, hides
 * secrets and writes the reference. A table ends with a row without a name. */
struct outbox_sink_setting {
    const char *name;
    enum outbox_option_type type;
    const char *fallback; /* the default, as a user would write it; NULL: none */
    const char *choices;  /* of ENUM: words separated by spaces */
    int64_t least, most;  /* of numbers; both 0: any */
    bool required, secret;
    bool hidden;     /* may contain a secret, such as a header: shown only on request (outbox config --reveal) */
    const char *doc; /* for the reference */
    /* (optional) Words that others use for this option, separated by spaces. They are refused with a hint. */
    const char *also;
};

/* A configuration for check to look at. */
struct outbox_sink_check {
    size_t size;
    const struct outbox_sink_option *options; /* as open would get them */
    size_t count;
    int64_t timeout_us;   /* delivery setting `timeout` */
    int64_t after_cap_us; /* delivery setting `retry.after_cap` */
    void *ctx;            /* to be passed to problem */
    /* Reports a problem: an error, with which the sink must not run, or a warning. setting: the option of the sink or the
     * delivery setting that it is about. text: the rest of the sentence, such as "is 5s, but must be above timeout (3s)". */
    void (*problem)(void *ctx, bool error, const char *setting, const char *text);
};

typedef struct outbox_sink outbox_sink; /* the sink's own data; it defines the struct */

/* A kind of sink. Begin the initialiser with OUTBOX_SINK_OPS_HEAD. Members marked (optional) may be NULL or 0. */
struct outbox_sink_ops {
    size_t size;
    int abi;             /* OUTBOX_SINK_ABI */
    bool keeps_order;    /* see the top of this file */
    size_t item_size;    /* of an element of deliver's items */
    size_t option_size;  /* of an element of open's options */
    size_t setting_size; /* of a row of settings */
    const char *kind;    /* the name in the configuration, such as "http" */
    /* Makes a sink: returns OUTBOX_OK and sets *sink, or fills err and returns its code. Connecting can wait for the first
     * message. host stays valid until close returns. */
    enum outbox_code (*open)(const struct outbox_sink_option *options, size_t count,
                             const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err);
    /* Delivers messages; the array is borrowed until it returns. */
    void (*deliver)(outbox_sink *sink, const struct outbox_sink_item *items, size_t count);
    /* Drops one delivery. Must accept a handle that is done already. */
    void (*cancel)(outbox_sink *sink, uint64_t handle);
    /* (optional) Called on the thread of the loop after host->wake; several wakes may cause one step. */
    void (*step)(outbox_sink *sink);
    /* Frees the sink and drops all its deliveries. Must accept NULL. */
    void (*close)(outbox_sink *sink);
    /* (optional) The options that open knows. NULL: any name is accepted, as text. */
    const struct outbox_sink_setting *settings;
    /* (optional) Tests whether the receiver would take messages, without sending one; reports to host->done with this handle,
     * as for a delivery. */
    void (*ping)(outbox_sink *sink, uint64_t handle);
    const char *summary; /* (optional) one line for `outbox version` and the reference */
    /* (optional) The name of a DURATION setting after which the sink ends a delivery by itself. The host's default time limit
     * is then longer than that by limit_margin_us, see below. */
    const char *limit;
    /* (optional) File descriptors in use: a fixed number, and a number per connection. There are as many connections as
     * messages in flight, but no more than the INT setting named by `connections` if there is one and it is not 0. Both 0: the
     * host estimates. */
    int descriptors, descriptors_each;
    const char *connections;
    int64_t limit_margin_us; /* (optional) of limit */
    /* (optional) The longest wait that receivers of this kind ask for. The host's default of `retry.after_cap` is at least
     * this. */
    int64_t patience_us;
    const char *also; /* (optional) other words for this kind, separated by spaces. They are refused with a hint. */
    /* (optional) Checks settings that depend on each other, before open and without side effects: nothing is connected to.
     * Each option is valid by itself. check is borrowed until it returns. */
    void (*check)(const struct outbox_sink_check *check);
    /* (optional) How an attempt appears in traces: "http"; "local", nothing leaves this machine; or the name of a kind of
     * broker, such as "kafka". NULL: another protocol. */
    const char *protocol;
    /* (optional, for traces) The setting that holds the receiver's URL, or its host and port. */
    const char *peer;
    /* (optional, for traces) Of a broker: the setting that names where messages go; with a second one before it and what stands
     * between them, + for nothing: "exchange:routing_key". Without a value, it is the message's topic. */
    const char *destination;
};
#define OUTBOX_SINK_OPS_HEAD \
    .size = sizeof(struct outbox_sink_ops), .abi = OUTBOX_SINK_ABI, .item_size = sizeof(struct outbox_sink_item), \
    .option_size = sizeof(struct outbox_sink_option), .setting_size = sizeof(struct outbox_sink_setting)

/* The function that a shared object exports under the name "outbox_sink_ops". What it returns must stay valid. */
typedef const struct outbox_sink_ops *outbox_sink_entry(void);

#ifdef __cplusplus
}
#endif
#endif
