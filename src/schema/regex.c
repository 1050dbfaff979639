/* regex.c - from ECMA 262 to PCRE2: a pass over the pattern that refuses and rewrites what differs, then the library.
 *
 * Differences left: a repetition of more than 65535 is refused; \p takes the names that PCRE2 knows; \s and \w see ASCII
 * only, as \w does in ECMA 262 without the i flag. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "schema/regex.h"

#include "base/alloc.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

enum {
    MATCH_STEPS = 200000, /* some milliseconds */
    MATCH_KIB = 8192,
};

struct ob_regex {
    pcre2_code *code;
};

struct ob_matcher {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_match_data *data;
};

struct rewriter {
    struct ob_text in;
    size_t at;
    struct ob_buf out;
    bool in_class;
    const char *why; /* set when the pattern is refused */
};

static void *take_memory(size_t size, void *unused)
{
    (void)unused;
    return ob_alloc(size);
}

static void give_memory(void *block, void *unused)
{
    (void)unused;
    ob_free(block);
}

static char char_at(const struct rewriter *rewriter, size_t offset)
{
    size_t at = rewriter->at + offset;
    return (char)(at < rewriter->in.len ? rewriter->in.data[at] : '\0');
}

static void copy(struct rewriter *rewriter, size_t len)
{
    ob_buf_put(&rewriter->out, rewriter->in.data + rewriter->at, len);
    rewriter->at += len;
}

/* Letters have no escapes of their own in ECMA 262, except these. */
static void rewrite_escape(struct rewriter *rewriter)
{
    char c = char_at(rewriter, 1);
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (rewriter->at + 1 >= rewriter->in.len)
        rewriter->why = "it ends with a backslash";
    else if (letter && !strchr(rewriter->in_class ? "dDwWsSbfnrtvcxupP" : "dDwWsSbBfnrtvcxukpP", c))
        rewriter->why = "it has an escape of a letter that ECMA 262 does not have";
    else if ((unsigned char)c >= 0x80)
        rewriter->at++; /* the character stands for itself */
    else
        copy(rewriter, 2);
    /* \u{1f4e6}, \p{Lu}: these braces repeat nothing and stay. */
    if (letter && strchr("upP", c) && char_at(rewriter, 0) == '{')
        copy(rewriter, 1);
}

/* "(?": lookaround, groups without a number, and names are all there is. */
static void rewrite_group(struct rewriter *rewriter)
{
    char kind = char_at(rewriter, 2), more = char_at(rewriter, 3);
    bool name = (more >= 'a' && more <= 'z') || (more >= 'A' && more <= 'Z') || more == '_';
    if (char_at(rewriter, 1) == '*')
        rewriter->why = "there is nothing for * to repeat";
    else if (char_at(rewriter, 1) == '?' && !strchr(":=!<", kind ? kind : '?'))
        rewriter->why = "it has a group that ECMA 262 does not have";
    else if (char_at(rewriter, 1) == '?' && kind == '<' && more != '=' && more != '!' && !name)
        rewriter->why = "it has a group that ECMA 262 does not have";
    else
        copy(rewriter, 1);
}

static bool is_repeat(const struct rewriter *rewriter, size_t *len)
{
    char c = char_at(rewriter, 0);
    *len = 1;
    if (c == '*' || c == '+' || c == '?')
        return true;
    if (c != '{' || char_at(rewriter, 1) < '0' || char_at(rewriter, 1) > '9')
        return false;
    while (char_at(rewriter, *len) && strchr("0123456789,", char_at(rewriter, *len)))
        ++*len;
    return char_at(rewriter, (*len)++) == '}';
}

static void rewrite_one(struct rewriter *rewriter)
{
    size_t len;
    char c = char_at(rewriter, 0);
    if (c == '\\') {
        rewrite_escape(rewriter);
    } else if (rewriter->in_class) {
        if (c == '[')
            ob_buf_putc(&rewriter->out, '\\'); /* or [:alpha:] would be a class of its own */
        rewriter->in_class = c != ']';
        copy(rewriter, 1);
    } else if (c == '[') {
        rewriter->in_class = true;
        copy(rewriter, char_at(rewriter, 1) == '^' ? 2 : 1);
    } else if (c == '(') {
        rewrite_group(rewriter);
        if (!rewriter->why && char_at(rewriter, 0) == '?')
            copy(rewriter, 1); /* no repetition */
    } else if (is_repeat(rewriter, &len)) {
        copy(rewriter, len);
        if (char_at(rewriter, 0) == '?')
            copy(rewriter, 1);
        if (is_repeat(rewriter, &len))
            rewriter->why = "it repeats a repetition";
    } else {
        if (c == '{')
            ob_buf_putc(&rewriter->out, '\\'); /* a brace that repeats nothing; newer PCRE2 would read {,3} otherwise */
        copy(rewriter, 1);
    }
}

