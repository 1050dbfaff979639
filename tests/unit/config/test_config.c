/* test_config.c - what a good configuration comes to: defaults, precedence, references, adapters, differences.
 * Proves: V11 (settings, each overridable from the environment), M15 (poll is a setting), V17 (enabled). */
#include "config_fixture.h"

#include "core/sink_state.h"

#include <ctype.h>

/* V11, V17: nothing given at all. The table and the core agree about the defaults. */
static void defaults(void **state)
{
    struct fixture *fx = *state;
    fx->in.path = NULL;
    fx_load(fx, NULL);
    const struct ob_config *config = fx->config;
    assert_int_equal(fx->code, OUTBOX_OK);
    assert_true(config->enabled);
    assert_null(config->worker);
    assert_null(config->admin_listen);
    assert_int_equal(config->relay.poll_us, 500000);
    assert_int_equal(config->relay.claim_limit, 500);
    assert_int_equal(config->relay.max_messages, 1000);
    assert_int_equal(config->relay.max_bytes, 16 << 20);
    assert_int_equal(config->relay.lease_us, 30000000);
    assert_true(config->relay.prefetch);
    assert_false(config->relay.unrouted_dead);
    assert_int_equal(config->log_level, OB_LOG_INFO);
    assert_int_equal(config->log_format, OB_LOG_LOGFMT);
    fx->in.path = fx->path;
    config = fx_good(fx, "sinks: {a: {kind: null}}\nroutes: [{sink: a}]\n");
    struct ob_sink_settings core = ob_sink_settings(NULL), ours = ob_sink_settings(&config->sinks[0].delivery);
    struct ob_breaker breaker;
    ob_breaker_init(&breaker, NULL);
    assert_int_equal(ours.concurrency, core.concurrency);
    assert_int_equal(ours.batch, core.batch);
    assert_int_equal(ours.run, core.run);
    assert_int_equal(ours.rate_count, 0);
    assert_int_equal(ours.rate_burst, core.rate_burst);
    assert_int_equal(ours.timeout_us, core.timeout_us);
    struct ob_retry retry = ob_retry_settings(&ours.retry), fallback = ob_retry_settings(NULL);
    assert_memory_equal(&retry, &fallback, sizeof retry);
    assert_memory_equal(&ours.breaker, &breaker.set, sizeof breaker.set);
    assert_int_equal(ours.limited_base_us, core.limited_base_us);
    assert_int_equal(ours.limited_cap_us, core.limited_cap_us);
    assert_int_equal(config->sinks[0].delivery.max_attempts, 0);
}

/* V9 V11: what a route says of attempts and waits goes over what its sink says; the rest is the sink's. */
static void patience_of_a_route(void **state)
{
    struct fixture *fx = *state;
    const struct ob_config *config =
        fx_good(fx, "sinks: {a: {kind: null, max_attempts: 9, retry: {base: 3s, cap: 1m}}}\n"
                    "routes: [{topic: x, sink: a, max_attempts: 4, retry: {base: 2s}}, {topic: y, sink: a},\n"
                    "         {sink: a, retry: {policy: list, delays: [1s, 5s]}}]\n");
    const struct ob_patience *own = &config->routes[0].patience, *none = &config->routes[1].patience,
                             *list = &config->routes[2].patience;
    assert_int_equal(own->max_attempts, 4);
    assert_int_equal(own->retry.base_us, 2000000);
    assert_int_equal(own->retry.cap_us, 60000000);
    assert_int_equal(none->max_attempts, 9);
    assert_int_equal(none->retry.base_us, 3000000);
    assert_int_equal(list->retry.kind, OB_RETRY_LIST);
    assert_int_equal(list->retry.list_us[1], 5000000);
    assert_int_equal(ob_retry_within(&none->retry, 1, 1).base_us, 3000000);
    assert_int_equal(ob_retry_within(&(struct ob_retry){0}, 7000000, 9000000).cap_us, 9000000);
    assert_int_equal(ob_retry_within(&(struct ob_retry){.base_us = 8000000}, 1, 2000000).cap_us, 8000000);
}

