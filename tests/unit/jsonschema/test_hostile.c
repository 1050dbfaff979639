/* test_hostile.c - schemas and payloads made to hurt, and memory that runs out. Proves: S12: whatever comes
 * in, a check ends soon, says yes or no, and leaks nothing. */
#include "base/clock.h"
#include "jsonschema/schema.h"
#include "ob_test.h"

#include "base/buf.h"

#include <stdio.h>
#include <string.h>

static const char *const schemas[] = {
    "{\"$id\":\"http://x.example/a\",\"type\":\"object\",\"required\":[\"amount\"],\"properties\":{\"amount\":{\"type\":"
    "\"number\",\"exclusiveMinimum\":0,\"multipleOf\":0.01},\"cur\":{\"pattern\":\"^[A-Z]{3}$\"},\"tags\":{\"uniqueItems\":"
    "true,\"items\":{\"$ref\":\"#/definitions/tag\"},\"contains\":{\"const\":\"a\"}}},\"definitions\":{\"tag\":{\"$id\":"
    "\"tag\",\"enum\":[\"a\",\"b\",{\"c\":[1.50]}]}},\"dependencies\":{\"a\":[\"b\"],\"b\":{\"minProperties\":2}}}",
    "{\"oneOf\":[{\"$ref\":\"#/$defs/a\"},{\"not\":{\"format\":\"date-time\"}}],\"$defs\":{\"a\":{\"anyOf\":[{\"type\":["
    "\"string\",\"null\"]},{\"patternProperties\":{\"^x-\":{\"$ref\":\"#\"}},\"additionalProperties\":false,"
    "\"propertyNames\":{\"maxLength\":5}}]}},\"if\":{\"minLength\":3},\"then\":{\"format\":\"email\"},\"else\":true}",
    "{\"prefixItems\":[{\"$anchor\":\"n\",\"maximum\":1e3},{\"$ref\":\"#n\"}],\"items\":{\"format\":\"regex\"}}",
};

static const char *const payloads[] = {
    "{\"amount\":12.50,\"cur\":\"EUR\",\"tags\":[\"a\",\"b\",{\"c\":[1.5]}],\"a\":1,\"b\":2}",
    "{\"x-a\":{\"x-b\":\"joe@x.example\"},\"x-c\":null}",
    "[1,2,\"https://x.example/a?b#c\",\"\\u00e9\"]",
    "\"2024-05-01T12:00:00Z\"",
};

/* The verdict of each pair when memory is there. */
static enum outbox_code run_pair(const char *schema_text, const char *payload)
{
    struct ob_jsonschema *schema;
    struct ob_jsonschema_fault fault;
    struct outbox_error err;
    enum outbox_code code = ob_jsonschema_compile(schema_text, strlen(schema_text), "s.json", &schema, NULL, &err);
    if (code == OUTBOX_OK) {
        code = ob_jsonschema_check(schema, payload, strlen(payload), &fault);
        ob_jsonschema_free(schema);
    }
    return code;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    size_t total = 0;
    for (size_t i = 0; i < OB_COUNT(schemas); i++)
        for (size_t j = 0; j < OB_COUNT(payloads); j++) {
            enum outbox_code want = run_pair(schemas[i], payloads[j]);
            bool failed = true;
            size_t failing = 0;
            for (; failed; failing++) {
                ob_fail_alloc(failing);
                enum outbox_code code = run_pair(schemas[i], payloads[j]);
                failed = ob_fail_alloc_end();
                assert_int_equal(code, failed ? OUTBOX_NOMEM : want);
            }
            total += failing;
        }
    assert_true(total > 400);
}

static uint64_t dice = 2463534242u;

static unsigned roll(unsigned sides)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (unsigned)(dice % sides);
}

