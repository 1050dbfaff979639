/* link.h - one connection to a mail server, used for one mail after another; blocking.
 *
 * Thread: that of its worker, except for ob_smtp_link_abort, which other threads call to interrupt the worker. */
#ifndef OB_SINK_SMTP_LINK_H
#define OB_SINK_SMTP_LINK_H

#include "sink/smtp/pool.h"

#include <pthread.h>

enum { OB_SMTP_FDS = 4 };

struct ob_smtp_link {
    const struct ob_smtp_config *config;
    void *easy; /* a CURL; NULL: not created yet */
    struct ob_smtp_job *job;
    struct ob_smtp_reply reply;
    int64_t mails;        /* sent over this connection */
    size_t handed;        /* bytes of the mail that libcurl has taken */
    bool dialled;         /* a connection was opened for this mail */
    bool leaving;         /* sending QUIT: open no new connection for that */
    bool worn;            /* to be closed once its last job is reported */
    bool starved;         /* no descriptor or no memory was left for a new connection */
    bool no_login;        /* a new connection on which the server did not ask for a login */
    atomic_bool off;      /* aborted for good */
    pthread_mutex_t lock; /* guards fds: no socket is closed while another thread shuts it down */
    int fds[OB_SMTP_FDS]; /* open sockets, or -1: an old connection, and attempts at a new one */
    char error[256];
};

bool ob_smtp_link_init(struct ob_smtp_link *link, const struct ob_smtp_config *config);
void ob_smtp_link_fini(struct ob_smtp_link *link);
/* Sends QUIT, and waits a short time for the answer. The next job opens a new connection. */
void ob_smtp_link_close(struct ob_smtp_link *link);

/* Sends the mail (a ping: checks that one could be sent) and fills in the verdict. If the link is worn, the caller closes it
 * after reporting the job, because QUIT may take a while. */
void ob_smtp_link_run(struct ob_smtp_link *link, struct ob_smtp_job *job);

/* From any thread: the current operation ends with an error. */
void ob_smtp_link_abort(struct ob_smtp_link *link, bool for_good);

#endif
