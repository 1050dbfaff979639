/* test_schema.c - what a payload's fault says, what a schema's mistake says, and where each is. Proves: S12. */
#include "base/buf.h"
#include "base/utf8.h"
#include "jsonschema/schema.h"
#include "ob_test.h"

#include <stdio.h>
#include <string.h>

static struct ob_jsonschema *compile(const char *text)
{
    struct ob_jsonschema *schema;
    struct outbox_error err;
    if (ob_jsonschema_compile(text, strlen(text), "s.json", &schema, NULL, &err))
        fail_msg("%s", err.text);
    return schema;
}

/* path NULL: the payload fits. */
static void expect(const struct ob_jsonschema *schema, const char *payload, const char *path, const char *rule,
                   const char *text)
{
    struct ob_jsonschema_fault fault = {.text = ""};
    enum outbox_code code = ob_jsonschema_check(schema, payload, strlen(payload), &fault);
    if ((code == OUTBOX_OK) != !path)
        fail_msg("%s: %d %s", payload, code, fault.text);
    if (!path)
        return;
    assert_string_equal(fault.text, text);
    assert_string_equal(fault.path, path);
    assert_string_equal(fault.rule, rule);
}

static const char order_schema[] =
    "{\n"
    "  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n"
    "  \"type\": \"object\",\n"
    "  \"required\": [\"amount\", \"currency\"],\n"
    "  \"properties\": {\n"
    "    \"amount\": {\"type\": \"number\", \"exclusiveMinimum\": 0, \"multipleOf\": 0.01},\n"
    "    \"currency\": {\"type\": \"string\", \"pattern\": \"^[A-Z]{3}$\"},\n"
    "    \"method\": {\"enum\": [\"card\", \"iban\", null]},\n"
    "    \"email\": {\"format\": \"email\"},\n"
    "    \"note\": {\"type\": [\"string\", \"null\"], \"maxLength\": 3},\n"
    "    \"lines\": {\"type\": \"array\", \"minItems\": 1, \"uniqueItems\": true,\n"
    "      \"items\": {\"$ref\": \"#/definitions/line\"}}\n"
    "  },\n"
    "  \"definitions\": {\"line\": {\"properties\": {\"count\": {\"type\": \"integer\"}}}},\n"
    "  \"additionalProperties\": false\n"
    "}\n";

static void faults_name_path_and_rule(void **state)
{
    (void)state;
    struct ob_jsonschema *schema = compile(order_schema);
    expect(schema,
           "{\"amount\":12.5,\"currency\":\"EUR\",\"lines\":[{\"count\":2.0}],\"note\":\"\xc3\xa9\xc3\xa9\xc3\xa9\"}",
           NULL, NULL, NULL);
    expect(schema, "{\"amount\":0,\"currency\":\"EUR\"}", "/amount", "/properties/amount/exclusiveMinimum",
           "/amount: must be > 0 (exclusiveMinimum)");
    expect(schema, "{\"amount\":0.001,\"currency\":\"EUR\"}", "/amount", "/properties/amount/multipleOf",
           "/amount: must be a multiple of 0.01 (multipleOf)");
    expect(schema, "{\"amount\":\"5\",\"currency\":\"EUR\"}", "/amount", "/properties/amount/type",
           "/amount: must be a number, not a string (type)");
    expect(schema, "{\"amount\":5,\"currency\":\"euro\"}", "/currency", "/properties/currency/pattern",
           "/currency: must match ^[A-Z]{3}$ (pattern)");
    expect(schema, "{\"amount\":5}", "/currency", "/required", "/currency: is missing (required)");
    expect(schema, "{\"amount\":5,\"currency\":\"EUR\",\"method\":\"cash\"}", "/method", "/properties/method/enum",
           "/method: must be one of [\"card\", \"iban\", null] (enum)");
    expect(schema, "{\"amount\":5,\"currency\":\"EUR\",\"email\":\"x\"}", "/email", "/properties/email/format",
           "/email: must be an email address (format)");
    expect(schema, "{\"amount\":5,\"currency\":\"EUR\",\"note\":7}", "/note", "/properties/note/type",
           "/note: must be a string or null, not a number (type)");
    expect(schema, "{\"amount\":5,\"currency\":\"EUR\",\"note\":\"four\"}", "/note", "/properties/note/maxLength",
           "/note: must have at most 3 characters (maxLength)");
    expect(schema, "{\"amount\":5,\"currency\":\"EUR\",\"lines\":[{\"count\":1},{\"count\":1.5}]}", "/lines/1/count",
           "/definitions/line/properties/count/type", "/lines/1/count: must be an integer, without a fraction (type)");
    expect(schema, "{\"amount\":5,\"currency\":\"EUR\",\"lines\":[{\"count\":1},{},{\"count\":1.0}]}", "/lines/2",
           "/properties/lines/uniqueItems", "/lines/2: must not equal item 0 (uniqueItems)");
    expect(schema, "{\"amount\":5,\"currency\":\"EUR\",\"a/b~c\\u001b\":1}", "/a~1b~0c\\u001b", "/additionalProperties",
           "/a~1b~0c\\u001b: is not allowed (additionalProperties)");
    expect(schema, "[]", "", "/type", "payload: must be an object, not an array (type)");
    expect(schema, "{\"amount\":\n 5,,", "", "", "payload: 2:4: the name of a member is missing");
    expect(schema, "{\"amount\":-1,\"amount\":5,\"currency\":\"EUR\"}", "", "",
           "payload: 1:23: the name \"amount\" appears twice in an object");
    ob_jsonschema_free(schema);
}

