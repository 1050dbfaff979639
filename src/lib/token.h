/* token.h - the tokens of the admin API: "obx_" and 43 random letters and digits (256 bits). A store keeps the SHA-256 only. */
#ifndef OB_LIB_TOKEN_H
#define OB_LIB_TOKEN_H

#include "core/store.h"

enum { OB_TOKEN_LETTERS = 43, OB_TOKEN_TEXT = 4 + OB_TOKEN_LETTERS + 1 };

/* Makes a token, adds it to the store, and writes its text, which is not kept anywhere. */
ob_code ob_token_create(struct ob_store *store, const struct ob_token *what, const struct ob_actor *actor,
                        char text[OB_TOKEN_TEXT], struct outbox_error *err) OUTBOX_MUST_CHECK;
/* Whose token it is. bearer->role is OB_ROLE_NONE if nobody's, or if it is revoked or expired. */
ob_code ob_token_check(struct ob_store *store, const char *text, struct ob_bearer *bearer,
                       struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
