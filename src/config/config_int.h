/* config_int.h - shared by the files of the configuration reader.
 *
 * The steps: bytes -> YAML -> nodes (yaml.c) -> entries of a scope with dotted names (option.c) -> texts with references
 * resolved (expand.c) -> typed fields (option.c, section_store.c, section_sink.c, section_route.c) -> checks across
 * options (check.c).
 *
 * Reading does not stop at the first mistake: each is added to the report, and reading continues with the default. Memory
 * comes from the arena of the configuration; when it runs out, `nomem` is set, and helpers documented that way return an
 * empty value instead of NULL. */
#ifndef OB_CONFIG_CONFIG_INT_H
#define OB_CONFIG_CONFIG_INT_H

#include "config/config.h"

#include <sys/stat.h>

/* ---- nodes: the file, without YAML ---- */

enum ob_node_kind { OB_NODE_NULL, OB_NODE_TEXT, OB_NODE_LIST, OB_NODE_MAP };

struct ob_node {
    enum ob_node_kind kind;
    int line;
    const char *text; /* TEXT */
    struct ob_node **items;
    const char **keys; /* MAP; parallel to items */
    int *key_lines;
    size_t count;
};

/* ---- the reader ---- */

struct ob_config_asked {
    const char *name, *env; /* env NULL: no variable */
};

struct ob_loader {
    const struct ob_config_input *in;
    struct ob_config_report *report;
    struct ob_config *config;
    struct ob_arena *arena;
    const char *file;
    struct ob_config_asked *asked; /* every option that was looked up */
    size_t asked_count, asked_cap, value_cap;
    bool foreign; /* the file was found in the current folder, and another user owns it */
    bool nomem;
};

/* The file as nodes; NULL when it is missing, empty or invalid. */
struct ob_node *ob_config_yaml(struct ob_loader *ld, const char *text, size_t len);
/* The value of a key; NULL: not there. */
struct ob_node *ob_node_get(const struct ob_node *map, const char *key, int *line);

