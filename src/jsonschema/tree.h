/* tree.h - a JSON document as a tree in an arena, for schemas and payloads.
 *
 * Strict RFC 8259 in UTF-8. Two things are refused beyond the grammar: duplicate names in an object, because parsers
 * disagree on which one counts, and a check must see what the receiver sees; and nesting deeper than OB_TREE_DEPTH. Every
 * value has its offset in the text, so that an error in a schema has a line. Strings and numbers may point into the text:
 * it must outlive the tree. */
#ifndef OB_JSONSCHEMA_TREE_H
#define OB_JSONSCHEMA_TREE_H

#include "base/arena.h"
#include "base/buf.h"
#include "jsonschema/number.h"

#include <outbox/outbox.h>

enum { OB_TREE_DEPTH = 256 };

enum ob_tree_type { OB_NULL, OB_BOOLEAN, OB_NUMBER, OB_STRING, OB_ARRAY, OB_OBJECT };

struct ob_text {
    const char *data; /* not terminated by NUL */
    size_t len;
};

struct ob_tree {
    enum ob_tree_type type;
    size_t offset, len; /* position in the text */
    union {
        bool boolean;
        struct ob_number number;
        struct ob_text string;
        struct {
            struct ob_tree *items;
            size_t count;
        } array;
        struct {
            struct ob_member *members;       /* in the order of the text */
            const struct ob_member **sorted; /* the same, sorted; NULL when there are few */
            size_t count;
        } object;
    };
    void *compiled; /* for a value of a schema: the node compiled from it */
};

struct ob_member {
    struct ob_text name;
    struct ob_tree value;
};

/* An error in a text, and its offset. */
struct ob_tree_fault {
    size_t offset;
    char text[128];
};

/* OUTBOX_INVALID with the fault filled, or OUTBOX_NOMEM. */
enum outbox_code ob_tree_read(struct ob_arena *arena, const char *text, size_t len, struct ob_tree *value,
                              struct ob_tree_fault *fault);

/* A member of an object by name; NULL when there is none, or when it is not an object. */
struct ob_tree *ob_tree_get(const struct ob_tree *object, struct ob_text name);
struct ob_tree *ob_tree_gets(const struct ob_tree *object, const char *name);

/* By length, then by bytes: the order of `sorted`. */
int ob_text_compare(struct ob_text a, struct ob_text b);
bool ob_text_is(struct ob_text text, const char *other);
/* The largest length up to max that does not end inside a character. */
size_t ob_text_fit(struct ob_text text, size_t max);
/* The number of characters, not bytes. */
size_t ob_text_length(struct ob_text text);

/* Equality as JSON Schema defines it: 1 equals 1.0, the order of members is ignored. The cost of this and of the hash is
 * bounded by the size of the values. */
bool ob_tree_equal(const struct ob_tree *a, const struct ob_tree *b);
/* Equal values have equal hashes. *work grows by the bytes read, and by a fixed amount per value. */
uint64_t ob_tree_hash(const struct ob_tree *value, size_t *work);

/* Appends one step of a JSON pointer: "/" and the name with ~ and / escaped. Control characters that could affect a
 * terminal are escaped too. */
void ob_pointer_put(struct ob_buf *buf, struct ob_text name);
/* The line and column of an offset, both from 1. Columns count characters. */
void ob_tree_place(const char *text, size_t len, size_t offset, unsigned *line, unsigned *column);

const char *ob_tree_type_name(enum ob_tree_type type);

#endif
