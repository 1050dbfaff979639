/* regex.h - the regular expressions of JSON Schema (ECMA 262) on PCRE2.
 *
 * Syntax that ECMA 262 does not have is refused instead of being read as Perl syntax, so a schema means the same here as
 * elsewhere. Every match takes its steps from a budget, so that no combination of pattern and payload stops the relay. A
 * compiled expression may be shared between threads; a matcher may not. Only regex.c knows PCRE2. */
#ifndef OB_JSONSCHEMA_REGEX_H
#define OB_JSONSCHEMA_REGEX_H

#include "jsonschema/tree.h"

struct ob_regex;
struct ob_matcher;

enum ob_match { OB_MATCH_NO, OB_MATCH_YES, OB_MATCH_LIMIT, OB_MATCH_NOMEM };

/* On OUTBOX_INVALID, why holds the reason. */
enum outbox_code ob_regex_new(struct ob_text pattern, struct ob_regex **regex, char *why, size_t why_size);
void ob_regex_free(struct ob_regex *regex);

/* Memory for matching, reused for many matches. */
struct ob_matcher *ob_matcher_new(void);
void ob_matcher_free(struct ob_matcher *matcher);
/* text must be valid UTF-8; the expression is not anchored. A step takes about 20 ns. OB_MATCH_LIMIT: the budget is used
 * up, or the match takes too much memory. */
enum ob_match ob_regex_match(const struct ob_regex *regex, struct ob_matcher *matcher, struct ob_text text,
                             uint64_t *budget);

#endif
