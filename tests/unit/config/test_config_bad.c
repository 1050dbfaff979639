/* test_config_bad.c - mistakes in a configuration: all of them at once, each where it stands, with what was meant.
 * Proves: V11 (wrong settings are refused), M15 (a poll above a third of the lease is warned about). */
#include "config_fixture.h"

#include "sink/registry.h"

static void expect(struct fixture *fx, const char *text, size_t errors, size_t warnings, const char *const *lines)
{
    fx_load(fx, text);
    for (; *lines; lines++)
        fx_says(fx, *lines);
    if (fx->report.errors != errors || fx->report.warnings != warnings)
        fail_msg("%zu errors, %zu warnings:\n%s", fx->report.errors, fx->report.warnings, ob_buf_text(&fx->said));
}
#define EXPECT(fx, text, errors, warnings, ...) \
    expect((fx), (text), (errors), (warnings), (const char *const[]){__VA_ARGS__, NULL})

/* Around a piece of the file that is under test: nothing else to complain about. */
#define STORE "store: sqlite:/x.db\n"
#define SINK "sinks: {a: {kind: null}}\n"
#define ROUTE "routes: [{sink: a}]\n"

/* V11: one file, every mistake, in the order of the lines. */
static void all_at_once(void **state)
{
    struct fixture *fx = *state;
    EXPECT(fx,
           "stor: x\n"
           "relay:\n"
           "  pol: 5s\n"
           "  batch: many\n"
           "  lease: 30\n"
           "  max_messages: 0\n"
           "  max_bytes: 1TiB\n"
           "  prefetch: perhaps\n"
           "  unrouted: drop\n"
           "  grace: [1s]\n"
           "log: json\n"
           "sinks:\n"
           "  billing: {kind: fake, concurency: 3, url: u, retry: {polcy: full}, wait: 5h, mode: x}\n"
           "routes:\n"
           "  - {sink: biling}\n",
           15, 2, "o.yaml:1: error: stor: unknown section; did you mean \"store\"?",
           "o.yaml:3: error: relay.pol: unknown option; did you mean \"poll\"?",
           "o.yaml:4: error: relay.batch: is \"many\", but must be a whole number",
           "o.yaml:5: error: relay.lease: is \"30\", but must be a time with its unit",
           "o.yaml:6: error: relay.max_messages: is 0, but must be at least 1",
           "o.yaml:7: error: relay.max_bytes: is \"1TiB\", but must be a size",
           "o.yaml:8: error: relay.prefetch: is \"perhaps\", but must be true or false",
           "o.yaml:9: error: relay.unrouted: is \"drop\", but must be one of: wait dead",
           "o.yaml:10: error: relay.grace: must be one value, not a list",
           "o.yaml:11: error: log: must be a map of options",
           "o.yaml:13: error: sinks.billing.concurency: unknown option; did you mean \"concurrency\"?",
           "o.yaml:13: error: sinks.billing.retry.polcy: unknown option; did you mean \"retry.policy\"?",
           "o.yaml:13: error: sinks.billing.wait: is 5h, but must be at most 1m",
           "o.yaml:13: error: sinks.billing.mode: is \"x\", but must be one of: binary plain",
           "o.yaml:15: error: routes[0].sink: unknown sink \"biling\"; did you mean \"billing\"?");
    int line = 0;
    for (const struct ob_config_problem *at = fx->report.first; at; at = at->next) {
        int here = at->place.source == OB_CONFIG_FILE ? at->place.line : 1000;
        assert_true(here >= line);
        line = here;
    }
}

