/* uuid.h - makes UUIDs of version 7. Formatting and parsing are public: outbox_uuid_format, outbox_uuid_parse. */
#ifndef OB_BASE_UUID_H
#define OB_BASE_UUID_H

#include <outbox/outbox.h>

enum { OB_UUID_TEXT = 37 }; /* 36 characters and a NUL */

/* RFC 9562, version 7: sorts by time. Time and random bytes come from the caller, for tests and for core. */
void ob_uuid_v7(struct outbox_uuid *id, int64_t unix_ms, const uint8_t random[10]);
/* The time in a version 7 UUID, in milliseconds since 1970. */
int64_t ob_uuid_ms(const struct outbox_uuid *id);
/* As memcmp: the order in which PostgreSQL sorts UUIDs. */
int ob_uuid_compare(const struct outbox_uuid *a, const struct outbox_uuid *b);

#endif
