/* nearest.c - edit distance, with a swap of neighbours as one step. */
#include "base/nearest.h"

#include <string.h>
#include <strings.h>

enum { LONGEST = 60, FAR = 1000 };

/* How many letters must be changed, added, removed or swapped; words that are too long are far from everything. */
static size_t distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b), rows[3][LONGEST + 1];
    if (la > LONGEST || lb > LONGEST)
        return FAR;
    for (size_t i = 0; i <= la; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            if (i == 0) {
                row[j] = j;
                continue;
            }
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && second[j - 2] + 1 < best)
                best = second[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[la % 3][lb];
}

void ob_nearest_init(struct ob_nearest *near, const char *word)
{
    *near = (struct ob_nearest){.word = word, .least = strlen(word) < 4 ? 2 : 3};
}

void ob_nearest_try(struct ob_nearest *near, const char *candidate)
{
    size_t len = strlen(near->word);
    size_t steps = len >= 2 && strncmp(candidate, near->word, len) == 0 ? 1 : distance(near->word, candidate);
    if (steps < near->least) {
        near->least = steps;
        near->best = candidate;
    }
}

bool ob_word_listed(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; at && *at; at += strspn(at, " ")) {
        size_t here = strcspn(at, " ");
        if (here == len && strncasecmp(at, word, len) == 0)
            return true;
        at += here;
    }
    return false;
}