static void alternatives_name_the_nearest(void **state)
{
    (void)state;
    struct ob_jsonschema *schema =
        compile("{\"oneOf\":[{\"type\":\"null\"},{\"properties\":{\"iban\":{\"minLength\":5}}},"
                "{\"properties\":{\"iban\":{\"maxLength\":0}}}]}");
    expect(schema, "{\"iban\":\"DE\"}", "", "/oneOf",
           "payload: fits none of the 3 alternatives; the nearest says /iban: must have at least 5 characters "
           "(minLength) (oneOf)");
    expect(schema, "7", "", "/oneOf", "payload: must fit one alternative, but fits 1 and 2 (oneOf)");
    expect(schema, "null", "", "/oneOf", "payload: must fit one alternative, but fits 0 and 1 (oneOf)");
    ob_jsonschema_free(schema);
    schema = compile("{\"anyOf\":[{\"type\":\"null\"},false]}");
    expect(schema, "1", "", "/anyOf", "payload: fits none of the 2 alternatives (anyOf)");
    ob_jsonschema_free(schema);
}

static void newer_spellings_mean_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *good, *bad;
    } cases[] = {
        {"{\"$ref\":\"#/$defs/a\",\"$defs\":{\"a\":{\"type\":\"string\"}}}", "\"x\"", "1"},
        {"{\"prefixItems\":[{\"type\":\"string\"}],\"items\":{\"type\":\"number\"}}", "[\"a\",1]", "[\"a\",\"b\"]"},
        {"{\"items\":[{\"type\":\"string\"}],\"additionalItems\":{\"type\":\"number\"}}", "[\"a\",1]", "[\"a\",\"b\"]"},
        {"{\"dependentRequired\":{\"card\":[\"name\"]}}", "{\"card\":1,\"name\":2}", "{\"card\":1}"},
        {"{\"dependentSchemas\":{\"card\":{\"required\":[\"name\"]}}}", "{\"card\":1,\"name\":2}", "{\"card\":1}"},
        {"{\"contains\":{\"const\":1},\"minContains\":2}", "[1,1.0]", "[1]"},
        {"{\"contains\":{\"const\":1},\"maxContains\":1}", "[1]", "[1,1]"},
        {"{\"contains\":{\"const\":1},\"minContains\":0}", "[]", "7e99999999999"},
        {"{\"$ref\":\"#here\",\"$defs\":{\"a\":{\"$anchor\":\"here\",\"type\":\"string\"}}}", "\"x\"", "1"},
        {"{\"$ref\":\"#here\",\"definitions\":{\"a\":{\"$id\":\"#here\",\"type\":\"string\"}}}", "\"x\"", "1"},
        {"{\"$id\":\"http://x.example/a/b\",\"$ref\":\"../c\",\"definitions\":{\"a\":{\"$id\":\"/c\",\"type\":\"string\"}}}",
         "\"x\"", "1"},
        {"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"$ref\":\"#/$defs/a\",\"maxLength\":1,"
         "\"$defs\":{\"a\":{\"type\":\"string\"}}}",
         "\"x\"", "\"xy\""},
        {"{\"$ref\":\"#/other/0/x~1y\",\"other\":[{\"x/y\":{\"type\":\"string\"}}]}", "\"x\"", "1"},
        {"{\"format\":\"uuid\"}", "\"0190b3c8-7e0a-7cc3-8f3e-000000000000\"", "\"0190b3c87e0a7cc38f3e000000000000\""},
        {"{\"format\":\"duration\"}", "\"P1DT12H\"", "\"P1Y2D\""},
        {"{\"format\":\"duration\"}", "\"P2W\"", "\"PT\""},
        {"{\"format\":\"date\"}", "\"2024-02-29\"", "\"2023-02-29\""},
        {"{\"format\":\"time\"}", "\"23:59:60Z\"", "\"12:00:60Z\""},
        {"{\"format\":\"email\"}", "\"a.b+c@x.example\"", "\"a@b@x..example\""},
        {"{\"format\":\"hostname\"}", "\"a-b.example\"", "\"a-.example\""},
        {"{\"format\":\"uri\"}", "\"https://u@[::1]:80/p?q#f\"", "\"https://x/a b\""},
        {"{\"format\":\"who-knows\"}", "\"anything\"", "{"},
    };
    for (size_t i = 0; i < OB_COUNT(cases); i++) {
        struct ob_jsonschema *schema = compile(cases[i].schema);
        struct ob_jsonschema_fault fault;
        if (ob_jsonschema_check(schema, cases[i].good, strlen(cases[i].good), &fault))
            fail_msg("%s: %s: %s", cases[i].schema, cases[i].good, fault.text);
        if (ob_jsonschema_check(schema, cases[i].bad, strlen(cases[i].bad), NULL) != OUTBOX_INVALID)
            fail_msg("%s fits %s", cases[i].bad, cases[i].schema);
        ob_jsonschema_free(schema);
    }
}