/* V11: every kind of value of the file reaches its field. */
static void all_kinds(void **state)
{
    const struct ob_config *config =
        fx_good(*state, "stores:\n"
                        "  shop: {url: \"postgresql://outbox@db/shop\", schema: ob, durability: relaxed, wake: poll}\n"
                        "  till: sqlite:/nowhere/till.db\n"
                        "relay: {worker: w1, enabled: no, batch: 50, max_bytes: 1MiB, unrouted: dead, grace: 0}\n"
                        "log: {level: warn, format: json}\n"
                        "admin: {listen: \"127.0.0.1:9464\"}\n"
                        "sinks:\n"
                        "  b:\n"
                        "    kind: fake\n"
                        "    url: http://x\n"
                        "    run: 4\n"
                        "    rate: 5/10s\n"
                        "    retry: {policy: list, delays: [1s, 5m]}\n"
                        "    breaker: {failures: 0}\n"
                        "  c: {kind: null, retry.policy: minutes}\n"
                        "routes:\n"
                        "  - {namespace: n, topic: \"orders.*\", headers: {kind: \"x*\"}, sink: c}\n"
                        "  - sink: b\n");
    assert_int_equal(config->store_count, 2);
    assert_string_equal(config->stores[0].name, "shop");
    assert_string_equal(config->stores[0].schema, "ob");
    assert_true(config->stores[0].relaxed && config->stores[0].polling);
    assert_string_equal(config->stores[1].url, "sqlite:/nowhere/till.db");
    assert_false(config->stores[1].relaxed || config->enabled);
    assert_string_equal(config->worker, "w1");
    assert_int_equal(config->relay.claim_limit, 50);
    assert_int_equal(config->relay.max_bytes, 1 << 20);
    assert_true(config->relay.unrouted_dead);
    assert_int_equal(config->grace_us, 0);
    assert_int_equal(config->log_level, OB_LOG_WARN);
    assert_int_equal(config->log_format, OB_LOG_JSON);
    assert_string_equal(config->admin_listen, "127.0.0.1:9464");
    const struct ob_config_sink *sink = &config->sinks[0];
    assert_ptr_equal(sink->ops, &fake_ops);
    assert_int_equal(sink->line, 8);
    assert_int_equal(sink->delivery.run, 4);
    assert_int_equal(sink->delivery.rate_count, 5);
    assert_int_equal(sink->delivery.rate_period_us, 10000000);
    assert_int_equal(sink->delivery.retry.kind, OB_RETRY_LIST);
    assert_int_equal(sink->delivery.retry.list_count, 2);
    assert_int_equal(sink->delivery.retry.list_us[1], 300000000);
    assert_int_equal(sink->delivery.breaker.threshold, -1); /* never, in the words of the core */
    struct ob_retry minutes = ob_retry_settings(&config->sinks[1].delivery.retry);
    assert_int_equal(minutes.kind, OB_RETRY_MINUTES);
    assert_int_equal(minutes.cap_us, INT64_C(3600000000));
    assert_int_equal(config->route_count, 2);
    assert_string_equal(config->routes[0].name_space, "n");
    assert_string_equal(config->routes[0].headers[0].name, "kind");
    assert_string_equal(config->routes[0].headers[0].value, "x*");
    assert_int_equal(config->routes[0].sink, 1);
    assert_null(config->routes[1].topic);
    assert_int_equal(config->routes[1].line, 18);
}

/* M15: the default of timeout is above what the adapter itself allows a receiver; whatever is said counts more. */
static void patience_of_an_adapter(void **state)
{
    struct fixture *fx = *state;
    const struct ob_config *config = fx_good(fx, "sinks: {a: {kind: patient}, b: {kind: patient, think: 20s},\n"
                                                 "        c: {kind: patient, timeout: 3s}, d: {kind: fake, url: u}}\n");
    assert_int_equal(config->sinks[0].delivery.timeout_us, 310000000);
    assert_string_equal(fx_value(config, "sinks.a.timeout")->shown, "310s");
    assert_int_equal(fx_value(config, "sinks.a.timeout")->place.source, OB_CONFIG_DEFAULT);
    assert_int_equal(config->sinks[1].delivery.timeout_us, 30000000);
    assert_int_equal(config->sinks[2].delivery.timeout_us, 3000000);
    assert_int_equal(config->sinks[3].delivery.timeout_us, 10000000);
}

