/* slack.c - messages to Slack: by an incoming webhook, whose address is the secret and decides the channel, or by
 * chat.postMessage with a token. See chat.h.
 *
 * An answer of chat.postMessage is 200 whatever happened: `ok` and `error` decide. A webhook answers with a bare word. */
#include "base/error.h"
#include "sink/chat/chat.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MOST = 40000, BLOCKS_MOST = 50, SECTION_MOST = 3000, WORD_MOST = 48 };

struct slack {
    outbox_sink chat;
    bool webhook, mrkdwn, metadata;
};

extern const struct outbox_sink_ops ob_sink_slack;

static const struct outbox_sink_setting settings[] = {
    {"token", OUTBOX_OPTION_TEXT, .secret = true, .doc = "bot token with the scope chat:write: xoxb-..."},
    {"webhook", OUTBOX_OPTION_TEXT, .secret = true, .doc = "URL of an incoming webhook, instead of a token"},
    {"channel", OUTBOX_OPTION_TEXT, .doc = "default recipient: a channel id such as C024BE91L; a webhook has its own"},
    {"mrkdwn", OUTBOX_OPTION_BOOL, "false",
     .doc =
         "the text is Slack mrkdwn and sent unchanged; template values are escaped. Off: the text is shown literally"},
    {"metadata", OUTBOX_OPTION_BOOL, "true",
     .doc = "with a token: attach the message's id as metadata `outbox`, visible in the channel's history"},
    {"pace", OUTBOX_OPTION_DURATION, "1s", .least = 0, .most = 3600000000,
     .doc = "least time between two messages to one channel; 0s: no limit"},
    {"pace_burst", OUTBOX_OPTION_INT, "1", .least = 1, .most = 1000,
     .doc = "burst: messages to one channel that may "
            "go at once"},
    {"url", OUTBOX_OPTION_TEXT, "https://slack.com/api", .doc = "base URL of the API"},
    OB_CHAT_SETTINGS,
    {NULL},
};

