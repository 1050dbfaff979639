/* shortage.h - what all sinks do when this process is short of memory, descriptors or processes. Nothing was tried, so the
 * verdict is OUTBOX_SINK_NOT_SENT and costs no attempt; the message is not tried again at once. */
#ifndef OB_SINK_SHORTAGE_H
#define OB_SINK_SHORTAGE_H

enum { OB_SHORTAGE_US = 1000000 }; /* how long to wait */

#endif
