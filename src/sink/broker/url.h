/* url.h - where a broker is: scheme://host[:port][/path]. User and password have settings of their own, which are
 * secret as a whole; a URL that holds them is refused. No I/O; any thread. */
#ifndef OB_SINK_BROKER_URL_H
#define OB_SINK_BROKER_URL_H

#include <outbox/sink.h>

struct ob_broker_url {
    char scheme[16], host[256];
    char path[256]; /* behind the first '/', percent-decoded; "" for none */
    bool has_path;
    int port;
};

/* "host:port", as it is said to people. */
#define OB_PLACE 272
void ob_broker_url_place(const struct ob_broker_url *url, char place[OB_PLACE]);

/* A scheme of the list `schemes`, separated by spaces. OUTBOX_INVALID with what is wrong. */
enum outbox_code ob_broker_url_parse(struct ob_broker_url *url, const char *text, const char *schemes, int default_port,
                                     struct outbox_error *err);

#endif
