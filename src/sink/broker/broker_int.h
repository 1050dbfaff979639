/* broker_int.h - between the two sides of a broker thread. */
#ifndef OB_SINK_BROKER_BROKER_INT_H
#define OB_SINK_BROKER_BROKER_INT_H

#include "sink/broker/broker.h"

/* The thread; given the broker thread. */
void *ob_broker_run(void *arg);
void ob_broker_free(struct ob_broker *broker);
void ob_broker_job_free(struct ob_broker_job *job);

#endif
