/* telegram.c - messages of a bot to Telegram: sendMessage of the Bot API. See chat.h.
 *
 * The token is part of the path. `ok`, the status and `parameters` decide; descriptions are for humans, and error_code is
 * documented as subject to change. */
#include "base/error.h"
#include "sink/chat/chat.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 4096 };

struct telegram {
    outbox_sink chat;
    const char *parse_mode; /* NULL: plain */
    struct ob_rate group;   /* of messages to a group */
};

extern const struct outbox_sink_ops ob_sink_telegram;

static const struct outbox_sink_setting settings[] = {
    {"token", OUTBOX_OPTION_TEXT, .required = true, .secret = true, .doc = "bot token: 123456:ABC-DEF..."},
    {"chat", OUTBOX_OPTION_TEXT, .doc = "default recipient: a chat id, or @channel"},
    {"parse_mode", OUTBOX_OPTION_ENUM, "none", "none HTML MarkdownV2",
     .doc = "markup of the text, which is sent unchanged; template values are escaped for it"},
    {"pace", OUTBOX_OPTION_DURATION, "1s", .least = 0, .most = 3600000000,
     .doc = "least time between two messages to one person; 0s: no limit"},
    {"group_pace", OUTBOX_OPTION_DURATION, "3s", .least = 0, .most = 3600000000,
     .doc = "the same for a group or a channel; Telegram allows 20 a minute"},
    {"pace_burst", OUTBOX_OPTION_INT, "1", .least = 1, .most = 1000,
     .doc = "burst: messages to one chat that may go "
            "at once"},
    {"overall", OUTBOX_OPTION_INT, "30", .least = 0, .most = 100000,
     .doc = "most messages a second to all chats together; 0: no limit"},
    {"url", OUTBOX_OPTION_TEXT, "https://api.telegram.org",
     .doc = "base URL of the API, or of your own Bot API "
            "server"},
    OB_CHAT_SETTINGS,
    {NULL},
};