/* V11 */
static void yaml(void **state)
{
    struct fixture *fx = *state;
    EXPECT(fx, "relay: {poll: 1s\n", 1, 0, "o.yaml:2: error: not YAML: ");
    EXPECT(fx, "relay:\n\tpoll: 1s\n", 1, 0, "o.yaml:2: error: not YAML: ");
    EXPECT(fx, "a\n\n\xff\xfe\n", 1, 0, "o.yaml:3: error: not YAML: ");
    EXPECT(fx, "- a\n", 1, 0, "o.yaml:1: error: the configuration must be a map");
    EXPECT(fx, STORE "---\nrelay: {}\n", 1, 1, "o.yaml:3: error: a second document starts here");
    EXPECT(fx, STORE "relay:\n  poll: 1s\n  poll: 2s\nrelay: {}\n", 2, 1,
           "o.yaml:4: error: relay.poll: given twice; the first is in line 3",
           "o.yaml:5: error: relay: given twice; the first is in line 2");
    EXPECT(fx, STORE "defaults: {retry.base: 1s, retry: {base: 2s}}\n", 1, 1,
           "o.yaml:2: error: defaults.retry.base: given twice");
    EXPECT(fx, STORE "relay: {worker: \"a\\0b\"}\n", 1, 1, "o.yaml:2: error: a value contains a NUL character");
    EXPECT(fx, STORE "relay: {? [a] : b}\n", 1, 1, "o.yaml:2: error: a key must be a plain word");
    fx_good(fx, "# nothing\n");
    fx->in.path = "/nowhere/o.yaml";
    EXPECT(fx, NULL, 1, 0, "/nowhere/o.yaml: error: cannot be read: No such file");
    fx->in.path = fx->folder;
    fx_load(fx, NULL);
    assert_non_null(strstr(ob_buf_text(&fx->said), "is a directory"));
    fx->in.path = fx->path;
}

/* V11: aliases are fine, bombs are not. */
static void aliases(void **state)
{
    struct fixture *fx = *state;
    const struct ob_config *config =
        fx_good(fx, STORE "defaults: {retry: &r {base: 2s}}\nsinks: {a: {kind: null, retry: *r}}\n" ROUTE);
    assert_int_equal(config->sinks[0].delivery.retry.base_us, 2000000);
    EXPECT(fx,
           "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
           "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e]\n",
           1, 0, "o.yaml:1: error: too many values");
    EXPECT(fx, "a: &a [*a]\n", 1, 0, "o.yaml:1: error: nested too deeply");
    EXPECT(fx, STORE "relay:\n  <<: {poll: 1s}\n", 1, 1, "o.yaml:3: error: relay.<<: merge keys are not supported");
    EXPECT(fx, "a: *gone\n", 1, 0, "o.yaml:1: error: not YAML: found undefined alias");
}

/* V11 */
static void too_large(void **state)
{
    struct fixture *fx = *state;
    size_t len = 300 * 1024;
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, '#', len);
    fx_write(fx->path, text, len, 0600);
    EXPECT(fx, NULL, 1, 0, "o.yaml: error: cannot be read: file too large");
    memset(text, '[', len);
    fx_write(fx->path, text, 256 * 1024, 0600);
    EXPECT(fx, NULL, 1, 0, "o.yaml:1: error: not YAML: nested too deeply");
    free(text);
}

/* V11, M15: options against each other. */
static void together(void **state)
{
    struct fixture *fx = *state;
    EXPECT(fx, STORE SINK ROUTE "relay: {poll: 15s}\n", 0, 1,
           "o.yaml:4: warning: relay.poll: is 15s, more than a third of the lease (10s)");
    EXPECT(fx, STORE SINK ROUTE "relay: {poll: 10s}\n", 0, 0, "");
    EXPECT(fx, STORE SINK ROUTE "relay:\n  lease: 1s\n", 0, 2,
           "o.yaml:5: warning: relay.poll: is 500ms, more than a third of the lease (333ms)",
           "o.yaml:2: warning: sinks.a.timeout: is not below relay.lease");
    EXPECT(fx, STORE SINK ROUTE "relay: {batch: 200, max_messages: 100}\n", 1, 0,
           "o.yaml:4: error: relay.batch: is 200, more than relay.max_messages (100)");
    EXPECT(fx, STORE "sinks: {a: {kind: null, run: 2}}\n" ROUTE, 1, 0,
           "o.yaml:2: error: sinks.a.run: is 2, but a sink of kind null does not keep order");
    EXPECT(fx, STORE "sinks: {a: {kind: null, retry: {base: 1h, cap: 30m}}}\n" ROUTE, 1, 0,
           "o.yaml:2: error: sinks.a.retry.base: is above retry.cap");
    EXPECT(fx, STORE "sinks: {a: {kind: null, retry: {policy: list}}}\n" ROUTE, 1, 0,
           "o.yaml:2: error: sinks.a.retry.delays: is missing");
    EXPECT(fx, STORE "sinks: {a: {kind: null, retry: {delays: [1s]}}}\n" ROUTE, 0, 1,
           "o.yaml:2: warning: sinks.a.retry.delays: has no effect");
    EXPECT(fx, STORE SINK "routes: [{sink: a, retry: {policy: list}}]\n", 1, 0,
           "o.yaml:3: error: routes[0].retry.delays: is missing");
    EXPECT(fx, STORE SINK "routes: [{sink: a, max_attempts: 1001}]\n", 1, 0,
           "o.yaml:3: error: routes[0].max_attempts: is 1001, but must be at most 1000");
    EXPECT(fx, STORE SINK ROUTE "admin: {listen: 9464}\n", 1, 0, "o.yaml:4: error: admin.listen: is \"9464\"");
}

