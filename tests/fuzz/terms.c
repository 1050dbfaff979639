/* terms.c - fuzzes the filter language: whatever is written, it is refused with a reason or becomes a filter that a store may use. */
#include "fuzz.h"

#include "base/arena.h"
#include "base/utf8.h"
#include "core/filter.h"
#include "core/names.h"

static const int64_t now_us = 1700000000000000;

static void check(const struct ob_filter *filter)
{
    struct outbox_error err;
    struct outbox_uuid id;
    if (ob_names_check(filter->name_space, filter->topic, NULL, &err))
        abort();
    if (filter->tenant_id && !outbox_uuid_parse(filter->tenant_id, &id))
        abort();
    if (filter->error && !*filter->error)
        abort();
    if (filter->before_us < 0 || filter->before_us > now_us + 1 || filter->since_us < 0 ||
        filter->since_us > now_us + 1)
        abort();
    if (filter->attempts_least < 0 || filter->attempts_below < 0)
        abort();
    if (filter->id_range && memcmp(&filter->id_first, &filter->id_last, sizeof filter->id_first) > 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct ob_arena arena;
    struct ob_filter filter = {0};
    struct outbox_error err = {0};
    ob_arena_init(&arena, 0);
    for (int i = 0; i < 3; i++) { /* several texts may go into one filter */
        char *text = fuzz_part(&input, NULL);
        ob_code code = ob_filter_parse(&filter, text, now_us, &arena, &err);
        free(text);
        if (code == OUTBOX_OK)
            check(&filter);
        else if (!*err.text)
            abort();
        if (code)
            break;
    }
    ob_arena_fini(&arena);
    return 0;
}
