/* regex.c - from ECMA 262 to PCRE2: one pass over the pattern refuses or rewrites what differs, then the library compiles
 * it.
 *
 * Work. The library's own limit restarts at each position where a match may begin, and counts a run of one item as one
 * step, so it does not bound a match in a long text. So we count ourselves: the library calls us before each item of the
 * pattern, and an item costs one step, plus the distance moved since the last item, plus what it may try in vain without
 * another call.
 *
 * Remaining differences: a repetition of more than 65535 is refused; \p takes the names that PCRE2 knows, and the long
 * names of general categories. \w matches ASCII only, as in ECMA 262 without the i flag. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "jsonschema/regex.h"

#include "base/alloc.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

enum {
    MATCH_STEPS = 200000, /* from one start position; a few milliseconds */
    MATCH_KIB = 8192,
    CLASS_BYTES = 64, /* bytes of a class that a character is compared with per step */
    FRAME_BYTES = 1024,
    COPY_BYTES = 16, /* bytes of a back reference compared per step */
};

struct ob_regex {
    pcre2_code *code;
    char *items;        /* the pattern as compiled: the library's positions point into it */
    uint64_t weight;    /* cost of a step */
    size_t look_behind; /* maximum in characters */
};

struct ob_matcher {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_match_data *data;
    const struct ob_regex *regex; /* of the current match, like all members below */
    size_t last;                  /* text position at the previous item */
    uint64_t *budget;
};

struct rewriter {
    struct ob_text in;
    size_t at;
    struct ob_buf out;
    bool in_class;
    size_t class_out, longest_class; /* class_out: where the class begins in the output */
    size_t hyphen;                   /* where the output ends with a literal hyphen of a class */
    const char *why;                 /* set when the pattern is refused */
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

/* White space and line ends of ECMA 262, and their complement. */
static const char SPACES[] = "\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff";
static const char OTHERS[] = "\\u0000-\\u0008\\u000e-\\u001f!-\\u009f\\u00a1-\\u167f\\u1681-\\u1fff\\u200b-\\u2027"
                             "\\u202a-\\u202e\\u2030-\\u205e\\u2060-\\u2fff\\u3001-\\ufefe\\uff00-\\u{10ffff}";

/* \s and \S. Within a class a hyphen next to them is literal. */
static void rewrite_space(struct rewriter *rewriter, bool space)
{
    struct ob_buf *out = &rewriter->out;
    rewriter->at += 2;
    if (!rewriter->in_class) {
        ob_buf_printf(out, "[%s]", space ? SPACES : OTHERS);
        return;
    }
    if (out->len > rewriter->class_out && out->len == rewriter->hyphen) {
        out->len--;
        ob_buf_puts(out, "\\-");
    }
    ob_buf_puts(out, space ? SPACES : OTHERS);
    if (char_at(rewriter, 0) == '-') {
        ob_buf_puts(out, "\\-");
        rewriter->at++;
    }
}

/* The short name of a general category; NULL: unknown, or already short. */
static const char *category(const char *name, size_t len)
{
    static const char *const names[][2] = {
        {"Cased_Letter", "L&"},
        {"Close_Punctuation", "Pe"},
        {"Connector_Punctuation", "Pc"},
        {"Control", "Cc"},
        {"cntrl", "Cc"},
        {"Currency_Symbol", "Sc"},
        {"Dash_Punctuation", "Pd"},
        {"Decimal_Number", "Nd"},
        {"digit", "Nd"},
        {"Enclosing_Mark", "Me"},
        {"Final_Punctuation", "Pf"},
        {"Format", "Cf"},
        {"Initial_Punctuation", "Pi"},
        {"Letter", "L"},
        {"Letter_Number", "Nl"},
        {"Line_Separator", "Zl"},
        {"Lowercase_Letter", "Ll"},
        {"Mark", "M"},
        {"Combining_Mark", "M"},
        {"Math_Symbol", "Sm"},
        {"Modifier_Letter", "Lm"},
        {"Modifier_Symbol", "Sk"},
        {"Nonspacing_Mark", "Mn"},
        {"Number", "N"},
        {"Open_Punctuation", "Ps"},
        {"Other", "C"},
        {"Other_Letter", "Lo"},
        {"Other_Number", "No"},
        {"Other_Punctuation", "Po"},
        {"Other_Symbol", "So"},
        {"Paragraph_Separator", "Zp"},
        {"Private_Use", "Co"},
        {"Punctuation", "P"},
        {"punct", "P"},
        {"Separator", "Z"},
        {"Space_Separator", "Zs"},
        {"Spacing_Mark", "Mc"},
        {"Surrogate", "Cs"},
        {"Symbol", "S"},
        {"Titlecase_Letter", "Lt"},
        {"Unassigned", "Cn"},
        {"Uppercase_Letter", "Lu"},
        {"LC", "L&"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i][0]) == len && memcmp(names[i][0], name, len) == 0)
            return names[i][1];
    return NULL;
}

