/* test_hostile.c - schemas and payloads made to hurt, and memory that runs out. Proves: S12: whatever comes
 * in, a check ends soon, says yes or no, and leaks nothing. */
#include "base/clock.h"
#include "ob_test.h"
#include "schema/schema.h"

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
    struct ob_schema *schema;
    struct ob_schema_fault fault;
    struct outbox_error err;
    enum outbox_code code = ob_schema_compile(schema_text, strlen(schema_text), "s.json", &schema, NULL, &err);
    if (code == OUTBOX_OK) {
        code = ob_schema_check(schema, payload, strlen(payload), &fault);
        ob_schema_free(schema);
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
    assert_true(total > 500);
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
        struct ob_schema *schema;
        struct outbox_error err = {.text = ""};
        size_t len = garble(schemas[roll(OB_COUNT(schemas))], text, sizeof text);
        /* From the heap, so that a sanitizer sees every byte beyond its end. */
        char *exact = malloc(len ? len : 1);
        memcpy(exact, text, len);
        enum outbox_code code = ob_schema_compile(exact, len, "s.json", &schema, NULL, &err);
        free(exact);
        if (code) {
            assert_int_equal(code, OUTBOX_INVALID);
            assert_true(strncmp(err.text, "s.json:", 7) == 0);
            refused++;
            continue;
        }
        compiled++;
        for (int i = 0; i < 3; i++) {
            struct ob_schema_fault fault = {.text = ""};
            len = garble(payloads[roll(OB_COUNT(payloads))], text, sizeof text);
            exact = malloc(len ? len : 1);
            memcpy(exact, text, len);
            code = ob_schema_check(schema, exact, len, &fault);
            free(exact);
            assert_true(code == OUTBOX_OK || (code == OUTBOX_INVALID && fault.text[0]));
            fit += code == OUTBOX_OK;
            unfit += code == OUTBOX_INVALID;
        }
        ob_schema_free(schema);
    }
    assert_true(compiled > 500 && refused > 500 && fit > 100 && unfit > 500);
}

static void expect_fault(const char *schema_text, const char *payload, const char *part)
{
    struct ob_schema *schema;
    struct ob_schema_fault fault = {.text = ""};
    struct outbox_error err;
    if (ob_schema_compile(schema_text, strlen(schema_text), "s.json", &schema, NULL, &err))
        fail_msg("%s", err.text);
    int64_t start = ob_clock_mono_us();
    assert_int_equal(ob_schema_check(schema, payload, strlen(payload), &fault), OUTBOX_INVALID);
    if (!strstr(fault.text, part))
        fail_msg("%s", fault.text);
    assert_true(ob_clock_mono_us() - start < 5000000);
    ob_schema_free(schema);
}

static void no_check_goes_on_for_ever(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    /* Each definition judges the value twice by the next: 2 to the 40th rules. */
    ob_buf_puts(&buf, "{\"$ref\":\"#/definitions/0\",\"definitions\":{");
    for (int i = 0; i < 40; i++)
        ob_buf_printf(&buf, "\"%d\":{\"allOf\":[{\"$ref\":\"#/definitions/%d\"},{\"$ref\":\"#/definitions/%d\"}]},", i,
                      i + 1, i + 1);
    ob_buf_puts(&buf, "\"40\":{\"minimum\":0}}}");
    expect_fault(ob_buf_text(&buf), "1", "takes too long");
    expect_fault("{\"pattern\":\"^(a+)+$\"}", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\"",
                 "pattern takes too long");
    /* A limit that is hit is a fault even where a fault would be welcome. */
    expect_fault("{\"not\":{\"pattern\":\"^(a+)+$\"}}", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\"",
                 "pattern takes too long");
    ob_buf_fini(&buf);
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
    expect_fault(ob_buf_text(&schema), ob_buf_text(&payload), "nested too deep to be checked");
    ob_buf_fini(&schema);
    ob_buf_fini(&payload);
}

static void a_long_chain_of_references_is_refused(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_schema *schema;
    struct outbox_error err;
    ob_buf_puts(&buf, "{\"definitions\":{");
    for (int i = 0; i < 5000; i++)
        ob_buf_printf(&buf, "\"%d\":{\"$ref\":\"#/definitions/%d\"},", i, i + 1);
    ob_buf_puts(&buf, "\"5000\":true}}");
    assert_int_equal(ob_schema_compile(ob_buf_text(&buf), buf.len, "s.json", &schema, NULL, &err), OUTBOX_INVALID);
    assert_non_null(strstr(err.text, "in a row"));
    ob_buf_fini(&buf);
}

static void large_payloads_stay_cheap(void **state)
{
    (void)state;
    struct ob_buf buf = OB_BUF_INIT;
    struct ob_schema *schema;
    struct ob_schema_fault fault;
    struct outbox_error err;
    static const char text[] = "{\"properties\":{\"list\":{\"uniqueItems\":true,\"items\":{\"type\":\"integer\"}}},"
                               "\"additionalProperties\":{\"type\":\"integer\"}}";
    assert_int_equal(ob_schema_compile(text, sizeof text - 1, "s.json", &schema, NULL, &err), OUTBOX_OK);
    ob_buf_puts(&buf, "{\"list\":[0");
    for (int i = 1; i < 100000; i++)
        ob_buf_printf(&buf, ",%d", i);
    ob_buf_putc(&buf, ']');
    for (int i = 0; i < 100000; i++)
        ob_buf_printf(&buf, ",\"k%d\":%d", i, i);
    ob_buf_putc(&buf, '}');
    int64_t start = ob_clock_mono_us();
    if (ob_schema_check(schema, ob_buf_text(&buf), buf.len, &fault))
        fail_msg("%s", fault.text);
    assert_true(ob_clock_mono_us() - start < 5000000);
    ob_schema_free(schema);
    ob_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(garbage_is_answered),
        cmocka_unit_test(no_check_goes_on_for_ever),
        cmocka_unit_test(a_deep_payload_meets_a_deep_schema),
        cmocka_unit_test(a_long_chain_of_references_is_refused),
        cmocka_unit_test(large_payloads_stay_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
