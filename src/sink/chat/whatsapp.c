/* whatsapp.c - messages to WhatsApp by the Cloud API of Meta. See chat.h.
 *
 * error.code decides; statuses, subcodes and titles vary. 200 means that Meta has the message: a later callback, with our
 * id in biz_opaque_callback_data, reports whether it reached the phone. */
#include "base/error.h"
#include "base/value.h"
#include "sink/chat/chat.h"
#include "sink/common/check.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MOST = 4096 };

extern const struct outbox_sink_ops ob_sink_whatsapp;

static const struct outbox_sink_setting settings[] = {
    {"token", OUTBOX_OPTION_TEXT, .required = true, .secret = true,
     .doc = "access token with the permission whatsapp_business_messaging"},
    {"phone_number_id", OUTBOX_OPTION_TEXT, .required = true,
     .doc = "id of the sending phone number (not the number "
            "itself)"},
    {"to", OUTBOX_OPTION_TEXT, .doc = "default recipient: a phone number"},
    {"pace", OUTBOX_OPTION_DURATION, "6s", .least = 0, .most = 3600000000,
     .doc = "least time between two messages to one number, once `pace_burst` is used up; 0s: no limit"},
    {"pace_burst", OUTBOX_OPTION_INT, "45", .least = 1, .most = 1000,
     .doc = "burst: messages to one number that may "
            "go at once"},
    {"overall", OUTBOX_OPTION_INT, "80", .least = 0, .most = 100000,
     .doc = "most messages a second to all numbers together; 1000 after an upgrade, 20 in coexistence; 0: no limit"},
    {"version", OUTBOX_OPTION_TEXT, "v23.0", .doc = "version of the API"},
    {"url", OUTBOX_OPTION_TEXT, "https://graph.facebook.com", .doc = "base URL of the API"},
    OB_CHAT_SETTINGS,
    {NULL},
};

/* Meta asks for a day when somebody has had enough marketing (131049). */
#define PATIENCE_US 86400000000LL

