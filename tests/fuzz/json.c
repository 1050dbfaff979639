/* json.c - fuzzes what is taken for JSON: whatever we call JSON, jansson can read. */
#include "fuzz.h"

#include "base/json_check.h"
#include "base/utf8.h"

#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    if (!ob_utf8_valid(text, size) || !ob_json_check(text, size))
        return 0;
    json_error_t error;
    json_t *value = json_loadb(text, size, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &error);
    /* Numbers that a double cannot hold are JSON all the same. */
    if (!value && json_error_code(&error) != json_error_numeric_overflow)
        abort();
    json_decref(value);
    return 0;
}
