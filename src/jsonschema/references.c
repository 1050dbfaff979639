/* references.c - $id, $anchor and $ref. References can only lead to the document itself. */
#include "jsonschema/node.h"

#include "jsonschema/uri.h"

#include <string.h>

enum { CHAIN_MAX = 200 };

/* A schema with a name: the document, each $id, each anchor (fragment not empty). */
struct ob_resource {
    struct ob_resource *next;
    struct ob_text uri, fragment;
    struct ob_tree *value;
    const char *pointer;
};

struct ob_reference {
    struct ob_reference *next;
    struct ob_rule *rule;
    const struct ob_tree *value; /* of $ref */
    struct ob_text base;
};

static bool add_resource(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope, struct ob_text uri,
                         struct ob_text fragment)
{
    struct ob_resource *resource = ob_arena_alloc(compiler->arena, sizeof *resource);
    if (!resource)
        return ob_compile_nomem(compiler);
    *resource =
        (struct ob_resource){compiler->resources, uri, fragment, (struct ob_tree *)scope->value, scope->node->pointer};
    compiler->resources = resource;
    return true;
}

/* The reference resolved against base, without its fragment, in the arena. */
static bool resolve(struct ob_compiler *compiler, struct ob_text base, struct ob_text reference, struct ob_text *uri)
{
    struct ob_buf buf = OB_BUF_INIT;
    ob_uri_resolve(&buf, base, reference);
    uri->len = buf.len;
    uri->data = ob_buf_ok(&buf) ? ob_arena_memdup(compiler->arena, ob_buf_text(&buf), buf.len) : NULL;
    ob_buf_fini(&buf);
    return uri->data || ob_compile_nomem(compiler);
}

bool ob_compile_identity(struct ob_compiler *compiler, struct ob_jsonschema_scope *scope)
{
    static const char *const anchors[] = {"$anchor", "$dynamicAnchor"};
    const struct ob_text none = {"", 0};
    struct ob_uri parts;
    if (scope->value == &compiler->root && !add_resource(compiler, scope, none, none))
        return false;
    const struct ob_tree *id = ob_compile_get(compiler, scope, "$id", OB_STRING);
    if (id) {
        ob_uri_split(id->string, &parts);
        bool fragment_only = id->string.len && id->string.data[0] == '#';
        if (!fragment_only && (!resolve(compiler, scope->base, id->string, &scope->base) ||
                               !add_resource(compiler, scope, scope->base, none)))
            return false;
        if (parts.fragment.len && !add_resource(compiler, scope, scope->base, parts.fragment))
            return false;
    }
    for (size_t i = 0; i < 2; i++) {
        const struct ob_tree *anchor = ob_compile_get(compiler, scope, anchors[i], OB_STRING);
        if (anchor && !add_resource(compiler, scope, scope->base, anchor->string))
            return false;
    }
    return compiler->code == OUTBOX_OK;
}

static bool check_reference(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                            const struct ob_step *step)
{
    return ob_jsonschema_node_check(check, rule->nodes[0], value, step);
}

bool ob_compile_reference(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    struct ob_tree *value = ob_compile_get(compiler, scope, "$ref", OB_STRING);
    if (!value)
        return compiler->code == OUTBOX_OK;
    struct ob_rule *rule = ob_rule_add(compiler, scope, "$ref", OB_ON_ALL, check_reference);
    struct ob_reference *reference = ob_arena_alloc(compiler->arena, sizeof *reference);
    if (!rule || !reference || !(rule->nodes = ob_arena_calloc(compiler->arena, 1, sizeof *rule->nodes)))
        return ob_compile_nomem(compiler);
    rule->same = true;
    rule->node_count = 1;
    *reference = (struct ob_reference){NULL, rule, value, scope->base};
    *compiler->last_reference = reference;
    compiler->last_reference = &reference->next;
    return true;
}

static const struct ob_resource *find(const struct ob_compiler *compiler, struct ob_text uri, struct ob_text fragment)
{
    for (const struct ob_resource *resource = compiler->resources; resource; resource = resource->next)
        if (ob_text_compare(resource->uri, uri) == 0 && ob_text_compare(resource->fragment, fragment) == 0)
            return resource;
    return NULL;
}

static struct ob_tree *step_into(struct ob_tree *value, struct ob_text name)
{
    if (value->type == OB_OBJECT)
        return ob_tree_get(value, name);
    size_t index = 0;
    if (value->type != OB_ARRAY || name.len == 0 || name.len > 9 || (name.len > 1 && name.data[0] == '0'))
        return NULL;
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] < '0' || name.data[i] > '9')
            return NULL;
        index = index * 10 + (size_t)(name.data[i] - '0');
    }
    return index < value->array.count ? &value->array.items[index] : NULL;
}

