/* traceparent.c - fuzzes trace context as producers give it, and the answers of a collector. What is understood is written again
 * as it was. */
#include "fuzz.h"

#include "core/trace.h"
#include "trace/otlp.h"

static void parse(const char *text)
{
    struct outbox_trace trace = {{0}};
    char again[OB_TRACEPARENT_TEXT];
    if (!ob_traceparent_parse(text, &trace))
        return;
    memcpy(trace.span_id, trace.parent_id, sizeof trace.span_id);
    ob_traceparent_format(&trace, again);
    if (memcmp(again + 3, text + 3, OB_TRACEPARENT_TEXT - 4) != 0)
        abort();
}

/* An attempt has a valid context, or none. */
static void begin(char *headers)
{
    struct outbox_delivery msg = {.size = sizeof msg, .headers = headers, .attempt = 1, .token = 1};
    struct outbox_trace read;
    char text[OB_TRACEPARENT_TEXT];
    msg.id.bytes[15] = 1;
    ob_trace_begin(&msg, OB_TRACE_ALL / 2);
    if (!ob_trace_is_set(&msg.trace))
        return;
    ob_traceparent_format(&msg.trace, text);
    if (!ob_traceparent_parse(text, &read))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *text = fuzz_part(&input, NULL), *headers = fuzz_part(&input, NULL), why[64];
    parse(text);
    begin(headers);
    (void)ob_tracestate_ok(text);
    (void)ob_otlp_rejected(data, size, why, sizeof why);
    free(text);
    free(headers);
    return 0;
}
