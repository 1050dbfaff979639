/* compile.c - from the text of a schema to its graph of nodes. The keywords themselves are in the rules_*.c files. */
#include "jsonschema/node.h"

#include "base/alloc.h"
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_MAX = 100 };

bool ob_compile_nomem(struct ob_compiler *compiler)
{
    if (compiler->code == OUTBOX_OK)
        compiler->code = ob_error_nomem(compiler->err);
    return false;
}

static void fail_at(struct ob_compiler *compiler, size_t offset, const char *pointer, const char *what)
{
    unsigned line, column;
    ob_tree_place(compiler->text, compiler->len, offset, &line, &column);
    compiler->code = ob_error_set(compiler->err, OUTBOX_INVALID, "%s:%u:%u: %s%s%s", compiler->name, line, column,
                                  pointer, *pointer ? ": " : "", what);
    if (compiler->place) {
        compiler->place->line = line;
        compiler->place->column = column;
        size_t len = ob_text_fit((struct ob_text){pointer, strlen(pointer)}, sizeof compiler->place->pointer - 1);
        memcpy(compiler->place->pointer, pointer, len);
        compiler->place->pointer[len] = '\0';
    }
}

bool ob_compile_fail(struct ob_compiler *compiler, const char *pointer, const struct ob_tree *at, const char *format,
                     ...)
{
    char what[256];
    va_list args;
    if (compiler->code != OUTBOX_OK)
        return false;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    fail_at(compiler, at->offset, pointer, what);
    return false;
}

const char *ob_compile_pointer(struct ob_compiler *compiler, const char *pointer, struct ob_text step)
{
    struct ob_buf buf = OB_BUF_INIT;
    ob_buf_puts(&buf, pointer);
    ob_pointer_put(&buf, step);
    const char *copy = ob_buf_ok(&buf) ? ob_arena_strdup(compiler->arena, ob_buf_text(&buf)) : NULL;
    ob_buf_fini(&buf);
    if (!copy)
        ob_compile_nomem(compiler);
    return copy;
}

static const char *keyword_pointer(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                                   const char *keyword)
{
    return ob_compile_pointer(compiler, scope->node->pointer, (struct ob_text){keyword, strlen(keyword)});
}

/* The text of a value on one line; NULL when it is too long. */
static const char *show(struct ob_compiler *compiler, const struct ob_tree *value)
{
    char shown[SHOWN_MAX + 1];
    size_t len = 0;
    struct ob_text text = {compiler->text + value->offset, value->len};
    if (value->type == OB_STRING)
        text = value->string;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        bool blank = c <= 0x20 || c == 0x7f;
        if (blank && len > 0 && shown[len - 1] == ' ')
            continue;
        if (len == SHOWN_MAX)
            return NULL;
        shown[len++] = (char)(blank ? ' ' : c);
    }
    const char *copy = ob_arena_memdup(compiler->arena, shown, len);
    if (!copy)
        ob_compile_nomem(compiler);
    return copy;
}

struct ob_rule *ob_rule_add(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope, const char *keyword,
                            unsigned on, ob_rule_fn *check)
{
    struct ob_rule *rule = ob_arena_calloc(compiler->arena, 1, sizeof *rule);
    const struct ob_tree *value = ob_tree_gets(scope->value, keyword);
    if (!rule || !(rule->pointer = keyword_pointer(compiler, scope, keyword))) {
        ob_compile_nomem(compiler);
        return NULL;
    }
    rule->keyword = keyword;
    rule->check = check;
    rule->on = on;
    rule->shown = value->type == OB_OBJECT ? NULL : show(compiler, value);
    *scope->node->last = rule;
    scope->node->last = &rule->next;
    return rule;
}

struct ob_tree *ob_compile_get(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                               const char *keyword, enum ob_tree_type type)
{
    struct ob_tree *value = ob_tree_gets(scope->value, keyword);
    if (!value || value->type == type || compiler->code)
        return compiler->code ? NULL : value;
    const char *pointer = keyword_pointer(compiler, scope, keyword);
    if (pointer)
        ob_compile_fail(compiler, pointer, value, "must be %s, not %s", ob_tree_type_name(type),
                        ob_tree_type_name(value->type));
    return NULL;
}

bool ob_compile_size(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope, const char *keyword,
                     size_t *size)
{
    const struct ob_tree *value = ob_compile_get(compiler, scope, keyword, OB_NUMBER);
    if (!value)
        return false;
    if (ob_number_to_size(&value->number, size))
        return true;
    const char *pointer = keyword_pointer(compiler, scope, keyword);
    return pointer && ob_compile_fail(compiler, pointer, value, "must be a whole number from 0 up");
}

