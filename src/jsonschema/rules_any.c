/* rules_any.c - type, enum, const: rules for values of every type. */
#include "jsonschema/node.h"

#include <string.h>

static const struct {
    const char *name, *shown;
    unsigned bit;
} types[] = {
    {"boolean", "a boolean", 1 << OB_BOOLEAN},
    {"integer", "an integer", OB_ON_INTEGER},
    {"number", "a number", OB_ON_NUMBER},
    {"string", "a string", OB_ON_STRING},
    {"array", "an array", OB_ON_ARRAY},
    {"object", "an object", OB_ON_OBJECT},
    {"null", "null", 1 << OB_NULL},
};

enum { TYPE_COUNT = sizeof types / sizeof types[0] };

static bool check_type(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                       const struct ob_step *step)
{
    if (rule->types & 1u << value->type)
        return true;
    if (rule->types & OB_ON_INTEGER && value->type == OB_NUMBER && ob_number_is_integer(&value->number))
        return true;
    if (rule->types & OB_ON_INTEGER && value->type == OB_NUMBER)
        return ob_check_fail(check, rule, step, "must be %s, without a fraction", rule->shown);
    return ob_check_fail(check, rule, step, "must be %s, not %s", rule->shown, ob_tree_type_name(value->type));
}

static bool check_enum(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                       const struct ob_step *step)
{
    if (!ob_check_spend(check, rule->value->array.count, step))
        return false;
    for (size_t i = 0; i < rule->value->array.count; i++)
        if (ob_tree_equal(&rule->value->array.items[i], value))
            return true;
    return ob_check_fail(check, rule, step, "must be one of %s", rule->shown);
}

static bool check_const(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                        const struct ob_step *step)
{
    return ob_tree_equal(rule->value, value) || ob_check_fail(check, rule, step, "must be %s", rule->shown);
}

static bool add_type(struct ob_compiler *compiler, const struct ob_rule *rule, const struct ob_tree *name,
                     unsigned *mask)
{
    for (size_t i = 0; name->type == OB_STRING && i < TYPE_COUNT; i++)
        if (ob_text_is(name->string, types[i].name)) {
            *mask |= types[i].bit;
            return true;
        }
    return ob_compile_fail(compiler, rule->pointer, name,
                           "must be null, boolean, integer, number, string, array or "
                           "object, or an array of these");
}

/* "a string or null" */
static bool show_types(struct ob_compiler *compiler, struct ob_rule *rule)
{
    struct ob_buf buf = OB_BUF_INIT;
    for (size_t i = 0; i < TYPE_COUNT; i++)
        if (rule->types & types[i].bit)
            ob_buf_printf(&buf, "%s%s", buf.len ? " or " : "", types[i].shown);
    rule->shown = ob_buf_ok(&buf) ? ob_arena_strdup(compiler->arena, ob_buf_text(&buf)) : NULL;
    ob_buf_fini(&buf);
    return rule->shown || ob_compile_nomem(compiler);
}

static bool compile_type(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    const struct ob_tree *value = ob_tree_gets(scope->value, "type");
    if (!value)
        return true;
    struct ob_rule *rule = ob_rule_add(compiler, scope, "type", OB_ON_ALL, check_type);
    if (!rule || compiler->code)
        return false;
    unsigned mask = 0;
    if (value->type != OB_ARRAY && !add_type(compiler, rule, value, &mask))
        return false;
    for (size_t i = 0; value->type == OB_ARRAY && i < value->array.count; i++)
        if (!add_type(compiler, rule, &value->array.items[i], &mask))
            return false;
    if (mask == 0)
        return ob_compile_fail(compiler, rule->pointer, value, "must name at least one type");
    rule->types = mask;
    return show_types(compiler, rule);
}

bool ob_compile_any(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    if (!compile_type(compiler, scope))
        return false;
    struct ob_tree *list = ob_compile_get(compiler, scope, "enum", OB_ARRAY);
    struct ob_rule *rule = list ? ob_rule_add(compiler, scope, "enum", OB_ON_ALL, check_enum) : NULL;
    if (rule) {
        rule->value = list;
        if (!rule->shown)
            rule->shown = "the listed values";
    }
    const struct ob_tree *constant = ob_tree_gets(scope->value, "const");
    if (constant && (rule = ob_rule_add(compiler, scope, "const", OB_ON_ALL, check_const))) {
        rule->value = constant;
        if (!rule->shown)
            rule->shown = "the value of the schema";
    }
    return compiler->code == OUTBOX_OK;
}
