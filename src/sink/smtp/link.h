/* link.h - one connection to a mail server, used for one mail after the other; blocking.
 *
 * Thread: that of its worker; but ob_smtp_link_abort is for others, to end at once what the worker waits for. */
#ifndef OB_SINK_SMTP_LINK_H
#define OB_SINK_SMTP_LINK_H

#include "sink/smtp/pool.h"

#include <pthread.h>

enum { OB_SMTP_FDS = 4 };

struct ob_smtp_link {
    const struct ob_smtp_config *config;
    void *easy; /* a CURL; NULL: not yet made */
    struct ob_smtp_job *job;
    struct ob_smtp_reply reply;
    int64_t mails;        /* over this connection */
    size_t handed;        /* bytes of the mail that libcurl has taken */
    bool dialled;         /* for this mail */
    bool leaving;         /* says goodbye: no new connection for that */
    bool worn;            /* to be closed, once its last job is reported */
    bool starved;         /* no descriptor or no memory was left for a new one */
    bool no_login;        /* a new connection, and the server did not ask who we are */
    atomic_bool off;      /* cut for good */
    pthread_mutex_t lock; /* of fds: a socket is not closed while another thread shuts it down */
    int fds[OB_SMTP_FDS]; /* open sockets, or -1: an old connection, and the tries for a new one */
    char error[256];
};

bool ob_smtp_link_init(struct ob_smtp_link *link, const struct ob_smtp_config *config);
void ob_smtp_link_fini(struct ob_smtp_link *link);
/* Says goodbye, and waits a moment for the answer. The next job opens a new connection. */
void ob_smtp_link_close(struct ob_smtp_link *link);

/* Sends the mail, or looks whether one could be sent, and fills in how it went. A link that is worn is the caller's to
 * close, after the job was reported: the goodbye may take a while. */
void ob_smtp_link_run(struct ob_smtp_link *link, struct ob_smtp_job *job);

/* From any thread: whatever goes on ends with an error. */
void ob_smtp_link_abort(struct ob_smtp_link *link, bool for_good);

#endif