/* Never NULL: "" when memory runs out. */
const char *ob_loader_dup(struct ob_loader *ld, const char *text);
const char *ob_loader_printf(struct ob_loader *ld, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *ob_loader_calloc(struct ob_loader *ld, size_t count, size_t size); /* may be NULL */
/* Makes room for one more item in a vector in the arena; false: no memory. */
bool ob_loader_grow(struct ob_loader *ld, void *items, size_t count, size_t *cap, size_t size);

#define OB_PLACE_FILE(ld, line_) \
    ((struct ob_config_place){.source = OB_CONFIG_FILE, .from = (ld)->file, .line = (line_)})

/* value and nearest may be NULL. */
void ob_loader_problem(struct ob_loader *ld, bool error, const struct ob_config_place *place, const char *key,
                       const char *value, const char *nearest, const char *format, ...)
    __attribute__((format(printf, 7, 8)));

/* ---- scopes: one map of the file, and what overrides it ---- */

struct ob_entry {
    const char *name; /* dotted, within the scope */
    const struct ob_node *node;
    int line;
    bool used, bad;
};

struct ob_scope {
    const char *path;       /* "sinks.billing" */
    const char *env;        /* "OUTBOX_SINK_BILLING_"; NULL: no variables */
    struct ob_entry *items; /* from the file */
    size_t count, cap;
    const struct ob_scope *parent; /* searched next: `defaults` */
    bool strange;                  /* its options are unknown: do not report unknown names */
};

/* map may be NULL; another kind of node is reported as an error. */
void ob_scope_init(struct ob_loader *ld, struct ob_scope *scope, const char *path, const char *env_of,
                   const struct ob_node *map, int line);
/* Reports entries that were not used as unknown options. names(ctx, i): the i-th known name, for suggestions; NULL at the
 * end. */
void ob_scope_check(struct ob_loader *ld, const struct ob_scope *scope, const char *(*names)(const void *ctx, size_t i),
                    const void *ctx);

/* The value given for one option. */
struct ob_given {
    const char *text;           /* a scalar, resolved; NULL: a list, or no usable value */
    const char *raw;            /* the same, as written */
    const struct ob_node *list; /* from the file */
    struct ob_config_place place;
    struct ob_entry *entry;
    bool found, expanded;
};
enum ob_want { OB_WANT_TEXT, OB_WANT_LIST };
/* Searches flags, variables, the file, then the parent. A reference that cannot be resolved is reported, and counts as
 * not found. */
void ob_scope_get(struct ob_loader *ld, const struct ob_scope *scope, const char *key, enum ob_want want, bool refs,
                  struct ob_given *given);

/* ---- what a kind of sink declares, see sink_kind.c ---- */

/* Sets sink->ops, or reports why there is none. */
void ob_sink_kind_find(struct ob_loader *ld, struct ob_config_sink *sink, const struct ob_scope *scope);
/* Reports options that are given under another common name. */
void ob_sink_kind_words(struct ob_loader *ld, const struct ob_config_sink *sink, const struct ob_scope *scope);
/* Applies the kind's own defaults to delivery settings that are not set. */
void ob_sink_kind_defaults(struct ob_loader *ld, struct ob_config_sink *sink, const char *path);

/* ---- slips, see slip.c ---- */

/* Our name for a word that other software uses, if it is among the known names: "retries" is max_attempts. NULL: none. */
const char *ob_slip_word(const char *word, const char *(*names)(const void *ctx, size_t i), const void *ctx);
/* Where an option that was found below `path` ("" for the top) belongs, as text; NULL: not known. */
const char *ob_slip_place(struct ob_loader *ld, const char *path, const char *key);
/* A hint for an error of the YAML parser, from its text and the line of the file; NULL: no hint. */
const char *ob_slip_yaml(const char *problem, const char *context, const char *line, size_t len);
/* The i-th section name; NULL after the last. */
const char *ob_config_top(const void *ctx, size_t i);

/* ---- references ---- */

const char *ob_loader_env(const struct ob_loader *ld, const char *name); /* NULL: not set, or empty */
/* Resolves "${VAR}" and "$$"; false after it reported an error. *changed: there was a reference. */
bool ob_config_expand(struct ob_loader *ld, const char *raw, const struct ob_config_place *place, const char *key,
                      const char **text, bool *changed);
/* Replaces "file:PATH" with the content of the file. */
bool ob_config_file_ref(struct ob_loader *ld, const char *written, const struct ob_config_place *place, const char *key,
                        const char **text);
/* Reads a whole file of at most `most` bytes into the arena; on failure returns NULL and sets *wrong to the reason. */
char *ob_config_slurp(struct ob_loader *ld, const char *path, size_t most, size_t *len, struct stat *stat,
                      const char **wrong);
/* Resolves a path written in the file against the folder of the file. */
const char *ob_config_beside(struct ob_loader *ld, const char *path);

/* ---- the table ---- */

enum ob_section {
    OB_SECTION_relay,
    OB_SECTION_log,
    OB_SECTION_admin,
    OB_SECTION_traces,
    OB_SECTION_notify,
    OB_SECTION_stores,
    OB_SECTION_sinks,
    OB_SECTION_delivery,
    OB_SECTION_routes,
    OB_SECTION_COUNT
};

enum ob_type {
    OB_TYPE_TEXT,
    OB_TYPE_URL,
    OB_TYPE_INT,
    OB_TYPE_BOOL,
    OB_TYPE_DURATION,
    OB_TYPE_SIZE,
    OB_TYPE_RATE,
    OB_TYPE_RATIO,
    OB_TYPE_ENUM,
    OB_TYPE_DURATIONS,
    OB_TYPE_MAP
};

struct ob_config_row {
    enum ob_section section;
    const char *key;
    enum ob_type type;
    const char *fallback, *least, *most, *choices;
    bool reloadable, secret;
    const char *doc;
    size_t offset, size; /* of the field */
};

extern const struct ob_config_row ob_config_rows[];
extern const size_t ob_config_row_count;
extern const char *const ob_section_names[OB_SECTION_COUNT];

/* The key of row i of a section; NULL after the last. */
const char *ob_section_key(enum ob_section section, size_t i);
const struct ob_config_row *ob_section_row(enum ob_section section, const char *key);

/* The constraints of a value, from a row or from an adapter's setting. */
struct ob_spec {
    enum ob_type type;
    const char *choices;
    bool ranged, secret;
    int64_t least, most;
};
struct ob_spec ob_row_spec(const struct ob_config_row *row);
/* Converts a text to a number; for ENUM its index, for BOOL 0 or 1. False after it reported what is expected. */
bool ob_spec_number(struct ob_loader *ld, const struct ob_spec *spec, const char *text,
                    const struct ob_config_place *place, const char *key, const char *shown, int64_t *number,
                    int64_t *period);

/* How a text that should be a number or an enum value may be shown: a reference whose value is not one is shown
 * unresolved, because its value may be a secret. */
const char *ob_spec_shown(struct ob_loader *ld, const struct ob_spec *spec, struct ob_given *given);

/* Fills the fields of all rows of a section but maps, and marks their entries as used; target is the section's struct. */
void ob_section_read(struct ob_loader *ld, enum ob_section section, const struct ob_scope *scope, void *target);
void ob_row_read(struct ob_loader *ld, const struct ob_config_row *row, const struct ob_scope *scope, void *target);

/* Records a value for `outbox config`. */
void ob_loader_value(struct ob_loader *ld, const struct ob_scope *scope, const char *key, const char *text,
                     const char *shown, const struct ob_config_place *place, bool secret, bool reloadable);
/* The text with secrets masked. */
const char *ob_config_shown(struct ob_loader *ld, const struct ob_given *given, bool secret, bool url);

/* ---- the parts ---- */

void ob_config_read_stores(struct ob_loader *ld, const struct ob_node *root);
void ob_config_read_sinks(struct ob_loader *ld, const struct ob_node *root);
void ob_config_read_traces(struct ob_loader *ld, const struct ob_node *root);
void ob_config_read_routes(struct ob_loader *ld, const struct ob_node *root);
void ob_config_check(struct ob_loader *ld);

#endif
