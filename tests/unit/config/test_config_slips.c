/* test_config_slips.c - the usual slips in a configuration get the right hint, whatever the distance between the words.
 * Proves: V11 (wrong settings are refused, and how to mend them is said). */
#include "config_fixture.h"

#include "sink/registry.h"

#define REST "routes: [{sink: a}]\nstore: sqlite:/x.db\n"

static void expect_hint(struct fixture *fx, const char *text, const char *line, const char *hint)
{
    fx_load(fx, text);
    fx_says(fx, line);
    const char *at = strstr(ob_buf_text(&fx->said), line), *end = strchr(at, '\n');
    struct ob_buf said = OB_BUF_INIT;
    ob_buf_put(&said, at, (size_t)(end - at));
    if (!strstr(ob_buf_text(&said), hint))
        fail_msg("no \"%s\" in: %s", hint, ob_buf_text(&said));
    ob_buf_fini(&said);
}

/* V11: what libyaml says alone helps nobody. */
static void yaml(void **state)
{
    struct fixture *fx = *state;
    expect_hint(fx, "routes:\n  - topic: *\n    sink: a\n", "o.yaml:2: error: not YAML", "topic: \"*\"");
    expect_hint(fx, "routes:\n  - topic: *.paid\n    sink: a\n", "o.yaml:2: error: not YAML", "quote a value");
    expect_hint(fx, "routes:\n  - topic: *paid\n    sink: a\n", "o.yaml:2: error: not YAML", "quote a value");
    expect_hint(fx, "relay:\n\tpoll: 1s\n", "o.yaml:2: error: not YAML", "spaces, not with tabs");
    expect_hint(fx, "relay:\n  poll: 1s\n\tbatch: 3\n", "o.yaml:3: error: not YAML", "spaces, not with tabs");
    expect_hint(fx, "relay:\n  worker: @home\n", "o.yaml:2: error: not YAML", "quote a value");
    expect_hint(fx, "relay:\n  poll: 1s\n   batch: 3\n", "o.yaml:3: error: not YAML", "indentation");
    expect_hint(fx, "relay:\n   poll: 1s\n  batch: 3\n", "o.yaml:3: error: not YAML", "same column");
    expect_hint(fx, "routes:\n  - topic: a\n  sink: a\n", "o.yaml:3: error: not YAML", "\"- \"");
    expect_hint(fx, "relay:\n  poll:1s\n  batch: 3\n", "o.yaml:3: error: not YAML", "colon");
    expect_hint(fx, "relay: {poll: 1s\nlog: {}\n", "o.yaml:2: error: not YAML", "not closed");
    expect_hint(fx, "relay:\n  worker: \"w\n", "o.yaml:3: error: not YAML", "quote");
    expect_hint(fx, "relay:\n  poll:1s\n", "o.yaml:1: error: relay: must be a map", "a colon and a space");
}

/* V11: other systems' words. */
static void words(void **state)
{
    struct fixture *fx = *state;
    static const struct {
        const char *text, *line, *meant;
    } rows[] = {
        {"sinks: {a: {kind: fake, url: u, retries: 3}}\n" REST, "o.yaml:1: error: sinks.a.retries", "\"max_attempts\""},
        {"sinks: {a: {kind: fake, url: u, maxAttempts: 3}}\n" REST, "o.yaml:1: error: sinks.a.max", "\"max_attempts\""},
        {"sinks: {a: {kind: fake, url: u, max-attempts: 3}}\n" REST, "o.yaml:1: error: sinks.a.max",
         "\"max_attempts\""},
        {"sinks: {a: {kind: fake, url: u, retry: {delay: 3s}}}\n" REST, "o.yaml:1: error: sinks.a.r", "\"retry.base\""},
        {"sinks: {a: {kind: fake, url: u, workers: 3}}\n" REST, "o.yaml:1: error: sinks.a.workers", "\"concurrency\""},
        {"sinks: {a: {kind: fake, endpoint: u}}\n" REST, "o.yaml:1: error: sinks.a.endpoint", "\"url\""},
        {"sinks: {a: {type: fake, url: u}}\n" REST, "o.yaml:1: error: sinks.a.type", "\"kind\""},
        {"sinks: {a: {kind: null}}\nstore: sqlite:/x\nroutes: [{destination: a}]\n",
         "o.yaml:3: error: routes[0].destination", "\"sink\""},
        {"relay: {interval: 1s}\n", "o.yaml:1: error: relay.interval", "\"poll\""},
        {"destinations: {a: {kind: null}}\n", "o.yaml:1: error: destinations", "\"sinks\""},
        {"database: postgresql:///x\n", "o.yaml:1: error: database", "\"store\""},
        {"metrics: {listen: x}\n", "o.yaml:1: error: metrics", "\"admin\""},
    };
    for (size_t i = 0; i < OB_COUNT(rows); i++)
        expect_hint(fx, rows[i].text, rows[i].line, rows[i].meant);
}

