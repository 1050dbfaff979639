/* filter.c - fuzzes what an operator may write to choose messages: a namespace, a topic, a sink, a tenant, a time. */
#include "fuzz.h"

#include "cli/args.h"
#include "core/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *name_space = fuzz_part(&input, NULL), *topic = fuzz_part(&input, NULL), *sink = fuzz_part(&input, NULL),
         *tenant = fuzz_part(&input, NULL), *when = fuzz_part(&input, NULL);
    struct outbox_error err;
    struct outbox_uuid id;
    int64_t at_us = 0;
    if (ob_names_check(name_space, topic, sink, &err) == OUTBOX_OK && strlen(topic) > OB_MOST(topic))
        abort(); /* a topic longer than any can be must not pass */
    (void)ob_name_is_sink(sink);
    (void)!outbox_uuid_parse(tenant, &id);
    if (ob_when_parse(when, 1700000000000000, &at_us) && *when == '\0')
        abort();
    free(name_space);
    free(topic);
    free(sink);
    free(tenant);
    free(when);
    return 0;
}
