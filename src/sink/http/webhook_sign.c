/* webhook_sign.c - see webhook_sign.h. The keyed state is made once and started again for each message. */
#include "sink/http/webhook_sign.h"

#include "base/alloc.h"
#include "base/error.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

enum { KEY_LEAST = 24, KEY_MOST = 64, DIGEST = 32, ENCODED = 44 };

struct ob_webhook_key {
    EVP_MAC *mac;
    EVP_MAC_CTX *ctx;
};

/* Returns how many bytes; -1 when it is no base64, or too much of it. OpenSSL's own decoder takes spaces and lines. */
static int decode(const char *text, unsigned char out[KEY_MOST + 3])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t digits = strspn(text, letters), len = strlen(text);
    size_t pad = len - digits;
    if (len % 4 || len > (size_t)(KEY_MOST + 2) / 3 * 4 || pad > 2 || strspn(text + digits, "=") != pad)
        return -1;
    int bytes = EVP_DecodeBlock(out, (const unsigned char *)text, (int)len);
    return bytes < 0 ? -1 : bytes - (int)pad;
}

void ob_webhook_key_free(ob_webhook_key *key)
{
    if (!key)
        return;
    EVP_MAC_CTX_free(key->ctx);
    EVP_MAC_free(key->mac);
    ob_free(key);
}

enum outbox_code ob_webhook_key_new(const char *secret, ob_webhook_key **out, struct outbox_error *err)
{
    unsigned char bytes[KEY_MOST + 3];
    enum outbox_code code = OUTBOX_OK;
    ob_webhook_key *key = NULL;
    bool named = strncmp(secret, "whsec_", 6) == 0;
    int len = named ? decode(secret + 6, bytes) : -1;
    if (len < KEY_LEAST || len > KEY_MOST) {
        code = ob_error_set(err, OUTBOX_INVALID,
                            "secret must be whsec_ followed by base64 of %d to %d bytes; make one with: "
                            "echo whsec_$(openssl rand -base64 32)",
                            KEY_LEAST, KEY_MOST);
        goto done;
    }
    key = ob_calloc(1, sizeof *key);
    if (!key || !(key->mac = EVP_MAC_fetch(NULL, "HMAC", NULL)) || !(key->ctx = EVP_MAC_CTX_new(key->mac))) {
        code = ob_error_nomem(err);
        goto done;
    }
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                           OSSL_PARAM_construct_end()};
    if (!EVP_MAC_init(key->ctx, bytes, (size_t)len, params))
        code =
            ob_error_set(err, OUTBOX_UNSUPPORTED, "this OpenSSL has no HMAC-SHA256, which signing webhooks requires");
done:
    OPENSSL_cleanse(bytes, sizeof bytes);
    if (code) {
        ob_webhook_key_free(key);
        return code;
    }
    *out = key;
    return OUTBOX_OK;
}

bool ob_webhook_sign(ob_webhook_key *key, const char *id, const char *timestamp, const void *body, size_t len,
                     struct ob_buf *out)
{
    unsigned char mac[DIGEST], text[ENCODED + 1];
    size_t size = 0;
    bool ok =
        EVP_MAC_init(key->ctx, NULL, 0, NULL) && EVP_MAC_update(key->ctx, (const unsigned char *)id, strlen(id)) &&
        EVP_MAC_update(key->ctx, (const unsigned char *)".", 1) &&
        EVP_MAC_update(key->ctx, (const unsigned char *)timestamp, strlen(timestamp)) &&
        EVP_MAC_update(key->ctx, (const unsigned char *)".", 1) && (!len || EVP_MAC_update(key->ctx, body, len)) &&
        EVP_MAC_final(key->ctx, mac, &size, sizeof mac) && size == sizeof mac;
    if (!ok)
        return false;
    EVP_EncodeBlock(text, mac, sizeof mac);
    ob_buf_puts(out, "v1,");
    ob_buf_puts(out, (const char *)text);
    return ob_buf_ok(out);
}