/* V11: a kind of sink checks its options together with how it is delivered. */
static void kinds_check(void **state)
{
    struct fixture *fx = *state;
    EXPECT(fx, STORE "sinks:\n  a:\n    kind: fake\n    url: u\n    timeout: 1s\n    wait: 2s\n" ROUTE, 1, 0,
           "o.yaml:7: error: sinks.a.wait: is above timeout");
    EXPECT(fx, STORE "sinks:\n  a: {kind: fake, url: u, timeout: 1s}\n" ROUTE, 1, 0,
           "o.yaml:3: error: sinks.a.wait: is above timeout");
    EXPECT(fx, STORE "sinks:\n  a: {kind: fake, url: u, timeout: 1s, wait: soon}\n" ROUTE, 1, 0,
           "o.yaml:3: error: sinks.a.wait: is \"soon\"");
    EXPECT(fx, STORE "sinks:\n  a: {kind: fake, url: u, retry: {after_cap: 1s}}\n" ROUTE, 0, 1,
           "o.yaml:3: warning: sinks.a.retry.after_cap: is short");
}

/* V11: a kind of sink has defaults of its own; what somebody sets wins. */
static void kinds_defaults(void **state)
{
    struct fixture *fx = *state;
    const struct ob_config *config = fx_good(fx, STORE "sinks: {a: {kind: patient, think: 10s}}\n" ROUTE);
    assert_int_equal(config->sinks[0].delivery.timeout_us, 20000000);
    assert_string_equal(fx_value(config, "sinks.a.timeout")->shown, "20s");
    assert_int_equal(config->sinks[0].delivery.retry.after_cap_us, 7200000000);
    assert_string_equal(fx_value(config, "sinks.a.retry.after_cap")->shown, "2h");
    config = fx_good(fx, STORE "sinks: {a: {kind: patient, timeout: 3s, retry: {after_cap: 5s}}}\n" ROUTE);
    assert_int_equal(config->sinks[0].delivery.timeout_us, 3000000);
    assert_int_equal(config->sinks[0].delivery.retry.after_cap_us, 5000000);
    config = fx_good(fx, STORE "defaults: {timeout: 25s}\nsinks: {a: {kind: patient}}\n" ROUTE);
    assert_int_equal(config->sinks[0].delivery.timeout_us, 25000000);
    EXPECT(fx, STORE "sinks: {a: {kind: patient}}\n" ROUTE, 0, 0, "");
    EXPECT(fx, STORE "sinks: {a: {kind: patient, timeout: 6m}}\n" ROUTE, 0, 1,
           "o.yaml:2: warning: sinks.a.timeout: is not below relay.lease");
    EXPECT(fx, STORE "sinks: {a: {kind: patient, timeout: soon}}\n" ROUTE, 1, 0,
           "o.yaml:2: error: sinks.a.timeout: is \"soon\"");
}

