/* config.h - the configuration, read and checked: what the relay does, from one YAML file, the environment and flags.
 *
 * A configuration is built whole or not at all, and never changes: a reload makes a new one. It owns one arena; all
 * texts are borrowed from it until ob_config_free. Times are in microseconds, sizes in bytes.
 *
 * Every option is a row of def/options.def. Where a value came from is kept for `outbox config`; secrets are never
 * printed. */
#ifndef OB_CONFIG_CONFIG_H
#define OB_CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "core/machine.h"

struct ob_config_store {
    const char *name, *url, *schema; /* schema NULL: the default */
    bool relaxed;                    /* durability: relaxed */
    bool polling;                    /* wake: poll */
    bool broken;                     /* its own options are wrong: not to be opened */
};

/* A sink: a sink, and how it is treated. */
struct ob_config_sink {
    const char *name, *kind, *library;
    const struct outbox_sink_ops *ops; /* NULL when nobody could look the kind up */
    struct ob_sink_settings delivery;
    const struct outbox_sink_option *options; /* for the adapter's open: names without those of the relay's own */
    size_t option_count;
    const char *const *masks; /* values of options that no error may repeat */
    size_t mask_count;
    bool broken;      /* its own options are wrong: not to be opened */
    int64_t limit_us; /* of the option that ops->limit names; 0: there is none */
    const char *file; /* where it stands, for errors of the adapter's; NULL: not in a file */
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
    struct ob_patience patience;    /* what it says of it, over what its sink says */
    const char *schema;             /* file of the JSON Schema that payloads must satisfy; NULL: none */
    struct ob_jsonschema *compiled; /* of it; see payload_check.h */
    const char *file;
    int line;
};

/* ---- where values come from ---- */

enum ob_config_source { OB_CONFIG_DEFAULT, OB_CONFIG_FILE, OB_CONFIG_ENV, OB_CONFIG_FLAG };

struct ob_config_place {
    enum ob_config_source source;
    const char *from; /* the file, the variable or the flag; NULL for a default */
    int line;         /* of a file; 0: as a whole */
};

/* One effective value. */
struct ob_config_value {
    const char *name;  /* "relay.poll" */
    const char *group; /* "relay", "sinks.billing", "routes" */
    const char *text;  /* the value itself; NULL: not set. Never to be printed: */
    const char *shown; /* what may be printed */
    const char *asked; /* what may be printed when somebody asks for it; NULL: no more than shown */
    struct ob_config_place place;
    bool secret, reloadable;
};

struct ob_config {
    struct ob_config_store *stores;
    size_t store_count;
    struct ob_config_sink *sinks;
    size_t sink_count;
    struct ob_config_route *routes; /* the first that matches counts */
    size_t route_count;
    const char *worker;               /* NULL: made from host and process */
    struct ob_machine_settings relay; /* dests, route and seed are left to the caller */
    int64_t grace_us;                 /* after SIGTERM */
    bool enabled;                     /* false: claim nothing (V17) */
    const char *admin_listen;         /* "127.0.0.1:9464"; NULL: no HTTP */
    enum ob_log_level log_level;
    enum ob_log_format log_format;
    int64_t purge_every_us;     /* retention; 0: not by this relay */
    int64_t control_every_us;   /* between looks at pauses and run-time settings in the database */
    const char *file;           /* NULL: there is none */
    struct ob_route_memo *memo; /* see route.h */
    struct ob_config_value *values;
    size_t value_count;
    struct ob_arena arena;
};

/* ---- what is wrong ---- */

struct ob_config_problem {
    struct ob_config_problem *next;
    bool error; /* false: a warning */
    struct ob_config_place place;
    const char *key;     /* "sinks.billing.concurency"; NULL: of the whole */
    const char *value;   /* as it may be shown; NULL: does not matter */
    const char *nearest; /* the key or word that was perhaps meant; NULL: none is near */
    const char *text;
};

struct ob_config_report {
    struct ob_config_problem *first, *last; /* in the order of the file */
    size_t errors, warnings;
    struct ob_arena arena;
};

void ob_config_report_init(struct ob_config_report *report);
void ob_config_report_fini(struct ob_config_report *report);
/* One more error, found by others than the reader; false without memory. Texts are copied. */
bool ob_config_report_error(struct ob_config_report *report, const struct ob_config_place *place, const char *key,
                            const char *text);
/* `outbox.yaml:7: error: sinks.billing.concurency: unknown option; did you mean "concurrency"?`, without a newline. */
void ob_config_problem_text(const struct ob_config_problem *problem, struct ob_buf *buf);
/* "default", "outbox.yaml:7", "env OUTBOX_RELAY_POLL", "flag --set". */
void ob_config_place_text(const struct ob_config_place *place, struct ob_buf *buf);

/* ---- reading ---- */

struct ob_config_input {
    const char *path;        /* the file; NULL: none */
    bool found_here;         /* nobody named it, it just lay there: no code is loaded if another user owns it */
    char *const *env;        /* as environ; NULL: none */
    const char *const *sets; /* flags: "relay.poll=250ms" */
    size_t set_count;
    const char *store, *schema; /* flags of their own; NULL: not given */
    bool stores_only;           /* read the stores, and do not look at the rest */
    bool partial;               /* give what could be read in spite of errors; what is wrong in itself is `broken` */
    /* ob_sink_load and ob_sink_at; NULL: the options of adapters are taken as they are. */
    enum outbox_code (*load)(const char *kind, const char *library, const struct outbox_sink_ops **ops,
                             struct outbox_error *err);
    const struct outbox_sink_ops *(*at)(size_t i);
    bool relay; /* a relay is to run by it: without a sink it is wrong */
};

/* OUTBOX_OK with *config (the caller's, and perhaps warnings in the report), OUTBOX_CONFIG with errors in the report,
 * or OUTBOX_NOMEM. *config is NULL unless it is OUTBOX_OK, or OUTBOX_CONFIG and what could be read was asked for. Free the
 * report in any case. */
enum outbox_code ob_config_load(const struct ob_config_input *input, struct ob_config **out,
                                struct ob_config_report *report) OUTBOX_MUST_CHECK;
void ob_config_free(struct ob_config *config);

/* The file to use: `given`, else $OUTBOX_CONFIG, else ./outbox.yaml (*found_here) or /etc/outbox/outbox.yaml when it is
 * there; NULL when there is none. Borrowed from the arguments. */
const char *ob_config_path(const char *given, char *const *env, bool *found_here);

/* ---- looking ---- */

struct ob_config_change {
    const char *name, *before, *after; /* as they may be shown; NULL: was not there, is not there */
    bool reloadable;                   /* false: only a restart brings it about */
};
/* Everything that differs; a sink or a store that came or went is one change. */
void ob_config_diff(const struct ob_config *before, const struct ob_config *after,
                    void (*tell)(void *ctx, const struct ob_config_change *change), void *ctx);

/* A commented file with every option at its default. */
void ob_config_sample(struct ob_buf *buf);

#endif
