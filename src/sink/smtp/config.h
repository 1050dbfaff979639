/* config.h - the settings of the smtp sink: their table, and the configuration made from them. Immutable after open, so
 * the workers read it without a lock. */
#ifndef OB_SINK_SMTP_CONFIG_H
#define OB_SINK_SMTP_CONFIG_H

#include "base/arena.h"
#include "sink/common/option.h"
#include "sink/common/template.h"
#include "sink/common/tls.h"

#include <outbox/sink.h>

struct ob_smtp_field {
    const char *name, *value;
};

struct ob_smtp_config {
    struct ob_arena arena; /* of all texts below */
    const char *url;       /* with the name for EHLO in its path, as libcurl requires */
    bool tls_required;     /* if false, TLS is never used */
    struct ob_tls tls;
    const char *user, *password, *token, *login_options;
    const char *from_name, *from; /* From: */
    const char *envelope_from, *to, *reply_to, *domain;
    ob_template *subject, *text, *html;
    struct ob_smtp_field *fixed; /* header fields of every mail */
    size_t fixed_count;
    const char **pass; /* names of the message's headers that are sent with the mail */
    size_t pass_count;
    const char *attachments_dir; /* NULL: none are allowed */
    size_t attachments_most;
    int connections;
    int64_t per_connection; /* mails; 0: any number */
    int64_t idle_us, connect_us, response_us, greylist_us;
};

extern const struct outbox_sink_setting ob_smtp_settings[];

/* ops->check */
void ob_smtp_config_check(const struct outbox_sink_check *check);
/* The caller must call fini, also after a failure. */
enum outbox_code ob_smtp_config_init(struct ob_smtp_config *config, const struct outbox_sink_option *given,
                                     size_t count, struct outbox_error *err) OUTBOX_MUST_CHECK;
void ob_smtp_config_fini(struct ob_smtp_config *config);

#endif
