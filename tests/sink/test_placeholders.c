/* test_placeholders.c - templates: what a placeholder becomes, and that a value never breaks out of its place.
 *
 * Proves: V5 (a normalized payload becomes what a receiver wants), S13 (a field that is missing is named). */
#include "ob_test.h"

#include "base/alloc.h"
#include "harness.h"
#include "sink/common/template.h"

static const char payload_text[] =
    "{\"name\": \"Zo\xc3\xab <b>&\\\"'\", \"total\": 12.5, \"paid\": true, \"none\": null, \"line\": \"a\\r\\nb\", "
    "\"order\": {\"id\": 42, \"lines\": [{\"article\": \"pen\"}, {\"article\": \"ink\"}]}, \"\": {\"x\": 1}}";

/* What the template makes of the payload; or the text of the error behind a '!'. To be freed. */
static char *made(const char *text, enum ob_escape escape)
{
    struct outbox_delivery msg = HARNESS_MESSAGE("orders.paid", payload_text, .recipient = "a@example.org");
    json_t *payload = json_loads(payload_text, 0, NULL);
    struct ob_buf buf = OB_BUF_INIT;
    struct outbox_error err;
    ob_template *tpl = NULL;
    assert_non_null(payload);
    assert_true(outbox_uuid_parse("018bcfe5-6800-7abc-8def-0123456789ab", &msg.id));
    enum outbox_code code = ob_template_new(text, escape, &tpl, &err);
    if (!code)
        code = ob_template_render(tpl, &msg, payload, &buf, &err);
    if (code) {
        assert_int_equal(code, OUTBOX_INVALID);
        ob_buf_reset(&buf);
        ob_buf_printf(&buf, "!%s", err.text);
    }
    ob_template_free(tpl);
    json_decref(payload);
    ob_buf_puts(&buf, "");
    return ob_buf_take(&buf);
}

static void becomes(const char *text, enum ob_escape escape, const char *want)
{
    char *got = made(text, escape);
    assert_non_null(got);
    assert_string_equal(got, want);
    ob_free(got);
}

static void fails_with(const char *text, const char *part)
{
    char *got = made(text, OB_ESCAPE_NONE);
    assert_non_null(got);
    if (got[0] != '!' || !strstr(got, part))
        fail_msg("%s became %s", text, got);
    ob_free(got);
}

/* V5 */
static void fields_are_filled_in(void **state)
{
    (void)state;
    becomes("no placeholder } }} {", OB_ESCAPE_NONE, "no placeholder } }} {");
    becomes("{{name}}", OB_ESCAPE_NONE, "Zo\xc3\xab <b>&\"'");
    becomes("{{ total }} and {{paid}}.", OB_ESCAPE_NONE, "12.5 and true.");
    becomes("{{order.id}}{{order.lines.1.article}}", OB_ESCAPE_NONE, "42ink");
    becomes("{{order.lines}}", OB_ESCAPE_NONE, "[{\"article\":\"pen\"},{\"article\":\"ink\"}]");
    becomes("{{@topic}} {{@recipient}} {{@id}}", OB_ESCAPE_NONE,
            "orders.paid a@example.org 018bcfe5-6800-7abc-8def-0123456789ab");
    becomes("{{.x}}", OB_ESCAPE_NONE, "1");
}

/* V5 */
static void missing_fields_have_a_fallback(void **state)
{
    (void)state;
    becomes("{{nobody|some one}} {{none|nil}} {{@key|}}.", OB_ESCAPE_NONE, "some one nil .");
    becomes("{\"n\": {{nobody|0}}}", OB_ESCAPE_JSON, "{\"n\": 0}");
    becomes("{{nobody|<br>}}", OB_ESCAPE_HTML, "<br>");
}

