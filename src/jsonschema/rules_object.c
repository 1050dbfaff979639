/* rules_object.c - objects: members by name, by pattern and all others; required members and dependencies. */
#include "jsonschema/node.h"

#include <stdlib.h>
#include <string.h>

static const struct ob_jsonschema_node *find_named(const struct ob_rule *rule, struct ob_text name)
{
    const struct ob_named_node *list = rule->members.named;
    size_t count = rule->members.named_count;
    while (count) {
        size_t half = count / 2;
        int order = ob_text_compare(name, list[half].name);
        if (order == 0)
            return list[half].node;
        if (order > 0) {
            list += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return NULL;
}

static bool check_member(struct ob_check *check, const struct ob_rule *rule, const struct ob_member *member,
                         const struct ob_step *step)
{
    const struct ob_jsonschema_node *named = find_named(rule, member->name);
    bool known = named;
    if (named && !ob_jsonschema_node_check(check, named, &member->value, step))
        return false;
    for (size_t i = 0; i < rule->members.pattern_count; i++) {
        const struct ob_pattern_node *pattern = &rule->members.patterns[i];
        if (!ob_check_spend(check, 1, step))
            return false;
        if (!ob_check_match(check, pattern->regex, member->name, pattern->node->pointer, step))
            continue;
        known = true;
        if (!ob_jsonschema_node_check(check, pattern->node, &member->value, step))
            return false;
    }
    return known || !rule->members.rest || ob_jsonschema_node_check(check, rule->members.rest, &member->value, step);
}

static bool check_members(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                          const struct ob_step *step)
{
    for (size_t i = 0; i < value->object.count; i++) {
        const struct ob_member *member = &value->object.members[i];
        struct ob_step inner = {.parent = step, .name = member->name};
        if (!check_member(check, rule, member, &inner))
            return false;
    }
    return true;
}

static bool check_names(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                        const struct ob_step *step)
{
    for (size_t i = 0; i < value->object.count; i++) {
        struct ob_tree name = {.type = OB_STRING, .string = value->object.members[i].name};
        struct ob_step inner = {.parent = step, .name = name.string};
        if (!ob_jsonschema_node_fits(check, rule->nodes[0], &name, &inner))
            return ob_check_fail(check, rule, &inner, "must not have this name");
    }
    return true;
}

static bool check_required(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                           const struct ob_step *step)
{
    if (!ob_check_spend(check, rule->names.count, step))
        return false;
    for (size_t i = 0; i < rule->names.count; i++) {
        struct ob_step inner = {.parent = step, .name = rule->names.list[i]};
        if (!ob_tree_get(value, rule->names.list[i]))
            return ob_check_fail(check, rule, &inner, "is missing");
    }
    return true;
}

static bool check_least(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                        const struct ob_step *step)
{
    return value->object.count >= rule->size ||
           ob_check_fail(check, rule, step, "must have at least %zu member%s", rule->size, rule->size == 1 ? "" : "s");
}

static bool check_most(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                       const struct ob_step *step)
{
    return value->object.count <= rule->size ||
           ob_check_fail(check, rule, step, "must have at most %zu member%s", rule->size, rule->size == 1 ? "" : "s");
}

static bool check_dependencies(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                               const struct ob_step *step)
{
    for (size_t i = 0; i < rule->dependencies.count; i++) {
        const struct ob_dependency *one = &rule->dependencies.list[i];
        if (!ob_check_spend(check, 1 + one->need_count, step))
            return false;
        if (!ob_tree_get(value, one->name))
            continue;
        if (one->node && !ob_jsonschema_node_check(check, one->node, value, step))
            return false;
        for (size_t j = 0; j < one->need_count; j++) {
            struct ob_step inner = {.parent = step, .name = one->needs[j]};
            if (!ob_tree_get(value, one->needs[j]))
                return ob_check_fail(check, rule, &inner, "is missing, and \"%.*s\" needs it",
                                     (int)ob_text_fit(one->name, 60), one->name.data);
        }
    }
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct ob_named_node *left = a, *right = b;
    return ob_text_compare(left->name, right->name);
}

static bool compile_named(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope, struct ob_rule *rule)
{
    struct ob_tree *object = ob_compile_get(compiler, scope, "properties", OB_OBJECT);
    size_t count = object ? object->object.count : 0;
    if (!count)
        return compiler->code == OUTBOX_OK;
    struct ob_named_node *named = ob_arena_calloc(compiler->arena, count, sizeof *named);
    if (!named)
        return ob_compile_nomem(compiler);
    for (size_t i = 0; i < count; i++) {
        struct ob_member *member = &object->object.members[i];
        named[i].name = member->name;
        if (!(named[i].node = ob_compile_named(compiler, scope, "properties", member)))
            return false;
    }
    qsort(named, count, sizeof *named, by_name);
    rule->members.named = named;
    rule->members.named_count = count;
    return true;
}

static bool compile_patterns(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                             struct ob_rule *rule)
{
    struct ob_tree *object = ob_compile_get(compiler, scope, "patternProperties", OB_OBJECT);
    size_t count = object ? object->object.count : 0;
    if (!count)
        return compiler->code == OUTBOX_OK;
    struct ob_pattern_node *patterns = ob_arena_calloc(compiler->arena, count, sizeof *patterns);
    if (!patterns)
        return ob_compile_nomem(compiler);
    for (size_t i = 0; i < count; i++) {
        struct ob_member *member = &object->object.members[i];
        struct ob_jsonschema_node *node = ob_compile_named(compiler, scope, "patternProperties", member);
        if (!node)
            return false;
        patterns[i].node = node;
        if (!(patterns[i].regex = ob_compile_regex(compiler, node->pointer, &member->value, member->name)))
            return false;
    }
    rule->members.patterns = patterns;
    rule->members.pattern_count = count;
    return true;
}

static bool compile_members(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    static const char *const keywords[] = {"properties", "patternProperties", "additionalProperties"};
    const char *first = NULL;
    for (size_t i = 0; i < 3 && !first; i++)
        first = ob_tree_gets(scope->value, keywords[i]) ? keywords[i] : NULL;
    if (!first)
        return true;
    struct ob_rule *rule = ob_rule_add(compiler, scope, first, OB_ON_OBJECT, check_members);
    if (!rule || !compile_named(compiler, scope, rule) || !compile_patterns(compiler, scope, rule))
        return false;
    return !ob_tree_gets(scope->value, keywords[2]) ||
           (rule->members.rest = ob_compile_child(compiler, scope, keywords[2]));
}

static bool compile_required(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    const struct ob_tree *array = ob_compile_get(compiler, scope, "required", OB_ARRAY);
    if (!array)
        return compiler->code == OUTBOX_OK;
    struct ob_rule *rule = ob_rule_add(compiler, scope, "required", OB_ON_OBJECT, check_required);
    return rule && ob_compile_names(compiler, rule->pointer, array, &rule->names.list, &rule->names.count);
}

static bool compile_dependency(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                               struct ob_rule *rule, struct ob_member *member, struct ob_dependency *one)
{
    bool schema = strcmp(rule->keyword, "dependentSchemas") == 0,
         names = strcmp(rule->keyword, "dependentRequired") == 0;
    one->name = member->name;
    if (!schema && (names || member->value.type == OB_ARRAY)) {
        const char *pointer = ob_compile_pointer(compiler, rule->pointer, member->name);
        return pointer && ob_compile_names(compiler, pointer, &member->value, &one->needs, &one->need_count);
    }
    one->node = ob_compile_named(compiler, scope, rule->keyword, member);
    rule->nodes[rule->node_count++] = one->node;
    return one->node;
}

static bool compile_dependencies(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope,
                                 const char *keyword)
{
    struct ob_tree *object = ob_compile_get(compiler, scope, keyword, OB_OBJECT);
    if (!object)
        return compiler->code == OUTBOX_OK;
    size_t count = object->object.count;
    struct ob_rule *rule = ob_rule_add(compiler, scope, keyword, OB_ON_OBJECT, check_dependencies);
    if (!rule || count == 0)
        return rule;
    rule->same = true;
    rule->nodes = ob_arena_calloc(compiler->arena, count, sizeof *rule->nodes);
    rule->dependencies.list = ob_arena_calloc(compiler->arena, count, sizeof *rule->dependencies.list);
    if (!rule->nodes || !rule->dependencies.list)
        return ob_compile_nomem(compiler);
    for (size_t i = 0; i < count; i++)
        if (!compile_dependency(compiler, scope, rule, &object->object.members[i], &rule->dependencies.list[i]))
            return false;
    rule->dependencies.count = count;
    return true;
}

static bool compile_property_names(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    if (!ob_tree_gets(scope->value, "propertyNames"))
        return true;
    struct ob_rule *rule = ob_rule_add(compiler, scope, "propertyNames", OB_ON_OBJECT, check_names);
    if (!rule || !(rule->nodes = ob_arena_alloc(compiler->arena, sizeof *rule->nodes)))
        return ob_compile_nomem(compiler);
    rule->node_count = 1;
    return (rule->nodes[0] = ob_compile_child(compiler, scope, "propertyNames"));
}

bool ob_compile_objects(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    size_t size;
    struct ob_rule *rule;
    if (ob_compile_size(compiler, scope, "minProperties", &size) &&
        (rule = ob_rule_add(compiler, scope, "minProperties", OB_ON_OBJECT, check_least)))
        rule->size = size;
    if (ob_compile_size(compiler, scope, "maxProperties", &size) &&
        (rule = ob_rule_add(compiler, scope, "maxProperties", OB_ON_OBJECT, check_most)))
        rule->size = size;
    return compiler->code == OUTBOX_OK && compile_required(compiler, scope) &&
           compile_property_names(compiler, scope) && compile_members(compiler, scope) &&
           compile_dependencies(compiler, scope, "dependencies") &&
           compile_dependencies(compiler, scope, "dependentRequired") &&
           compile_dependencies(compiler, scope, "dependentSchemas");
}
