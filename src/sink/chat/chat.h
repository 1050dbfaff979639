/* chat.h - the shared part of the sinks for chat services: slack, telegram and whatsapp. Each posts a JSON document over
 * HTTPS, and the JSON document in the answer decides the outcome.
 *
 * A message becomes a document in one of three ways: a text (the payload's, or a template's) that the provider wraps; a
 * template of the provider's own JSON; or, with `raw`, the payload as it is. The recipient is the message's or the
 * configuration's, and replaces any recipient in the document.
 *
 * None of the receivers can detect a duplicate: so nothing is ever sent twice here, and a request without an answer is
 * unknown. Tokens are in headers and paths: no text that this sink reports contains a URL or a token.
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
    const char *kind; /* prefix of codes, and name of the payload field with extra fields for this service */
    size_t size;      /* of the service's own struct, which begins with struct outbox_sink */
    const struct outbox_sink_setting *settings;
    /* Reads its own options; sets url, ping_url, to, rates and templates' escape. */
    enum outbox_code (*open)(outbox_sink *sink, const struct ob_options *options, struct outbox_error *err);
    /* The normal form of a recipient; false if it is not valid. */
    bool (*admit)(const outbox_sink *sink, const char *given, char to[OB_CHAT_TO]);
    /* Wraps a text into the document, which may have fields already; text may be NULL. */
    bool (*wrap)(const outbox_sink *sink, json_t *body, const char *text);
    /* Writes the message's id into the document, however that was made, unless the field is set; NULL: no such field. */
    bool (*mark)(const outbox_sink *sink, json_t *body, const char *id);
    /* Writes the recipient into the document. */
    bool (*address)(const outbox_sink *sink, json_t *body, const char *to);
    /* Finds what is too large or missing: returns the code (without the kind) and sets a text; NULL: no problem. */
    const char *(*check)(const outbox_sink *sink, const json_t *body, const char **text);
    /* For a complete answer, or one with status 300 or above. The verdict is preset from the status alone. */
    void (*judge)(struct ob_chat_call *call, int status, const json_t *reply, struct outbox_verdict *verdict);
    /* The rate of messages to this recipient; NULL: the sink's. */
    const struct ob_rate *(*rate)(const outbox_sink *sink, const char *to);
};

struct outbox_sink {
    const struct ob_chat_provider *provider;
    const struct outbox_sink_host *host;
    struct ob_arena arena;  /* of all texts below */
    const char *url;        /* where messages are posted */
    const char *ping_url;   /* NULL: nothing can be requested without sending a message */
    const char *secrets[2]; /* never to be shown */
    const char *to;         /* default recipient; NULL: messages must have one */
    bool placed;            /* the URL decides where messages go: recipients are ignored */
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
    int64_t hold_us;           /* a message that is early by no more than this waits here */
    struct ob_chat_timer *timer;
    struct ob_chat_peers peers;
    char limited_to[OB_CHAT_TO]; /* the recipient that was limited last, ... */
    int64_t limited_until_us;    /* ...and until when */
};

struct ob_chat_call {
    struct ob_curl_call curl;
    struct ob_list node;
    outbox_sink *sink;
    uint64_t handle;
    bool ping;
    bool connect_only;        /* a ping that only connects and does the TLS handshake */
    int64_t due_us;           /* held until then; 0: it was started */
    bool placed;              /* counted among the messages to its recipient */
    json_t *body;             /* owned */
    char *document;           /* the body as text; owned, by jansson */
    char to[OB_CHAT_TO];      /* the recipient, or its new id if it moved; "": the URL decides */
    bool own_to;              /* the message named it */
    char move_to[OB_CHAT_TO]; /* set by judge: the recipient moved there... */
    bool moving;              /* ...and nothing was delivered */
    bool moved;               /* the last request was sent there */
    struct ob_buf answer, said;
    bool headed, cut;
    char code[OB_CHAT_CODE], reference[256], output[64 + OB_CHAT_TO];
};

/* ---- for the services ---- */

/* Sets outcome, scope, and a code made of the kind and this word. */
void ob_chat_end(struct ob_chat_call *call, struct outbox_verdict *verdict, enum outbox_sink_outcome outcome,
                 enum outbox_sink_scope scope, const char *word);
/* Accepted, under the receiver's own id. */
void ob_chat_accept(struct ob_chat_call *call, struct outbox_verdict *verdict, const char *reference);
/* The service asks us to slow down, without saying for whom: the scope is the recipient, or the sink if another recipient is
 * limited too. after_s: the wait that the document asks for, 0 for none. */
void ob_chat_limit(struct ob_chat_call *call, struct outbox_verdict *verdict, int64_t after_s, const char *word);
/* Adds a text from the receiver to the text of the verdict; NULL adds nothing. */
void ob_chat_quote(struct ob_chat_call *call, const char *text);
/* The scope of a problem with the recipient: the sink, if the recipient comes from its configuration. */
enum outbox_sink_scope ob_chat_scope_of_recipient(const struct ob_chat_call *call);

/* Concatenates texts in the arena. End the list with a null pointer of type const char *: a bare NULL may be an int. */
#define ob_chat_join(sink, ...) ob_chat_join_to_null(sink, __VA_ARGS__, (const char *)NULL)
const char *ob_chat_join_to_null(outbox_sink *sink, ...) __attribute__((sentinel));
/* Copies a setting into the arena. If it is required, it is an error that it is absent or empty. */
enum outbox_code ob_chat_keep(outbox_sink *sink, const struct ob_options *options, const char *name, bool required,
                              const char **text, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* The same for a base URL, without a slash at its end. */
enum outbox_code ob_chat_keep_base(outbox_sink *sink, const struct ob_options *options, const char *name,
                                   const char **base, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Checks and copies the setting `token`, as a secret; bearer: also makes the header of it. */
enum outbox_code ob_chat_keep_token(outbox_sink *sink, const struct ob_options *options, bool bearer,
                                    const char **token, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* template and json_template. */
enum outbox_code ob_chat_keep_templates(outbox_sink *sink, const struct ob_options *options, enum ob_escape escape,
                                        struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Allows at most this many messages in any one second; 0: no limit. */
void ob_chat_overall(outbox_sink *sink, int64_t most);
size_t ob_chat_characters(const char *text);
/* Whether the text has digits only, between least and most of them. */
bool ob_chat_digits(const char *text, size_t least, size_t most);

/* ---- the parts ---- */

enum outbox_code ob_chat_config_read(outbox_sink *sink, const struct ob_options *options,
                                     struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_chat_config_fini(outbox_sink *sink);

/* Makes body, to and own_to from the message. OUTBOX_INVALID, with call->code set, if the message is wrong. */
enum outbox_code ob_chat_compose(struct ob_chat_call *call, const struct outbox_delivery *msg,
                                 struct outbox_error *err) OUTBOX_MUST_CHECK;

/* CURLOPT_WRITEFUNCTION and CURLOPT_HEADERFUNCTION; data is the call. */
size_t ob_chat_on_body(char *bytes, size_t size, size_t count, void *data);
size_t ob_chat_on_header(char *bytes, size_t size, size_t count, void *data);
/* Fills the verdict, except for what ob_chat_describe adds. */
void ob_chat_judge(struct ob_chat_call *call, CURLcode result, struct outbox_verdict *verdict);
/* Adds text, reference and output, borrowed from the call, and records what the verdict means for the recipient. */
void ob_chat_describe(struct ob_chat_call *call, struct outbox_verdict *verdict);

/* ---- the functions of the interface ---- */

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