/* V11: the checks of the adapters of this build. */
static void adapters_check(void **state)
{
    struct fixture *fx = *state;
    fx->in.load = ob_sink_load;
    fx->in.at = ob_sink_at;
    if (ob_sink_find("kafka")) {
        EXPECT(fx,
               STORE
               "sinks:\n  a:\n    kind: kafka\n    brokers: b\n    delivery_timeout: 8001ms\n    timeout: 10s\n" ROUTE,
               1, 0,
               "o.yaml:6: error: sinks.a.delivery_timeout: is 8001ms, but must be at least 2s below timeout (10s)");
        EXPECT(fx, STORE "sinks: {a: {kind: kafka, brokers: b}}\n" ROUTE, 0, 0, "");
        EXPECT(fx, STORE "sinks: {a: {kind: kafka, brokers: b, delivery_timeout: 1m}}\n" ROUTE, 0, 0, "");
        assert_int_equal(fx->config->sinks[0].delivery.timeout_us, 62000000);
        EXPECT(fx, STORE "sinks: {a: {kind: kafka, bootstrap_servers: b}}\n" ROUTE, 2, 0,
               "o.yaml:2: error: sinks.a.bootstrap_servers: unknown option; did you mean \"brokers\"?");
    }
    if (ob_sink_find("smtp")) {
        static const char mail[] = STORE "sinks: {a: {kind: smtp, url: 'smtp://h', from: a@b.example%s}}\n" ROUTE;
        char text[400];
        snprintf(text, sizeof text, mail, ", timeout: 10s, response_timeout: 10s");
        EXPECT(fx, text, 0, 1, "o.yaml:2: warning: sinks.a.timeout: is 10s, not above response_timeout (10s)");
        snprintf(text, sizeof text, mail, ", timeout: 11s, response_timeout: 10s");
        EXPECT(fx, text, 0, 0, "");
        snprintf(text, sizeof text, mail, "");
        EXPECT(fx, text, 0, 0, "");
        assert_int_equal(fx->config->sinks[0].delivery.timeout_us, 310000000);
    }
}

/* V11 */
static void routes(void **state)
{
    struct fixture *fx = *state;
    EXPECT(fx, STORE "sinks: {a: {kind: null}, b: {kind: null}}\n" ROUTE, 0, 1,
           "o.yaml:2: warning: sinks.b: no route uses it");
    EXPECT(fx, STORE SINK, 0, 1, "o.yaml: warning: routes: missing");
    EXPECT(fx,
           STORE SINK "routes:\n- {topic: 'orders.*', sink: a}\n- {topic: orders.paid, sink: a}\n"
                      "- {topic: '*', sink: a}\n- {namespace: n, sink: a}\n",
           0, 2, "o.yaml:5: warning: routes[1]: can never match: routes[0] in line 4 matches first",
           "o.yaml:7: warning: routes[3]: can never match: routes[2] in line 6");
    EXPECT(fx, STORE SINK "routes:\n- {topic: x}\n- a\n- {sink: a, topics: y, schema: gone.json}\n", 4, 0,
           "o.yaml:4: error: routes[0].sink: is missing", "o.yaml:5: error: routes[1]: must be a map",
           "o.yaml:6: error: routes[2].topics: unknown option; did you mean \"topic\"?",
           "o.yaml:6: error: routes[2].schema: ");
    EXPECT(fx, STORE SINK "routes: {sink: a}\n", 1, 1, "o.yaml:3: error: routes: must be a list");
    char path[128];
    snprintf(path, sizeof path, "%s/schema.json", fx->folder);
    fx_write(path, "{\n \"type\": }", 12, 0600);
    fx_load(fx, STORE SINK "routes: [{sink: a, schema: schema.json}]\n");
    assert_non_null(strstr(ob_buf_text(&fx->said), "/schema.json:2:"));
    fx_write(path, "{\"type\": 7}", 11, 0600);
    fx_load(fx, NULL);
    assert_non_null(strstr(ob_buf_text(&fx->said), ": /type: "));
    fx_write(path, "{}", 2, 0600);
    assert_string_equal(fx_good(fx, NULL)->routes[0].schema, path);
}

/* V11 */
static void sinks(void **state)
{
    struct fixture *fx = *state;
    EXPECT(
        fx, STORE "sinks: {a: {kind: fak}}\n" ROUTE, 1, 0,
        "o.yaml:2: error: sinks.a.kind: unknown sink kind \"fak\"; the kinds are: fake, null; did you mean \"fake\"?");
    EXPECT(fx, STORE "sinks: {a: {kind: kafka, brokers: [x]}}\n" ROUTE, 1, 0,
           "o.yaml:2: error: sinks.a.kind: install librdkafka-dev");
    EXPECT(fx, STORE "sinks: {a: {batch: 3}}\n" ROUTE, 1, 0, "o.yaml:2: error: sinks.a.kind: is missing");
    EXPECT(fx, STORE "sinks: {a: {kind: fake}}\n" ROUTE, 1, 0,
           "o.yaml:2: error: sinks.a.url: is missing: where it goes");
    EXPECT(fx, STORE "sinks: {\"a b\": {kind: null}}\n", 1, 1, "o.yaml:2: error: sinks.a b: a name has at most");
    EXPECT(fx, STORE "sinks: [a]\n", 1, 1, "o.yaml:2: error: sinks: must be a map");
    EXPECT(fx, STORE "sinks: {a: {kind: fake, url: u, headers: x, allow: {b: c}, secret: [a]}}\n" ROUTE, 3, 0,
           "o.yaml:2: error: sinks.a.headers: must be a map", "o.yaml:2: error: sinks.a.allow.b: unknown option",
           "o.yaml:2: error: sinks.a.secret: must be one value, not a list");
    EXPECT(fx,
           STORE "defaults: {timeout: soon, kind: null}\nsinks: {a: {kind: null}, b: {kind: null}}\n"
                 "routes: [{topic: x, sink: a}, {sink: b}]\n",
           2, 0, "o.yaml:2: error: defaults.timeout: is \"soon\"", "o.yaml:2: error: defaults.kind: unknown option");
}

