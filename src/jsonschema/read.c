/* read.c - the JSON parser. Recursion is limited by OB_TREE_DEPTH, memory by the length of the text.
 *
 * The values of an open array or object are kept on a stack of bytes until it is closed, and then move to the arena in
 * one piece. */
#include "base/json_scan.h"
#include "base/utf8.h"
#include "jsonschema/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_MEMBERS = 8 };

struct reader {
    struct ob_arena *arena;
    const char *text;
    size_t len, at;
    int depth;
    struct ob_buf stack;
    enum outbox_code code;
    struct ob_tree_fault *fault;
};

static bool fail_at(struct reader *reader, size_t offset, const char *what)
{
    if (reader->code == OUTBOX_OK) {
        reader->code = OUTBOX_INVALID;
        reader->fault->offset = offset;
        snprintf(reader->fault->text, sizeof reader->fault->text, "%s", what);
    }
    return false;
}

static bool fail(struct reader *reader, const char *what)
{
    return fail_at(reader, reader->at, reader->at >= reader->len ? "the JSON ends too early" : what);
}

static bool no_memory(struct reader *reader)
{
    reader->code = OUTBOX_NOMEM;
    return false;
}

static int peek(const struct reader *reader)
{
    return reader->at < reader->len ? (unsigned char)reader->text[reader->at] : -1;
}

static int next_token(struct reader *reader)
{
    const char *at = ob_json_skip_space(reader->text + reader->at, reader->text + reader->len);
    reader->at = (size_t)(at - reader->text);
    return peek(reader);
}

static bool read_word(struct reader *reader, const char *word)
{
    size_t len = strlen(word);
    if (reader->len - reader->at < len || memcmp(reader->text + reader->at, word, len) != 0)
        return fail_at(reader, reader->at, "not a JSON value");
    reader->at += len;
    return true;
}

static bool read_number(struct reader *reader, struct ob_tree *value)
{
    size_t start = reader->at;
    struct ob_json_digits digits;
    const char *at = reader->text + start;
    enum ob_json_number scanned = ob_json_scan_number(&at, reader->text + reader->len, &digits);
    reader->at = (size_t)(at - reader->text);
    if (scanned != OB_JSON_NUMBER_OK)
        return fail(reader,
                    scanned == OB_JSON_NUMBER_NO_DIGIT ? "a number is missing a digit" : "a number has a leading zero");
    value->type = OB_NUMBER;
    switch (ob_number_read(&value->number, reader->text + start, reader->at - start, reader->arena)) {
    case OB_NUMBER_OK: return true;
    case OB_NUMBER_NOMEM: return no_memory(reader);
    case OB_NUMBER_TOO_BIG: break;
    }
    return fail_at(reader, start, "a number has too many digits or too large an exponent");
}

/* Four hexadecimal digits after \u; -1 when they are invalid. */
static long read_unit(struct reader *reader)
{
    const char *at = reader->text + reader->at;
    long unit = ob_json_scan_hex(&at, reader->text + reader->len);
    reader->at = (size_t)(at - reader->text);
    return unit;
}

