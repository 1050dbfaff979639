/* mail.h - a message as an email: what the payload says, or the templates of the configuration, in MIME.
 *
 * Built in two steps: build on the loop's thread, while the message is borrowed, and attach on a worker's, where
 * reading files holds nobody up. The bytes are the same at every attempt. */
#ifndef OB_SINK_SMTP_MAIL_H
#define OB_SINK_SMTP_MAIL_H

#include "sink/smtp/config.h"

struct ob_smtp_attachment {
    const char *path, *name, *type;
};

struct ob_smtp_mail {
    struct ob_arena arena; /* of the texts below */
    const char *recipient;
    struct ob_buf data; /* all that goes out behind DATA */
    struct ob_smtp_attachment *attachments;
    size_t attachment_count;
    char id[37];      /* of the message; part of the boundaries */
    const char *code; /* of what is wrong, stable; NULL: out of memory */
};

void ob_smtp_mail_init(struct ob_smtp_mail *mail);
void ob_smtp_mail_fini(struct ob_smtp_mail *mail);

/* OUTBOX_INVALID: the message is wrong, and mail->code says how. */
enum outbox_code ob_smtp_mail_build(struct ob_smtp_mail *mail, const struct ob_smtp_config *config,
                                    const struct outbox_delivery *msg, struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Puts the files in and closes the mail; nothing to do when there are none. OUTBOX_BUSY: may work later. */
enum outbox_code ob_smtp_mail_attach(struct ob_smtp_mail *mail, const struct ob_smtp_config *config,
                                     struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
