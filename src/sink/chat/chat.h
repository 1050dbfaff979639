/* chat.h - what the sinks of chat services share: slack, telegram and whatsapp. Each is a JSON document posted over
 * HTTPS, answered by a JSON document that decides.
 *
 * A message becomes a document in one of three ways: a text (the payload's, or a template's) that the provider wraps; a
 * template of the provider's own JSON; or, with `raw`, the payload as it is. Whom it goes to is said by the message's
 * recipient or by the configuration, and written over whatever the document said.
 *
 * None of the receivers can tell a repetition: so nothing is ever sent twice here, and what was sent without an answer
 * is unknown. Tokens are in headers and paths: no text that leaves this sink holds a URL or a token.
 *
 * Thread: the loop's. It must not know where messages come from, nor when they are tried again. */
#ifndef OB_SINK_CHAT_CHAT_H
#define OB_SINK_CHAT_CHAT_H

#include "base/arena.h"
#include "base/buf.h"
#include "sink/chat/peer.h"
#include "sink/common/option.h"
#include "sink/common/template.h"
#include "sink/curl/option.h"
#include "sink/curl/tls.h"

#include <jansson.h>
#include <outbox/sink.h>

enum { OB_CHAT_CODE = 64, OB_CHAT_ANSWER_MOST = 1024 * 1024 };

struct ob_chat_call;
struct ob_chat_timer;

/* What differs between the services. */
struct ob_chat_provider {
    const char *kind; /* codes begin with it, and the field of a payload that holds more for this service */
    size_t size;      /* of the service's own struct, which begins with struct outbox_sink */
    const struct outbox_sink_setting *settings;
    /* Reads its own options; sets url, ping_url, to, rates and templates' escape. */
    enum outbox_code (*open)(outbox_sink *sink, const struct ob_options *options, struct outbox_error *err);
    /* The normal form of a recipient; false when it can be none. */
    bool (*admit)(const outbox_sink *sink, const char *given, char to[OB_CHAT_TO]);
    /* Wraps a text into the document, which may hold fields already; text is NULL when there is none. */
    bool (*wrap)(const outbox_sink *sink, json_t *body, const char *text);
    /* Writes the message's id into the document, whoever made that, unless the place is taken; NULL: there is none. */
    bool (*mark)(const outbox_sink *sink, json_t *body, const char *id);
    /* Writes the recipient into the document. */
    bool (*address)(const outbox_sink *sink, json_t *body, const char *to);
    /* What it knows to be too large, or missing: the code (without the kind) and a text for people; NULL: nothing. */
    const char *(*check)(const outbox_sink *sink, const json_t *body, const char **text);
    /* A whole answer, or one of status 300 and above. The verdict holds what the status alone says. */
    void (*judge)(struct ob_chat_call *call, int status, const json_t *reply, struct outbox_verdict *verdict);
    /* The rate of messages to this recipient; NULL: the sink's. */
    const struct ob_rate *(*rate)(const outbox_sink *sink, const char *to);
};

struct outbox_sink {
    const struct ob_chat_provider *provider;
    const struct outbox_sink_host *host;
    struct ob_arena arena;  /* of all texts below */
    const char *url;        /* where messages are posted */
    const char *ping_url;   /* NULL: there is nothing to ask without sending */
    const char *secrets[2]; /* never to be shown */
    const char *to;         /* whom messages without a recipient go to; NULL: there must be one */
    bool placed;            /* the address decides whom they go to: recipients do not count */
    struct ob_curl_options curl;
    struct ob_tls tls;
    struct curl_slist *headers;
    ob_template *text, *json;
    bool raw;
    size_t text_most; /* characters */
    ob_curl_loop *loop;
    struct ob_list out, spare; /* of struct ob_chat_call */
    struct ob_rate rate;       /* of messages to one recipient */
    struct ob_rate overall;    /* of all */
    int64_t hold_us;           /* who is early by no more than this waits here */
    struct ob_chat_timer *timer;
    struct ob_chat_peers peers;
    char limited_to[OB_CHAT_TO]; /* who was limited last, ... */
    int64_t limited_until_us;    /* ...and until when */
};

struct ob_chat_call {
    struct ob_curl_call curl;
    struct ob_list node;
    outbox_sink *sink;
    uint64_t handle;
    bool ping;
    bool connect_only;   /* a ping that only connects and shakes hands */
    int64_t due_us;      /* held until then; 0: it is out */
    bool placed;         /* counted among the messages to its recipient */
    json_t *body;        /* owned */
    char *document;      /* the body as text; owned, by jansson */
    char to[OB_CHAT_TO]; /* where it goes, when the recipient is known to have moved; "" when the address decides */
    bool own_to;         /* the message named it */
    char move_to[OB_CHAT_TO]; /* set by judge: the recipient has gone there... */
    bool moving;              /* ...and nothing was delivered */
    bool moved;               /* what was sent last went there */
    struct ob_buf answer, said;
    bool headed, cut;
    char code[OB_CHAT_CODE], reference[256], output[64 + OB_CHAT_TO];
};

/* ---- for the services ---- */

/* Sets outcome, scope and a code of the kind and this word. */
void ob_chat_end(struct ob_chat_call *call, struct outbox_verdict *verdict, enum outbox_sink_outcome outcome,
                 enum outbox_sink_scope scope, const char *word);
