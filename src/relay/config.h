/* config.h - the configuration, read and checked: what the relay does, from one YAML file, the environment and flags.
 *
 * A configuration is built whole or not at all, and never changes: a reload makes a new one. It owns one arena; all
 * texts are borrowed from it until ob_config_free. Times are in microseconds, sizes in bytes.
 *
 * Every option is a row of def/options.def. Where a value came from is kept for `outbox config`; secrets are never
 * printed. */
#ifndef OB_RELAY_CONFIG_H
#define OB_RELAY_CONFIG_H

#include "base/log.h"
#include "core/relay.h"

struct ob_config_store {
    const char *name, *url, *schema; /* schema NULL: the default */
    bool relaxed;                    /* durability: relaxed */
    bool polling;                    /* wake: poll */
};

/* A destination: a sink, and how it is treated. */
struct ob_config_sink {
    const char *name, *kind;
    const char *library; /* shared object that has the adapter; NULL: it is built in */
    struct ob_dest_settings dest;
    int max_attempts; /* 0: the message's own */
    const struct outbox_sink_option *options; /* for the adapter's open: names without those of the relay's own */
    size_t option_count;
    const char *file; /* where it stands, for errors of the adapter's */
    int line;
};

struct ob_config_match {
    const char *name, *value; /* of a header; value is a glob */
};

struct ob_config_route {
    const char *name_space, *topic; /* globs; NULL: any */
    const struct ob_config_match *headers;
    size_t header_count;
    int sink;           /* index into sinks */
    const char *schema; /* file of the JSON Schema that payloads must satisfy; NULL: none */
    const char *file;
    int line;
};

struct ob_config {
    struct ob_config_store *stores;
    size_t store_count;
    struct ob_config_sink *sinks;
    size_t sink_count;
    struct ob_config_route *routes; /* the first that matches counts */
    size_t route_count;
    const char *worker;              /* NULL: made from host and process */
    struct ob_relay_settings relay;  /* dests, route and seed are left to the caller */
    int64_t grace_us;                /* after SIGTERM */
    bool enabled;                    /* false: claim nothing (V17) */
    const char *admin_listen;        /* "127.0.0.1:9464"; NULL: no HTTP */
    enum ob_log_level log_level;
    enum ob_log_format log_format;
    int64_t purge_every_us;          /* retention; 0: not by this relay */
    int64_t control_every_us;        /* between looks at pauses and run-time settings in the database */
};

#endif
