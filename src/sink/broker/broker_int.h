/* broker_int.h - what broker.c (the loop's thread) and thread.c (the broker thread) share. */
#ifndef OB_SINK_BROKER_BROKER_INT_H
#define OB_SINK_BROKER_BROKER_INT_H

#include "sink/broker/broker.h"

/* The body of the broker thread; arg is the struct ob_broker. */
void *ob_broker_run(void *arg);
void ob_broker_free(struct ob_broker *broker);
void ob_broker_job_free(struct ob_broker_job *job);

#endif
