/* rules_scalar.c - numbers and strings: bounds, multiples, lengths, patterns, formats. */
#include "jsonschema/node.h"

enum { REGEX_PER_BYTE = 20 };

static bool check_minimum(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                          const struct ob_step *step)
{
    return ob_number_compare(&value->number, &rule->number) >= 0 ||
           ob_check_fail(check, rule, step, "must be >= %s", rule->shown);
}

static bool check_maximum(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                          const struct ob_step *step)
{
    return ob_number_compare(&value->number, &rule->number) <= 0 ||
           ob_check_fail(check, rule, step, "must be <= %s", rule->shown);
}

static bool check_above(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                        const struct ob_step *step)
{
    return ob_number_compare(&value->number, &rule->number) > 0 ||
           ob_check_fail(check, rule, step, "must be > %s", rule->shown);
}

static bool check_below(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                        const struct ob_step *step)
{
    return ob_number_compare(&value->number, &rule->number) < 0 ||
           ob_check_fail(check, rule, step, "must be < %s", rule->shown);
}

static bool check_multiple(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                           const struct ob_step *step)
{
    return ob_number_is_multiple(&value->number, &rule->number) ||
           ob_check_fail(check, rule, step, "must be a multiple of %s", rule->shown);
}

bool ob_compile_numbers(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    static const struct {
        const char *keyword;
        ob_rule_fn *check;
    } keywords[] = {
        {"minimum", check_minimum},        {"maximum", check_maximum},     {"exclusiveMinimum", check_above},
        {"exclusiveMaximum", check_below}, {"multipleOf", check_multiple},
    };
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        const struct ob_tree *value = ob_compile_get(compiler, scope, keywords[i].keyword, OB_NUMBER);
        struct ob_rule *rule =
            value ? ob_rule_add(compiler, scope, keywords[i].keyword, OB_ON_NUMBER, keywords[i].check) : NULL;
        if (!rule)
            continue;
        rule->number = value->number;
        if (!rule->shown)
            rule->shown = "the limit of the schema";
        if (rule->check == check_multiple && (value->number.negative || value->number.count == 0))
            return ob_compile_fail(compiler, rule->pointer, value, "must be > 0");
        if (rule->check == check_multiple && value->number.count > OB_NUMBER_DIVISOR_DIGITS)
            return ob_compile_fail(compiler, rule->pointer, value, "must not have more than %d digits",
                                   OB_NUMBER_DIVISOR_DIGITS);
    }
    return compiler->code == OUTBOX_OK;
}

static bool check_least(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                        const struct ob_step *step)
{
    return ob_text_length(value->string) >= rule->size ||
           ob_check_fail(check, rule, step, "must have at least %zu character%s", rule->size,
                         rule->size == 1 ? "" : "s");
}

static bool check_most(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                       const struct ob_step *step)
{
    return ob_text_length(value->string) <= rule->size ||
           ob_check_fail(check, rule, step, "must have at most %zu character%s", rule->size,
                         rule->size == 1 ? "" : "s");
}

static bool check_pattern(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                          const struct ob_step *step)
{
    return ob_check_match(check, rule->regex, value->string, rule->pointer, step) ||
           ob_check_fail(check, rule, step, "must match %s", rule->shown);
}

static bool check_format(struct ob_check *check, const struct ob_rule *rule, const struct ob_tree *value,
                         const struct ob_step *step)
{
    return rule->format->check(value->string) || ob_check_fail(check, rule, step, "must be %s", rule->format->what);
}

bool ob_compile_strings(struct ob_compiler *compiler, const struct ob_jsonschema_scope *scope)
{
    size_t size;
    struct ob_rule *rule;
    if (ob_compile_size(compiler, scope, "minLength", &size) &&
        (rule = ob_rule_add(compiler, scope, "minLength", OB_ON_STRING, check_least)))
        rule->size = size;
    if (ob_compile_size(compiler, scope, "maxLength", &size) &&
        (rule = ob_rule_add(compiler, scope, "maxLength", OB_ON_STRING, check_most)))
        rule->size = size;
    const struct ob_tree *value = ob_compile_get(compiler, scope, "pattern", OB_STRING);
    if (value && (rule = ob_rule_add(compiler, scope, "pattern", OB_ON_STRING, check_pattern))) {
        if (!rule->shown)
            rule->shown = "the pattern of the schema";
        rule->regex = ob_compile_regex(compiler, rule->pointer, value, value->string);
    }
    value = ob_compile_get(compiler, scope, "format", OB_STRING);
    const struct ob_format *format = value ? ob_format_find(value->string) : NULL;
    if (format && (rule = ob_rule_add(compiler, scope, "format", OB_ON_STRING, check_format)))
        rule->format = format;
    return compiler->code == OUTBOX_OK;
}
