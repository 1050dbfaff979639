/* mail.h - a message as an email in MIME, made from the payload's fields or from the templates of the configuration.
 *
 * Made in two steps: build on the loop's thread, while the message is borrowed, and attach on a worker's, where reading
 * files does not block the loop. The bytes are the same at every attempt. */
#ifndef OB_SINK_SMTP_MAIL_H
#define OB_SINK_SMTP_MAIL_H

#include "sink/smtp/config.h"

struct ob_smtp_attachment {
    const char *path, *name, *type;
};

struct ob_smtp_mail {
    struct ob_arena arena; /* of the texts below */
    const char *recipient;
    struct ob_buf data; /* everything that is sent after DATA */
    struct ob_smtp_attachment *attachments;
    size_t attachment_count;
    char id[37];      /* of the message; part of the boundaries */
    const char *code; /* stable code of the problem; NULL: out of memory */
};

void ob_smtp_mail_init(struct ob_smtp_mail *mail);
void ob_smtp_mail_fini(struct ob_smtp_mail *mail);

/* OUTBOX_INVALID: the message is wrong, and mail->code says how. */
enum outbox_code ob_smtp_mail_build(struct ob_smtp_mail *mail, const struct ob_smtp_config *config,
                                    const struct outbox_delivery *msg, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Adds the attachments and completes the mail; does nothing if there are none. OUTBOX_BUSY: it may work later. */
enum outbox_code ob_smtp_mail_attach(struct ob_smtp_mail *mail, const struct ob_smtp_config *config,
                                     struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
