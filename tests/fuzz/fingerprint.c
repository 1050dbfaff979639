/* fingerprint.c - fuzzes the shape of a failure's text: bounded, without digits, and the same with other digits. */
#include "fuzz.h"

#include "core/fingerprint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *code = fuzz_part(&input, NULL), *error = fuzz_part(&input, NULL);
    char shape[OB_SHAPE_ROOM], again[OB_SHAPE_ROOM], text[OB_FINGERPRINT_DIGITS + 1];
    size_t len = ob_failure_shape(error, shape);
    if (len != strlen(shape) || len >= OB_SHAPE_ROOM || strpbrk(shape, "0123456789@\t\n"))
        abort();
    int64_t print = ob_fingerprint(code, error);
    for (char *c = error; *c; c++)
        if (*c >= '0' && *c <= '9')
            *c = (char)('0' + ('9' - *c));
    if (ob_failure_shape(error, again) != len || strcmp(shape, again) != 0 || ob_fingerprint(code, error) != print)
        abort();
    ob_fingerprint_text(print, text);
    if (ob_fingerprint_of(text) != print || strlen(text) != OB_FINGERPRINT_DIGITS)
        abort();
    free(code);
    free(error);
    return 0;
}
