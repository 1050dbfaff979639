/* tls.h - the TLS options that sinks share: one set of rows for their tables, and one reader. Thread: the one that
 * opens the sink. */
#ifndef OB_SINK_COMMON_TLS_H
#define OB_SINK_COMMON_TLS_H

#include "sink/common/option.h"

/* Absent files and texts are NULL. They are kept in the arena that was given to ob_tls_read. */
struct ob_tls {
    const char *ca;
    const char *cert, *key; /* the key of the certificate, which may be in the same file */
    const char *key_password;
    bool only_1_3; /* TLS 1.2 is refused */
};

#define OB_TLS_CA_SETTING \
    { \
        .name = "tls.ca", .type = OUTBOX_OPTION_FILE, \
        .doc = "file with the CA certificates to trust instead of the system's" \
    }

#define OB_TLS_SETTINGS \
    OB_TLS_CA_SETTING, {.name = "tls.cert", .type = OUTBOX_OPTION_FILE, .doc = "file with the client certificate"}, \
    { \
        .name = "tls.key", .type = OUTBOX_OPTION_FILE, \
        .doc = "file with the key of the client certificate; without it, the key is in the file of the certificate" \
    }

/* For sinks whose library supports these too. */
#define OB_TLS_MORE_SETTINGS \
    {.name = "tls.key_password", \
     .type = OUTBOX_OPTION_TEXT, \
     .secret = true, \
     .doc = "password of the key of the client certificate"}, \
    { \
        .name = "tls.min", .type = OUTBOX_OPTION_ENUM, .fallback = "1.2", .choices = "1.2 1.3", \
        .doc = "lowest version of TLS that is accepted" \
    }

/* Reads those of the options above that the adapter's table has. A file that cannot be read is an error. */
enum outbox_code ob_tls_read(struct ob_tls *tls, const struct ob_options *options, struct ob_arena *arena,
                             struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
