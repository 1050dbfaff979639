/* check.c - checks a payload: walks nodes and values together, and records the first fault.
 *
 * Two limits hold for every schema and payload: the depth of the recursion, and the work, which is counted in rules
 * checked and steps of patterns and may grow in proportion to the payload. */
#include "jsonschema/node.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

enum {
    DEPTH_MAX = 3000,
    BUDGET_BASE = 1000000,
    BUDGET_PER_BYTE = 50,
    BYTES_PER_RULE = 32, /* a rule may read a whole string */
    DIGITS_PER_RULE = 8, /* and divide a whole number */
};

static void copy_cut(char *to, size_t size, const char *text, size_t text_len)
{
    size_t len = ob_text_fit((struct ob_text){text, text_len}, size - 1);
    memcpy(to, text, len);
    to[len] = '\0';
}

static void put_path(struct ob_buf *buf, const struct ob_step *step)
{
    if (!step->parent)
        return;
    put_path(buf, step->parent);
    if (step->name.data)
        ob_pointer_put(buf, step->name);
    else
        ob_buf_printf(buf, "/%zu", step->index);
}

static void write_fault(struct ob_check *check, const struct ob_step *step, const char *pointer, const char *what)
{
    struct ob_buf path = OB_BUF_INIT, text = OB_BUF_INIT;
    put_path(&path, step);
    copy_cut(check->fault->path, sizeof check->fault->path, ob_buf_text(&path), path.len);
    copy_cut(check->fault->rule, sizeof check->fault->rule, pointer, strlen(pointer));
    ob_buf_printf(&text, "%s: %s", path.len ? ob_buf_text(&path) : "payload", what);
    copy_cut(check->fault->text, sizeof check->fault->text, ob_buf_text(&text), text.len);
    if (!ob_buf_ok(&path) || !ob_buf_ok(&text))
        check->code = OUTBOX_NOMEM;
    ob_buf_fini(&path);
    ob_buf_fini(&text);
}

bool ob_check_fail(struct ob_check *check, const struct ob_rule *rule, const struct ob_step *step, const char *format,
                   ...)
{
    if (check->quiet || check->code)
        return false;
    struct ob_buf what = OB_BUF_INIT;
    va_list args;
    va_start(args, format);
    ob_buf_vprintf(&what, format, args);
    va_end(args);
    ob_buf_printf(&what, " (%s)", rule->keyword);
    if (ob_buf_ok(&what))
        write_fault(check, step, rule->pointer, ob_buf_text(&what));
    else
        check->code = OUTBOX_NOMEM;
    ob_buf_fini(&what);
    return false;
}

bool ob_check_stop(struct ob_check *check, enum outbox_code code, const char *pointer, const struct ob_step *step,
                   const char *what)
{
    if (check->code)
        return false;
    check->code = code;
    if (code == OUTBOX_INVALID)
        write_fault(check, step, pointer, what);
    return false;
}

bool ob_check_spend(struct ob_check *check, size_t work, const struct ob_step *step)
{
    if (check->code)
        return false;
    if (work > check->budget)
        return ob_check_stop(check, OUTBOX_INVALID, "", step, "checking it takes too long for a payload of this size");
    check->budget -= work;
    return true;
}

bool ob_check_match(struct ob_check *check, const struct ob_regex *regex, struct ob_text text, const char *pointer,
                    const struct ob_step *step)
{
    if (!check->matcher && !(check->matcher = ob_matcher_new()))
        return ob_check_stop(check, OUTBOX_NOMEM, "", step, NULL);
    switch (ob_regex_match(regex, check->matcher, text, &check->budget)) {
    case OB_MATCH_YES: return true;
    case OB_MATCH_NO: return false;
    case OB_MATCH_NOMEM: return ob_check_stop(check, OUTBOX_NOMEM, "", step, NULL);
    case OB_MATCH_LIMIT: break;
    }
    return ob_check_stop(check, OUTBOX_INVALID, pointer, step, "matching it against the pattern takes too long");
}

static bool refuse(struct ob_check *check, const struct ob_jsonschema_node *node, const struct ob_step *step)
{
    const char *slash = strrchr(node->pointer, '/');
    bool known = slash && (!strcmp(slash, "/additionalProperties") || !strcmp(slash, "/additionalItems") ||
                           !strcmp(slash, "/items"));
    char what[64];
    snprintf(what, sizeof what, "is not allowed (%s)", known ? slash + 1 : "false");
    if (!check->quiet && !check->code)
        write_fault(check, step, node->pointer, what);
    return false;
}

bool ob_jsonschema_node_check(struct ob_check *check, const struct ob_jsonschema_node *node,
                              const struct ob_tree *value, const struct ob_step *step)
{
    if (node->never)
        return refuse(check, node, step);
    if (check->depth == DEPTH_MAX)
        return ob_check_stop(check, OUTBOX_INVALID, node->pointer, step, "is nested too deeply to be checked");
    bool fits = true;
    check->depth++;
    size_t work = 1;
    if (value->type == OB_STRING)
        work += value->string.len / BYTES_PER_RULE;
    else if (value->type == OB_NUMBER)
        work += value->number.count / DIGITS_PER_RULE;
    for (const struct ob_rule *rule = node->rules; rule && fits; rule = rule->next)
        if (rule->on & 1u << value->type)
            fits = ob_check_spend(check, work, step) && rule->check(check, rule, value, step);
    check->depth--;
    return fits;
}

bool ob_jsonschema_node_fits(struct ob_check *check, const struct ob_jsonschema_node *node, const struct ob_tree *value,
                             const struct ob_step *step)
{
    check->quiet++;
    bool fits = ob_jsonschema_node_check(check, node, value, step);
    check->quiet--;
    return fits;
}

static void not_json(const char *payload, size_t len, const struct ob_tree_fault *why,
                     struct ob_jsonschema_fault *fault)
{
    unsigned line, column;
    ob_tree_place(payload, len, why->offset, &line, &column);
    fault->path[0] = fault->rule[0] = '\0';
    snprintf(fault->text, sizeof fault->text, "payload: %u:%u: %s", line, column, why->text);
}

enum outbox_code ob_jsonschema_check(const struct ob_jsonschema *schema, const void *payload, size_t len,
                                     struct ob_jsonschema_fault *fault)
{
    struct ob_jsonschema_fault unused = {.path = ""};
    struct ob_arena arena;
    struct ob_tree value;
    struct ob_tree_fault why;
    struct ob_check check = {.arena = &arena, .fault = fault ? fault : &unused};
    const struct ob_step root = {.parent = NULL};
    ob_arena_init(&arena, 0);
    check.budget = BUDGET_BASE + (uint64_t)BUDGET_PER_BYTE * len;
    enum outbox_code code = ob_tree_read(&arena, payload, len, &value, &why);
    if (code == OUTBOX_INVALID) {
        not_json(payload, len, &why, check.fault);
    } else if (code == OUTBOX_OK) {
        bool fits = ob_jsonschema_node_check(&check, schema->root, &value, &root);
        code = check.code ? check.code : fits ? OUTBOX_OK : OUTBOX_INVALID;
    }
    ob_matcher_free(check.matcher);
    ob_arena_fini(&arena);
    return code;
}
