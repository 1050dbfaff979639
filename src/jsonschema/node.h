/* node.h - internals: what a schema is compiled to, and what its keywords need for compiling and checking.
 *
 * A schema is a graph of nodes, one per (sub)schema; a node is a list of rules, one per keyword or group of related
 * keywords. Each rules_*.c file holds both halves of its keywords side by side: how they are compiled, and how they check
 * a value. */
#ifndef OB_JSONSCHEMA_NODE_H
#define OB_JSONSCHEMA_NODE_H

#include "jsonschema/format.h"
#include "jsonschema/regex.h"
#include "jsonschema/schema.h"
#include "jsonschema/tree.h"

struct ob_check;
struct ob_step;
struct ob_rule;

typedef bool ob_rule_fn(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                        const struct ob_step *step);

/* Bits of the types that a rule checks; values of other types pass. */
enum {
    OB_ON_NUMBER = 1 << OB_NUMBER,
    OB_ON_STRING = 1 << OB_STRING,
    OB_ON_ARRAY = 1 << OB_ARRAY,
    OB_ON_OBJECT = 1 << OB_OBJECT,
    OB_ON_ALL = 63,
    OB_ON_INTEGER = 64, /* only in `types` of the type keyword: a number without a fraction */
};

struct ob_named_node {
    struct ob_text name;
    struct ob_jsonschema_node *node;
};

struct ob_pattern_node {
    struct ob_regex *regex;
    struct ob_jsonschema_node *node;
};

struct ob_dependency {
    struct ob_text name;
    struct ob_text *needs; /* the members required, when node is NULL */
    size_t need_count;
    struct ob_jsonschema_node *node;
};

struct ob_rule {
    struct ob_rule *next;
    const char *keyword, *pointer; /* pointer: position in the schema */
    const char *shown;             /* the value of the keyword, for messages */
    ob_rule_fn *check;
    unsigned on;
    struct ob_jsonschema_node **nodes; /* the subschemas, in the order that check expects */
    size_t node_count;
    bool same; /* they check the same value as this rule */
    union {
        unsigned types;
        size_t size;
        struct ob_number number;
        const struct ob_tree *value;
        struct ob_regex *regex;
        const struct ob_format *format;
        struct {
            struct ob_text *list;
            size_t count;
        } names;
        struct {
            struct ob_named_node *named; /* sorted by name */
            size_t named_count;
            struct ob_pattern_node *patterns;
            size_t pattern_count;
            struct ob_jsonschema_node *rest; /* NULL: anything */
        } members;
        struct {
            size_t tuple;                    /* nodes applies to this many first items */
            struct ob_jsonschema_node *rest; /* NULL: anything */
        } items;
        struct {
            size_t least, most;
        } contains;
        struct {
            struct ob_dependency *list;
            size_t count;
        } dependencies;
    };
};

struct ob_jsonschema_node {
    const char *pointer;
    bool never;                   /* the schema `false` */
    const struct ob_tree *source; /* valid during compilation */
    struct ob_rule *rules, **last;
    struct ob_jsonschema_node *next;                        /* all nodes of the schema */
    enum { OB_NODE_NEW, OB_NODE_OPEN, OB_NODE_DONE } visit; /* used while references are walked */
    unsigned height;                                        /* the longest chain of nodes for one value, from here */
};

struct ob_regex_link {
    struct ob_regex *regex;
    struct ob_regex_link *next;
};

struct ob_jsonschema {
    struct ob_arena arena;
    struct ob_jsonschema_node *root, *nodes;
    struct ob_regex_link *regexes; /* not allocated in the arena */
};

/* ---- compiling: compile.c, and references.c for $id and $ref ---------------------------------------------------- */

struct ob_resource; /* named by $id or an anchor */
struct ob_reference;

struct ob_compiler {
    struct ob_jsonschema *schema;
    struct ob_arena *arena;
    const char *text, *name;
    size_t len;
    struct ob_tree root;
    bool modern; /* 2019-09 or later: keywords beside $ref count */
    struct ob_resource *resources;
    struct ob_reference *references, **last_reference; /* resolved after everything is compiled */
    enum outbox_code code;
    struct ob_jsonschema_place *place;
    struct outbox_error *err;
};