/* V11: flag before environment before file before default; a sink's own before `defaults`. */
static void precedence(void **state)
{
    struct fixture *fx = *state;
    static const char *const env[] = {"OUTBOX_RELAY_POLL=250ms",           "OUTBOX_RELAY_BATCH=20",
                                      "OUTBOX_RELAY_ENABLED=false",        "OUTBOX_RELAY_LEASE=",
                                      "OUTBOX_SINK_EU_BILLING_TIMEOUT=7s", "OUTBOX_SINK_EU_BILLING_URL=http://env",
                                      "OUTBOX_DEFAULTS_RETRY_BASE=3s",     NULL};
    static const char *const sets[] = {"relay.batch=29", "relay.batch=30", "sinks.eu-billing.rate=9/s"};
    fx->in.env = (char *const *)env;
    fx->in.sets = sets;
    fx->in.set_count = OB_COUNT(sets);
    const struct ob_config *config = fx_good(fx, "relay: {poll: 1s, batch: 10, run: 3, lease: 20s}\n"
                                                 "defaults: {timeout: 1s, concurrency: 5, batch: 6}\n"
                                                 "sinks: {eu-billing: {kind: fake, url: http://file, batch: 7}}\n"
                                                 "routes: [{sink: eu-billing}]\n");
    const struct ob_config_sink *sink = &config->sinks[0];
    assert_int_equal(config->relay.claim_limit, 30); /* flag; the last one counts */
    assert_int_equal(config->relay.poll_us, 250000); /* environment */
    assert_false(config->enabled);
    assert_int_equal(config->relay.run, 3);             /* file */
    assert_int_equal(config->relay.lease_us, 20000000); /* an empty variable is none */
    assert_int_equal(config->relay.max_messages, 1000); /* default */
    assert_int_equal(sink->delivery.timeout_us, 7000000);
    assert_int_equal(sink->delivery.concurrency, 5);
    assert_int_equal(sink->delivery.batch, 7);
    assert_int_equal(sink->delivery.retry.base_us, 3000000);
    assert_int_equal(sink->delivery.rate_count, 9);
    assert_string_equal(fx_option(config, "url"), "http://env");
    static const struct {
        const char *name, *place;
    } rows[] = {{"relay.batch", "flag --set"},
                {"relay.poll", "env OUTBOX_RELAY_POLL"},
                {"relay.max_messages", "default"},
                {"sinks.eu-billing.timeout", "env OUTBOX_SINK_EU_BILLING_TIMEOUT"},
                {"sinks.eu-billing.retry.base", "env OUTBOX_DEFAULTS_RETRY_BASE"}};
    for (size_t i = 0; i < OB_COUNT(rows); i++) {
        struct ob_buf text = OB_BUF_INIT;
        ob_config_place_text(&fx_value(config, rows[i].name)->place, &text);
        assert_string_equal(ob_buf_text(&text), rows[i].place);
        ob_buf_fini(&text);
    }
    assert_int_equal(fx_value(config, "relay.run")->place.line, 1);
    assert_int_equal(fx_value(config, "sinks.eu-billing.concurrency")->place.line, 2);
    assert_int_equal(fx->report.warnings, 1); /* there is no store */
}

/* V11: every option of the fixed sections has its variable, and it is heard. */
static void every_variable(void **state)
{
    struct fixture *fx = *state;
    const struct ob_config *config = fx_good(fx, "");
    char names[64][80];
    size_t count = 0;
    for (size_t i = 0; i < config->value_count; i++) {
        const char *name = config->values[i].name;
        if (strncmp(name, "relay.", 6) == 0 || strncmp(name, "log.", 4) == 0 || strncmp(name, "admin.", 6) == 0)
            snprintf(names[count++], sizeof names[0], "%s", name);
    }
    assert_true(count >= 18);
    for (size_t i = 0; i < count; i++) {
        char variable[100] = "OUTBOX_";
        for (size_t at = 0; at < strlen(names[i]); at++)
            variable[7 + at] = (char)(names[i][at] == '.' ? '_' : toupper(names[i][at]));
        strcat(variable, "=%%%");
        char *env[] = {variable, NULL};
        char place[400];
        fx->in.env = (char *const *)env;
        fx_load(fx, NULL);
        bool text = strcmp(names[i], "relay.worker") == 0;
        snprintf(place, sizeof place, "%.*s: error: %s: is \"%%%%%%\", but must be", (int)strcspn(variable, "="),
                 variable, names[i]);
        if (text)
            assert_string_equal(fx->config->worker, "%%%");
        else
            fx_says(fx, place);
    }
}