/* Decodes ~0 and ~1 in one step of a pointer, in place. */
static bool unescape(char *step, size_t *len)
{
    char *out = step;
    for (size_t i = 0; i < *len; i++) {
        if (step[i] != '~') {
            *out++ = step[i];
        } else if (++i < *len && (step[i] == '0' || step[i] == '1')) {
            *out++ = step[i] == '0' ? '~' : '/';
        } else {
            return false;
        }
    }
    *len = (size_t)(out - step);
    return true;
}

/* Follows a pointer from a resource; the base changes at each $id on the way. NULL when the target does not exist. */
static struct ob_tree *follow(struct ob_compiler *compiler, const struct ob_resource *from, struct ob_buf *fragment,
                              const char **pointer, struct ob_text *base)
{
    struct ob_tree *value = from->value;
    char *at = fragment->data, *end = fragment->data + fragment->len;
    *pointer = from->pointer;
    while (value && at && at < end) {
        char *slash = memchr(at + 1, '/', (size_t)(end - at - 1));
        struct ob_text step = {at + 1, (size_t)((slash ? slash : end) - at - 1)};
        const struct ob_tree *id = value == from->value ? NULL : ob_tree_gets(value, "$id");
        if (id && id->type == OB_STRING && id->string.len && id->string.data[0] != '#' &&
            !resolve(compiler, *base, id->string, base))
            return NULL;
        if (!unescape(at + 1, &step.len))
            return NULL;
        value = step_into(value, step);
        if (value && !(*pointer = ob_compile_pointer(compiler, *pointer, step)))
            return NULL;
        at = slash ? slash : end;
    }
    return value;
}

static bool resolve_one(struct ob_compiler *compiler, const struct ob_reference *reference, struct ob_buf *fragment)
{
    struct ob_text text = reference->value->string, uri, none = {"", 0};
    struct ob_uri parts;
    struct ob_rule *rule = reference->rule;
    ob_uri_split(text, &parts);
    if (!resolve(compiler, reference->base, text, &uri))
        return false;
    if (!ob_uri_decode(fragment, parts.fragment))
        return ob_compile_fail(compiler, rule->pointer, reference->value, "has a malformed %% escape");
    if (!ob_buf_ok(fragment))
        return ob_compile_nomem(compiler);
    struct ob_text anchor = {ob_buf_text(fragment), fragment->len};
    bool is_pointer = anchor.len == 0 || anchor.data[0] == '/';
    if (!find(compiler, uri, none))
        return ob_compile_fail(compiler, rule->pointer, reference->value,
                               "refers to another document; only references inside this one are followed");
    const struct ob_resource *resource = find(compiler, uri, is_pointer ? none : anchor);
    struct ob_tree *target = resource ? resource->value : NULL;
    const char *pointer = resource ? resource->pointer : NULL;
    struct ob_text base = uri;
    if (target && is_pointer)
        target = follow(compiler, resource, fragment, &pointer, &base);
    if (!target)
        return compiler->code == OUTBOX_OK &&
               ob_compile_fail(compiler, rule->pointer, reference->value, "refers to nothing in this schema");
    return (rule->nodes[0] = ob_compile_node(compiler, target, pointer, base));
}

bool ob_references_resolve(struct ob_compiler *compiler)
{
    /* The list may grow: what only a reference reaches is compiled now. */
    for (const struct ob_reference *one = compiler->references; one; one = one->next) {
        struct ob_buf fragment = OB_BUF_INIT;
        bool ok = resolve_one(compiler, one, &fragment);
        ob_buf_fini(&fragment);
        if (!ok)
            return false;
    }
    return true;
}

static bool visit(struct ob_compiler *compiler, struct ob_jsonschema_node *node, unsigned depth)
{
    if (node->visit == OB_NODE_DONE)
        return true;
    if (node->visit == OB_NODE_OPEN)
        return ob_compile_fail(compiler, node->pointer, node->source,
                               "refers to itself without descending into the payload: checking would never end");
    if (depth > CHAIN_MAX)
        return ob_compile_fail(compiler, node->pointer, node->source, "is reached through too many schemas in a row");
    node->visit = OB_NODE_OPEN;
    for (struct ob_rule *rule = node->rules; rule; rule = rule->next)
        for (size_t i = 0; rule->same && i < rule->node_count; i++) {
            struct ob_jsonschema_node *next = rule->nodes[i];
            if (next && !visit(compiler, next, depth + 1))
                return false;
            if (next && next->height + 1 > node->height)
                node->height = next->height + 1;
        }
    node->visit = OB_NODE_DONE;
    if (node->height > CHAIN_MAX)
        return ob_compile_fail(compiler, node->pointer, node->source, "has too many schemas in a row");
    return true;
}

bool ob_references_bound(struct ob_compiler *compiler)
{
    for (struct ob_jsonschema_node *node = compiler->schema->nodes; node; node = node->next)
        if (!visit(compiler, node, 0))
            return false;
    return true;
}