/* Accepted, under the receiver's own id. */
void ob_chat_accept(struct ob_chat_call *call, struct outbox_verdict *verdict, const char *reference);
/* Told to slow down, without being told who: the recipient, or all when another one was told so just now. after_s: what
 * the document asks for, 0 for nothing. */
void ob_chat_limit(struct ob_chat_call *call, struct outbox_verdict *verdict, int64_t after_s, const char *word);
/* Adds words of the receiver's to the text of the verdict; NULL adds nothing. */
void ob_chat_quote(struct ob_chat_call *call, const char *text);
/* The scope of what is wrong with a recipient: the sink's own is the sink. */
enum outbox_sink_scope ob_chat_scope_of_recipient(const struct ob_chat_call *call);

/* Puts texts together in the arena. The end is of the type that is read: a bare NULL may be an int. */
#define ob_chat_join(sink, ...) ob_chat_join_to_null(sink, __VA_ARGS__, (const char *)NULL)
const char *ob_chat_join_to_null(outbox_sink *sink, ...) __attribute__((sentinel));
/* A setting that is there and not empty, in the arena; an error where it is required. */
enum outbox_code ob_chat_keep(outbox_sink *sink, const struct ob_options *options, const char *name, bool required,
                              const char **text, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The setting `url` without a slash at its end. */
enum outbox_code ob_chat_keep_base(outbox_sink *sink, const struct ob_options *options, const char *name,
                                   const char **base, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The setting `token`, checked, as a secret; and as a header when bearer. */
enum outbox_code ob_chat_keep_token(outbox_sink *sink, const struct ob_options *options, bool bearer,
                                    const char **token, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* template and json_template. */
enum outbox_code ob_chat_keep_templates(outbox_sink *sink, const struct ob_options *options, enum ob_escape escape,
                                        struct outbox_error *err) OUTBOX_MUST_CHECK;
/* At most so many messages in any one second; 0: no limit. */
void ob_chat_overall(outbox_sink *sink, int64_t most);
size_t ob_chat_characters(const char *text);
/* Digits only, at least and at most so many. */
bool ob_chat_digits(const char *text, size_t least, size_t most);

/* ---- the parts ---- */

enum outbox_code ob_chat_config_read(outbox_sink *sink, const struct ob_options *options,
                                     struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_chat_config_fini(outbox_sink *sink);

/* Makes body, to and own_to from the message. OUTBOX_INVALID with call->code set when the message is wrong. */
enum outbox_code ob_chat_compose(struct ob_chat_call *call, const struct outbox_delivery *msg,
                                 struct outbox_error *err) OUTBOX_MUST_CHECK;

/* CURLOPT_WRITEFUNCTION and CURLOPT_HEADERFUNCTION; data is the call. */
size_t ob_chat_on_body(char *bytes, size_t size, size_t count, void *data);
size_t ob_chat_on_header(char *bytes, size_t size, size_t count, void *data);
/* Fills the verdict but for what tell adds. */
void ob_chat_judge(struct ob_chat_call *call, CURLcode result, struct outbox_verdict *verdict);
/* Adds text, reference and output, borrowed from the call, and remembers what it means for the recipient. */
void ob_chat_describe(struct ob_chat_call *call, struct outbox_verdict *verdict);

/* ---- the interface, but for open ---- */

enum outbox_code ob_chat_open(const struct ob_chat_provider *provider, const struct outbox_sink_option *given,
                              size_t count, const struct outbox_sink_host *host, outbox_sink **out,
                              struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_chat_deliver(outbox_sink *sink, const struct outbox_sink_item *items, size_t count);
void ob_chat_cancel(outbox_sink *sink, uint64_t handle);
void ob_chat_close(outbox_sink *sink);
void ob_chat_ping(outbox_sink *sink, uint64_t handle);

/* For the tables of the services. */
#define OB_CHAT_OPS \
    OUTBOX_SINK_OPS_HEAD, .deliver = ob_chat_deliver, .cancel = ob_chat_cancel, .close = ob_chat_close, \
                          .ping = ob_chat_ping, .descriptors = 4, .descriptors_each = 1, .connections = "connections"

#define OB_CHAT_SETTINGS \
    {.name = "template", \
     .type = OUTBOX_OPTION_TEXT, \
     .doc = "template of the text, with `{{path.to.field}}` of the payload (default: `text` of the payload)"}, \
        {.name = "json_template", \
         .type = OUTBOX_OPTION_TEXT, \
         .doc = "template of the whole request as JSON, with `{{path.to.field}}` of the payload, instead of a text"}, \
        {.name = "raw", \
         .type = OUTBOX_OPTION_BOOL, \
         .fallback = "false", \
         .doc = "the payload is the whole request as JSON"}, \
        {.name = "hold", \
         .type = OUTBOX_OPTION_DURATION, \
         .fallback = "2s", \
         .least = 0, \
         .most = 60000000, \
         .doc = \
             "a message that is early by no more than this waits here, an earlier one is given back; keep it below " \
             "the sink's timeout"}, \
        OB_CURL_SETTINGS, OB_TLS_CA_SETTING

#endif