static char *put_character(char *out, long c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

/* Reads an escape after its backslash. */
static char *read_escape(struct reader *reader, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(reader);
    const char *known = c > 0 ? strchr(from, c) : NULL;
    reader->at++;
    if (known) {
        *out++ = to[known - from];
        return out;
    }
    if (c != 'u') {
        fail_at(reader, reader->at - 2, "a string has an unknown escape");
        return NULL;
    }
    size_t start = reader->at - 2;
    long high = read_unit(reader), low = 0;
    if (high >= 0xd800 && high < 0xdc00 && reader->len - reader->at > 2 && reader->text[reader->at] == '\\' &&
        reader->text[reader->at + 1] == 'u') {
        reader->at += 2;
        low = read_unit(reader);
        if (low >= 0xdc00 && low < 0xe000)
            return put_character(out, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
    }
    if (high < 0 || (high >= 0xd800 && high < 0xe000)) {
        fail_at(reader, start, "a string has a \\u escape that is not a character");
        return NULL;
    }
    return put_character(out, high);
}

/* Scans to the closing quote without consuming it; sets *escapes if there are any. */
static bool scan_string(struct reader *reader, bool *escapes)
{
    const char *text = reader->text;
    while (reader->at < reader->len && text[reader->at] != '"') {
        unsigned char c = (unsigned char)text[reader->at];
        if (c == '\\') {
            *escapes = true;
            reader->at += 2;
        } else if (c >= 0x20 && c < 0x80) {
            reader->at++;
        } else if (c < 0x20) {
            return fail(reader, "a string has a control character; write it as an escape");
        } else {
            size_t width = ob_utf8_width(text + reader->at, reader->len - reader->at);
            if (width == 0)
                return fail_at(reader, reader->at, "a string is not UTF-8");
            reader->at += width;
        }
    }
    if (reader->at >= reader->len)
        return fail_at(reader, reader->len, "the JSON ends inside a string");
    return true;
}

static bool read_string(struct reader *reader, struct ob_text *string)
{
    size_t start = ++reader->at;
    bool escapes = false;
    if (!scan_string(reader, &escapes))
        return false;
    size_t end = reader->at;
    *string = (struct ob_text){reader->text + start, end - start};
    if (escapes) {
        char *data = ob_arena_alloc(reader->arena, end - start), *out = data;
        if (!data)
            return no_memory(reader);
        for (reader->at = start; reader->at < end;) {
            char c = reader->text[reader->at++];
            if (c != '\\')
                *out++ = c;
            else if (!(out = read_escape(reader, out)))
                return false;
        }
        *string = (struct ob_text){data, (size_t)(out - data)};
    }
    reader->at = end + 1;
    return true;
}

static bool push(struct reader *reader, const void *entry, size_t size)
{
    ob_buf_put(&reader->stack, entry, size);
    return ob_buf_ok(&reader->stack) || no_memory(reader);
}

/* Pops what was pushed since `base`; NULL when that is nothing, or memory ran out. */
static void *pop(struct reader *reader, size_t base)
{
    size_t size = reader->stack.len - base;
    if (size == 0)
        return NULL;
    void *copy = ob_arena_alloc(reader->arena, size);
    if (copy)
        memcpy(copy, reader->stack.data + base, size);
    else
        no_memory(reader);
    reader->stack.len = base;
    return copy;
}

static bool read_value(struct reader *reader, struct ob_tree *value);

static bool read_array(struct reader *reader, struct ob_tree *value)
{
    size_t base = reader->stack.len, count = 0;
    value->type = OB_ARRAY;
    reader->at++;
    if (next_token(reader) != ']') {
        for (;;) {
            struct ob_tree item;
            if (!read_value(reader, &item) || !push(reader, &item, sizeof item))
                return false;
            count++;
            int c = next_token(reader);
            if (c == ']')
                break;
            if (c != ',')
                return fail(reader, "a comma or ] is missing");
            reader->at++;
        }
    }
    reader->at++;
    value->array.count = count;
    value->array.items = pop(reader, base);
    return reader->code == OUTBOX_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct ob_member *const *left = a, *const *right = b;
    return ob_text_compare((*left)->name, (*right)->name);
}

static bool twice(struct reader *reader, const struct ob_member *member)
{
    char what[128];
    snprintf(what, sizeof what, "the name \"%.*s\" appears twice in an object", (int)ob_text_fit(member->name, 60),
             member->name.data);
    for (char *c = what; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return fail_at(reader, member->value.offset, what);
}

/* Sorts the members when there are many, and detects duplicate names. */
static bool index_members(struct reader *reader, struct ob_tree *value)
{
    size_t count = value->object.count;
    struct ob_member *members = value->object.members;
    if (count <= FEW_MEMBERS) {
        for (size_t i = 1; i < count; i++)
            for (size_t j = 0; j < i; j++)
                if (ob_text_compare(members[i].name, members[j].name) == 0)
                    return twice(reader, &members[i]);
        return true;
    }
    const struct ob_member **sorted = ob_arena_calloc(reader->arena, count, sizeof *sorted);
    if (!sorted)
        return no_memory(reader);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &members[i];
    qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 1; i < count; i++)
        if (ob_text_compare(sorted[i]->name, sorted[i - 1]->name) == 0)
            return twice(reader, sorted[i] > sorted[i - 1] ? sorted[i] : sorted[i - 1]);
    value->object.sorted = sorted;
    return true;
}

static bool read_member(struct reader *reader, struct ob_member *member)
{
    if (next_token(reader) != '"')
        return fail(reader, "the name of a member is missing");
    if (!read_string(reader, &member->name))
        return false;
    if (next_token(reader) != ':')
        return fail(reader, "a colon is missing");
    reader->at++;
    return read_value(reader, &member->value);
}

static bool read_object(struct reader *reader, struct ob_tree *value)
{
    size_t base = reader->stack.len, count = 0;
    value->type = OB_OBJECT;
    reader->at++;
    if (next_token(reader) != '}') {
        for (;;) {
            struct ob_member member;
            if (!read_member(reader, &member) || !push(reader, &member, sizeof member))
                return false;
            count++;
            int c = next_token(reader);
            if (c == '}')
                break;
            if (c != ',')
                return fail(reader, "a comma or } is missing");
            reader->at++;
        }
    }
    reader->at++;
    value->object.count = count;
    value->object.members = pop(reader, base);
    return reader->code == OUTBOX_OK && index_members(reader, value);
}

static bool read_kind(struct reader *reader, struct ob_tree *value, int c)
{
    switch (c) {
    case 'n': return read_word(reader, "null");
    case 't':
    case 'f':
        value->type = OB_BOOLEAN;
        value->boolean = c == 't';
        return read_word(reader, c == 't' ? "true" : "false");
    case '"': value->type = OB_STRING; return read_string(reader, &value->string);
    case '[':
    case '{': {
        if (reader->depth == OB_TREE_DEPTH)
            return fail(reader, "arrays and objects are nested too deeply");
        reader->depth++;
        bool ok = c == '[' ? read_array(reader, value) : read_object(reader, value);
        reader->depth--;
        return ok;
    }
    default: return c == '-' || (c >= '0' && c <= '9') ? read_number(reader, value) : fail(reader, "not a JSON value");
    }
}

static bool read_value(struct reader *reader, struct ob_tree *value)
{
    int c = next_token(reader);
    *value = (struct ob_tree){.type = OB_NULL, .offset = reader->at};
    bool ok = read_kind(reader, value, c);
    value->len = reader->at - value->offset;
    return ok;
}

enum outbox_code ob_tree_read(struct ob_arena *arena, const char *text, size_t len, struct ob_tree *value,
                              struct ob_tree_fault *fault)
{
    struct reader reader = {.arena = arena, .text = text, .len = len, .stack = OB_BUF_INIT, .fault = fault};
    if (read_value(&reader, value) && next_token(&reader) != -1)
        fail(&reader, "unexpected text after the JSON value");
    ob_buf_fini(&reader.stack);
    return reader.code;
}
