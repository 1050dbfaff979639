/* sink.h - the interface of an adapter: something that delivers messages to the world and says how it went.
 *
 * A sink is asynchronous and batched. deliver hands it some messages and returns at once; later the sink calls
 * host->done once for each of them, in any order. It may do so before deliver returns.
 *
 * Order: an item with `follows` set belongs to the same key as the item before it. It must not be sent before that one
 * was accepted, and when that one was not, the sink says OUTBOX_SINK_NOT_SENT for it. A sink that cannot promise this
 * leaves keeps_order false: then it is never given two messages of one key at once.
 *
 * Time: the host watches the clock. When a delivery takes too long, or must not go on, it calls cancel: from then on the
 * sink does nothing more for that handle, and need not answer. An answer that comes all the same does no harm.
 *
 * The end: close comes when the host is done with the sink, never from within one of its calls of host->done: after done
 * returns the sink is still there. Nor does it come after an open that failed: open itself cleans up.
 *
 * Threads: all calls are made on the thread of the host's loop, and so are the sink's calls of host->done. A sink with
 * threads of its own calls host->wake, from any thread; its step is then called on the loop's thread.
 *
 * Versions: structs begin with their size; new fields are added at the end only. */
#ifndef OUTBOX_SINK_H
#define OUTBOX_SINK_H

#include <outbox/outbox.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { OUTBOX_SINK_ABI = 1 };

enum outbox_log_level { OUTBOX_LOG_DEBUG, OUTBOX_LOG_INFO, OUTBOX_LOG_WARN, OUTBOX_LOG_ERROR };

/* How a delivery ended, as the adapter sees it. Adapters decide by codes, never by the text of a reply. */
enum outbox_sink_outcome {
    OUTBOX_SINK_ACCEPTED, /* the receiver has it */
    OUTBOX_SINK_RETRY,    /* it certainly has not, and may take it later */
    OUTBOX_SINK_LIMITED,  /* told to slow down */
    OUTBOX_SINK_TERMINAL, /* this message is wrong: it will never be taken */
    OUTBOX_SINK_BLOCKED,  /* not the message, but what `scope` names is wrong: credentials, address, account */
    OUTBOX_SINK_UNKNOWN,  /* bytes left, no verdict came: it may have been taken */
    OUTBOX_SINK_NOT_SENT, /* nothing was tried; costs nothing */
    OUTBOX_SINK_OUTCOME_COUNT
};

/* How far a limit or a block reaches. */
enum outbox_sink_scope {
    OUTBOX_SCOPE_MESSAGE,     /* only this message */
    OUTBOX_SCOPE_RECIPIENT,   /* this recipient; others of the destination go on */
    OUTBOX_SCOPE_DESTINATION, /* everything that goes this way */
};

struct outbox_verdict {
    size_t size;
    enum outbox_sink_outcome outcome;
    enum outbox_sink_scope scope; /* of limited and blocked; of not sent: how far a shortage on this side reaches */
    bool unreachable;      /* of retry and unknown: the destination itself seems to be down; counts for its breaker */
    const char *code;      /* explicit and stable, such as "http_503"; NULL for none */
    const char *text;      /* for people; NULL for none. Cut at 4000 bytes. */
    int64_t not_before_us; /* the receiver asks for so much patience, from now; -1: it did not say */
    const char *reference; /* the receiver's own id for what it accepted */
    const char *output;    /* JSON for outcome hooks */
    bool local;            /* decided here, without a word from the destination: tells nothing about whether it lives */
};
#define OUTBOX_VERDICT_INIT \
    { \
        .size = sizeof(struct outbox_verdict), .not_before_us = -1 \
    }

/* One message to deliver. msg is borrowed until done or cancel. */
struct outbox_sink_item {
    uint64_t handle;
    const struct outbox_delivery *msg;
    bool follows; /* see above */
};

