/* test_tree.c - the reader of JSON, and equality. Proves: S12, a payload is read as its receiver reads it, or refused. */
#include "jsonschema/tree.h"
#include "ob_test.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static enum outbox_code read_text(const char *text, size_t len, struct ob_tree_fault *why)
{
    struct ob_arena arena;
    struct ob_tree value;
    ob_arena_init(&arena, 0);
    enum outbox_code code = ob_tree_read(&arena, text, len, &value, why);
    ob_arena_fini(&arena);
    return code;
}

static void wrong_json_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t offset;
        const char *what;
    } cases[] = {
        {"", 0, "the JSON ends too early"},
        {"  ", 2, "the JSON ends too early"},
        {"{\"a\":1", 6, "the JSON ends too early"},
        {"[1 2]", 3, "a comma or ] is missing"},
        {"{\"a\":1 \"b\":2}", 7, "a comma or } is missing"},
        {"{\"a\" 1}", 5, "a colon is missing"},
        {"{a:1}", 1, "the name of a member is missing"},
        {"[1,]", 3, "not a JSON value"},
        {"nul", 0, "not a JSON value"},
        {"NaN", 0, "not a JSON value"},
        {"01", 1, "a number has a leading zero"},
        {"-x", 1, "a number is missing a digit"},
        {"1.x", 2, "a number is missing a digit"},
        {"1e", 2, "the JSON ends too early"},
        {"1 2", 2, "unexpected text after the JSON value"},
        {"\"a\nb\"", 2, "a string has a control character; write it as an escape"},
        {"\"\\x\"", 1, "a string has an unknown escape"},
        {"\"\\ud800\"", 1, "a string has a \\u escape that is not a character"},
        {"\"\\udc00\\ud800\"", 1, "a string has a \\u escape that is not a character"},
        {"\"\\u12g4\"", 1, "a string has a \\u escape that is not a character"},
        {"\"abc", 4, "the JSON ends inside a string"},
        {"\"abc\\\"", 6, "the JSON ends inside a string"},
        {"\"\xff\"", 1, "a string is not UTF-8"},
        {"\"\xed\xa0\x80\"", 1, "a string is not UTF-8"},
        {"\xef\xbb\xbf{}", 0, "not a JSON value"},
        {"{\"a\":1,\"b\":2,\"a\":3}", 17, "the name \"a\" appears twice in an object"},
        {"{\"a\":1,\"\\u0061\":3}", 16, "the name \"a\" appears twice in an object"},
        {"{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"c\":2}", 59,
         "the name \"c\" appears twice in an object"},
    };
    for (size_t i = 0; i < OB_COUNT(cases); i++) {
        struct ob_tree_fault why = {.offset = 999};
        if (read_text(cases[i].text, strlen(cases[i].text), &why) != OUTBOX_INVALID)
            fail_msg("accepted: %s", cases[i].text);
        assert_string_equal(why.text, cases[i].what);
        assert_int_equal(why.offset, cases[i].offset);
    }
}

static void nesting_is_bounded(void **state)
{
    (void)state;
    char text[2 * OB_TREE_DEPTH + 2];
    struct ob_tree_fault why;
    memset(text, '[', OB_TREE_DEPTH);
    memset(text + OB_TREE_DEPTH, ']', OB_TREE_DEPTH);
    assert_int_equal(read_text(text, 2 * OB_TREE_DEPTH, &why), OUTBOX_OK);
    memset(text, '[', OB_TREE_DEPTH + 1);
    memset(text + OB_TREE_DEPTH + 1, ']', OB_TREE_DEPTH + 1);
    assert_int_equal(read_text(text, sizeof text, &why), OUTBOX_INVALID);
    assert_string_equal(why.text, "arrays and objects are nested too deeply");
}

static void strings_are_unescaped(void **state)
{
    (void)state;
    static const char text[] = "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac\\ud83d\\udce6\\u0000z\"";
    static const char want[] = "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x93\xa6\0z";
    struct ob_arena arena;
    struct ob_tree value;
    struct ob_tree_fault why;
    ob_arena_init(&arena, 0);
    assert_int_equal(ob_tree_read(&arena, text, sizeof text - 1, &value, &why), OUTBOX_OK);
    assert_int_equal(value.string.len, sizeof want - 1);
    assert_memory_equal(value.string.data, want, sizeof want - 1);
    assert_int_equal(ob_text_length(value.string), 14);
    ob_arena_fini(&arena);
}