static const struct slack *slack_of(const outbox_sink *sink)
{
    return (const struct slack *)(const void *)sink;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static enum outbox_code open_webhook(outbox_sink *sink, const struct ob_options *options, struct outbox_error *err)
{
    enum outbox_code code = ob_chat_keep_base(sink, options, "webhook", &sink->url, err);
    if (code)
        return code;
    /* What is secret in it is its path. */
    const char *host = strstr(sink->url, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;
    sink->secrets[0] = sink->url;
    sink->secrets[1] = path;
    sink->placed = true;
    return OUTBOX_OK;
}

static enum outbox_code open_api(outbox_sink *sink, const struct ob_options *options, struct outbox_error *err)
{
    const char *base = NULL, *token;
    enum outbox_code code = ob_chat_keep_base(sink, options, "url", &base, err);
    if (!code)
        code = ob_chat_keep_token(sink, options, true, &token, err);
    if (!code)
        code = ob_chat_keep(sink, options, "channel", false, &sink->to, err);
    if (code)
        return code;
    sink->url = ob_chat_join(sink, base, "/chat.postMessage");
    sink->ping_url = ob_chat_join(sink, base, "/auth.test");
    return sink->url && sink->ping_url ? OUTBOX_OK : ob_error_nomem(err);
}

static enum outbox_code slack_read(outbox_sink *sink, const struct ob_options *options, struct outbox_error *err)
{
    struct slack *slack = (struct slack *)(void *)sink;
    const char *webhook = ob_option_text(options, "webhook"), *token = ob_option_text(options, "token");
    slack->webhook = webhook && *webhook;
    slack->mrkdwn = ob_option_bool(options, "mrkdwn");
    slack->metadata = ob_option_bool(options, "metadata") && !slack->webhook;
    if (slack->webhook == (token && *token))
        return ob_error_set(err, OUTBOX_INVALID, "set token or webhook, not both");
    ob_rate_init(&sink->rate, 1, ob_option_int(options, "pace"), ob_option_int(options, "pace_burst"));
    enum outbox_code code = slack->webhook ? open_webhook(sink, options, err) : open_api(sink, options, err);
    if (!code)
        code = ob_chat_keep_templates(sink, options, slack->mrkdwn ? OB_ESCAPE_SLACK : OB_ESCAPE_NONE, err);
    return code;
}

/* ---- the document ------------------------------------------------------------------------------------------------ */

/* An id, or the name of a channel or of a person with its sign. */
static bool slack_admit(const outbox_sink *sink, const char *given, char to[OB_CHAT_TO])
{
    (void)sink;
    size_t len = strlen(given);
    for (const char *at = given; *at; at++)
        if (*at > 0 && *at <= ' ')
            return false;
    if (!len || len >= OB_CHAT_TO || strpbrk(given, "\x7f,\"<>"))
        return false;
    memcpy(to, given, len + 1);
    return true;
}

static json_t *plain(const char *text)
{
    struct ob_buf buf = OB_BUF_INIT;
    ob_escape_slack(&buf, text, strlen(text));
    json_t *string = ob_buf_ok(&buf) ? json_string(ob_buf_text(&buf)) : NULL;
    ob_buf_fini(&buf);
    return string;
}

static bool slack_wrap(const outbox_sink *sink, json_t *body, const char *text)
{
    const struct slack *slack = slack_of(sink);
    if (text && json_object_set_new(body, "text", slack->mrkdwn ? json_string(text) : plain(text)) != 0)
        return false;
    return !text || json_object_set_new(body, "mrkdwn", json_boolean(slack->mrkdwn)) == 0;
}

static bool slack_mark(const outbox_sink *sink, json_t *body, const char *id)
{
    if (!slack_of(sink)->metadata || json_object_get(body, "metadata"))
        return true;
    json_t *metadata = json_pack("{s:s, s:{s:s}}", "event_type", "outbox", "event_payload", "id", id);
    return json_object_set_new(body, "metadata", metadata) == 0;
}

static bool slack_address(const outbox_sink *sink, json_t *body, const char *to)
{
    (void)sink;
    return json_object_set_new(body, "channel", json_string(to)) == 0;
}

static const char *slack_check(const outbox_sink *sink, const json_t *body, const char **why)
{
    (void)sink;
    const json_t *blocks = json_object_get(body, "blocks"), *block;
    const char *text = json_string_value(json_object_get(body, "text"));
    size_t i;
    *why = "the payload has no text";
    if ((!text || !*text) && !json_array_size(blocks) && !json_array_size(json_object_get(body, "attachments")))
        return "no_text";
    *why = "the text has more than 40000 characters";
    if (text && ob_chat_characters(text) > TEXT_MOST)
        return "msg_too_long";
    *why = "there are more than 50 blocks";
    if (json_array_size(blocks) > BLOCKS_MOST)
        return "invalid_blocks";
    *why = "the text of a section has more than 3000 characters";
    json_array_foreach (blocks, i, block) {
        const char *type = json_string_value(json_object_get(block, "type"));
        text = json_string_value(json_object_get(json_object_get(block, "text"), "text"));
        if (type && text && strcmp(type, "section") == 0 && ob_chat_characters(text) > SECTION_MOST)
            return "invalid_blocks";
    }
    return NULL;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

enum reach { MESSAGE, CHANNEL, ACCOUNT };

struct word {
    const char *text;
    enum outbox_sink_outcome outcome;
    enum reach reach;
};

/* If the channel does not exist, a message that named it is dead; the sink's own must be fixed by an operator. */
static const struct word words[] = {
    {"channel_not_found", OUTBOX_SINK_TERMINAL, CHANNEL},
    {"user_not_found", OUTBOX_SINK_TERMINAL, CHANNEL},
    {"not_in_channel", OUTBOX_SINK_BLOCKED, CHANNEL},
    {"is_archived", OUTBOX_SINK_BLOCKED, CHANNEL},
    {"channel_is_archived", OUTBOX_SINK_BLOCKED, CHANNEL},
    {"restricted_action", OUTBOX_SINK_BLOCKED, CHANNEL},
    {"restricted_action_read_only_channel", OUTBOX_SINK_BLOCKED, CHANNEL},
    {"restricted_action_thread_only_channel", OUTBOX_SINK_BLOCKED, CHANNEL},
    {"action_prohibited", OUTBOX_SINK_BLOCKED, CHANNEL},
    {"posting_to_general_channel_denied", OUTBOX_SINK_BLOCKED, CHANNEL},
    {"invalid_auth", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"not_authed", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"token_revoked", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"token_expired", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"account_inactive", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"missing_scope", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"not_allowed_token_type", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"no_permission", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"access_denied", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"team_access_not_granted", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"org_login_required", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"no_service", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"no_team", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"team_disabled", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"invalid_token", OUTBOX_SINK_BLOCKED, ACCOUNT},
    {"msg_too_long", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"no_text", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"invalid_blocks", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"invalid_blocks_format", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"msg_blocks_too_long", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"invalid_attachments", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"too_many_attachments", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"invalid_arguments", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"invalid_payload", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"invalid_json", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"json_not_object", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"invalid_charset", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"metadata_too_large", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"duplicate_message_not_found", OUTBOX_SINK_TERMINAL, MESSAGE},
    {"ratelimited", OUTBOX_SINK_LIMITED, CHANNEL},
    {"rate_limited", OUTBOX_SINK_LIMITED, CHANNEL},
    {"message_limit_exceeded", OUTBOX_SINK_LIMITED, CHANNEL},
    {"rollup_error", OUTBOX_SINK_RETRY, MESSAGE},
    {"service_unavailable", OUTBOX_SINK_RETRY, MESSAGE},
    {"request_timeout", OUTBOX_SINK_RETRY, MESSAGE},
    {"team_added_to_org", OUTBOX_SINK_RETRY, MESSAGE},
    /* Slack documents that with these errors part of the request may have been done. */
    {"fatal_error", OUTBOX_SINK_UNKNOWN, MESSAGE},
    {"internal_error", OUTBOX_SINK_UNKNOWN, MESSAGE},
};

static const struct word *word_of(const char *text)
{
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].text, text) == 0)
            return &words[i];
    return NULL;
}

