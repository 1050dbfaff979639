/* value.c - fuzzes values of a configuration and times of the command line. A value written out and read again is the same. */
#include "fuzz.h"

#include "base/value.h"

#include <outbox/outbox.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *text = fuzz_part(&input, NULL), shown[OB_VALUE_TEXT];
    int64_t value, again, period;
    struct outbox_uuid id;
    bool flag;
    if (ob_value_duration(text, &value)) {
        ob_value_duration_text(value, shown);
        if (!ob_value_duration(shown, &again) || again != value)
            abort();
    }
    if (ob_value_size(text, &value)) {
        ob_value_size_text(value, shown);
        if (!ob_value_size(shown, &again) || again != value)
            abort();
    }
    ob_value_rate(text, &value, &period);
    ob_value_int(text, &value);
    ob_value_bool(text, &flag);
    (void)!outbox_uuid_parse(text, &id);
    free(text);
    return 0;
}
