/* notify.h - tells operators of dead letters (Y10): one message per interval with all that died since the last, made by the leading relay as
 * an ordinary message of the outbox, so that it is retried and recorded. What was told is in the store. */
#ifndef OB_DAEMON_NOTIFY_H
#define OB_DAEMON_NOTIFY_H

#include "config/config.h"
#include "core/store.h"

/* A copy of the section `notify`, which a thread can keep. */
struct ob_notify {
    bool on;
    struct ob_news_terms terms; /* its texts are those below */
    char recipient[512], name_space[512], topic[512];
};

void ob_notify_init(struct ob_notify *notify, const struct ob_config *config);

/* Makes the message if it is time and there are news; *told is how many dead letters it has, 0: none was made. store_name: for the text. */
ob_code ob_notify_round(struct ob_store *store, const struct ob_notify *notify, const char *store_name, int64_t *told,
                        struct outbox_error *err) OUTBOX_MUST_CHECK;

#endif
