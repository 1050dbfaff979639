/* nearest.h - finds the word that a mistyped one was probably meant to be.
 *
 *     struct ob_nearest near;
 *     ob_nearest_init(&near, "concurency");
 *     ob_nearest_try(&near, "concurrency"), ob_nearest_try(&near, "batch");
 *     near.best is "concurrency", or NULL if no candidate is close enough to be useful. Borrowed from the candidates. */
#ifndef OB_BASE_NEAREST_H
#define OB_BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

struct ob_nearest {
    const char *word, *best;
    size_t least; /* a candidate must have a smaller distance than this */
};

void ob_nearest_init(struct ob_nearest *near, const char *word);
void ob_nearest_try(struct ob_nearest *near, const char *candidate);

/* Whether the word is in a list separated by spaces, in any case; list may be NULL. */
bool ob_word_listed(const char *list, const char *word);

#endif
