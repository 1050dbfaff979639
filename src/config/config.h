/* config.h - the configuration of the relay, read from one YAML file, the environment and flags, and checked.
 *
 * A configuration is built completely or not at all, and never changes: a reload makes a new one. It owns one arena; all
 * texts are borrowed from it until ob_config_free. Times are in microseconds, sizes in bytes.
 *
 * Every option is a row of def/options.def. The origin of each value is kept for `outbox config`; secrets are never
 * printed. */
#ifndef OB_CONFIG_CONFIG_H
#define OB_CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "core/machine.h"
#include "trace/post.h"

struct ob_config_store {
    const char *name, *url, *schema; /* schema NULL: the default */
    bool relaxed;                    /* durability: relaxed */
    bool polling;                    /* wake: poll */
    bool broken;                     /* its own options are wrong: not to be opened */
};

/* A sink and its delivery settings. */
struct ob_config_sink {
    const char *name, *kind, *library;
    const struct outbox_sink_ops *ops; /* NULL when the kind was not looked up or not found */
    struct ob_sink_settings delivery;
    const struct outbox_sink_option *options; /* for the adapter's open: without the relay's own options */
    size_t option_count;
    const char *const *masks; /* option values that no error text may repeat */
    size_t mask_count;
    bool broken;      /* its own options are wrong: not to be opened */
    int64_t limit_us; /* value of the option that ops->limit names; 0: none */
    const char *file; /* its position, for errors of the adapter; NULL: not in a file */
    int line;
};

struct ob_config_match {
    const char *name, *value; /* of a header; value is a glob */
};

struct ob_config_route {
    const char *name_space, *topic; /* globs; NULL: any */
    const struct ob_config_match *headers;
    size_t header_count;
    int sink;                       /* index into sinks */
    struct ob_patience patience;    /* the route's own settings; they override those of its sink */
    const char *schema;             /* file of the JSON Schema that payloads must satisfy; NULL: none */
    struct ob_jsonschema *compiled; /* compiled schema; see payload_check.h */
    const char *file;
    int line;
};

/* Where traces go; endpoint NULL: nowhere. */
struct ob_config_traces {
    const char *endpoint, *service, *ca;
    const struct ob_post_header *headers;
    size_t header_count;
    int64_t sample; /* in millionths */
    int64_t timeout_us, interval_us, flush_us;
    int batch, queue; /* in spans */
};

/* ---- where values come from ---- */

enum ob_config_source { OB_CONFIG_DEFAULT, OB_CONFIG_FILE, OB_CONFIG_ENV, OB_CONFIG_FLAG };

struct ob_config_place {
    enum ob_config_source source;
    const char *from; /* the file, the variable or the flag; NULL for a default */
    int line;         /* in the file; 0: the whole file */
};

/* One effective value. */
struct ob_config_value {
    const char *name;  /* "relay.poll" */
    const char *group; /* "relay", "sinks.billing", "routes" */
    const char *text;  /* the value itself; NULL: not set. Must never be printed */
    const char *shown; /* what may be printed */
    const char *asked; /* what may be printed on explicit request; NULL: the same as shown */
    struct ob_config_place place;
    bool secret, reloadable;
};

struct ob_config {
    struct ob_config_store *stores;
    size_t store_count;
    struct ob_config_sink *sinks;
    size_t sink_count;
    struct ob_config_route *routes; /* the first match wins */
    size_t route_count;
    const char *worker;               /* NULL: made from host and process */
    struct ob_machine_settings relay; /* dests, route and seed are set by the caller */
    int64_t grace_us;                 /* after SIGTERM */
    bool enabled;                     /* false: claim nothing (V17) */
    const char *admin_listen;         /* "127.0.0.1:9464"; NULL: no HTTP */
    struct ob_config_traces traces;
    struct ob_config_notify {
        const char *sink; /* NULL: nobody is told */
        const char *recipient, *name_space, *topic;
        int64_t every_us;
        int minimum;
    } notify;
    enum ob_log_level log_level;
    enum ob_log_format log_format;
    int64_t purge_every_us;     /* interval of the purge; 0: this relay does not purge */
    int64_t control_every_us;   /* how often pauses and tunings are read from the store */
    const char *file;           /* NULL: no file */
    struct ob_route_memo *memo; /* see route.h */
    struct ob_config_value *values;
    size_t value_count;
    struct ob_arena arena;
};