bool ob_compile_names(struct ob_compiler *compiler, const char *pointer, const struct ob_tree *array,
                      struct ob_text **names, size_t *count)
{
    if (array->type != OB_ARRAY)
        return ob_compile_fail(compiler, pointer, array, "must be an array of names");
    *count = array->array.count;
    if (*count == 0)
        return true;
    if (!(*names = ob_arena_calloc(compiler->arena, *count, sizeof **names)))
        return ob_compile_nomem(compiler);
    for (size_t i = 0; i < *count; i++) {
        const struct ob_tree *item = &array->array.items[i];
        if (item->type != OB_STRING)
            return ob_compile_fail(compiler, pointer, item, "must be an array of names");
        (*names)[i] = item->string;
    }
    return true;
}

struct ob_regex *ob_compile_regex(struct ob_compiler *compiler, const char *pointer, const struct ob_tree *at,
                                  struct ob_text pattern)
{
    char why[128];
    struct ob_regex_link *link = ob_arena_calloc(compiler->arena, 1, sizeof *link);
    enum outbox_code code = link ? ob_regex_new(pattern, &link->regex, why, sizeof why) : OUTBOX_NOMEM;
    if (code == OUTBOX_INVALID)
        ob_compile_fail(compiler, pointer, at, "the regular expression is invalid: %s", why);
    else if (code)
        ob_compile_nomem(compiler);
    if (code)
        return NULL;
    link->next = compiler->schema->regexes;
    compiler->schema->regexes = link;
    return link->regex;
}

struct ob_jsonschema_node *ob_compile_child(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                                            const char *keyword)
{
    const char *pointer = keyword_pointer(compiler, scope, keyword);
    return pointer ? ob_compile_node(compiler, ob_tree_gets(scope->value, keyword), pointer, scope->base) : NULL;
}

struct ob_jsonschema_node *ob_compile_named(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                                            const char *keyword, struct ob_member *member)
{
    const char *pointer = keyword_pointer(compiler, scope, keyword);
    if (pointer)
        pointer = ob_compile_pointer(compiler, pointer, member->name);
    return pointer ? ob_compile_node(compiler, &member->value, pointer, scope->base) : NULL;
}

struct ob_jsonschema_node **ob_compile_list(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                                            const char *keyword, size_t *count)
{
    struct ob_tree *array = ob_compile_get(compiler, scope, keyword, OB_ARRAY);
    const char *base = array ? keyword_pointer(compiler, scope, keyword) : NULL;
    if (!base)
        return NULL;
    struct ob_jsonschema_node **nodes = ob_arena_calloc(compiler->arena, array->array.count + 1, sizeof *nodes);
    if (!nodes)
        ob_compile_nomem(compiler);
    for (size_t i = 0; nodes && i < array->array.count; i++) {
        char index[24];
        struct ob_text step = {index, (size_t)snprintf(index, sizeof index, "%zu", i)};
        const char *pointer = ob_compile_pointer(compiler, base, step);
        if (!pointer || !(nodes[i] = ob_compile_node(compiler, &array->array.items[i], pointer, scope->base)))
            return NULL;
    }
    *count = array->array.count;
    return nodes;
}

/* Definitions check nothing by themselves, but errors in them are reported at once. */
static bool compile_definitions(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                                const char *keyword)
{
    struct ob_tree *object = ob_compile_get(compiler, scope, keyword, OB_OBJECT);
    for (size_t i = 0; object && i < object->object.count; i++)
        if (!ob_compile_named(compiler, scope, keyword, &object->object.members[i]))
            return false;
    return compiler->code == OUTBOX_OK;
}

/* Ignoring a keyword that restricts values would accept what its author meant to refuse. */
static bool refuse_unsupported(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    static const char *const keywords[] = {"unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef"};
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        const struct ob_tree *value = ob_tree_gets(scope->value, keywords[i]);
        const char *pointer = value ? keyword_pointer(compiler, scope, keywords[i]) : NULL;
        if (value)
            return pointer && ob_compile_fail(compiler, pointer, value, "is not supported");
    }
    return true;
}

static bool compile_keywords(struct ob_compiler *compiler, struct ob_jsonschema_scope *scope)
{
    const struct ob_tree *reference = ob_tree_gets(scope->value, "$ref");
    bool alone = reference && reference->type == OB_STRING && !compiler->modern;
    /* In draft 7 everything beside a $ref is ignored, $id included. */
    if (alone && scope->value != &compiler->root)
        return ob_compile_reference(compiler, scope) && compile_definitions(compiler, scope, "definitions") &&
               compile_definitions(compiler, scope, "$defs");
    if (!ob_compile_identity(compiler, scope) || !compile_definitions(compiler, scope, "definitions") ||
        !compile_definitions(compiler, scope, "$defs") || !ob_compile_reference(compiler, scope))
        return false;
    return alone || (refuse_unsupported(compiler, scope) && ob_compile_any(compiler, scope) &&
                     ob_compile_numbers(compiler, scope) && ob_compile_strings(compiler, scope) &&
                     ob_compile_arrays(compiler, scope) && ob_compile_objects(compiler, scope) &&
                     ob_compile_logic(compiler, scope));
}