/* V11: references, in values only. */
static void references(void **state)
{
    struct fixture *fx = *state;
    static const char *const env[] = {"HOST=h: {x: y}", "LEASE=40s", "AGAIN=${HOST}", NULL};
    fx->in.env = (char *const *)env;
    const struct ob_config *config =
        fx_good(fx, "relay:\n  lease: ${LEASE}\n  poll: ${POLL:-300ms}\n  worker: a$$b${HOST}c$\n"
                    "sinks: {s: {kind: fake, url: \"${AGAIN}\", headers: {Authorization: \"Bearer ${HOST}\", n: 1},\n"
                    "  allow: [\"${HOST}\", b]}}\nroutes: [{sink: s}]\n");
    assert_int_equal(config->relay.lease_us, 40000000);
    assert_int_equal(config->relay.poll_us, 300000);
    assert_string_equal(config->worker, "a$$bh: {x: y}c$"); /* what is put in is not parsed */
    assert_string_equal(fx_option(config, "url"), "${HOST}");
    assert_string_equal(fx_option(config, "headers.Authorization"), "Bearer h: {x: y}");
    assert_string_equal(fx_option(config, "allow"), "h: {x: y}");
    /* Numbers are shown as they came out; texts as they were written, for they may hold a secret. */
    assert_string_equal(fx_value(config, "relay.lease")->shown, "40s");
    assert_string_equal(fx_value(config, "relay.worker")->shown, "a$$b${HOST}c$");
    assert_string_equal(fx_value(config, "sinks.s.headers.Authorization")->shown, "(hidden)");
    fx_load(fx, "relay:\n  lease: ${GONE}\n  worker: ${}\n  poll: ${X\n");
    fx_says(fx, "o.yaml:2: error: relay.lease: environment variable GONE is not set");
    fx_says(fx, "o.yaml:3: error: relay.worker: write a reference as");
    fx_says(fx, "o.yaml:4: error: relay.poll: write a reference as");
}

/* V11: a dollar sign is one, as shells use it; before a brace two are one, and one is a reference. */
static void dollar_signs(void **state)
{
    struct fixture *fx = *state;
    static const char *const env[] = {"HOST=h", NULL};
    static const struct {
        const char *written, *meant;
    } cases[] = {
        {"kill $$", "kill $$"},
        {"$", "$"},
        {"$HOST $1 $(id)", "$HOST $1 $(id)"},
        {"$${HOST}", "${HOST}"},
        {"$$${HOST}", "$h"},
        {"$$$${HOST}", "$${HOST}"},
        {"$$ {HOST}", "$$ {HOST}"},
        {"$${", "${"},
        {"${HOST}$$", "h$$"},
        {"$$$", "$$$"},
    };
    fx->in.env = (char *const *)env;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        snprintf(text, sizeof text, "sinks: {s: {kind: fake, url: \"%s\"}}\nroutes: [{sink: s}]\n", cases[i].written);
        assert_string_equal(fx_option(fx_good(fx, text), "url"), cases[i].meant);
    }
}

/* V11: secrets come from files, and are never shown. */
static void secrets(void **state)
{
    struct fixture *fx = *state;
    char path[128];
    static const char *const env[] = {"OUTBOX_SINK_S_SECRET=from-env-zzz", NULL};
    const char *text = "store: {url: \"postgresql://u:pass-zzz@h/d\"}\n"
                       "sinks: {s: {kind: fake, url: \"http://u:url-zzz@h/p\", secret: file:secret}}\n"
                       "routes: [{sink: s}]\n";
    snprintf(path, sizeof path, "%s/secret", fx->folder);
    fx_write(path, "geheim-zzz\n", 11, 0600);
    const struct ob_config *config = fx_good(fx, text);
    assert_string_equal(fx_option(config, "secret"), "geheim-zzz");
    assert_int_equal(fx->report.warnings, 0);
    for (size_t i = 0; i < config->value_count; i++)
        if (config->values[i].shown && strstr(config->values[i].shown, "zzz"))
            fail_msg("%s shows %s", config->values[i].name, config->values[i].shown);
    assert_string_equal(fx_value(config, "sinks.s.secret")->shown, "(hidden)");
    assert_string_equal(fx_value(config, "sinks.s.url")->shown, "http://u:***@h/p");
    assert_string_equal(fx_value(config, "store.url")->shown, "postgresql://u:***@h/d");
    fx_write(path, "geheim\n", 7, 0644);
    fx_good(fx, text);
    fx_says(fx, "o.yaml:2: warning: sinks.s.secret: ");
    unlink(path);
    fx_load(fx, text);
    fx_says(fx, "o.yaml:2: error: sinks.s.secret: cannot read");
    assert_int_equal(fx->report.errors, 1);
    char *large = calloc(1, 70000);
    memset(large, 'x', 69999);
    fx_write(path, large, 69999, 0600);
    fx_load(fx, text);
    fx_says(fx, "o.yaml:2: error: sinks.s.secret: cannot read");
    free(large);
    fx->in.env = (char *const *)env;
    assert_string_equal(fx_option(fx_good(fx, text), "secret"), "from-env-zzz");
}