static const struct telegram *telegram_of(const outbox_sink *sink)
{
    return (const struct telegram *)(const void *)sink;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* It becomes a part of the path: digits, a colon, letters. */
static bool token_ok(const char *token)
{
    size_t digits = strspn(token, "0123456789");
    const char *rest = token + digits + 1;
    return digits && token[digits] == ':' && *rest &&
           !rest[strspn(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")];
}

static enum ob_escape read_mode(struct telegram *telegram, const struct ob_options *options)
{
    const char *mode = ob_option_string(options, "parse_mode");
    bool html = strcmp(mode, "HTML") == 0, markdown = strcmp(mode, "MarkdownV2") == 0;
    telegram->parse_mode = html ? "HTML" : markdown ? "MarkdownV2" : NULL;
    return html ? OB_ESCAPE_HTML : markdown ? OB_ESCAPE_MARKDOWN : OB_ESCAPE_NONE;
}

static enum outbox_code telegram_read(outbox_sink *sink, const struct ob_options *options, struct outbox_error *err)
{
    struct telegram *telegram = (struct telegram *)(void *)sink;
    const char *base = NULL, *token = NULL;
    int64_t burst = ob_option_int(options, "pace_burst");
    ob_rate_init(&sink->rate, 1, ob_option_int(options, "pace"), burst);
    ob_rate_init(&telegram->group, 1, ob_option_int(options, "group_pace"), burst);
    ob_chat_overall(sink, ob_option_int(options, "overall"));
    enum outbox_code code = ob_chat_keep_base(sink, options, "url", &base, err);
    if (!code)
        code = ob_chat_keep_token(sink, options, false, &token, err);
    if (!code && !token_ok(token))
        code = ob_error_set(err, OUTBOX_INVALID, "token is not a bot token: 123456:ABC-DEF...");
    if (!code)
        code = ob_chat_keep(sink, options, "chat", false, &sink->to, err);
    if (!code)
        code = ob_chat_keep_templates(sink, options, read_mode(telegram, options), err);
    if (code)
        return code;
    sink->url = ob_chat_join(sink, base, "/bot", token, "/sendMessage");
    sink->ping_url = sink->to ? ob_chat_join(sink, base, "/bot", token, "/getChat?chat_id=", sink->to)
                              : ob_chat_join(sink, base, "/bot", token, "/getMe");
    return sink->url && sink->ping_url ? OUTBOX_OK : ob_error_nomem(err);
}

/* ---- the document ------------------------------------------------------------------------------------------------ */

static bool telegram_admit(const outbox_sink *sink, const char *given, char to[OB_CHAT_TO])
{
    (void)sink;
    size_t len = strlen(given);
    bool name = given[0] == '@' && len >= 5 && len <= 65 &&
                !given[1 + strspn(given + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")];
    if (!name && !ob_chat_digits(given + (given[0] == '-'), 1, 18))
        return false;
    memcpy(to, given, len + 1);
    return true;
}

/* Groups, supergroups and channels have negative ids. */
static const struct ob_rate *telegram_rate(const outbox_sink *sink, const char *to)
{
    return to[0] == '-' || to[0] == '@' ? &telegram_of(sink)->group : &sink->rate;
}

static bool telegram_wrap(const outbox_sink *sink, json_t *body, const char *text)
{
    const char *mode = telegram_of(sink)->parse_mode;
    if (text && json_object_set_new(body, "text", json_string(text)) != 0)
        return false;
    return !mode || !text || json_object_set_new(body, "parse_mode", json_string(mode)) == 0;
}

static bool telegram_address(const outbox_sink *sink, json_t *body, const char *to)
{
    (void)sink;
    json_t *id = to[0] == '@' ? json_string(to) : json_integer(strtoll(to, NULL, 10));
    return json_object_set_new(body, "chat_id", id) == 0;
}

/* The limit applies to the text without markup: we know its length only for plain text. */
static const char *telegram_check(const outbox_sink *sink, const json_t *body, const char **why)
{
    (void)sink;
    const char *text = json_string_value(json_object_get(body, "text"));
    *why = "the payload has no text";
    if (!text || !*text)
        return "no_text";
    *why = "the text has more than 4096 characters";
    bool marked = json_object_get(body, "parse_mode") || json_object_get(body, "entities");
    return !marked && ob_chat_characters(text) > TEXT_MOST ? "too_long" : NULL;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static bool judge_parameters(struct ob_chat_call *call, const json_t *reply, struct outbox_verdict *verdict)
{
    const json_t *parameters = json_object_get(reply, "parameters");
    const json_t *moved = json_object_get(parameters, "migrate_to_chat_id");
    const json_t *after = json_object_get(parameters, "retry_after");
    if (json_is_integer(moved)) {
        ob_chat_end(call, verdict, OUTBOX_SINK_RETRY, OUTBOX_SCOPE_RECIPIENT, "migrated");
        snprintf(call->move_to, sizeof call->move_to, "%" JSON_INTEGER_FORMAT, json_integer_value(moved));
        call->moving = true;
        if (call->ping) {
            ob_chat_end(call, verdict, OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, "migrated");
            ob_chat_quote(call, ob_chat_join(call->sink, "write the new id into `chat`: ", call->move_to));
        }
        return true;
    }
    if (json_is_integer(after))
        ob_chat_limit(call, verdict, json_integer_value(after), "429");
    return json_is_integer(after);
}

static void judge_refusal(struct ob_chat_call *call, int status, struct outbox_verdict *verdict)
{
    char word[16];
    snprintf(word, sizeof word, "%d", status);
    if (status == 429)
        ob_chat_limit(call, verdict, 0, word);
    else if (status == 401 || status == 404)
        ob_chat_end(call, verdict, OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, word);
    else if (status == 403) /* blocked by the user, kicked, not a member, deactivated */
        ob_chat_end(call, verdict, call->own_to ? OUTBOX_SINK_TERMINAL : OUTBOX_SINK_BLOCKED,
                    ob_chat_scope_of_recipient(call), word);
    else if (status == 409)
        ob_chat_end(call, verdict, OUTBOX_SINK_RETRY, OUTBOX_SCOPE_MESSAGE, word);
    else if (status == 400 && call->ping) /* the sink's own chat: each message would end so */
        ob_chat_end(call, verdict, OUTBOX_SINK_BLOCKED, OUTBOX_SCOPE_SINK, word);
    else if (status >= 400 && status < 500)
        ob_chat_end(call, verdict, OUTBOX_SINK_TERMINAL, OUTBOX_SCOPE_MESSAGE, word);
    else if (status >= 500 && verdict->outcome != OUTBOX_SINK_LIMITED)
        verdict->outcome = OUTBOX_SINK_RETRY;
}

static void telegram_judge(struct ob_chat_call *call, int status, const json_t *reply, struct outbox_verdict *verdict)
{
    const json_t *ok = json_object_get(reply, "ok");
    const json_t *id = json_object_get(json_object_get(reply, "result"), "message_id");
    char reference[32] = "";
    if (json_is_integer(id))
        snprintf(reference, sizeof reference, "%" JSON_INTEGER_FORMAT, json_integer_value(id));
    if (status == 200 && json_is_true(ok) && (reference[0] || call->ping)) {
        ob_chat_accept(call, verdict, reference);
        return;
    }
    ob_chat_quote(call, json_string_value(json_object_get(reply, "description")));
    if (status < 300 && !json_is_false(ok))
        return;
    if (judge_parameters(call, reply, verdict))
        return;
    if (status < 300)
        status = (int)json_integer_value(json_object_get(reply, "error_code"));
    judge_refusal(call, status, verdict);
}

static const struct ob_chat_provider provider = {
    .kind = "telegram",
    .settings = settings,
    .size = sizeof(struct telegram),
    .open = telegram_read,
    .admit = telegram_admit,
    .wrap = telegram_wrap,
    .address = telegram_address,
    .check = telegram_check,
    .judge = telegram_judge,
    .rate = telegram_rate,
};

static enum outbox_code telegram_open(const struct outbox_sink_option *options, size_t count,
                                      const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    return ob_chat_open(&provider, options, count, host, sink, err);
}

const struct outbox_sink_ops ob_sink_telegram = {
    OB_CHAT_OPS,           .kind = "telegram",   .also = "tg telegram_bot telegram-bot",
    .open = telegram_open, .settings = settings, .summary = "messages to Telegram chats, sent by a bot",
    .protocol = "http",    .peer = "url",
};