struct ob_jsonschema_node *ob_compile_node(struct ob_compiler *compiler, struct ob_tree *value, const char *pointer,
                                           struct ob_text base)
{
    if (value->compiled || compiler->code)
        return compiler->code ? NULL : value->compiled;
    if (value->type != OB_OBJECT && value->type != OB_BOOLEAN) {
        ob_compile_fail(compiler, pointer, value, "must be a schema (an object, true or false), not %s",
                        ob_tree_type_name(value->type));
        return NULL;
    }
    struct ob_jsonschema_node *node = ob_arena_calloc(compiler->arena, 1, sizeof *node);
    if (!node) {
        ob_compile_nomem(compiler);
        return NULL;
    }
    node->pointer = pointer;
    node->source = value;
    node->never = value->type == OB_BOOLEAN && !value->boolean;
    node->last = &node->rules;
    node->next = compiler->schema->nodes;
    compiler->schema->nodes = node;
    value->compiled = node;
    struct ob_jsonschema_scope scope = {node, value, base};
    if (value->type == OB_OBJECT && !compile_keywords(compiler, &scope))
        return NULL;
    return node;
}

static bool choose_dialect(struct ob_compiler *compiler)
{
    static const struct {
        const char *name;
        bool modern;
    } dialects[] = {{"/draft-06/", false}, {"/draft-07/", false}, {"/draft/2019-09/", true}, {"/draft/2020-12/", true}};
    const struct ob_tree *value = ob_tree_gets(&compiler->root, "$schema");
    if (!value)
        return true;
    for (size_t i = 0; value->type == OB_STRING && i < sizeof dialects / sizeof dialects[0]; i++) {
        if (memmem(value->string.data, value->string.len, dialects[i].name, strlen(dialects[i].name))) {
            compiler->modern = dialects[i].modern;
            return true;
        }
    }
    return ob_compile_fail(compiler, "/$schema", value, "must name draft-07, draft-06, 2019-09 or 2020-12");
}

static void compile_document(struct ob_compiler *compiler)
{
    struct ob_tree_fault why;
    compiler->code = ob_tree_read(compiler->arena, compiler->text, compiler->len, &compiler->root, &why);
    if (compiler->code == OUTBOX_INVALID)
        fail_at(compiler, why.offset, "", why.text);
    else if (compiler->code)
        ob_error_nomem(compiler->err);
    if (compiler->code || !choose_dialect(compiler))
        return;
    compiler->schema->root = ob_compile_node(compiler, &compiler->root, "", (struct ob_text){"", 0});
    if (compiler->schema->root && ob_references_resolve(compiler))
        ob_references_bound(compiler);
}

enum outbox_code ob_jsonschema_compile(const char *text, size_t len, const char *name, struct ob_jsonschema **schema,
                                       struct ob_jsonschema_place *place, struct outbox_error *err)
{
    struct ob_compiler compiler = {.len = len, .name = name, .place = place, .err = err};
    *schema = ob_calloc(1, sizeof **schema);
    if (!*schema)
        return ob_error_nomem(err);
    ob_arena_init(&(*schema)->arena, 0);
    compiler.schema = *schema;
    compiler.arena = &(*schema)->arena;
    compiler.last_reference = &compiler.references;
    compiler.text = ob_arena_memdup(compiler.arena, text, len);
    if (compiler.text)
        compile_document(&compiler);
    else
        ob_compile_nomem(&compiler);
    if (compiler.code) {
        ob_jsonschema_free(*schema);
        *schema = NULL;
    }
    return compiler.code;
}

void ob_jsonschema_free(struct ob_jsonschema *schema)
{
    if (!schema)
        return;
    for (const struct ob_regex_link *link = schema->regexes; link; link = link->next)
        ob_regex_free(link->regex);
    ob_arena_fini(&schema->arena);
    ob_free(schema);
}

static bool read_all(FILE *file, struct ob_buf *buf)
{
    while (buf->len <= OB_JSONSCHEMA_FILE_MAX) {
        char *room = ob_buf_reserve(buf, 65536);
        size_t len = room ? fread(room, 1, 65536, file) : 0;
        if (len == 0)
            return room && !ferror(file);
        ob_buf_added(buf, len);
    }
    errno = EFBIG;
    return false;
}

enum outbox_code ob_jsonschema_load(const char *path, struct ob_jsonschema **schema, struct ob_jsonschema_place *place,
                                    struct outbox_error *err)
{
    struct ob_buf buf = OB_BUF_INIT;
    enum outbox_code code;
    *schema = NULL;
    if (place)
        *place = (struct ob_jsonschema_place){.line = 0};
    errno = 0;
    FILE *file = fopen(path, "rbe");
    if (file && read_all(file, &buf))
        code = ob_jsonschema_compile(ob_buf_text(&buf), buf.len, path, schema, place, err);
    else if (file && !ob_buf_ok(&buf))
        code = ob_error_nomem(err);
    else
        code = ob_error_set(err, OUTBOX_INVALID, "%s: cannot read the schema: %s", path, strerror(errno));
    if (file)
        fclose(file);
    ob_buf_fini(&buf);
    return code;
}