/* Words of the language in random places make garbage that gets far. */
static size_t garble(const char *seed, char *text, size_t size)
{
    static const char *const words[] = {"{",          "}",
                                        "[",          "]",
                                        ",",          ":",
                                        "\"",         "true",
                                        "null",       "-1",
                                        "1e999",      "0.5",
                                        "\\u00e9",    "\"$ref\":\"#\"",
                                        "\"#/a\"",    "\"$id\":\"#a\"",
                                        "\"items\":", "\"type\":",
                                        "\"not\":{}", "\xff",
                                        "\"(a+)+$\"", "\"\"",
                                        "{}",         "[[",
                                        "\\",         "9999999999999999999999"};
    size_t len = strlen(seed);
    memcpy(text, seed, len);
    for (unsigned edits = 1 + roll(4); edits; edits--) {
        const char *word = words[roll(OB_COUNT(words))];
        size_t at = roll((unsigned)len), put = strlen(word), cut = roll(2) ? put : roll(12);
        if (cut > len - at)
            cut = len - at;
        if (len - cut + put >= size)
            continue;
        memmove(text + at + put, text + at + cut, len - at - cut);
        memcpy(text + at, word, put);
        len += put - cut;
    }
    return len;
}

static void garbage_is_answered(void **state)
{
    (void)state;
    unsigned compiled = 0, refused = 0, fit = 0, unfit = 0;
    for (int round = 0; round < 30000; round++) {
        char text[2048];
        struct ob_jsonschema *schema;
        struct outbox_error err = {.text = ""};
        size_t len = garble(schemas[roll(OB_COUNT(schemas))], text, sizeof text);
        /* From the heap, so that a sanitizer sees every byte beyond its end. */
        char *exact = malloc(len ? len : 1);
        memcpy(exact, text, len);
        enum outbox_code code = ob_jsonschema_compile(exact, len, "s.json", &schema, NULL, &err);
        free(exact);
        if (code) {
            assert_int_equal(code, OUTBOX_INVALID);
            assert_true(strncmp(err.text, "s.json:", 7) == 0);
            refused++;
            continue;
        }
        compiled++;
        for (int i = 0; i < 3; i++) {
            struct ob_jsonschema_fault fault = {.text = ""};
            len = garble(payloads[roll(OB_COUNT(payloads))], text, sizeof text);
            exact = malloc(len ? len : 1);
            memcpy(exact, text, len);
            code = ob_jsonschema_check(schema, exact, len, &fault);
            free(exact);
            assert_true(code == OUTBOX_OK || (code == OUTBOX_INVALID && fault.text[0]));
            fit += code == OUTBOX_OK;
            unfit += code == OUTBOX_INVALID;
        }
        ob_jsonschema_free(schema);
    }
    assert_true(compiled > 500 && refused > 500 && fit > 100 && unfit > 500);
}

static void expect_fault_within(int64_t most_us, const char *schema_text, const char *payload, const char *part)
{
    struct ob_jsonschema *schema;
    struct ob_jsonschema_fault fault = {.text = ""};
    struct outbox_error err;
    if (ob_jsonschema_compile(schema_text, strlen(schema_text), "s.json", &schema, NULL, &err))
        fail_msg("%s", err.text);
    int64_t start = ob_cpu_us();
    assert_int_equal(ob_jsonschema_check(schema, payload, strlen(payload), &fault), OUTBOX_INVALID);
    int64_t took = ob_cpu_us() - start;
    if (!strstr(fault.text, part))
        fail_msg("%s (%lld us)", fault.text, (long long)took);
    if (took > most_us)
        fail_msg("%s: %lld us", schema_text, (long long)took);
    ob_jsonschema_free(schema);
}

static void expect_fault(const char *schema_text, const char *payload, const char *part)
{
    expect_fault_within(5000000, schema_text, payload, part);
}

/* Each definition judges the value twice by the next: 2 to the power of levels. */
static void put_doubling(struct ob_buf *buf, int levels, const char *leaf)
{
    ob_buf_reset(buf);
    ob_buf_puts(buf, "{\"$ref\":\"#/definitions/0\",\"definitions\":{");
    for (int i = 0; i < levels; i++)
        ob_buf_printf(buf, "\"%d\":{\"allOf\":[{\"$ref\":\"#/definitions/%d\"},{\"$ref\":\"#/definitions/%d\"}]},", i,
                      i + 1, i + 1);
    ob_buf_printf(buf, "\"%d\":%s}}", levels, leaf);
}

