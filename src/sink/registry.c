/* registry.c - the table of adapters; see registry.h. */
#include "sink/registry.h"

#include "sink_have.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define OB_SINK_BUILT(name) extern const struct outbox_sink_ops ob_sink_##name;
#define OB_SINK_MISSING(name, package)
OB_SINK_TABLE
#undef OB_SINK_BUILT
#undef OB_SINK_MISSING

static const struct outbox_sink_ops *const built[] = {
#define OB_SINK_BUILT(name) &ob_sink_##name,
#define OB_SINK_MISSING(name, package)
    OB_SINK_TABLE
#undef OB_SINK_BUILT
#undef OB_SINK_MISSING
        NULL,
};

static const struct {
    const char *kind, *package;
} missing[] = {
#define OB_SINK_BUILT(name)
#define OB_SINK_MISSING(name, package) {#name, package},
    OB_SINK_TABLE
#undef OB_SINK_BUILT
#undef OB_SINK_MISSING
    {NULL, NULL},
};

const struct outbox_sink_ops *ob_sink_at(size_t i)
{
    return i < sizeof built / sizeof built[0] ? built[i] : NULL;
}

const struct outbox_sink_ops *ob_sink_find(const char *kind)
{
    for (size_t i = 0; kind && built[i]; i++)
        if (strcmp(built[i]->kind, kind) == 0)
            return built[i];
    return NULL;
}

const char *ob_sink_missing(const char *kind)
{
    for (size_t i = 0; kind && missing[i].kind; i++)
        if (strcmp(missing[i].kind, kind) == 0)
            return missing[i].package;
    return NULL;
}

const char *ob_sink_meant(const char *word)
{
    static const struct {
        const char *kind, *words;
    } others[] = {
        {"http", " webhook webhooks https rest api post curl standard-webhooks "},
        {"amqp", " rabbitmq rabbit amqps lapin "},
        {"smtp", " email e-mail mail mailer smtps sendmail ses "},
        {"kafka", " redpanda confluent msk "},
        {"redis", " redis-streams redis_streams redis-stream valkey "},
        {"nats", " jetstream nats-jetstream nats_jetstream "},
        {"mqtt", " mosquitto mqtts "},
        {"exec", " command shell script process cmd "},
        {"stdout", " console print screen log stderr "},
        {"file", " jsonl ndjson "},
        {"slack", " slack_webhook slack-webhook "},
        {"null", " none noop discard devnull blackhole "},
        {"whatsapp", " wa whats_app meta "},
        {"telegram", " tg telegram_bot telegram-bot "},
    };
    char wanted[40];
    if (strlen(word) + 3 > sizeof wanted || strchr(word, ' '))
        return NULL;
    snprintf(wanted, sizeof wanted, " %s ", word);
    for (char *c = wanted; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    for (size_t i = 0; built[i]; i++)
        if (strncmp(wanted + 1, built[i]->kind, strlen(word)) == 0 && !built[i]->kind[strlen(word)])
            return built[i]->kind;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strstr(others[i].words, wanted) && (ob_sink_find(others[i].kind) || ob_sink_missing(others[i].kind)))
            return others[i].kind;
    return NULL;
}