/* What the relay offers a sink. Valid until close returns. */
struct outbox_sink_host {
    size_t size;
    void *ctx;
    void *loop; /* the uv_loop_t to put one's own handles into */
    void (*done)(void *ctx, uint64_t handle, const struct outbox_verdict *verdict); /* copies what it is given */
    void (*wake)(void *ctx);                                                        /* from any thread: call my step */
    int64_t (*now_us)(void *ctx);                                                   /* the host's monotonic clock */
    void (*log)(void *ctx, enum outbox_log_level level, const char *text);          /* one line, no secrets */
    const char *name;   /* of the destination, as configured */
    int64_t timeout_us; /* how long a delivery may take before it is cancelled; 0: the host does not say */
};

/* A setting of the sink, as text. Nested settings have dotted names ("tls.ca"); a list comes as one option per element,
 * all of the same name. References to secrets are resolved. */
struct outbox_sink_option {
    const char *name, *value;
};

enum outbox_option_type {
    OUTBOX_OPTION_TEXT,
    OUTBOX_OPTION_INT,      /* decimal */
    OUTBOX_OPTION_BOOL,     /* "true" or "false" */
    OUTBOX_OPTION_DURATION, /* given as "10s" and the like; handed over in microseconds, decimal */
    OUTBOX_OPTION_SIZE,     /* given as "64KiB" and the like; handed over in bytes, decimal */
    OUTBOX_OPTION_ENUM,     /* one of the words in `choices` */
    OUTBOX_OPTION_LIST,     /* of text */
    OUTBOX_OPTION_MAP,      /* any names below this one: "headers.X-Team", handed over with the full dotted name */
    OUTBOX_OPTION_FILE,     /* text: a file that open reads. When it changed, a reload opens the sink anew. */
};

/* A setting that a kind of sink knows: the host checks names, types and ranges, fills in defaults, hides secrets and
 * writes the reference from it. A table ends with a row without a name. */
struct outbox_sink_setting {
    const char *name;
    enum outbox_option_type type;
    const char *fallback; /* the default as a user would write it; NULL: none */
    const char *choices;  /* ENUM: words separated by spaces */
    int64_t least, most;  /* of numbers; both 0: any */
    bool required, secret;
    const char *doc;
    bool hidden; /* may hold a secret, such as a header: shown only to who asks (outbox config --reveal) */
};

typedef struct outbox_sink outbox_sink;

struct outbox_sink_ops {
    int abi;          /* OUTBOX_SINK_ABI */
    const char *kind; /* "http" */
    bool keeps_order; /* see above */
    enum outbox_code (*open)(const struct outbox_sink_option *options, size_t count,
                             const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err);
    void (*deliver)(outbox_sink *sink, const struct outbox_sink_item *items, size_t count);
    void (*cancel)(outbox_sink *sink, uint64_t handle);
    void (*step)(outbox_sink *sink);            /* NULL when the sink never calls wake */
    void (*close)(outbox_sink *sink);           /* forgets what is out; accepts NULL */
    const struct outbox_sink_setting *settings; /* what open understands; see above. NULL: anything goes */
    /* Looks whether the destination would take messages, without sending one; answers host->done with this handle, as
     * for a delivery. NULL: there is no way to tell. */
    void (*probe)(outbox_sink *sink, uint64_t handle);
    const char *summary; /* one line for `outbox version` and the reference */
    /* The setting, a DURATION, after which the sink ends a delivery by itself, when it may have reason to be more patient
     * than hosts are: the default of the host's timeout is then above it. NULL: none. */
    const char *limit;
    /* Descriptors that it takes: so many for itself, and so many for each connection. There are as many of these as messages
     * are out, or as the INT setting named here allows, if it is fewer and not 0. Both 0: the host guesses. */
    int descriptors, descriptors_each;
    const char *connections;
};

/* What a shared object exports under the name "outbox_sink_ops". */
typedef const struct outbox_sink_ops *outbox_sink_entry(void);

#ifdef __cplusplus
}
#endif
#endif