/* V11: what the adapter gets: checked, in its units, with its defaults, names dotted. */
static void adapter_options(void **state)
{
    const struct ob_config *config =
        fx_good(*state, "sinks:\n  s: {kind: fake, url: u, wait: 1.5s, most: 1KiB, verify: off, tls: {ca: /ca},\n"
                        "      allow: [a, b], headers: {X-Team: red, a.b: c}}\nroutes: [{sink: s}]\n");
    static const struct outbox_sink_option want[] = {
        {"url", "u"},      {"wait", "1500000"}, {"most", "1024"}, {"mode", "binary"},        {"verify", "false"},
        {"tls.ca", "/ca"}, {"allow", "a"},      {"allow", "b"},   {"headers.X-Team", "red"}, {"headers.a.b", "c"}};
    assert_int_equal(config->sinks[0].option_count, OB_COUNT(want));
    for (size_t i = 0; i < OB_COUNT(want); i++) {
        assert_string_equal(config->sinks[0].options[i].name, want[i].name);
        assert_string_equal(config->sinks[0].options[i].value, want[i].value);
    }
}

/* V11: an adapter without a table takes what it is given; `kind: null` means the adapter. */
static void loose_adapter(void **state)
{
    const struct ob_config *config =
        fx_good(*state, "sinks: {s: {kind: null, batch: 3, anything: {goes: [1, 2]}}}\nroutes: [{sink: s}]\n");
    assert_string_equal(config->sinks[0].kind, "null");
    assert_int_equal(config->sinks[0].delivery.batch, 3);
    assert_int_equal(config->sinks[0].option_count, 2);
    assert_string_equal(config->sinks[0].options[1].name, "anything.goes");
    assert_string_equal(config->sinks[0].options[1].value, "2");
}

/* V11: where the store comes from. */
static void stores(void **state)
{
    struct fixture *fx = *state;
    static const char *const both[] = {"OUTBOX_STORE=sqlite:/env.db", "DATABASE_URL=sqlite:/last.db", NULL};
    static const char *const last[] = {"DATABASE_URL=postgresql://h/last", "OUTBOX_SCHEMA=s", NULL};
    fx->in.env = (char *const *)last;
    assert_string_equal(fx_good(fx, "")->stores[0].url, "postgresql://h/last");
    assert_string_equal(fx->config->stores[0].schema, "s");
    assert_string_equal(fx_good(fx, "store: sqlite:/file.db")->stores[0].url, "sqlite:/file.db");
    fx->in.env = (char *const *)both;
    assert_string_equal(fx_good(fx, "store: sqlite:/file.db")->stores[0].url, "sqlite:/env.db");
    fx->in.store = "sqlite:/flag.db";
    assert_string_equal(fx_good(fx, "store: sqlite:/file.db")->stores[0].url, "sqlite:/flag.db");
    fx->in.store = NULL;
    fx->in.env = NULL;
    fx->in.stores_only = true; /* mistakes elsewhere do not keep an operator from looking */
    assert_string_equal(fx_good(fx, "store: sqlite:/file.db\nrelay: {pol: 3}\n")->stores[0].url, "sqlite:/file.db");
}

/* ---- what changed ---- */

static void note_change(void *ctx, const struct ob_config_change *change)
{
    ob_buf_printf(ctx, "%s: %s -> %s%s\n", change->name, change->before ? change->before : "nothing",
                  change->after ? change->after : "nothing", change->reloadable ? "" : " (restart)");
}