/* "\p{General_Category=Letter}": the text between the braces. */
static void rewrite_property(struct rewriter *rewriter)
{
    static const char *const prefixes[] = {"General_Category=", "gc="};
    const char *from = rewriter->in.data + rewriter->at, *close;
    size_t left = rewriter->in.len - rewriter->at;
    if (!(close = memchr(from, '}', left)))
        return;
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(prefixes[i]);
        if ((size_t)(close - from) > len && memcmp(from, prefixes[i], len) == 0) {
            rewriter->at += len;
            from += len;
        }
    }
    const char *name = category(from, (size_t)(close - from));
    if (!name)
        return;
    ob_buf_puts(&rewriter->out, name);
    rewriter->at += (size_t)(close - from);
}

/* ECMA 262 has no escapes of letters except these. */
static void rewrite_escape(struct rewriter *rewriter)
{
    char c = char_at(rewriter, 1);
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (rewriter->at + 1 >= rewriter->in.len)
        rewriter->why = "it ends with a backslash";
    else if (letter && !strchr(rewriter->in_class ? "dDwWsSbfnrtvcxupP" : "dDwWsSbBfnrtvcxukpP", c))
        rewriter->why = "it has an escape of a letter that ECMA 262 does not have";
    else if (c == 's' || c == 'S')
        rewrite_space(rewriter, c == 's');
    else if ((unsigned char)c >= 0x80)
        rewriter->at++; /* the character is literal */
    else
        copy(rewriter, 2);
    /* \u{1f4e6}, \p{Lu}: these braces are not repetitions and are kept. */
    if (!letter || !strchr("upP", c) || char_at(rewriter, 0) != '{')
        return;
    copy(rewriter, 1);
    if (c != 'u')
        rewrite_property(rewriter);
}

/* "(?": only lookaround, non-capturing and named groups exist. */
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
            ob_buf_putc(&rewriter->out, '\\'); /* or [:alpha:] would be a POSIX class */
        rewriter->in_class = c != ']';
        copy(rewriter, 1);
        rewriter->hyphen = c == '-' ? rewriter->out.len : rewriter->hyphen;
        if (rewriter->out.len - rewriter->class_out > rewriter->longest_class)
            rewriter->longest_class = rewriter->out.len - rewriter->class_out;
    } else if (c == '[') {
        rewriter->in_class = true;
        copy(rewriter, char_at(rewriter, 1) == '^' ? 2 : 1);
        rewriter->class_out = rewriter->out.len;
    } else if (c == '(') {
        rewrite_group(rewriter);
        if (!rewriter->why && char_at(rewriter, 0) == '?')
            copy(rewriter, 1); /* not a repetition */
    } else if (is_repeat(rewriter, &len)) {
        copy(rewriter, len);
        if (char_at(rewriter, 0) == '?')
            copy(rewriter, 1);
        if (is_repeat(rewriter, &len))
            rewriter->why = "it repeats a repetition";
    } else {
        if (c == '{')
            ob_buf_putc(&rewriter->out, '\\'); /* a literal brace; newer PCRE2 would read {,3} as a repetition */
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
                                    PCRE2_ALLOW_EMPTY_CLASS | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT,
                                &error, &place, options);
    code = regex->code ? OUTBOX_OK : error == PCRE2_ERROR_HEAP_FAILED ? OUTBOX_NOMEM : OUTBOX_INVALID;
    if (code == OUTBOX_INVALID && pcre2_get_error_message(error, (PCRE2_UCHAR *)why, why_size) < 0)
        snprintf(why, why_size, "syntax error");
done:
    pcre2_compile_context_free(options);
    pcre2_general_context_free(memory);
    return code;
}

