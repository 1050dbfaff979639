/* config_fixture.h - a configuration from a text, with an environment and a fake adapter. */
#ifndef OB_CONFIG_FIXTURE_H
#define OB_CONFIG_FIXTURE_H

#include "base/error.h"
#include "config/config.h"
#include "ob_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct outbox_sink_setting fake_settings[] = {
    {.name = "url", .type = OUTBOX_OPTION_TEXT, .required = true, .doc = "where it goes", .also = "hook hook_url"},
    {.name = "secret", .type = OUTBOX_OPTION_TEXT, .secret = true},
    {.name = "wait", .type = OUTBOX_OPTION_DURATION, .fallback = "2s", .least = 1000, .most = 60000000},
    {.name = "most", .type = OUTBOX_OPTION_SIZE, .fallback = "64KiB"},
    {.name = "mode", .type = OUTBOX_OPTION_ENUM, .fallback = "binary", .choices = "binary plain"},
    {.name = "verify", .type = OUTBOX_OPTION_BOOL, .fallback = "true"},
    {.name = "tls.ca", .type = OUTBOX_OPTION_TEXT},
    {.name = "allow", .type = OUTBOX_OPTION_LIST},
    {.name = "headers", .type = OUTBOX_OPTION_MAP},
    {.name = NULL},
};
static inline void fake_check(const struct outbox_sink_check *check)
{
    for (size_t i = 0; i < check->count; i++)
        if (strcmp(check->options[i].name, "wait") == 0 &&
            strtoll(check->options[i].value, NULL, 10) > check->timeout_us)
            check->problem(check->ctx, true, "wait", "is above timeout");
    if (check->after_cap_us < 60000000)
        check->problem(check->ctx, false, "retry.after_cap", "is short");
}
static const struct outbox_sink_ops fake_ops = {OUTBOX_SINK_OPS_HEAD,      .kind = "fake",      .keeps_order = true,
                                                .settings = fake_settings, .also = "sham mock", .check = fake_check};
static const struct outbox_sink_ops loose_ops = {OUTBOX_SINK_OPS_HEAD, .kind = "null"};
static const struct outbox_sink_setting patient_settings[] = {
    {.name = "think", .type = OUTBOX_OPTION_DURATION, .fallback = "5m", .least = 1000000, .most = 3600000000},
    {.name = NULL},
};
static const struct outbox_sink_ops patient_ops = {OUTBOX_SINK_OPS_HEAD,         .kind = "patient",
                                                   .settings = patient_settings, .limit = "think",
                                                   .limit_margin_us = 10000000,  .patience_us = 7200000000};

static inline const struct outbox_sink_ops *fake_at(size_t i)
{
    return i == 0 ? &fake_ops : i == 1 ? &loose_ops : i == 2 ? &patient_ops : NULL;
}

static inline enum outbox_code fake_load(const char *kind, const char *library, const struct outbox_sink_ops **ops,
                                         struct outbox_error *err)
{
    (void)library;
    for (size_t i = 0; kind && fake_at(i); i++)
        if (strcmp(fake_at(i)->kind, kind) == 0) {
            *ops = fake_at(i);
            return OUTBOX_OK;
        }
    if (kind && strcmp(kind, "kafka") == 0)
        return ob_error_set(err, OUTBOX_UNSUPPORTED, "install librdkafka-dev");
    return ob_error_set(err, OUTBOX_INVALID, "unknown sink kind \"%s\"; the kinds are: fake, null", kind);
}

struct fixture {
    char folder[64], path[80];
    struct ob_config_input in;
    struct ob_config *config;
    struct ob_config_report report;
    enum outbox_code code;
    struct ob_buf said; /* all problems, a line each, without the folder */
};

static inline void fx_write(const char *path, const char *text, size_t len, mode_t mode)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static inline int fx_setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    if (!fx)
        return -1;
    snprintf(fx->folder, sizeof fx->folder, "/tmp/ob_config_XXXXXX");
    if (!mkdtemp(fx->folder))
        return -1;
    snprintf(fx->path, sizeof fx->path, "%s/o.yaml", fx->folder);
    fx->in = (struct ob_config_input){.path = fx->path, .load = fake_load, .at = fake_at};
    *state = fx;
    return 0;
}

static inline void fx_clear(struct fixture *fx)
{
    ob_config_free(fx->config);
    ob_config_report_fini(&fx->report);
    ob_buf_fini(&fx->said);
    fx->config = NULL;
}

static inline int fx_teardown(void **state)
{
    struct fixture *fx = *state;
    char path[128];
    static const char *const names[] = {"o.yaml", "secret", "schema.json", "a.db", "b.db"};
    fx_clear(fx);
    for (size_t i = 0; i < OB_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", fx->folder, names[i]);
        unlink(path);
    }
    int status = rmdir(fx->folder);
    free(fx);
    return status;
}

static inline void fx_load(struct fixture *fx, const char *text)
{
    fx_clear(fx);
    if (text)
        fx_write(fx->path, text, strlen(text), 0600);
    fx->code = ob_config_load(&fx->in, &fx->config, &fx->report);
    for (const struct ob_config_problem *at = fx->report.first; at; at = at->next) {
        struct ob_buf line = OB_BUF_INIT;
        ob_config_problem_text(at, &line);
        const char *shown = ob_buf_text(&line);
        size_t len = strlen(fx->folder);
        ob_buf_printf(&fx->said, "%s\n", strncmp(shown, fx->folder, len) == 0 ? shown + len + 1 : shown);
        ob_buf_fini(&line);
    }
    assert_true((fx->code == OUTBOX_OK) == (fx->config != NULL));
    assert_true((fx->code == OUTBOX_CONFIG) == (fx->report.errors > 0));
}

/* It is good, warnings aside. */
static inline const struct ob_config *fx_good(struct fixture *fx, const char *text)
{
    fx_load(fx, text);
    if (fx->code)
        fail_msg("refused:\n%s", ob_buf_text(&fx->said));
    return fx->config;
}

/* A problem that begins with this. */
static inline void fx_says(const struct fixture *fx, const char *line)
{
    const char *said = ob_buf_text(&fx->said);
    for (const char *at = said; (at = strstr(at, line)); at++)
        if (at == said || at[-1] == '\n')
            return;
    fail_msg("expected: %s\nsaid:\n%s", line, said);
}

static inline const struct ob_config_value *fx_value(const struct ob_config *config, const char *name)
{
    for (size_t i = 0; i < config->value_count; i++)
        if (strcmp(config->values[i].name, name) == 0)
            return &config->values[i];
    fail_msg("no value %s", name);
    return NULL;
}

/* What the adapter of the first sink would get. */
static inline const char *fx_option(const struct ob_config *config, const char *name)
{
    for (size_t i = 0; i < config->sinks[0].option_count; i++)
        if (strcmp(config->sinks[0].options[i].name, name) == 0)
            return config->sinks[0].options[i].value;
    return NULL;
}

#define FX_TEST(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)

#endif
