/* tree.h - a JSON document as a tree in an arena, for schemas and for the payloads they judge.
 *
 * Strict RFC 8259 in UTF-8. Two things are refused beyond the grammar: a name that appears twice in an object, because
 * readers disagree on which one counts and a check must not pass what the receiver sees otherwise; and nesting beyond
 * OB_TREE_DEPTH. Every value knows where it stands, so that a mistake in a schema has a line. Strings and numbers may
 * point into the text read: it must outlive the tree. */
#ifndef OB_JSONSCHEMA_TREE_H
#define OB_JSONSCHEMA_TREE_H

#include "base/arena.h"
#include "base/buf.h"
#include "jsonschema/number.h"

#include <outbox/outbox.h>

enum { OB_TREE_DEPTH = 256 };

enum ob_tree_type { OB_NULL, OB_BOOLEAN, OB_NUMBER, OB_STRING, OB_ARRAY, OB_OBJECT };

struct ob_text {
    const char *data; /* no NUL at its end */
    size_t len;
};

struct ob_tree {
    enum ob_tree_type type;
    size_t offset, len; /* where it stands in the text */
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
            const struct ob_member **sorted; /* the same by name; NULL when they are few */
            size_t count;
        } object;
    };
    void *compiled; /* of a schema's value: the node made of it */
};

struct ob_member {
    struct ob_text name;
    struct ob_tree value;
};

/* What is wrong with a text and where. */
struct ob_tree_fault {
    size_t offset;
    char text[128];
};

/* OUTBOX_INVALID with the fault filled, or OUTBOX_NOMEM. */
enum outbox_code ob_tree_read(struct ob_arena *arena, const char *text, size_t len, struct ob_tree *value,
                              struct ob_tree_fault *fault);

/* A member of an object by name; NULL when there is none or value is no object. */
struct ob_tree *ob_tree_get(const struct ob_tree *object, struct ob_text name);
struct ob_tree *ob_tree_gets(const struct ob_tree *object, const char *name);

/* By length, then by bytes: the order of `sorted`. */
int ob_text_compare(struct ob_text a, struct ob_text b);
bool ob_text_is(struct ob_text text, const char *other);
/* The most bytes, up to max, that do not end inside a character. */
size_t ob_text_fit(struct ob_text text, size_t max);
/* How many characters, not bytes. */
size_t ob_text_length(struct ob_text text);

/* As JSON Schema compares: 1 equals 1.0, the order of members counts for nothing. Both bounded by the values' size. */
bool ob_tree_equal(const struct ob_tree *a, const struct ob_tree *b);
/* Equal values have equal hashes. *work grows by the bytes that were looked at, and some for each value. */
uint64_t ob_tree_hash(const struct ob_tree *value, size_t *work);

/* One step of a JSON pointer, "/" and the name with ~ and / escaped. What could harm a terminal is escaped too. */
void ob_pointer_put(struct ob_buf *buf, struct ob_text name);
/* The line and column, from 1, of an offset. Columns count characters. */
void ob_tree_place(const char *text, size_t len, size_t offset, unsigned *line, unsigned *column);

const char *ob_tree_type_name(enum ob_tree_type type);

#endif