/* V11: a reload says what it changes, and what it cannot. */
static void differences(void **state)
{
    struct fixture *fx = *state;
    struct ob_buf told = OB_BUF_INIT;
    fx_good(fx, "relay: {poll: 1s, worker: a}\nsinks:\n  s: {kind: fake, url: u, secret: one}\n  t: {kind: null}\n"
                "routes: [{topic: a, sink: s}, {sink: t}]\n");
    struct ob_config *before = fx->config;
    fx->config = NULL;
    fx_good(fx, "relay: {poll: 2s, worker: b}\nsinks:\n  s: {kind: fake, url: u, secret: two, headers: {x: y}}\n"
                "  v: {kind: null}\nroutes: [{topic: b, sink: s}, {sink: v}]\n");
    ob_config_diff(before, fx->config, note_change, &told);
    assert_string_equal(ob_buf_text(&told), "sinks.t: (given) -> nothing\n"
                                            "sinks.v: nothing -> (given)\n"
                                            "relay.worker: a -> b (restart)\n"
                                            "relay.poll: 1s -> 2s\n"
                                            "sinks.s.secret: (hidden) -> (hidden)\n"
                                            "routes[0]: */a -> s -> */b -> s\n"
                                            "routes[1]: */* -> t -> */* -> v\n"
                                            "sinks.s.headers.x: nothing -> y\n");
    ob_buf_reset(&told);
    ob_config_diff(before, before, note_change, &told);
    assert_string_equal(ob_buf_text(&told), "");
    ob_buf_fini(&told);
    ob_config_free(before);
}

/* V11: the sample is a good configuration, with every option in it, and with all of them switched on too. */
static void sample(void **state)
{
    struct fixture *fx = *state;
    struct ob_buf text = OB_BUF_INIT, on = OB_BUF_INIT;
    ob_config_sample(&text);
    char *screen = strstr(text.data, "kind: stdout");
    assert_non_null(screen);
    memcpy(screen, "kind: null  ", 12);
    fx_good(fx, ob_buf_text(&text));
    assert_non_null(strstr(ob_buf_text(&text), "  #breaker.failures: 5\n"));
    for (const char *line = ob_buf_text(&text); *line;) {
        size_t len = strcspn(line, "\n"), blanks = strspn(line, " ");
        bool off = line[blanks] == '#' && line[blanks + 1] != ' ' && !memmem(line, len, ": ...", 5);
        ob_buf_printf(&on, "%.*s%.*s\n", (int)(off ? blanks : 0), line, (int)(len - (off ? blanks + 1 : 0)),
                      line + (off ? blanks + 1 : 0));
        line += len + (line[len] == '\n');
    }
    fx_good(fx, ob_buf_text(&on));
    assert_int_equal(fx_value(fx->config, "relay.poll")->place.source, OB_CONFIG_FILE);
    ob_buf_fini(&text);
    ob_buf_fini(&on);
}

/* V11: every allocation may fail: no leak, no crash, nothing half-built. */
static void no_memory(void **state)
{
    struct fixture *fx = *state;
    const char *text =
        "store: sqlite:/x.db\nrelay: {poll: ${P:-1s}}\nsinks: {s: {kind: fake, url: u, allow: [a, b],\n"
        "  headers: {x: y}, retry: {policy: list, delays: [1s]}}}\nroutes: [{topic: a, sink: s, schema: schema.json}]\nbad: 1\n";
    char path[128];
    snprintf(path, sizeof path, "%s/schema.json", fx->folder);
    fx_write(path, "{\"type\": \"object\"}", 18, 0600);
    fx_write(fx->path, text, strlen(text), 0600);
    bool failed = true;
    for (size_t n = 0; failed; n++) {
        struct ob_config *config;
        struct ob_config_report report;
        ob_fail_alloc(n);
        enum outbox_code code = ob_config_load(&fx->in, &config, &report);
        assert_true(code == OUTBOX_CONFIG || code == OUTBOX_NOMEM);
        assert_null(config);
        ob_config_report_fini(&report);
        failed = ob_fail_alloc_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FX_TEST(defaults),
        FX_TEST(all_kinds),
        FX_TEST(patience_of_an_adapter),
        FX_TEST(precedence),
        FX_TEST(patience_of_a_route),
        FX_TEST(every_variable),
        FX_TEST(references),
        FX_TEST(dollar_signs),
        FX_TEST(secrets),
        FX_TEST(stores),
        FX_TEST(adapter_options),
        FX_TEST(loose_adapter),
        FX_TEST(differences),
        FX_TEST(sample),
        FX_TEST(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
