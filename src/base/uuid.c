/* uuid.c - UUIDs: text form and version 7. */
#include "base/uuid.h"

#include <string.h>

static bool is_dash_before(size_t byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

void outbox_uuid_format(const struct outbox_uuid *id, char text[37])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 16; i++) {
        if (is_dash_before(i))
            *text++ = '-';
        *text++ = digits[id->bytes[i] >> 4];
        *text++ = digits[id->bytes[i] & 15];
    }
    *text = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool outbox_uuid_parse(const char *text, struct outbox_uuid *id)
{
    struct outbox_uuid parsed;
    if (!text)
        return false;
    for (size_t i = 0; i < 16; i++) {
        if (is_dash_before(i) && *text++ != '-')
            return false;
        int high = hex_value(text[0]);
        int low = high < 0 ? -1 : hex_value(text[1]);
        if (low < 0)
            return false;
        parsed.bytes[i] = (uint8_t)(high << 4 | low);
        text += 2;
    }
    if (*text)
        return false;
    *id = parsed;
    return true;
}

void ob_uuid_v7(struct outbox_uuid *id, int64_t unix_ms, const uint8_t random[10])
{
    for (size_t i = 0; i < 6; i++)
        id->bytes[i] = (uint8_t)((uint64_t)unix_ms >> (40 - 8 * i));
    memcpy(id->bytes + 6, random, 10);
    id->bytes[6] = (uint8_t)(0x70 | (id->bytes[6] & 0x0f));
    id->bytes[8] = (uint8_t)(0x80 | (id->bytes[8] & 0x3f));
}

int64_t ob_uuid_ms(const struct outbox_uuid *id)
{
    uint64_t ms = 0;
    for (size_t i = 0; i < 6; i++)
        ms = ms << 8 | id->bytes[i];
    return (int64_t)ms;
}

int ob_uuid_compare(const struct outbox_uuid *a, const struct outbox_uuid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}