/* False when the word is none of ours. Of a server error it only adds what the status does not say: that it may have been
 * done, or, of a webhook, that it was not. */
static bool judge_word(struct ob_chat_call *call, int status, const char *text, struct outbox_verdict *verdict)
{
    const struct word *word = word_of(text);
    if (!word || (status >= 500 && word->outcome != OUTBOX_SINK_UNKNOWN && strcmp(text, "rollup_error") != 0))
        return false;
    enum outbox_sink_scope scope = word->reach == CHANNEL   ? ob_chat_scope_of_recipient(call)
                                   : word->reach == ACCOUNT ? OUTBOX_SCOPE_SINK
                                                            : OUTBOX_SCOPE_MESSAGE;
    enum outbox_sink_outcome outcome = word->outcome;
    if (word->reach == CHANNEL && outcome == OUTBOX_SINK_TERMINAL && !call->own_to)
        outcome = OUTBOX_SINK_BLOCKED;
    if (outcome == OUTBOX_SINK_LIMITED)
        ob_chat_limit(call, verdict, 0, word->text);
    else
        ob_chat_end(call, verdict, outcome, scope, word->text);
    return true;
}

static void judge_webhook(struct ob_chat_call *call, int status, struct outbox_verdict *verdict)
{
    char word[WORD_MOST];
    size_t len = call->answer.len;
    while (len && strchr("\r\n \t", call->answer.data[len - 1]))
        len--;
    snprintf(word, sizeof word, "%.*s", len < sizeof word ? (int)len : 0, ob_buf_text(&call->answer));
    if (status == 200 && strcmp(word, "ok") == 0) {
        ob_chat_accept(call, verdict, NULL);
        return;
    }
    ob_chat_quote(call, word);
    if (status == 429)
        ob_chat_limit(call, verdict, 0, "ratelimited");
    else
        (void)judge_word(call, status, word, verdict);
}

static void slack_judge(struct ob_chat_call *call, int status, const json_t *reply, struct outbox_verdict *verdict)
{
    if (slack_of(call->sink)->webhook) {
        judge_webhook(call, status, verdict);
        return;
    }
    const char *error = json_string_value(json_object_get(reply, "error"));
    const char *ts = json_string_value(json_object_get(reply, "ts"));
    bool ok = json_is_true(json_object_get(reply, "ok"));
    if (status == 200 && ok && (ts || call->ping)) {
        ob_chat_accept(call, verdict, ts);
        return;
    }
    ob_chat_quote(call, error);
    ob_chat_quote(call, json_string_value(json_object_get(reply, "needed")));
    const json_t *messages = json_object_get(json_object_get(reply, "response_metadata"), "messages");
    ob_chat_quote(call, json_string_value(json_array_get(messages, 0)));
    if (status == 429)
        ob_chat_limit(call, verdict, 0, "ratelimited");
    else if (!judge_word(call, status, error, verdict) && status == 200 && error && !ok)
        ob_chat_end(call, verdict, OUTBOX_SINK_RETRY, OUTBOX_SCOPE_MESSAGE, "error");
}

static const struct ob_chat_provider provider = {
    .kind = "slack",
    .settings = settings,
    .size = sizeof(struct slack),
    .open = slack_read,
    .admit = slack_admit,
    .wrap = slack_wrap,
    .mark = slack_mark,
    .address = slack_address,
    .check = slack_check,
    .judge = slack_judge,
};

static enum outbox_code slack_open(const struct outbox_sink_option *options, size_t count,
                                   const struct outbox_sink_host *host, outbox_sink **sink, struct outbox_error *err)
{
    return ob_chat_open(&provider, options, count, host, sink, err);
}

const struct outbox_sink_ops ob_sink_slack = {
    OB_CHAT_OPS,        .kind = "slack",      .also = "slack_webhook slack-webhook",
    .open = slack_open, .settings = settings, .summary = "messages to Slack, by incoming webhook or chat.postMessage",
    .protocol = "http", .peer = "url",
};
