/* tree.c - queries on a JSON tree: members, equality, hashes, positions. */
#include "jsonschema/tree.h"

#include <string.h>

int ob_text_compare(struct ob_text a, struct ob_text b)
{
    if (a.len != b.len)
        return a.len < b.len ? -1 : 1;
    return a.len ? memcmp(a.data, b.data, a.len) : 0;
}

bool ob_text_is(struct ob_text text, const char *other)
{
    return text.len == strlen(other) && memcmp(text.data, other, text.len) == 0;
}

size_t ob_text_fit(struct ob_text text, size_t max)
{
    if (text.len <= max)
        return text.len;
    while (max > 0 && ((unsigned char)text.data[max] & 0xc0) == 0x80)
        max--;
    return max;
}

size_t ob_text_length(struct ob_text text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return count;
}

static struct ob_tree *search(const struct ob_member **sorted, size_t count, struct ob_text name)
{
    while (count) {
        size_t half = count / 2;
        int order = ob_text_compare(name, sorted[half]->name);
        if (order == 0)
            return (struct ob_tree *)&sorted[half]->value;
        if (order > 0) {
            sorted += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return NULL;
}

struct ob_tree *ob_tree_get(const struct ob_tree *object, struct ob_text name)
{
    if (object->type != OB_OBJECT)
        return NULL;
    if (object->object.sorted)
        return search(object->object.sorted, object->object.count, name);
    for (size_t i = 0; i < object->object.count; i++)
        if (ob_text_compare(object->object.members[i].name, name) == 0)
            return &object->object.members[i].value;
    return NULL;
}

struct ob_tree *ob_tree_gets(const struct ob_tree *object, const char *name)
{
    return ob_tree_get(object, (struct ob_text){name, strlen(name)});
}

static bool equal_arrays(const struct ob_tree *a, const struct ob_tree *b)
{
    if (a->array.count != b->array.count)
        return false;
    for (size_t i = 0; i < a->array.count; i++)
        if (!ob_tree_equal(&a->array.items[i], &b->array.items[i]))
            return false;
    return true;
}

static bool equal_objects(const struct ob_tree *a, const struct ob_tree *b)
{
    if (a->object.count != b->object.count)
        return false;
    for (size_t i = 0; i < a->object.count; i++) {
        const struct ob_tree *other = ob_tree_get(b, a->object.members[i].name);
        if (!other || !ob_tree_equal(&a->object.members[i].value, other))
            return false;
    }
    return true;
}

bool ob_tree_equal(const struct ob_tree *a, const struct ob_tree *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case OB_NULL: return true;
    case OB_BOOLEAN: return a->boolean == b->boolean;
    case OB_NUMBER: return ob_number_compare(&a->number, &b->number) == 0;
    case OB_STRING: return ob_text_compare(a->string, b->string) == 0;
    case OB_ARRAY: return equal_arrays(a, b);
    case OB_OBJECT: return equal_objects(a, b);
    }
    return false;
}

/* FNV-1a with a final mix. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash ^ (hash >> 29);
}

uint64_t ob_tree_hash(const struct ob_tree *value, size_t *work)
{
    uint64_t hash = 0xcbf29ce484222325u + (uint64_t)value->type, sum = 0;
    *work += 16;
    switch (value->type) {
    case OB_NULL: return hash;
    case OB_BOOLEAN: return hash_bytes(hash, value->boolean ? "t" : "f", 1);
    case OB_NUMBER:
        *work += value->number.count;
        hash = hash_bytes(hash, &value->number.exponent, sizeof value->number.exponent);
        hash = hash_bytes(hash, value->number.negative ? "-" : "+", 1);
        return hash_bytes(hash, value->number.digits, value->number.count);
    case OB_STRING: *work += value->string.len; return hash_bytes(hash, value->string.data, value->string.len);
    case OB_ARRAY:
        for (size_t i = 0; i < value->array.count; i++) {
            uint64_t item = ob_tree_hash(&value->array.items[i], work);
            hash = hash_bytes(hash, &item, sizeof item);
        }
        return hash;
    case OB_OBJECT: /* a sum, because the order of members does not matter */
        for (size_t i = 0; i < value->object.count; i++) {
            const struct ob_member *member = &value->object.members[i];
            uint64_t one = ob_tree_hash(&member->value, work);
            *work += member->name.len;
            sum += hash_bytes(one, member->name.data, member->name.len);
        }
        return hash_bytes(hash, &sum, sizeof sum);
    }
    return hash;
}

void ob_pointer_put(struct ob_buf *buf, struct ob_text name)
{
    ob_buf_putc(buf, '/');
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.data[i];
        if (c == '~')
            ob_buf_puts(buf, "~0");
        else if (c == '/')
            ob_buf_puts(buf, "~1");
        else if (c < 0x20 || c == 0x7f)
            ob_buf_printf(buf, "\\u%04x", c);
        else if (c == 0xc2 && i + 1 < name.len && (unsigned char)name.data[i + 1] < 0xa0)
            ob_buf_printf(buf, "\\u%04x", (unsigned char)name.data[++i]); /* the C1 control characters */
        else
            ob_buf_putc(buf, (char)c);
    }
}

void ob_tree_place(const char *text, size_t len, size_t offset, unsigned *line, unsigned *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < offset && i < len; i++) {
        if (text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

const char *ob_tree_type_name(enum ob_tree_type type)
{
    static const char *const names[] = {"null", "a boolean", "a number", "a string", "an array", "an object"};
    return names[type];
}
