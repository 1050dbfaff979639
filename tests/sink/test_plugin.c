/* test_plugin.c - a plugin of an older or newer header, called through the arrays that it was built for. Proves: V5, S14:
 * also under the sanitizers, which see what is read beyond a struct. */
#include "sink/plugin.h"
#include "sink/registry.h"

#include "ob_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int accepted, others;

static void done(void *ctx, uint64_t handle, const struct outbox_verdict *verdict)
{
    (void)ctx, (void)handle;
    if (verdict->outcome == OUTBOX_SINK_ACCEPTED)
        accepted++;
    else
        others++;
}

/* What it wrote; the file is gone afterwards. */
static void read_all(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    unlink(path);
}

static void deliver_three(const char *library)
{
    struct outbox_error err;
    const struct outbox_sink_ops *ops, *again;
    if (ob_sink_load(NULL, library, &ops, &err))
        fail_msg("%s", err.text);
    assert_int_equal(ob_sink_load("aged", library, &again, &err), OUTBOX_OK);
    assert_ptr_equal(ops, again); /* a reload compares them */
    assert_string_equal(ops->settings[1].name, "copies");
    assert_int_equal(ops->settings[1].most, 3);

    char path[] = "/tmp/ob-plugin-XXXXXX", text[200];
    close(mkstemp(path));
    const struct outbox_sink_option options[] = {{"path", path}, {"copies", "1"}};
    const struct outbox_sink_host host = {.size = sizeof host, .done = done};
    outbox_sink *sink;
    if (ob_sink_open(ops, options, 2, &host, &sink, &err))
        fail_msg("%s", err.text);
    struct outbox_delivery msgs[3];
    struct outbox_sink_item items[3];
    static const char *const topics[] = {"a", "refused", "b"};
    for (size_t i = 0; i < 3; i++) {
        msgs[i] = (struct outbox_delivery){.size = sizeof *msgs, .topic = topics[i], .payload = "x", .payload_len = 1};
        items[i] = (struct outbox_sink_item){.handle = i + 1, .msg = &msgs[i]};
    }
    accepted = others = 0;
    assert_true(ob_sink_deliver(ops, sink, items, 3));
    ops->close(sink);
    assert_int_equal(accepted, 2);
    assert_int_equal(others, 1);
    read_all(path, text, sizeof text);
    assert_string_equal(text, "a x\nb x\n");
}

static void an_older_plugin_delivers(void **state)
{
    (void)state;
    deliver_three(PLUGIN_OLDER);
}

static void a_newer_plugin_delivers(void **state)
{
    (void)state;
    deliver_three(PLUGIN_NEWER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_plugin_delivers),
        cmocka_unit_test(a_newer_plugin_delivers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
