/* fuzz.h - what every fuzz target shares.
 *
 * A target is one file with one function: it takes bytes, feeds them to a parser, and returns. It must not leak, not keep
 * state between calls, and not depend on time. Built by clang with -fsanitize=fuzzer,address,undefined (make fuzz); with gcc
 * it is built with replay.c, which plays the corpus once: so a regression shows in every build.
 *
 * Input that has several parts is split at NUL bytes: fuzz_part. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

/* The next part, up to a NUL byte or the end, as a text of its own; to be freed. Its length without the NUL. */
static inline char *fuzz_part(struct fuzz_input *input, size_t *len)
{
    const uint8_t *end = input->left ? memchr(input->at, 0, input->left) : NULL;
    size_t n = end ? (size_t)(end - input->at) : input->left;
    char *text = malloc(n + 1);
    if (!text)
        abort();
    if (n)
        memcpy(text, input->at, n);
    text[n] = '\0';
    size_t taken = end ? n + 1 : n;
    input->at += taken;
    input->left -= taken;
    if (len)
        *len = n;
    return text;
}

/* All that is left, as a text. */
static inline char *fuzz_rest(struct fuzz_input *input, size_t *len)
{
    char *text = malloc(input->left + 1);
    if (!text)
        abort();
    if (input->left)
        memcpy(text, input->at, input->left);
    text[input->left] = '\0';
    *len = input->left;
    input->left = 0;
    return text;
}

#endif