/* V11: and never a password. */
static void stores(void **state)
{
    struct fixture *fx = *state;
    EXPECT(fx, "store: mysql://u:zzz@h/d\n" SINK ROUTE, 1, 0,
           "o.yaml:1: error: store.url: \"mysql://... (17 bytes)\" does not name a store");
    assert_null(strstr(ob_buf_text(&fx->said), "zzz"));
    EXPECT(fx, "store: \"postgresql://u:zzz@h:x%zz/d?y=%\"\n" SINK ROUTE, 1, 0, "o.yaml:1: error: store.url: not a");
    assert_null(strstr(ob_buf_text(&fx->said), "u:zzz"));
    EXPECT(fx, "store: {schema: x}\n" SINK ROUTE, 1, 0, "o.yaml:1: error: store: has no url");
    EXPECT(fx, "store: {url: 'sqlite:/x', schema: x}\n" SINK ROUTE, 1, 0,
           "o.yaml:1: error: store.schema: SQLite has no");
    EXPECT(fx, "store: {uri: 'sqlite:/x'}\n" SINK ROUTE, 2, 0,
           "o.yaml:1: error: store.uri: unknown option; did you mean \"url\"?");
    EXPECT(fx, "store: sqlite:/x\nstores: {}\n" SINK ROUTE, 1, 1, "o.yaml:2: error: stores: `store` is also given");
    EXPECT(fx, SINK ROUTE, 0, 1, "o.yaml: warning: store: missing");
    char text[400], path[128], link[128];
    snprintf(path, sizeof path, "%s/a.db", fx->folder);
    snprintf(link, sizeof link, "%s/b.db", fx->folder);
    fx_write(path, "", 0, 0600);
    assert_int_equal(symlink(path, link), 0);
    snprintf(text, sizeof text, "stores: {one: 'sqlite:%s', two: 'sqlite:%s'}\n" SINK ROUTE, path, link);
    EXPECT(fx, text, 1, 0, "o.yaml: error: stores.two.url: is the same file as that of stores.one");
}

/* V11: names from outside that mean nothing. */
static void outside(void **state)
{
    struct fixture *fx = *state;
    static const char *const env[] = {"OUTBOX_RELAY_POL=1s", "OUTBOX_SINK_A_TIMEOT=1s", "OUTBOX_TEST_PG=x",
                                      "OUTBOX_ACTOR=me", NULL};
    static const char *const sets[] = {"relay.pol=1s", "relay.batch"};
    fx->in.env = (char *const *)env;
    fx->in.sets = sets;
    fx->in.set_count = OB_COUNT(sets);
    EXPECT(fx, STORE SINK ROUTE, 2, 2,
           "OUTBOX_RELAY_POL: warning: does not match any option; did you mean \"OUTBOX_RELAY_POLL\"?",
           "OUTBOX_SINK_A_TIMEOT: warning: does not match any option; did you mean \"OUTBOX_SINK_A_TIMEOUT\"?",
           "--set: error: relay.pol: unknown option; did you mean \"relay.poll\"?",
           "--set: error: relay.batch: must be NAME=VALUE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FX_TEST(all_at_once), FX_TEST(yaml),        FX_TEST(aliases),        FX_TEST(too_large),
        FX_TEST(together),    FX_TEST(kinds_check), FX_TEST(kinds_defaults), FX_TEST(adapters_check),
        FX_TEST(routes),      FX_TEST(sinks),       FX_TEST(stores),         FX_TEST(outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
