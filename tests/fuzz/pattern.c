/* pattern.c - fuzzes the regular expressions of JSON Schema: a pattern, then a text. No pair may cost more than its budget. */
#include "fuzz.h"

#include "base/utf8.h"
#include "jsonschema/regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    size_t pattern_len, text_len;
    char *pattern = fuzz_part(&input, &pattern_len), *text = fuzz_rest(&input, &text_len);
    struct ob_regex *regex = NULL;
    char why[256];
    if (ob_utf8_valid(pattern, pattern_len) && ob_utf8_valid(text, text_len) &&
        ob_regex_new((struct ob_text){pattern, pattern_len}, &regex, why, sizeof why) == OUTBOX_OK) {
        struct ob_matcher *matcher = ob_matcher_new();
        uint64_t budget = 1000000;
        if (matcher)
            ob_regex_match(regex, matcher, (struct ob_text){text, text_len}, &budget);
        ob_matcher_free(matcher);
    }
    ob_regex_free(regex);
    free(pattern);
    free(text);
    return 0;
}
