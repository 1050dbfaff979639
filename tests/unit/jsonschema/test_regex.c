/* test_regex.c - regular expressions mean what ECMA 262 says. Proves: S12, and that no pattern stops the relay. */
#include "base/buf.h"
#include "jsonschema/regex.h"
#include "ob_test.h"

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
    uint64_t budget = 1000000;
    enum ob_match result = ob_regex_match(regex, matcher, text(subject), &budget);
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
        {"^\\s$", "\xc2\xa0", true}, /* white space of ECMA 262: no-break space, em space, byte order mark ... */
        {"^\\s$", "\xe2\x80\x83", true},
        {"^\\s$", "\xef\xbb\xbf", true},
        {"^\\s$", "\v", true},
        {"^\\s$", "\xe2\x80\x8b", false}, /* zero width space is none */
        {"^\\S$", "\xe2\x80\x83", false},
        {"^\\S+$", "a\xc3\xa9\xf0\x9f\x93\xa6", true},
        {"^[\\s]{2}$", "\xe3\x80\x80 ", true},
        {"^[^\\s]$", "\xe3\x80\x80", false},
        {"^[\\S]$", "\xe2\x80\xa8", false},
        {"^[\\w\\-\\s]+$", "a-b c", true},
        {"^[\\w\\-\\s]+$", "a\\b", false},
        {"^[a-\\s]+$", "a- ", true},
        {"^[\\\\-\\s]+$", "\\ -", true},
        {"^[\\s\\S]$", "\n", true},
        {"^[a-z\\s-]+$", "a-b c", true},
        {"^[\\s-_]+$", "- _", true},
        {"^[+-\\s]+$", "- +", true},
        {"^\\s{3}$", " \t\n", true},
        {"^\\p{Letter}+$", "a\xc3\xa9", true},
        {"^\\p{Letter}$", "1", false},
        {"^\\P{Letter}$", "1", true},
        {"^[\\p{Uppercase_Letter}\\p{Decimal_Number}]+$", "A1", true},
        {"^\\p{General_Category=Uppercase_Letter}$", "a", false},
        {"^\\p{gc=Lu}$", "A", true},
        {"^\\p{Cased_Letter}$", "a", true},
        {"^\\p{Script=Greek}+$", "\xce\xb1", true},
        {"^\\p{Alphabetic}$", "a", true},
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

/* The subject is `start`, then `times` times `again`, then `end`. */
static void expect_limit(const char *pattern, const char *start, const char *again, size_t times, const char *end)
{
    struct ob_buf subject = OB_BUF_INIT;
    ob_buf_puts(&subject, start);
    while (times--)
        ob_buf_puts(&subject, again);
    ob_buf_puts(&subject, end);
    int64_t began = ob_cpu_us();
    if (match(pattern, ob_buf_text(&subject)) != OB_MATCH_LIMIT)
        fail_msg("%s went through", pattern);
    if (ob_cpu_us() - began > 1000000)
        fail_msg("%s took %lld us", pattern, (long long)(ob_cpu_us() - began));
    ob_buf_fini(&subject);
}

static const char *lone(struct ob_buf *buf, char c, size_t times)
{
    ob_buf_reset(buf);
    while (times--)
        ob_buf_putc(buf, c);
    return ob_buf_text(buf);
}

/* Each of these hides its work from the library's own limit, and most would take seconds. */
static void hidden_work_is_counted(void **state)
{
    (void)state;
    struct ob_buf heavy = OB_BUF_INIT, copy = OB_BUF_INIT, again = OB_BUF_INIT;
    expect_limit("\\s+$", "", " ", 80000, "x");      /* a run from each place */
    expect_limit("a+[bc]", "", "a", 80000, "");      /* ... that gives nothing back */
    expect_limit(",.*,.*[xz]", "", ",", 40000, "y"); /* runs in runs */
    expect_limit("a{60000}[bc]", lone(&copy, 'a', 59000), "x", 1,
                 lone(&again, 'a', 59000)); /* repetitions that end too soon ... */
    expect_limit("\\u0061{60000}[bc]", lone(&copy, 'a', 59000), "x", 1,
                 lone(&again, 'a', 59000));                /* ... however it is written */
    expect_limit("[ab]{50000}?[cd]", "", "ab", 60000, ""); /* ... and however little is asked for */
    expect_limit("(?<=b{60000})a", "", "a", 60000, "");    /* looks back */
    /* A capture is looked for again from each place, in vain. */
    expect_limit("^(a+)b[ax]*?\\1[yz]", lone(&copy, 'a', 20000), "b", 1, lone(&again, 'a', 19999));
    expect_limit("^(?<n>a+)b[ax]*?\\k<n>{2}[yz]", lone(&copy, 'a', 20000), "b", 1, lone(&again, 'a', 19999));
    ob_buf_puts(&heavy, "[");
    for (unsigned at = 0x4e00; at < 0x4e00 + 8000; at += 2)
        ob_buf_printf(&heavy, "\\u%04x", at);
    ob_buf_puts(&heavy, "]*[xy]");
    expect_limit(ob_buf_text(&heavy), "", "\xe6\xbd\xac", 3000, ""); /* each character against thousands */
    ob_buf_reset(&heavy);
    ob_buf_puts(&heavy, "(?:a|b)[cd]");
    for (int i = 0; i < 3000; i++)
        ob_buf_puts(&heavy, "()");
    expect_limit(ob_buf_text(&heavy), "", "ab", 40000, ""); /* each step takes thousands of captures along */
    ob_buf_fini(&heavy);
    ob_buf_fini(&copy);
    ob_buf_fini(&again);
}

static void plain_patterns_cost_little(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *subject;
        uint64_t most;
    } cases[] = {
        {"^[A-Z]{3}$", "EUR", 20},
        {"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", "123e4567-e89b-12d3-a456-426614174000", 150},
        {"^[a-z0-9._%+-]+@[a-z0-9.-]+\\.[a-z]{2,}$", "some.person@mail.example.com", 100},
        {"^\\u{41}\\p{Lu}+$", "AAAAAAAA", 40},
        {"", "anything", 20},
    };
    for (size_t i = 0; i < OB_COUNT(cases); i++) {
        struct ob_regex *regex;
        char why[128];
        uint64_t budget = cases[i].most;
        assert_int_equal(ob_regex_new(text(cases[i].pattern), &regex, why, sizeof why), OUTBOX_OK);
        struct ob_matcher *matcher = ob_matcher_new();
        if (ob_regex_match(regex, matcher, text(cases[i].subject), &budget) != OB_MATCH_YES)
            fail_msg("%s", cases[i].pattern);
        ob_matcher_free(matcher);
        ob_regex_free(regex);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_in_ecma_262),    cmocka_unit_test(what_ecma_262_lacks_is_refused),
        cmocka_unit_test(a_match_that_explodes_is_stopped), cmocka_unit_test(hidden_work_is_counted),
        cmocka_unit_test(plain_patterns_cost_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
