/* test_regex.c - regular expressions mean what ECMA 262 says. Proves: S12, and that no pattern stops the relay. */
#include "ob_test.h"
#include "schema/regex.h"

#include <string.h>

static struct ob_text text(const char *data)
{
    return (struct ob_text){data, strlen(data)};
}

static enum ob_match match(const char *pattern, const char *subject)
{
    struct ob_regex *regex;
    char why[128] = "";
    if (ob_regex_new(text(pattern), &regex, why, sizeof why))
        fail_msg("%s: %s", pattern, why);
    struct ob_matcher *matcher = ob_matcher_new();
    enum ob_match result = ob_regex_match(regex, matcher, text(subject));
    ob_matcher_free(matcher);
    ob_regex_free(regex);
    return result;
}

static void patterns_match_as_in_ecma_262(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *subject;
        bool match;
    } cases[] = {
        {"^[A-Z]{3}$", "EUR", true},
        {"^[A-Z]{3}$", "EUR\n", false}, /* $ is the end, not the line before it */
        {"^[A-Z]{3}$", "EURO", false},
        {"b", "abc", true}, /* not anchored */
        {"^a.c$",
         "a\xf0\x9f\x93\xa6"
         "c",
         true}, /* a dot is a character, not a byte */
        {"^.$", "\n", false},
        {"^\\d+$", "123", true},
        {"^\\d+$", "\xd9\xa3", false}, /* ASCII digits only */
        {"^\\u00e9$", "\xc3\xa9", true},
        {"^\\u{1f4e6}$", "\xf0\x9f\x93\xa6", true},
        {"^\\x41$", "A", true},
        {"[[:alpha:]]", "z", false}, /* a class of [ : a l p h, then ] */
        {"^[[:alpha:]]$", "a]", true},
        {"^[]$", "x", false},
        {"^[^]$", "\n", true},
        {"^a{,2}$", "a{,2}", true},
        {"^(?<y>\\d{4})-\\k<y>$", "2024-2024", true},
        {"^(?:a|b)+?$", "abab", true},
        {"^(?=a)(?!ab)a", "ac", true},
        {"(?<=a)b", "ab", true},
        {"(?<!a)b", "ab", false},
        {"^\\/\\-\\.$", "/-.", true},
        {"^\\p{Lu}$", "\xc3\x89", true},
        {"^\\cJ$", "\n", true},
        {"", "anything", true},
        {"^$", "", true},
    };
    for (size_t i = 0; i < OB_COUNT(cases); i++)
        if (match(cases[i].pattern, cases[i].subject) != (cases[i].match ? OB_MATCH_YES : OB_MATCH_NO))
            fail_msg("%s on %s", cases[i].pattern, cases[i].subject);
}

static void what_ecma_262_lacks_is_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "\\Aabc",
        "abc\\z",
        "abc\\Z",
        "\\Q.\\E",
        "a\\",
        "\\a",
        "(?i)abc",
        "(?>a+)b",
        "(?P<x>a)",
        "(?R)",
        "(?#no)",
        "(*UTF)a",
        "(*LIMIT_MATCH=9)",
        "a++",
        "a*+",
        "a{2}+",
        "a**",
        "(a",
        "a)",
        "[b-a]",
        "[a",
        "*a",
        "(?<1a>b)",
        "\\C",
        "(?|a|b)",
        "a{2}{3}",
        "\\p{Nonsense}",
        "(?",
    };
    for (size_t i = 0; i < OB_COUNT(patterns); i++) {
        struct ob_regex *regex;
        char why[128] = "";
        if (ob_regex_new(text(patterns[i]), &regex, why, sizeof why) != OUTBOX_INVALID)
            fail_msg("accepted: %s", patterns[i]);
        assert_null(regex);
        assert_true(why[0] != '\0');
    }
}

static void a_match_that_explodes_is_stopped(void **state)
{
    (void)state;
    assert_int_equal(match("^(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"),
                     OB_MATCH_LIMIT);
    /* Some millions of steps: the limit is ours, not the library's. */
    assert_int_equal(match("^(a+)+$", "aaaaaaaaaaaaaaaaaaaaa!"), OB_MATCH_LIMIT);
    assert_int_equal(match("^(a+)+$", "aaaaaaaa!"), OB_MATCH_NO);
    assert_int_equal(match("^(a|a)*$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"),
                     OB_MATCH_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_in_ecma_262),
        cmocka_unit_test(what_ecma_262_lacks_is_refused),
        cmocka_unit_test(a_match_that_explodes_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