/* ---- problems ---- */

struct ob_config_problem {
    struct ob_config_problem *next;
    bool error; /* false: a warning */
    struct ob_config_place place;
    const char *key;     /* "sinks.billing.concurency"; NULL: the whole configuration */
    const char *value;   /* with secrets masked; NULL: not relevant */
    const char *nearest; /* the key or word that was probably meant; NULL: none is similar */
    const char *text;
};

struct ob_config_report {
    struct ob_config_problem *first, *last; /* in the order of the file */
    size_t errors, warnings;
    struct ob_arena arena;
};

void ob_config_report_init(struct ob_config_report *report);
void ob_config_report_fini(struct ob_config_report *report);
/* Adds an error that was found outside of the reader; false: no memory. Texts are copied. */
bool ob_config_report_error(struct ob_config_report *report, const struct ob_config_place *place, const char *key,
                            const char *text);
/* `outbox.yaml:7: error: sinks.billing.concurency: unknown option; did you mean "concurrency"?`, without a newline. */
void ob_config_problem_text(const struct ob_config_problem *problem, struct ob_buf *buf);
/* "default", "outbox.yaml:7", "env OUTBOX_RELAY_POLL", "flag --set". */
void ob_config_place_text(const struct ob_config_place *place, struct ob_buf *buf);

/* ---- reading ---- */

struct ob_config_input {
    const char *path; /* the file; NULL: none */
    const char *text; /* the content, instead of a file; NULL: none */
    bool found_here; /* found in the current folder, not named by the user: no code is loaded if another user owns it */
    char *const *env;        /* as environ; NULL: none */
    const char *const *sets; /* flags: "relay.poll=250ms" */
    size_t set_count;
    const char *store, *schema; /* from --store and --schema; NULL: not given */
    bool stores_only;           /* read the stores only, ignore the rest */
    bool partial; /* return what could be read in spite of errors; invalid stores and sinks are marked `broken` */
    /* ob_sink_load and ob_sink_at; NULL: options of adapters are not checked. */
    enum outbox_code (*load)(const char *kind, const char *library, const struct outbox_sink_ops **ops,
                             struct outbox_error *err);
    const struct outbox_sink_ops *(*at)(size_t i);
    bool relay; /* it is for running a relay: no sink is an error */
};

/* OUTBOX_OK with *config (owned by the caller) and perhaps warnings in the report, OUTBOX_CONFIG with errors in the
 * report, or OUTBOX_NOMEM. *config is NULL unless the result is OUTBOX_OK, or OUTBOX_CONFIG with `partial` set. Free the
 * report in any case. */
enum outbox_code ob_config_load(const struct ob_config_input *input, struct ob_config **out,
                                struct ob_config_report *report) OUTBOX_MUST_CHECK;
void ob_config_free(struct ob_config *config);

/* The file to use: `given`, else $OUTBOX_CONFIG, else ./outbox.yaml (sets *found_here) or /etc/outbox/outbox.yaml if it
 * exists; NULL: none. Borrowed from the arguments. */
const char *ob_config_path(const char *given, char *const *env, bool *found_here);

/* ---- comparing and showing ---- */

struct ob_config_change {
    const char *name, *before, *after; /* with secrets masked; NULL: did not exist, does not exist any more */
    bool reloadable;                   /* false: needs a restart to take effect */
};
/* Reports every difference; a sink or store that was added or removed is one change. */
void ob_config_diff(const struct ob_config *before, const struct ob_config *after,
                    void (*tell)(void *ctx, const struct ob_config_change *change), void *ctx);

/* Writes a sample file: every option with its default and a comment. */
void ob_config_sample(struct ob_buf *buf);

#endif
