/* amqp_int.h - shared by the files of the RabbitMQ sink; see amqp.c. */
#ifndef OB_SINK_BROKER_AMQP_AMQP_INT_H
#define OB_SINK_BROKER_AMQP_AMQP_INT_H

#include "sink/broker/broker.h"
#include "sink/broker/url.h"

#include <amqp.h>
#include <amqp_framing.h>

enum { OB_AMQP_CHANNEL = 1 };
enum { OB_AMQP_TOO_LARGE = 1, OB_AMQP_SHORTAGE }; /* in addition to the library's errors, which are negative */

struct ob_amqp {
    struct ob_broker *broker;
    struct ob_broker_url url;
    const char *username, *password, *vhost, *exchange;
    struct ob_tls tls;
    bool secure, persistent, mandatory, unroutable_terminal;
    int heartbeat;
    size_t in_flight_max;
    /* the connection */
    pthread_mutex_t mutex; /* guards fd, which interrupt reads */
    int fd;
    amqp_connection_state_t state;
    uint64_t tags; /* delivery tags used on this channel */
    bool returning;
    uint16_t return_code;
    uint64_t return_left; /* bytes of the returned body still to come */
    int careful;          /* this many more messages are sent one at a time */
};

bool ob_amqp_connect(void *self, struct ob_verdict *verdict);
void ob_amqp_disconnect(void *self);
/* The verdict on the only message in flight when the broker closed the channel. */
void ob_amqp_rule_close(struct ob_verdict *verdict, int code, amqp_bytes_t text);
/* Writes properties, headers and body of a job. Returns 0 or an error of the library. Nothing was written if it returns
 * OB_AMQP_TOO_LARGE (the properties do not fit into a frame) or OB_AMQP_SHORTAGE (out of memory). */
int ob_amqp_publish(struct ob_amqp *amqp, const struct ob_broker_job *job);

#endif
