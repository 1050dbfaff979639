/* courier_int.h - between the two sides of a courier. */
#ifndef OB_SINK_COURIER_INT_H
#define OB_SINK_COURIER_INT_H

#include "sink/courier.h"

/* The thread; given the courier. */
void *ob_courier_run(void *arg);
void ob_courier_free(struct ob_courier *courier);
void ob_parcel_free(struct ob_parcel *parcel);

#endif