/* How much more a step of this pattern can cost than one of a simple pattern. */
static void weigh(struct ob_regex *regex, size_t longest_class)
{
    size_t frame = 0;
    uint32_t behind = 0;
    pcre2_pattern_info(regex->code, PCRE2_INFO_FRAMESIZE, &frame);
    pcre2_pattern_info(regex->code, PCRE2_INFO_MAXLOOKBEHIND, &behind);
    regex->weight = 1 + longest_class / CLASS_BYTES + frame / FRAME_BYTES;
    regex->look_behind = behind;
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
    if (code == OUTBOX_OK) {
        weigh(*regex, rewriter.longest_class);
        (*regex)->items = ob_buf_take(&rewriter.out);
        code = (*regex)->items ? OUTBOX_OK : OUTBOX_NOMEM;
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
    ob_free(regex->items);
    ob_free(regex);
}

/* "\\u{1f4e6}", "\\p{Lu}": these braces are not repetitions. */
static bool is_braced(const char *item)
{
    return item[0] == '\\' && (item[1] == 'u' || item[1] == 'p' || item[1] == 'P') && item[2] == '{';
}

/* "a{60000}", "\\1{3}?": the minimum of the repetition. 1 for everything else. */
static size_t least_times(const char *item, size_t len)
{
    if (len && item[len - 1] == '?')
        len--;
    if (len < 4 || item[len - 1] != '}' || (is_braced(item) && !memchr(item, '}', len - 1)))
        return 1;
    size_t at = len - 1, times = 0;
    while (at && item[at] != '{')
        at--;
    for (at++; item[at] >= '0' && item[at] <= '9'; at++)
        times = times * 10 + (size_t)(item[at] - '0'); /* the library has limited it already */
    return times;
}

static size_t longest_capture(const pcre2_callout_block *block)
{
    size_t longest = 0;
    for (size_t i = 1; i < block->capture_top; i++) {
        size_t from = block->offset_vector[2 * i], to = block->offset_vector[2 * i + 1];
        if (from != PCRE2_UNSET && to != PCRE2_UNSET && to > from && to - from > longest)
            longest = to - from;
    }
    return longest;
}

/* The distance that may be scanned in vain: for a repetition that ends too soon, a back reference that differs at its
 * end, or a lookbehind. */
static size_t in_vain(const struct ob_regex *regex, const pcre2_callout_block *block)
{
    const char *item = regex->items + block->pattern_position;
    size_t len = block->next_item_length, left = block->subject_length - block->current_position, way;
    if (len >= 4 && item[0] == '(' && item[2] == '<' && (item[3] == '=' || item[3] == '!'))
        return regex->look_behind < block->current_position ? regex->look_behind : block->current_position;
    way = least_times(item, len);
    if (len >= 2 && item[0] == '\\' && (item[1] == 'k' || (item[1] >= '1' && item[1] <= '9')))
        way = block->capture_top + (way + 1) * longest_capture(block) / COPY_BYTES;
    return way < left ? way : left;
}

static int on_item(pcre2_callout_block *block, void *ctx)
{
    struct ob_matcher *matcher = ctx;
    size_t at = block->current_position;
    size_t way = at > matcher->last ? at - matcher->last : matcher->last - at;
    uint64_t cost = matcher->regex->weight * (1 + way + in_vain(matcher->regex, block));
    matcher->last = at;
    if (cost > *matcher->budget)
        return PCRE2_ERROR_CALLOUT;
    *matcher->budget -= cost;
    return 0;
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
    pcre2_set_callout(matcher->limits, on_item, matcher);
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

enum ob_match ob_regex_match(const struct ob_regex *regex, struct ob_matcher *matcher, struct ob_text text,
                             uint64_t *budget)
{
    uint64_t cost = 1 + text.len / 4; /* the library may scan the text for a start position */
    if (cost > *budget)
        return OB_MATCH_LIMIT;
    *budget -= cost;
    matcher->regex = regex;
    matcher->last = 0;
    matcher->budget = budget;
    int result = pcre2_match(regex->code, (PCRE2_SPTR)(text.len ? text.data : ""), text.len, 0, PCRE2_NO_UTF_CHECK,
                             matcher->data, matcher->limits);
    if (result >= 0)
        return OB_MATCH_YES;
    if (result == PCRE2_ERROR_NOMATCH)
        return OB_MATCH_NO;
    return result == PCRE2_ERROR_NOMEMORY ? OB_MATCH_NOMEM : OB_MATCH_LIMIT;
}