static enum outbox_code compile(struct ob_regex *regex, const struct ob_buf *text, char *why, size_t why_size)
{
    enum outbox_code code = OUTBOX_NOMEM;
    int error = 0;
    PCRE2_SIZE place = 0;
    pcre2_general_context *memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    pcre2_compile_context *options = memory ? pcre2_compile_context_create(memory) : NULL;
    if (!options)
        goto done;
    pcre2_set_newline(options, PCRE2_NEWLINE_ANYCRLF);
    pcre2_set_parens_nest_limit(options, 100);
    pcre2_set_max_pattern_length(options, 65536);
    pcre2_set_compile_extra_options(options, PCRE2_EXTRA_ALT_BSUX);
    regex->code = pcre2_compile((PCRE2_SPTR)ob_buf_text(text), text->len,
                                PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX | PCRE2_MATCH_UNSET_BACKREF |
                                    PCRE2_ALLOW_EMPTY_CLASS | PCRE2_NEVER_BACKSLASH_C,
                                &error, &place, options);
    code = regex->code ? OUTBOX_OK : error == PCRE2_ERROR_HEAP_FAILED ? OUTBOX_NOMEM : OUTBOX_INVALID;
    if (code == OUTBOX_INVALID && pcre2_get_error_message(error, (PCRE2_UCHAR *)why, why_size) < 0)
        snprintf(why, why_size, "it has a mistake");
done:
    pcre2_compile_context_free(options);
    pcre2_general_context_free(memory);
    return code;
}

enum outbox_code ob_regex_new(struct ob_text pattern, struct ob_regex **regex, char *why, size_t why_size)
{
    struct rewriter rewriter = {.in = pattern, .out = OB_BUF_INIT};
    enum outbox_code code = OUTBOX_NOMEM;
    *regex = ob_calloc(1, sizeof **regex);
    if (!*regex)
        return code;
    while (rewriter.at < pattern.len && !rewriter.why)
        rewrite_one(&rewriter);
    if (rewriter.why) {
        snprintf(why, why_size, "%s", rewriter.why);
        code = OUTBOX_INVALID;
    } else if (ob_buf_ok(&rewriter.out)) {
        code = compile(*regex, &rewriter.out, why, why_size);
    }
    ob_buf_fini(&rewriter.out);
    if (code) {
        ob_regex_free(*regex);
        *regex = NULL;
    }
    return code;
}

void ob_regex_free(struct ob_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    ob_free(regex);
}

struct ob_matcher *ob_matcher_new(void)
{
    struct ob_matcher *matcher = ob_calloc(1, sizeof *matcher);
    if (!matcher)
        return NULL;
    matcher->memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    matcher->limits = matcher->memory ? pcre2_match_context_create(matcher->memory) : NULL;
    matcher->data = matcher->memory ? pcre2_match_data_create(1, matcher->memory) : NULL;
    if (!matcher->limits || !matcher->data) {
        ob_matcher_free(matcher);
        return NULL;
    }
    pcre2_set_match_limit(matcher->limits, MATCH_STEPS);
    pcre2_set_heap_limit(matcher->limits, MATCH_KIB);
    return matcher;
}

void ob_matcher_free(struct ob_matcher *matcher)
{
    if (!matcher)
        return;
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->limits);
    pcre2_general_context_free(matcher->memory);
    ob_free(matcher);
}

enum ob_match ob_regex_match(const struct ob_regex *regex, struct ob_matcher *matcher, struct ob_text text)
{
    int result = pcre2_match(regex->code, (PCRE2_SPTR)(text.len ? text.data : ""), text.len, 0, PCRE2_NO_UTF_CHECK,
                             matcher->data, matcher->limits);
    if (result >= 0)
        return OB_MATCH_YES;
    if (result == PCRE2_ERROR_NOMATCH)
        return OB_MATCH_NO;
    return result == PCRE2_ERROR_NOMEMORY ? OB_MATCH_NOMEM : OB_MATCH_LIMIT;
}