static void no_check_goes_on_for_ever(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    put_doubling(&buf, 40, "{\"minimum\":0}");
    expect_fault(ob_buf_text(&buf), "1", "takes too long");
    expect_fault("{\"pattern\":\"^(a+)+$\"}", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\"",
                 "pattern takes too long");
    /* A limit that is hit is a fault even where a fault would be welcome. */
    expect_fault("{\"not\":{\"pattern\":\"^(a+)+$\"}}", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\"",
                 "pattern takes too long");
    ob_buf_fini(&buf);
}

/* A run of blanks is tried from each of its places, and each place is as good as the next. */
static void many_places_to_begin_are_one_match(void **state)
{
    (void)state;
    struct ob_buf payload = OB_BUF_INIT;
    ob_buf_putc(&payload, '"');
    for (int i = 0; i < 80000; i++)
        ob_buf_putc(&payload, ' ');
    ob_buf_puts(&payload, "x\"");
    expect_fault_within(1000000, "{\"pattern\":\"\\\\s+$\"}", ob_buf_text(&payload), "pattern takes too long");
    expect_fault_within(1000000, "{\"not\":{\"pattern\":\"\\\\s+$\"}}", ob_buf_text(&payload),
                        "pattern takes too long");
    ob_buf_fini(&payload);
}

/* What one match may take, ten thousand may not. */
static void many_matches_pay_from_one_purse(void **state)
{
    (void)state;
    struct ob_buf items = OB_BUF_INIT, names = OB_BUF_INIT;
    ob_buf_putc(&items, '[');
    ob_buf_putc(&names, '{');
    for (int i = 0; i < 10000; i++) {
        ob_buf_printf(&items, "%s\"aaaaaaaaaaaaa!\"", i ? "," : "");
        ob_buf_printf(&names, "%s\"aaaaaaaa%d!\":1", i ? "," : "", i);
    }
    ob_buf_putc(&items, ']');
    ob_buf_putc(&names, '}');
    expect_fault_within(1000000, "{\"contains\":{\"pattern\":\"^(a+)+$\"}}", ob_buf_text(&items), "takes too long");
    expect_fault_within(1000000, "{\"patternProperties\":{\"^(a+)+$\":false,\"^(a*)*$\":false,\"^(a+)*$\":false}}",
                        ob_buf_text(&names), "takes too long");
    ob_buf_fini(&items);
    ob_buf_fini(&names);
}

/* A rule that looks through a long text costs more than one that looks at a letter. */
static void long_texts_cost_more(void **state)
{
    (void)state;
    struct ob_buf schema = OB_BUF_INIT, payload = OB_BUF_INIT;
    put_doubling(&schema, 16, "{\"minLength\":1,\"maxLength\":300000}");
    ob_buf_putc(&payload, '"');
    for (int i = 0; i < 200000; i++)
        ob_buf_putc(&payload, 'a');
    ob_buf_putc(&payload, '"');
    expect_fault_within(1000000, ob_buf_text(&schema), ob_buf_text(&payload), "takes too long");
    put_doubling(&schema, 16, "{\"multipleOf\":7}");
    ob_buf_reset(&payload);
    for (int i = 0; i < 99999; i++)
        ob_buf_putc(&payload, '7');
    expect_fault_within(1000000, ob_buf_text(&schema), ob_buf_text(&payload), "takes too long");
    ob_buf_fini(&schema);
    ob_buf_fini(&payload);
}

static void a_deep_payload_meets_a_deep_schema(void **state)
{
    (void)state;
    struct ob_buf schema = OB_BUF_INIT, payload = OB_BUF_INIT;
    ob_buf_puts(&schema, "{\"definitions\":{");
    for (int i = 0; i < 90; i++)
        ob_buf_printf(&schema, "\"%d\":{\"$ref\":\"#/definitions/%d\"},", i, i + 1);
    ob_buf_puts(&schema, "\"90\":{\"items\":{\"$ref\":\"#/definitions/0\"}}},\"$ref\":\"#/definitions/0\"}");
    for (int i = 0; i < 200; i++)
        ob_buf_putc(&payload, '[');
    for (int i = 0; i < 200; i++)
        ob_buf_putc(&payload, ']');
    expect_fault(ob_buf_text(&schema), ob_buf_text(&payload), "nested too deeply to be checked");
    ob_buf_fini(&schema);
    ob_buf_fini(&payload);
}

