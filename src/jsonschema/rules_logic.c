/* rules_logic.c - allOf, anyOf, oneOf, not, if/then/else: schemas that apply to the same value. */
#include "jsonschema/node.h"

static bool check_all(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                      const struct ob_step *step)
{
    for (size_t i = 0; i < rule->node_count; i++)
        if (!ob_jsonschema_node_check(check, rule->nodes[i], value, step))
            return false;
    return true;
}

static size_t path_depth(const char *path)
{
    size_t depth = 0;
    for (; *path; path++)
        depth += *path == '/';
    return depth;
}

/* Reports the nearest alternative: the one that failed deepest inside the value, if any got inside it. Done once per
 * check, otherwise nested alternatives would be checked again and again. Not inlined, to keep its large stack frame out
 * of the recursion. */
static bool __attribute__((noinline)) fail_with_nearest(struct ob_check *check, const struct ob_rule *rule,
                                                        const struct ob_tree *value, const struct ob_step *step)
{
    if (check->quiet || check->code)
        return false;
    if (check->searching)
        return ob_check_fail(check, rule, step, "fits none of the %zu alternatives", rule->node_count);
    struct ob_jsonschema_fault *given = check->fault, one = {.path = ""}, nearest = {.path = ""};
    size_t least = 0, deepest = 0;
    for (const struct ob_step *up = step; up->parent; up = up->parent)
        least++;
    deepest = least;
    check->fault = &one;
    check->searching = true;
    for (size_t i = 0; i < rule->node_count && !check->code; i++) {
        if (!ob_jsonschema_node_check(check, rule->nodes[i], value, step) && path_depth(one.path) > deepest) {
            deepest = path_depth(one.path);
            nearest = one;
        }
    }
    check->fault = given;
    check->searching = false;
    if (check->code == OUTBOX_INVALID)
        *given = one;
    if (deepest == least)
        return ob_check_fail(check, rule, step, "fits none of the %zu alternatives", rule->node_count);
    return ob_check_fail(check, rule, step, "fits none of the %zu alternatives; the nearest says %s", rule->node_count,
                         nearest.text);
}

static bool check_any(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                      const struct ob_step *step)
{
    for (size_t i = 0; i < rule->node_count; i++)
        if (ob_jsonschema_node_fits(check, rule->nodes[i], value, step))
            return true;
    return fail_with_nearest(check, rule, value, step);
}

static bool check_one(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                      const struct ob_step *step)
{
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < rule->node_count; i++) {
        if (!ob_jsonschema_node_fits(check, rule->nodes[i], value, step))
            continue;
        if (first != SIZE_MAX)
            return ob_check_fail(check, rule, step, "must fit one alternative, but fits %zu and %zu", first, i);
        first = i;
    }
    return first != SIZE_MAX || fail_with_nearest(check, rule, value, step);
}

static bool check_not(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                      const struct ob_step *step)
{
    return !ob_jsonschema_node_fits(check, rule->nodes[0], value, step) ||
           ob_check_fail(check, rule, step, "must not fit what the schema excludes");
}

/* nodes: if, then, else; a missing one is NULL. */
static bool check_if(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                     const struct ob_step *step)
{
    const struct ob_jsonschema_node *next =
        rule->nodes[ob_jsonschema_node_fits(check, rule->nodes[0], value, step) ? 1 : 2];
    return !next || ob_jsonschema_node_check(check, next, value, step);
}

static bool compile_if(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    static const char *const keywords[] = {"if", "then", "else"};
    if (!ob_tree_gets(scope->value, "if")) { /* then and else check nothing without it, but a $ref may lead into them */
        for (size_t i = 1; i < 3; i++)
            if (ob_tree_gets(scope->value, keywords[i]) && !ob_compile_child(compiler, scope, keywords[i]))
                return false;
        return true;
    }
    struct ob_rule *rule = ob_rule_add(compiler, scope, "if", OB_ON_ALL, check_if);
    if (!rule || !(rule->nodes = ob_arena_calloc(compiler->arena, 3, sizeof *rule->nodes)))
        return ob_compile_nomem(compiler);
    rule->same = true;
    rule->node_count = 3;
    for (size_t i = 0; i < 3; i++)
        if (ob_tree_gets(scope->value, keywords[i]) &&
            !(rule->nodes[i] = ob_compile_child(compiler, scope, keywords[i])))
            return false;
    return true;
}

static bool compile_not(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    if (!ob_tree_gets(scope->value, "not"))
        return true;
    struct ob_rule *rule = ob_rule_add(compiler, scope, "not", OB_ON_ALL, check_not);
    if (!rule || !(rule->nodes = ob_arena_alloc(compiler->arena, sizeof *rule->nodes)))
        return ob_compile_nomem(compiler);
    rule->same = true;
    rule->node_count = 1;
    return (rule->nodes[0] = ob_compile_child(compiler, scope, "not"));
}

bool ob_compile_logic(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    static const struct {
        const char *keyword;
        ob_rule_fn *check;
    } lists[] = {{"allOf", check_all}, {"anyOf", check_any}, {"oneOf", check_one}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const char *keyword = lists[i].keyword;
        const struct ob_tree *list = ob_compile_get(compiler, scope, keyword, OB_ARRAY);
        struct ob_rule *rule = list ? ob_rule_add(compiler, scope, keyword, OB_ON_ALL, lists[i].check) : NULL;
        if (!rule)
            continue;
        if (list->array.count == 0)
            return ob_compile_fail(compiler, rule->pointer, list, "must have at least one schema");
        rule->same = true;
        rule->nodes = ob_compile_list(compiler, scope, keyword, &rule->node_count);
    }
    return compiler->code == OUTBOX_OK && compile_not(compiler, scope) && compile_if(compiler, scope);
}