static void whatsapp_settings_check(const struct outbox_sink_check *check)
{
    char cap[OB_VALUE_TEXT];
    if (check->after_cap_us >= PATIENCE_US)
        return;
    ob_value_duration_text(check->after_cap_us, cap);
    ob_check_problem(check, false, "retry.after_cap",
                     "is %s, but Meta asks for 24h when somebody has had enough marketing (131049): set it to 24h",
                     cap);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static enum outbox_code whatsapp_read(outbox_sink *sink, const struct ob_options *options, struct outbox_error *err)
{
    const char *base = NULL, *token, *number = "", *version = "";
    ob_rate_init(&sink->rate, 1, ob_option_int(options, "pace"), ob_option_int(options, "pace_burst"));
    ob_chat_overall(sink, ob_option_int(options, "overall"));
    enum outbox_code code = ob_chat_keep_base(sink, options, "url", &base, err);
    if (!code)
        code = ob_chat_keep_token(sink, options, true, &token, err);
    if (!code)
        code = ob_chat_keep(sink, options, "phone_number_id", true, &number, err);
    if (!code)
        code = ob_chat_keep(sink, options, "version", true, &version, err);
    if (!code && !ob_chat_digits(number, 1, 32))
        code = ob_error_set(err, OUTBOX_INVALID, "phone_number_id must be digits");
    if (!code && (version[0] != 'v' || version[1 + strspn(version + 1, "0123456789.")]))
        code = ob_error_set(err, OUTBOX_INVALID, "version must be like v23.0");
    if (!code)
        code = ob_chat_keep(sink, options, "to", false, &sink->to, err);
    if (!code)
        code = ob_chat_keep_templates(sink, options, OB_ESCAPE_NONE, err);
    if (code)
        return code;
    sink->url = ob_chat_join(sink, base, "/", version, "/", number, "/messages");
    sink->ping_url = ob_chat_join(sink, base, "/", version, "/", number, "?fields=id");
    return sink->url && sink->ping_url ? OUTBOX_OK : ob_error_nomem(err);
}

/* ---- the document ------------------------------------------------------------------------------------------------ */

/* A number as people write it (+49 170 123-4567), as its digits. */
static bool whatsapp_admit(const outbox_sink *sink, const char *given, char to[OB_CHAT_TO])
{
    (void)sink;
    size_t len = 0;
    given += *given == '+';
    for (; *given; given++) {
        if (strchr(" -().", *given))
            continue;
        if (len + 1 >= OB_CHAT_TO)
            return false;
        to[len++] = *given;
    }
    to[len] = '\0';
    return ob_chat_digits(to, 5, 15);
}

static bool whatsapp_wrap(const outbox_sink *sink, json_t *body, const char *text)
{
    (void)sink;
    if (json_object_get(body, "type") || !text) /* its own kind of message, such as a template */
        return true;
    return json_object_set_new(body, "type", json_string("text")) == 0 &&
           json_object_set_new(body, "text", json_pack("{s:s}", "body", text)) == 0;
}

static bool whatsapp_mark(const outbox_sink *sink, json_t *body, const char *id)
{
    (void)sink;
    return json_object_get(body, "biz_opaque_callback_data") ||
           json_object_set_new(body, "biz_opaque_callback_data", json_string(id)) == 0;
}

static bool whatsapp_address(const outbox_sink *sink, json_t *body, const char *to)
{
    (void)sink;
    return json_object_set_new(body, "messaging_product", json_string("whatsapp")) == 0 &&
           json_object_set_new(body, "to", json_string(to)) == 0;
}

static const char *whatsapp_check(const outbox_sink *sink, const json_t *body, const char **why)
{
    (void)sink;
    const char *type = json_string_value(json_object_get(body, "type"));
    const char *text = json_string_value(json_object_get(json_object_get(body, "text"), "body"));
    *why = "the payload has no text";
    if (type && strcmp(type, "text") != 0)
        return NULL;
    if (!text || !*text)
        return "no_text";
    *why = "the text has more than 4096 characters";
    return ob_chat_characters(text) > TEXT_MOST ? "too_long" : NULL;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

enum { HOUR = 3600, DAY = 24 * HOUR };

struct rule {
    int first, last; /* error.code */
    enum outbox_sink_outcome outcome;
    enum outbox_sink_scope scope;
    int wait_s; /* 0: it does not say */
};

#define LIMITED OUTBOX_SINK_LIMITED
#define RETRY OUTBOX_SINK_RETRY
#define BLOCKED OUTBOX_SINK_BLOCKED
#define TERMINAL OUTBOX_SINK_TERMINAL
#define NUMBER OUTBOX_SCOPE_SINK
#define PERSON OUTBOX_SCOPE_RECIPIENT
#define ONE OUTBOX_SCOPE_MESSAGE
static const struct rule rules[] = {
    {4, 4, LIMITED, NUMBER, 60},             /* calls of the app, in an hour */
    {613, 613, LIMITED, NUMBER, 60},         /* calls */
    {80007, 80007, LIMITED, NUMBER, 60},     /* calls of the account, in an hour */
    {130429, 130429, LIMITED, NUMBER, 1},    /* messages of this number in a second */
    {131048, 131048, LIMITED, NUMBER, HOUR}, /* spam: the number must stop */
    {131056, 131056, LIMITED, PERSON, 1},    /* messages to this person; the wait grows, see below */
    {131049, 131049, LIMITED, ONE, DAY},     /* Meta spares this person more marketing; other messages pass */
    {1, 2, RETRY, ONE, 0},                   /* unknown; service unavailable */
    {131000, 131000, RETRY, ONE, 0},         /* something went wrong */
    {131016, 131016, RETRY, ONE, 0},         /* service unavailable */
    {131057, 131057, RETRY, ONE, 60},        /* the account is in maintenance, for a minute at most */
    {133004, 133004, RETRY, ONE, 0},         /* server temporarily unavailable */
    {0, 0, BLOCKED, NUMBER, 0},              /* authentication */
    {3, 3, BLOCKED, NUMBER, 0},              /* capability */
    {10, 10, BLOCKED, NUMBER, 0},            /* permission */
    {33, 33, BLOCKED, NUMBER, 0},            /* the number was deleted */
    {190, 190, BLOCKED, NUMBER, 0},          /* token expired */
    {200, 299, BLOCKED, NUMBER, 0},          /* permissions */
    {368, 368, BLOCKED, NUMBER, 0},          /* blocked for a breach of policy */
    {130497, 130497, BLOCKED, PERSON, 0},    /* may not write to this country */
    {131005, 131005, BLOCKED, NUMBER, 0},    /* access denied */
    {131031, 131031, BLOCKED, NUMBER, 0},    /* the account is locked */
    {131042, 131042, BLOCKED, NUMBER, 0},    /* payment */
    {131045, 131045, BLOCKED, NUMBER, 0},    /* the number's certificate */
    {133010, 133010, BLOCKED, NUMBER, 0},    /* the number is not registered */
    {100, 100, TERMINAL, ONE, 0},            /* a parameter */
    {131008, 131009, TERMINAL, ONE, 0},      /* a parameter is missing; its value is wrong */
    {131021, 131021, TERMINAL, PERSON, 0},   /* to ourselves */
    {131026, 131026, TERMINAL, PERSON, 0},   /* cannot be delivered to this number */
    {131047, 131047, TERMINAL, PERSON, 0},   /* 24 hours have passed: needs a template */
    {131050, 131053, TERMINAL, ONE, 0},      /* opted out; type; media */
    {130472, 130472, TERMINAL, PERSON, 0},   /* the person is part of an experiment */
    {132000, 132016, TERMINAL, ONE, 0},      /* a template: parameters, missing, too long, policy, format, paused */
};
#undef LIMITED
#undef RETRY
#undef BLOCKED
#undef TERMINAL
#undef NUMBER
#undef PERSON
#undef ONE

static const struct rule *rule_of(json_int_t code)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (code >= rules[i].first && code <= rules[i].last)
            return &rules[i];
    return NULL;
}

/* Meta asks for 4^n seconds, n counting the refusals in a row. */
static int pair_wait_s(struct ob_chat_call *call)
{
    struct ob_chat_peer *peer = ob_chat_peers_find(&call->sink->peers, call->to);
    int wait_s = 1;
    for (int i = 0; peer && i < peer->strikes && wait_s < HOUR; i++)
        wait_s *= 4;
    if (peer)
        peer->strikes++;
    return wait_s < HOUR ? wait_s : HOUR;
}

static void whatsapp_judge(struct ob_chat_call *call, int status, const json_t *reply, struct outbox_verdict *verdict)
{
    const json_t *error = json_object_get(reply, "error"), *number = json_object_get(error, "code");
    const json_t *message = json_array_get(json_object_get(reply, "messages"), 0);
    const char *id = json_string_value(json_object_get(call->ping ? reply : message, "id"));
    if (status == 200 && id && !error) {
        ob_chat_accept(call, verdict, call->ping ? NULL : id);
        return;
    }
    ob_chat_quote(call, json_string_value(json_object_get(error, "message")));
    ob_chat_quote(call, json_string_value(json_object_get(json_object_get(error, "error_data"), "details")));
    const struct rule *rule = json_is_integer(number) ? rule_of(json_integer_value(number)) : NULL;
    if (!rule)
        return;
    char word[16];
    snprintf(word, sizeof word, "%d", (int)json_integer_value(number));
    int64_t wait_us = (rule->first == 131056 ? pair_wait_s(call) : rule->wait_s) * (int64_t)1000000;
    ob_chat_end(call, verdict, rule->outcome, rule->scope, word);
    if (wait_us > verdict->not_before_us && wait_us > 0)
        verdict->not_before_us = wait_us;
}

static const struct ob_chat_provider provider = {
    .kind = "whatsapp",
    .settings = settings,
    .size = sizeof(outbox_sink),
    .open = whatsapp_read,
    .admit = whatsapp_admit,
    .wrap = whatsapp_wrap,
    .mark = whatsapp_mark,
    .address = whatsapp_address,
    .check = whatsapp_check,
    .judge = whatsapp_judge,
};

static enum outbox_code whatsapp_open(const struct outbox_sink_option *options, size_t count,
                                      const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    return ob_chat_open(&provider, options, count, host, sink, err);
}

const struct outbox_sink_ops ob_sink_whatsapp = {
    OB_CHAT_OPS,
    .kind = "whatsapp",
    .also = "wa whats_app meta",
    .open = whatsapp_open,
    .settings = settings,
    .patience_us = PATIENCE_US,
    .check = whatsapp_settings_check,
    .summary = "messages to WhatsApp, through Meta's Cloud API",
    .protocol = "http",
    .peer = "url",
};
