/* tls.c - see tls.h. */
#include "sink/common/tls.h"

enum outbox_code ob_tls_read(struct ob_tls *tls, const struct ob_options *options, struct ob_arena *arena,
                             struct outbox_error *err)
{
    const struct {
        const char *name, **file;
    } files[] = {{"tls.ca", &tls->ca}, {"tls.cert", &tls->cert}, {"tls.key", &tls->key}};
    enum outbox_code code = OUTBOX_OK;
    *tls = (struct ob_tls){0};
    for (size_t i = 0; !code && i < sizeof files / sizeof files[0]; i++)
        if (ob_option_known(options, files[i].name))
            code = ob_option_keep_file(options, files[i].name, arena, files[i].file, err);
    if (!tls->key)
        tls->key = tls->cert;
    if (!code && ob_option_known(options, "tls.key_password"))
        code = ob_option_keep(options, "tls.key_password", arena, &tls->key_password, err);
    if (ob_option_known(options, "tls.min"))
        tls->only_1_3 = ob_option_is(options, "tls.min", "1.3");
    return code;
}
