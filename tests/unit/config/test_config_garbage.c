/* test_config_garbage.c - no file, however broken, brings the reader down. Run under the sanitizers too.
 * Proves: V11 (a bad configuration is refused, never half taken). */
#include "config_fixture.h"

#include "core/retry.h"

static const char good[] = "store: \"postgresql://outbox:${PW:-x}@db/shop\"\n"
                           "relay: {worker: 'w', batch: 50, lease: 20s, poll: 1s, unrouted: wait}\n"
                           "log: {level: info, format: json}\n"
                           "defaults: &d {timeout: 3s, retry: {policy: list, delays: [1s, 5s]}}\n"
                           "sinks:\n"
                           "  billing:\n"
                           "    kind: fake\n"
                           "    url: |\n"
                           "      http://example.test/hook\n"
                           "    secret: file:secret\n"
                           "    headers: {X-Team: red, Authorization: \"Bearer ${TOKEN:-none}\"}\n"
                           "    allow: [a, \"b\\u00e9\", 'c']\n"
                           "  other: {kind: null, anything: &x {goes: *d, y: [1, {a: b}]}}\n"
                           "routes:\n"
                           "  - {namespace: default, topic: \"orders.*\", headers: {kind: \"x*\"}, sink: billing}\n"
                           "  - sink: other\n";

static void load(struct fixture *fx, const char *text, size_t len)
{
    fx_write(fx->path, text, len, 0600);
    fx_load(fx, NULL); /* asserts: a configuration, or errors, never both */
}

/* V11 */
static void truncated(void **state)
{
    struct fixture *fx = *state;
    for (size_t len = 0; len < sizeof good; len++)
        load(fx, good, len);
}

/* V11 */
static void mutated(void **state)
{
    static const char bits[] = "{}[]:,&*!|>'\"%@`#-?\n\t \0\xff\x80$~<.\\/0s";
    struct fixture *fx = *state;
    uint64_t seed = 20240501;
    for (int round = 0; round < 3000; round++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (uint64_t changes = 1 + ob_random_next(&seed) % 6; changes > 0; changes--)
            text[ob_random_next(&seed) % (sizeof good - 1)] = bits[ob_random_next(&seed) % (sizeof bits - 1)];
        load(fx, text, sizeof good - 1);
    }
}

/* V11 */
static void noise(void **state)
{
    struct fixture *fx = *state;
    uint64_t seed = 7;
    for (int round = 0; round < 500; round++) {
        char text[300];
        size_t len = ob_random_next(&seed) % sizeof text;
        for (size_t i = 0; i < len; i++)
            text[i] = (char)(round % 2 ? ob_random_next(&seed) : 0x20 + ob_random_next(&seed) % 0x5f);
        load(fx, text, len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {FX_TEST(truncated), FX_TEST(mutated), FX_TEST(noise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
