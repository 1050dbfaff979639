/* token.c - see token.h. */
#include "lib/token.h"

#include "base/error.h"
#include "base/sha256.h"

#include <string.h>
#include <sys/random.h>

static const char prefix[] = "obx_";
static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/* Each letter is as likely as any other: bytes that would favour some are thrown away. */
static bool make(char text[OB_TOKEN_TEXT])
{
    unsigned char bytes[64];
    size_t put = sizeof prefix - 1;
    memcpy(text, prefix, put);
    while (put < OB_TOKEN_TEXT - 1) {
        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
            return false;
        for (size_t i = 0; i < sizeof bytes && put < OB_TOKEN_TEXT - 1; i++)
            if (bytes[i] < 256 / 62 * 62)
                text[put++] = letters[bytes[i] % 62];
    }
    text[put] = '\0';
    explicit_bzero(bytes, sizeof bytes);
    return true;
}

ob_code ob_token_create(struct ob_store *store, const struct ob_token *what, const struct ob_actor *actor,
                        char text[OB_TOKEN_TEXT], struct outbox_error *err)
{
    unsigned char hash[OB_SHA256_SIZE];
    if (!make(text))
        return ob_error_set(err, OUTBOX_INTERNAL, "the system has no random numbers: getrandom failed");
    ob_sha256(text, strlen(text), hash);
    ob_code code = store->ops->token_create(store, what, hash, actor, err);
    if (code)
        explicit_bzero(text, OB_TOKEN_TEXT);
    return code;
}

ob_code ob_token_check(struct ob_store *store, const char *text, struct ob_bearer *bearer, struct outbox_error *err)
{
    unsigned char hash[OB_SHA256_SIZE];
    *bearer = (struct ob_bearer){.role = OB_ROLE_NONE};
    if (strlen(text) != OB_TOKEN_TEXT - 1 || strncmp(text, prefix, sizeof prefix - 1) != 0)
        return OUTBOX_OK;
    ob_sha256(text, strlen(text), hash);
    return store->ops->token_check(store, hash, bearer, err);
}
