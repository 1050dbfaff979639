/* rules_array.c - arrays: items in both spellings, contains, sizes, uniqueItems. */
#include "jsonschema/node.h"

#include <stdlib.h>

static bool check_items(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                        const struct ob_step *step)
{
    for (size_t i = 0; i < value->array.count; i++) {
        const struct ob_jsonschema_node *node = i < rule->items.tuple ? rule->nodes[i] : rule->items.rest;
        struct ob_step item = {.parent = step, .index = i};
        if (node && !ob_jsonschema_node_check(check, node, &value->array.items[i], &item))
            return false;
    }
    return true;
}

static bool check_contains(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                           const struct ob_step *step)
{
    size_t found = 0, least = rule->contains.least, most = rule->contains.most;
    for (size_t i = 0; i < value->array.count && found <= most; i++) {
        struct ob_step item = {.parent = step, .index = i};
        found += ob_jsonschema_node_fits(check, rule->nodes[0], &value->array.items[i], &item);
        if (found >= least && most == SIZE_MAX)
            return true;
    }
    if (found < least)
        return ob_check_fail(check, rule, step, "must contain at least %zu item%s that fit%s", least,
                             least == 1 ? "" : "s", least == 1 ? "s" : "");
    return found <= most ||
           ob_check_fail(check, rule, step, "must contain at most %zu item%s that fit", most, most == 1 ? "" : "s");
}

static bool check_least(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                        const struct ob_step *step)
{
    return value->array.count >= rule->size ||
           ob_check_fail(check, rule, step, "must have at least %zu item%s", rule->size, rule->size == 1 ? "" : "s");
}

static bool check_most(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                       const struct ob_step *step)
{
    return value->array.count <= rule->size ||
           ob_check_fail(check, rule, step, "must have at most %zu item%s", rule->size, rule->size == 1 ? "" : "s");
}

enum { WORK_PER_RULE = 16 };

struct hashed {
    uint64_t hash;
    size_t index, work;
};

static int by_hash(const void *a, const void *b)
{
    const struct hashed *left = a, *right = b;
    if (left->hash != right->hash)
        return left->hash < right->hash ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

/* Hashes the items; reading each item for its hash is paid from the budget. */
static bool hash_items(struct ob_check *check, const struct ob_tree *value, struct hashed *list,
                       const struct ob_step *step)
{
    for (size_t i = 0; i < value->array.count; i++) {
        size_t work = 0;
        list[i] = (struct hashed){.index = i, .hash = ob_tree_hash(&value->array.items[i], &work)};
        list[i].work = work / WORK_PER_RULE;
        if (!ob_check_spend(check, list[i].work, step))
            return false;
    }
    return true;
}

/* Sorted by hash, so that only items with the same hash are compared. */
static bool check_unique(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                         const struct ob_step *step)
{
    size_t count = value->array.count;
    if (count < 2)
        return true;
    struct hashed *list = ob_arena_calloc(check->arena, count, sizeof *list);
    if (!list)
        return ob_check_stop(check, OUTBOX_NOMEM, "", step, NULL);
    if (!hash_items(check, value, list, step))
        return false;
    qsort(list, count, sizeof *list, by_hash);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count && list[j].hash == list[i].hash; j++) {
            struct ob_step item = {.parent = step, .index = list[j].index};
            if (!ob_check_spend(check, list[j].work, step))
                return false;
            if (ob_tree_equal(&value->array.items[list[i].index], &value->array.items[list[j].index]))
                return ob_check_fail(check, rule, &item, "must not equal item %zu", list[i].index);
        }
    }
    return true;
}

/* prefixItems with items, or an array of items with additionalItems; a single schema in items applies to all. */
static bool compile_items(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    const struct ob_tree *items = ob_tree_gets(scope->value, "items");
    const struct ob_tree *prefix = ob_tree_gets(scope->value, "prefixItems");
    const char *tuple = prefix ? "prefixItems" : items && items->type == OB_ARRAY ? "items" : NULL;
    const char *rest = prefix || (items && !tuple) ? "items" : "additionalItems";
    if (!items && !prefix)
        return true;
    struct ob_rule *rule = ob_rule_add(compiler, scope, tuple ? tuple : "items", OB_ON_ARRAY, check_items);
    if (!rule)
        return false;
    if (tuple && !(rule->nodes = ob_compile_list(compiler, scope, tuple, &rule->node_count)))
        return false;
    rule->items.tuple = rule->node_count;
    if (ob_tree_gets(scope->value, rest) && !(rule->items.rest = ob_compile_child(compiler, scope, rest)))
        return false;
    return true;
}

static bool compile_contains(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    if (!ob_tree_gets(scope->value, "contains"))
        return true;
    struct ob_rule *rule = ob_rule_add(compiler, scope, "contains", OB_ON_ARRAY, check_contains);
    if (!rule || !(rule->nodes = ob_arena_alloc(compiler->arena, sizeof *rule->nodes)))
        return ob_compile_nomem(compiler);
    rule->node_count = 1;
    rule->contains.least = 1;
    rule->contains.most = SIZE_MAX;
    if (!(rule->nodes[0] = ob_compile_child(compiler, scope, "contains")))
        return false;
    ob_compile_size(compiler, scope, "minContains", &rule->contains.least);
    ob_compile_size(compiler, scope, "maxContains", &rule->contains.most);
    return compiler->code == OUTBOX_OK;
}

bool ob_compile_arrays(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    size_t size;
    struct ob_rule *rule;
    if (ob_compile_size(compiler, scope, "minItems", &size) &&
        (rule = ob_rule_add(compiler, scope, "minItems", OB_ON_ARRAY, check_least)))
        rule->size = size;
    if (ob_compile_size(compiler, scope, "maxItems", &size) &&
        (rule = ob_rule_add(compiler, scope, "maxItems", OB_ON_ARRAY, check_most)))
        rule->size = size;
    const struct ob_tree *unique = ob_compile_get(compiler, scope, "uniqueItems", OB_BOOLEAN);
    if (unique && unique->boolean)
        ob_rule_add(compiler, scope, "uniqueItems", OB_ON_ARRAY, check_unique);
    return compiler->code == OUTBOX_OK && compile_items(compiler, scope) && compile_contains(compiler, scope);
}