static void mistakes_in_a_schema_have_a_place(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *text;
    } cases[] = {
        {"{\n  \"type\": \"object\",\n  \"properties\": {\n    \"a\": {\"minimum\": \"0\"}\n  }\n}",
         "s.json:4:22: /properties/a/minimum: must be a number, not a string"},
        {"{\"type\":\"strin\"}",
         "s.json:1:9: /type: must be null, boolean, integer, number, string, array or object, or an array of these"},
        {"{\"type\":[]}", "s.json:1:9: /type: must name at least one type"},
        {"{\n\"type\" \"object\"}", "s.json:2:8: a colon is missing"},
        {"{\"a\":1,\n \"a\":2}", "s.json:2:6: the name \"a\" appears twice in an object"},
        {"[]", "s.json:1:1: must be a schema (an object, true or false), not an array"},
        {"{\"items\":{\"pattern\":\"(\"}}",
         "s.json:1:21: /items/pattern: the regular expression is invalid: missing closing parenthesis"},
        {"{\"patternProperties\":{\"(?i)x\":{}}}",
         "s.json:1:31: /patternProperties/(?i)x: the regular expression is invalid: it has a group that ECMA 262 "
         "does not have"},
        {"{\"minLength\":-1}", "s.json:1:14: /minLength: must be a whole number from 0 up"},
        {"{\"maxItems\":1.5}", "s.json:1:13: /maxItems: must be a whole number from 0 up"},
        {"{\"multipleOf\":0}", "s.json:1:15: /multipleOf: must be > 0"},
        {"{\"multipleOf\":1234567890123456789}", "s.json:1:15: /multipleOf: must not have more than 18 digits"},
        {"{\"required\":\"a\"}", "s.json:1:13: /required: must be an array, not a string"},
        {"{\"required\":[1]}", "s.json:1:14: /required: must be an array of names"},
        {"{\"anyOf\":[]}", "s.json:1:10: /anyOf: must have at least one schema"},
        {"{\"not\":1}", "s.json:1:8: /not: must be a schema (an object, true or false), not a number"},
        {"{\"$ref\":\"#/definitions/a\"}", "s.json:1:9: /$ref: refers to nothing in this schema"},
        {"{\"$ref\":\"#/enum/0\",\"enum\":[3]}",
         "s.json:1:28: /enum/0: must be a schema (an object, true or false), not a number"},
        {"{\"$ref\":\"other.json\"}",
         "s.json:1:9: /$ref: refers to another document; only references inside this one are followed"},
        {"{\"$ref\":\"#%zz\"}", "s.json:1:9: /$ref: has a malformed % escape"},
        {"{\"$ref\":\"#\"}",
         "s.json:1:1: refers to itself without descending into the payload: checking would never end"},
        {"{\"$ref\":\"#/definitions/a\",\"definitions\":{\"a\":{\"anyOf\":[{\"not\":{\"$ref\":\"#/definitions/a\"}}]}}}",
         "s.json:1:63: /definitions/a/anyOf/0/not: refers to itself without descending into the payload: checking "
         "would never end"},
        {"{\"unevaluatedProperties\":false}", "s.json:1:26: /unevaluatedProperties: is not supported"},
        {"{\"$schema\":\"http://json-schema.org/draft-04/schema#\"}",
         "s.json:1:12: /$schema: must name draft-07, draft-06, 2019-09 or 2020-12"},
        {"{\"definitions\":{\"a\":{\"uniqueItems\":1}}}",
         "s.json:1:36: /definitions/a/uniqueItems: must be a boolean, not a number"},
        {"{\"dependencies\":{\"a\":[1]}}", "s.json:1:23: /dependencies/a: must be an array of names"},
        {"", "s.json:1:1: the JSON ends too early"},
    };
    for (size_t i = 0; i < OB_COUNT(cases); i++) {
        struct ob_jsonschema *schema;
        struct outbox_error err = {.text = "accepted"};
        struct ob_jsonschema_place place = {.line = 0};
        enum outbox_code code =
            ob_jsonschema_compile(cases[i].schema, strlen(cases[i].schema), "s.json", &schema, &place, &err);
        char start[400];
        assert_string_equal(err.text, cases[i].text);
        assert_int_equal(code, OUTBOX_INVALID);
        assert_null(schema);
        snprintf(start, sizeof start, "s.json:%u:%u: %s", place.line, place.column, place.pointer);
        assert_memory_equal(start, err.text, strlen(start));
    }
}