static void equality_and_hashes_agree(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool equal;
    } cases[] = {
        {"1", "1.0", true},
        {"[1,2]", "[1.0,2e0]", true},
        {"[1,2]", "[2,1]", false},
        {"{\"a\":1,\"b\":[]}", "{\"b\":[],\"a\":1}", true},
        {"{\"a\":1}", "{\"a\":1,\"b\":1}", false},
        {"{\"a\":1}", "{\"b\":1}", false},
        {"0", "false", false},
        {"null", "false", false},
        {"\"1\"", "1", false},
        {"\"\\u0061\"", "\"a\"", true},
        {"-0", "0", true},
        {"[]", "{}", false},
    };
    size_t work = 0;
    for (size_t i = 0; i < OB_COUNT(cases); i++) {
        struct ob_arena arena;
        struct ob_tree a, b;
        struct ob_tree_fault why;
        ob_arena_init(&arena, 0);
        assert_int_equal(ob_tree_read(&arena, cases[i].a, strlen(cases[i].a), &a, &why), OUTBOX_OK);
        assert_int_equal(ob_tree_read(&arena, cases[i].b, strlen(cases[i].b), &b, &why), OUTBOX_OK);
        assert_int_equal(ob_tree_equal(&a, &b), cases[i].equal);
        assert_int_equal(ob_tree_equal(&b, &a), cases[i].equal);
        assert_int_equal(ob_tree_hash(&a, &work) == ob_tree_hash(&b, &work), cases[i].equal);
        ob_arena_fini(&arena);
    }
}

static uint64_t dice = 88172645463325252u;

static unsigned roll(unsigned sides)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return (unsigned)(dice % sides);
}

/* Jansson limits depth and numbers otherwise; inputs here stay within both limits, so the verdicts must be the same. */
static void verdicts_are_those_of_another_reader(void **state)
{
    (void)state;
    static const char *const seeds[] = {
        "{\"amount\": 12.50, \"currency\": \"EUR\", \"lines\": [{\"n\": 1, \"tags\": [\"a\", \"b\"]}, null, true]}",
        "[\"\\u00e9\\ud83d\\udce6\", -0.5e-3, {}, [], [[[]]], \"\xc3\xa9\", false]",
        "{\"a\":{\"b\":{\"c\":[1,2,3,{\"d\":\"\\n\\\"\"}]}}}",
    };
    static const char alphabet[] = "{}[]\",:\\/ \n\tu0123456789abcdef-+.eEtrufalsn\x01\x80\xc3\xa9\xed\xff";
    unsigned accepted = 0, refused = 0;
    for (int round = 0; round < 60000; round++) {
        char text[128];
        size_t len = strlen(seeds[roll(3)]);
        snprintf(text, sizeof text, "%s", seeds[roll(3)]);
        len = strlen(text);
        for (unsigned edits = roll(3); edits; edits--) {
            size_t at = roll((unsigned)len);
            if (roll(3) == 0 && len > 2) {
                memmove(text + at, text + at + 1, len - at);
                len--;
            } else {
                text[at] = alphabet[roll(sizeof alphabet - 1)];
            }
        }
        struct ob_tree_fault why = {.text = ""};
        json_error_t error;
        json_t *other = json_loadb(
            text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
        enum outbox_code code = read_text(text, len, &why);
        bool range = !other && json_error_code(&error) == json_error_numeric_overflow;
        if (!range && (code == OUTBOX_OK) != (other != NULL))
            fail_msg("%.*s: %s; jansson: %s", (int)len, text, why.text, error.text);
        accepted += code == OUTBOX_OK;
        refused += code == OUTBOX_INVALID;
        json_decref(other);
    }
    assert_true(accepted > 10000 && refused > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_json_is_refused_with_its_place),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(strings_are_unescaped),
        cmocka_unit_test(equality_and_hashes_agree),
        cmocka_unit_test(verdicts_are_those_of_another_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