static void a_long_chain_of_references_is_refused(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_jsonschema *schema;
    struct outbox_error err;
    ob_buf_puts(&buf, "{\"definitions\":{");
    for (int i = 0; i < 5000; i++)
        ob_buf_printf(&buf, "\"%d\":{\"$ref\":\"#/definitions/%d\"},", i, i + 1);
    ob_buf_puts(&buf, "\"5000\":true}}");
    assert_int_equal(ob_jsonschema_compile(ob_buf_text(&buf), buf.len, "s.json", &schema, NULL, &err), OUTBOX_INVALID);
    assert_non_null(strstr(err.text, "in a row"));
    ob_buf_fini(&buf);
}

static void large_payloads_stay_cheap(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_jsonschema *schema;
    struct ob_jsonschema_fault fault;
    struct outbox_error err;
    static const char text[] = "{\"properties\":{\"list\":{\"uniqueItems\":true,\"items\":{\"type\":\"integer\"}}},"
                               "\"additionalProperties\":{\"type\":\"integer\"}}";
    assert_int_equal(ob_jsonschema_compile(text, sizeof text - 1, "s.json", &schema, NULL, &err), OUTBOX_OK);
    ob_buf_puts(&buf, "{\"list\":[0");
    for (int i = 1; i < 100000; i++)
        ob_buf_printf(&buf, ",%d", i);
    ob_buf_putc(&buf, ']');
    for (int i = 0; i < 100000; i++)
        ob_buf_printf(&buf, ",\"k%d\":%d", i, i);
    ob_buf_putc(&buf, '}');
    int64_t start = ob_clock_mono_us();
    if (ob_jsonschema_check(schema, ob_buf_text(&buf), buf.len, &fault))
        fail_msg("%s", fault.text);
    assert_true(ob_clock_mono_us() - start < 5000000);
    ob_jsonschema_free(schema);
    ob_buf_fini(&buf);
}

/* S12: uniqueItems looks through every byte of its items, and pays for it. */
static void unique_items_pay_for_their_bytes(void **state)
{
    (void)state;
    struct ob_buf rules = OB_BUF_INIT, buf = OB_BUF_INIT;
    struct ob_jsonschema *schema;
    struct ob_jsonschema_fault fault = {.text = ""};
    struct outbox_error err;
    ob_buf_puts(&rules, "{\"allOf\":[{}");
    for (int i = 0; i < 3000; i++)
        ob_buf_puts(&rules, ",{\"uniqueItems\":true}");
    ob_buf_puts(&rules, "]}");
    assert_int_equal(ob_jsonschema_compile(ob_buf_text(&rules), rules.len, "s.json", &schema, NULL, &err), OUTBOX_OK);
    ob_buf_puts(&buf, "[1,\"");
    for (int i = 0; i < 200000; i++)
        ob_buf_putc(&buf, 'x');
    ob_buf_puts(&buf, "\"]");
    assert_int_equal(ob_jsonschema_check(schema, ob_buf_text(&buf), buf.len, &fault), OUTBOX_INVALID);
    assert_non_null(strstr(fault.text, "too"));
    ob_jsonschema_free(schema);
    ob_buf_fini(&rules);
    ob_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),          cmocka_unit_test(garbage_is_answered),
        cmocka_unit_test(no_check_goes_on_for_ever),          cmocka_unit_test(many_places_to_begin_are_one_match),
        cmocka_unit_test(many_matches_pay_from_one_purse),    cmocka_unit_test(long_texts_cost_more),
        cmocka_unit_test(a_deep_payload_meets_a_deep_schema), cmocka_unit_test(a_long_chain_of_references_is_refused),
        cmocka_unit_test(large_payloads_stay_cheap),          cmocka_unit_test(unique_items_pay_for_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
