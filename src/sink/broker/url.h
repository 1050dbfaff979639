/* url.h - the URL of a broker: scheme://host[:port][/path]. User and password have settings of their own, so that they can
 * be secret as a whole; a URL that contains them is refused. No I/O; any thread. */
#ifndef OB_SINK_BROKER_URL_H
#define OB_SINK_BROKER_URL_H

#include <outbox/sink.h>

struct ob_broker_url {
    char scheme[16], host[256];
    char path[256]; /* after the first '/', percent-decoded; "" for none */
    bool has_path;
    int port;
};

/* "host:port", for logs and errors. */
#define OB_PLACE 272
void ob_broker_url_place(const struct ob_broker_url *url, char place[OB_PLACE]);

/* The scheme must be one of `schemes`, which are separated by spaces. OUTBOX_INVALID if the URL is wrong. */
enum outbox_code ob_broker_url_parse(struct ob_broker_url *url, const char *text, const char *schemes, int default_port,
                                     struct outbox_error *err);

#endif
