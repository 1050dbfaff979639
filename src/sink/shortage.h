/* shortage.h - what all sinks do when this process itself lacks something: memory, descriptors, processes. Nothing was
 * tried, so it is OUTBOX_SINK_NOT_SENT, and costs the message no attempt; and it is not tried again at once. */
#ifndef OB_SINK_SHORTAGE_H
#define OB_SINK_SHORTAGE_H

enum { OB_SHORTAGE_US = 1000000 }; /* until then */

#endif