/* A schema being compiled: its node and value, and the base URI of its references. */
struct ob_jsonschema_scope {
    struct ob_jsonschema_node *node;
    const struct ob_tree *value;
    struct ob_text base;
};

/* All of these return false or NULL after they set code, and err for OUTBOX_INVALID. */
bool ob_compile_fail(struct ob_compiler *compiler, const char *pointer, const struct ob_tree *at, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));
bool ob_compile_nomem(struct ob_compiler *compiler);
struct ob_jsonschema_node *ob_compile_node(struct ob_compiler *compiler, struct ob_tree *value, const char *pointer,
                                           struct ob_text base);
struct ob_rule *ob_rule_add(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope, const char *keyword,
                            unsigned on, ob_rule_fn *check);
/* "pointer/step" in the arena. */
const char *ob_compile_pointer(struct ob_compiler *compiler, const char *pointer, struct ob_text step);
/* The subschema at the keyword, or at a name or index within it. */
struct ob_jsonschema_node *ob_compile_child(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                                            const char *keyword);
struct ob_jsonschema_node *ob_compile_named(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                                            const char *keyword, struct ob_member *member);
struct ob_jsonschema_node **ob_compile_list(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                                            const char *keyword, size_t *count);
struct ob_regex *ob_compile_regex(struct ob_compiler *compiler, const char *pointer, const struct ob_tree *at,
                                  struct ob_text pattern);
/* The value of the keyword, which must have this type; NULL also when the keyword is absent. */
struct ob_tree *ob_compile_get(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                               const char *keyword, enum ob_tree_type type);
/* The value of the keyword as a count; false also when the keyword is absent, and *size is unchanged then. */
bool ob_compile_size(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope, const char *keyword,
                     size_t *size);
bool ob_compile_names(struct ob_compiler *compiler, const char *pointer, const struct ob_tree *array,
                      struct ob_text **names, size_t *count);

/* One per group of keywords. */
bool ob_compile_any(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope);
bool ob_compile_numbers(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope);
bool ob_compile_strings(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope);
bool ob_compile_arrays(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope);
bool ob_compile_objects(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope);
bool ob_compile_logic(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope);

/* $id and $anchor: may change scope->base. $ref: a rule whose node is filled by ob_references_resolve. */
bool ob_compile_identity(struct ob_compiler *compiler, struct ob_jsonschema_scope *scope);
bool ob_compile_reference(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope);
bool ob_references_resolve(struct ob_compiler *compiler);
/* Refuses references that lead back to the same value, and chains that are too long. */
bool ob_references_bound(struct ob_compiler *compiler);

/* ---- checking: check.c ------------------------------------------------------------------------------------------ */

/* The path from the payload's root to a value. */
struct ob_step {
    const struct ob_step *parent; /* NULL: this is the root */
    struct ob_text name;          /* data NULL: an item of an array */
    size_t index;
};

struct ob_check {
    struct ob_arena *arena;
    struct ob_matcher *matcher; /* created at the first pattern */
    struct ob_jsonschema_fault *fault;
    int quiet;      /* above 0: only the result matters, faults are not recorded */
    bool searching; /* looking for the nearest of several alternatives */
    int depth;
    uint64_t budget;       /* remaining work: rules checked and steps of patterns */
    enum outbox_code code; /* set when the check was stopped; the result is invalid then */
};

bool ob_jsonschema_node_check(struct ob_check *check, const struct ob_jsonschema_node *node,
                              const struct ob_tree *value, const struct ob_step *step);
/* The result only, without recording a fault. */
bool ob_jsonschema_node_fits(struct ob_check *check, const struct ob_jsonschema_node *node, const struct ob_tree *value,
                             const struct ob_step *step);
/* Both return false. what: "must be > 0"; the path and the keyword are added. */
bool ob_check_fail(struct ob_check *check, const struct ob_rule *rule, const struct ob_step *step, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));
bool ob_check_stop(struct ob_check *check, enum outbox_code code, const char *pointer, const struct ob_step *step,
                   const char *what);
/* Subtracts work from the budget; false when it is used up. */
bool ob_check_spend(struct ob_check *check, size_t work, const struct ob_step *step);
/* False also when the check was stopped. */
bool ob_check_match(struct ob_check *check, const struct ob_regex *regex, struct ob_text text, const char *pointer,
                    const struct ob_step *step);

#endif