/* Text goes into a database that takes only UTF-8: it is cut between characters. */
static void long_paths_are_cut_between_characters(void **state)
{
    (void)state;
    struct ob_jsonschema *schema = compile("{\"additionalProperties\":{\"type\":\"null\"}}");
    for (size_t shift = 0; shift < 4; shift++) {
        struct ob_buf buf = OB_BUF_INIT;
        struct ob_jsonschema_fault fault;
        ob_buf_puts(&buf, "{\"");
        for (size_t i = 0; i < shift; i++)
            ob_buf_putc(&buf, 'x');
        for (size_t i = 0; i < 300; i++)
            ob_buf_puts(&buf, "\xf0\x9f\x93\xa6");
        ob_buf_puts(&buf, "\":1}");
        assert_int_equal(ob_jsonschema_check(schema, ob_buf_text(&buf), buf.len, &fault), OUTBOX_INVALID);
        assert_true(strlen(fault.path) > 250 && ob_utf8_valid(fault.path, strlen(fault.path)));
        assert_true(strlen(fault.text) > 500 && ob_utf8_valid(fault.text, strlen(fault.text)));
        ob_buf_fini(&buf);
    }
    ob_jsonschema_free(schema);
}

/* S12: a schema keeps its name where it judges nothing: then and else without an if. */
static void names_in_then_and_else_are_found(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"then\": {\"$id\": \"x\", \"type\": \"string\"}, \"properties\": {\"a\": {\"$ref\": \"x\"}}}",
        "{\"else\": {\"$anchor\": \"x\", \"type\": \"string\"}, \"properties\": {\"a\": {\"$ref\": \"#x\"}}}",
        "{\"if\": false, \"then\": {\"$id\": \"x\", \"type\": \"string\"}, \"properties\": {\"a\": {\"$ref\": \"x\"}}}",
    };
    for (size_t i = 0; i < OB_COUNT(texts); i++) {
        struct ob_jsonschema *schema;
        struct ob_jsonschema_fault fault;
        struct outbox_error err;
        if (ob_jsonschema_compile(texts[i], strlen(texts[i]), "s.json", &schema, NULL, &err))
            fail_msg("%s: %s", texts[i], err.text);
        assert_int_equal(ob_jsonschema_check(schema, "{\"a\": \"\"}", 9, &fault), OUTBOX_OK);
        assert_int_equal(ob_jsonschema_check(schema, "{\"a\": 1}", 8, &fault), OUTBOX_INVALID);
        ob_jsonschema_free(schema);
    }
}

static void files_are_loaded(void **state)
{
    (void)state;
    char path[] = "/tmp/ob-schema-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    struct ob_jsonschema *schema;
    struct ob_jsonschema_place place;
    struct outbox_error err;
    fputs(order_schema, file);
    fclose(file);
    assert_int_equal(ob_jsonschema_load(path, &schema, &place, &err), OUTBOX_OK);
    ob_jsonschema_free(schema);
    remove(path);
    assert_int_equal(ob_jsonschema_load(path, &schema, &place, &err), OUTBOX_INVALID);
    assert_null(schema);
    assert_int_equal(place.line, 0);
    assert_non_null(strstr(err.text, ": cannot read the schema: No such file or directory"));
    assert_int_equal(ob_jsonschema_load("/", &schema, NULL, &err), OUTBOX_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_name_path_and_rule),
        cmocka_unit_test(alternatives_name_the_nearest),
        cmocka_unit_test(newer_spellings_mean_the_same),
        cmocka_unit_test(mistakes_in_a_schema_have_a_place),
        cmocka_unit_test(long_paths_are_cut_between_characters),
        cmocka_unit_test(files_are_loaded),
        cmocka_unit_test(names_in_then_and_else_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