/* V11: a kind and its options have other names elsewhere; the kind's own table says which. */
static void kinds(void **state)
{
    struct fixture *fx = *state;
    static const char *const rows[][2] = {{"webhook", "http"}, {"HTTP", "http"},      {"rabbitmq", "amqp"},
                                          {"email", "smtp"},   {"console", "stdout"}, {"shell", "exec"}};
    char text[100], hint[60];
    expect_hint(fx, "sinks: {a: {kind: Mock}}\n" REST, "o.yaml:1: error: sinks.a.kind", "did you mean \"fake\"?");
    expect_hint(fx, "sinks: {a: {kind: fake, hook_url: u}}\n" REST, "o.yaml:1: error: sinks.a.hook_url", "\"url\"");
    fx->in.load = ob_sink_load;
    fx->in.at = ob_sink_at;
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        if (!ob_sink_find(rows[i][1]))
            continue;
        snprintf(text, sizeof text, "sinks: {a: {kind: %s}}\n" REST, rows[i][0]);
        snprintf(hint, sizeof hint, "did you mean \"%s\"?", rows[i][1]);
        expect_hint(fx, text, "o.yaml:1: error: sinks.a.kind", hint);
    }
}

/* V11: right words in the wrong column. */
static void places(void **state)
{
    struct fixture *fx = *state;
    expect_hint(fx, "sinks:\n  a:\n  kind: fake\n  url: u\n" REST, "o.yaml:3: error: sinks.kind: is an option",
                "indent");
    fx_says(fx, "o.yaml:4: error: sinks.url: is an option");
    fx_says(fx, "o.yaml:2: error: sinks.a.kind: is missing");
    assert_int_equal(fx->report.errors, 3);
    expect_hint(fx, "sinks:\na:\n  kind: null\n", "o.yaml:2: error: a", "under `sinks:`");
    expect_hint(fx, "poll: 1s\n", "o.yaml:1: error: poll", "under `relay:`");
    expect_hint(fx, "relay:\n  rate: 3/s\n", "o.yaml:2: error: relay.rate", "`defaults:`");
    expect_hint(fx, "relay:\n  sinks:\n    a: {kind: null, b: c}\n", "o.yaml:3: error: relay.sinks.a", "first column");
    assert_int_equal(fx->report.errors, 1);
    expect_hint(fx, "sinks: {a: {kind: null}}\nroutes: {topic: x, sink: a}\n", "o.yaml:2: error: routes", "\"- \"");
}

/* V11: mistakes of one sink do not hide those of another, and what can be used can be had. */
static void partial(void **state)
{
    struct fixture *fx = *state;
    fx_clear(fx);
    const char text[] = "store: sqlite:/x.db\n"
                        "sinks:\n"
                        "  a: {kind: fake, url: \"${NOBODY_SET_THIS}\"}\n"
                        "  b: {kind: fake, url: u}\n"
                        "  a.b: {kind: fake, url: u}\n"
                        "routes: [{sink: a}]\n";
    fx_write(fx->path, text, strlen(text), 0600);
    fx->in.partial = true;
    fx->code = ob_config_load(&fx->in, &fx->config, &fx->report);
    assert_int_equal(fx->code, OUTBOX_CONFIG);
    assert_non_null(fx->config);
    assert_int_equal(fx->config->sink_count, 3);
    assert_true(fx->config->sinks[0].broken);
    assert_false(fx->config->sinks[1].broken || fx->config->sinks[2].broken || fx->config->stores[0].broken);
}

/* V11: a relay without a sink delivers nothing. */
static void for_a_relay(void **state)
{
    struct fixture *fx = *state;
    fx->in.relay = true;
    expect_hint(fx, "", "o.yaml: error: sinks: missing", "--sample");
    expect_hint(fx, "# nothing\n", "o.yaml: error: sinks: missing", "--sample");
}

int main(void)
{
    const struct CMUnitTest tests[] = {FX_TEST(yaml),   FX_TEST(words),   FX_TEST(kinds),
                                       FX_TEST(places), FX_TEST(partial), FX_TEST(for_a_relay)};
    return cmocka_run_group_tests_name("config slips", tests, NULL, NULL);
}