/* S13 */
static void missing_fields_are_named(void **state)
{
    (void)state;
    fails_with("a {{order.total}}", "{{order.total}}");
    fails_with("{{none}}", "{{none}}");
    fails_with("{{@key}}", "{{@key}}");
    fails_with("{{order.lines.2.article}}", "{{order.lines.2.article}}");
    fails_with("{{order.lines.x}}", "{{order.lines.x}}");
    fails_with("{{order.lines.}}", "{{order.lines.}}");
    fails_with("{{name.first}}", "{{name.first}}");
}

static void wrong_templates_are_refused(void **state)
{
    char deep[600] = "{{";
    (void)state;
    fails_with("Dear {{name", "never closed: {{name");
    fails_with("{{}}", "does not name a field");
    fails_with("{{ |x}}", "does not name a field");
    fails_with("{{@colour}}", "@correlation_id");
    memset(deep + 2, 'a', sizeof deep - 5);
    memcpy(deep + sizeof deep - 3, "}}", 3);
    fails_with(deep, "too long");
}

static void values_stay_text_in_html(void **state)
{
    (void)state;
    becomes("<p title=\"{{name}}\">{{total}}</p>", OB_ESCAPE_HTML,
            "<p title=\"Zo\xc3\xab &lt;b&gt;&amp;&quot;&#39;\">12.5</p>");
    becomes("{{order.lines.0}}", OB_ESCAPE_HTML, "{&quot;article&quot;:&quot;pen&quot;}");
}

static void values_stay_in_place_in_json(void **state)
{
    (void)state;
    becomes("{\"t\": \"for {{name}}: {{line}}\"}", OB_ESCAPE_JSON, "{\"t\": \"for Zo\xc3\xab <b>&\\\"': a\\r\\nb\"}");
    becomes("{\"a\": {{name}}, \"b\": {{order}}, \"\\\"c\": {{paid}}, \"d\": \"{{total}}\"}", OB_ESCAPE_JSON,
            "{\"a\": \"Zo\xc3\xab <b>&\\\"'\", \"b\": {\"id\":42,\"lines\":[{\"article\":\"pen\"},{\"article\":"
            "\"ink\"}]}, \"\\\"c\": true, \"d\": \"12.5\"}");
    becomes("\"{{order.lines.0}}\"", OB_ESCAPE_JSON, "\"{\\\"article\\\":\\\"pen\\\"}\"");
}

/* A payload that is not JSON has no fields, but the message has. */
static void payload_may_be_none(void **state)
{
    struct outbox_delivery msg = HARNESS_MESSAGE("t", "\x01");
    struct ob_buf buf = OB_BUF_INIT;
    struct outbox_error err;
    ob_template *tpl;
    (void)state;
    assert_int_equal(ob_template_new("{{@topic}}{{x|y}}", OB_ESCAPE_NONE, &tpl, &err), OUTBOX_OK);
    assert_int_equal(ob_template_render(tpl, &msg, NULL, &buf, &err), OUTBOX_OK);
    assert_string_equal(ob_buf_text(&buf), "ty");
    ob_template_free(tpl);
    ob_buf_fini(&buf);
    ob_template_free(NULL);
}

/* V6 */
static void values_stay_text_in_chat_markup(void **state)
{
    (void)state;
    becomes("*{{name}}*", OB_ESCAPE_SLACK, "*Zo\xc3\xab &lt;b&gt;&amp;\"'*");
    becomes("*{{name}}* _{{total}}_", OB_ESCAPE_MARKDOWN, "*Zo\xc3\xab <b\\>&\"'* _12\\.5_");
    becomes("{{order.lines.0}}", OB_ESCAPE_MARKDOWN, "\\{\"article\":\"pen\"\\}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_filled_in),     cmocka_unit_test(missing_fields_have_a_fallback),
        cmocka_unit_test(missing_fields_are_named), cmocka_unit_test(wrong_templates_are_refused),
        cmocka_unit_test(values_stay_text_in_html), cmocka_unit_test(values_stay_in_place_in_json),
        cmocka_unit_test(payload_may_be_none),      cmocka_unit_test(values_stay_text_in_chat_markup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
