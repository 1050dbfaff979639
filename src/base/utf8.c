/* utf8.c - validation of UTF-8. */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

size_t ob_utf8_width(const char *text, size_t len)
{
    if (len == 0)
        return 0;
    const unsigned char *byte = (const unsigned char *)text;
    unsigned char lead = byte[0];
    if (lead < 0x80)
        return 1;
    size_t width = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || len < width)
        return 0;
    for (size_t i = 1; i < width; i++)
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
    /* The second byte rules out overlong forms, surrogates and what lies beyond U+10FFFF. */
    if ((lead == 0xe0 && byte[1] < 0xa0) || (lead == 0xed && byte[1] > 0x9f) || (lead == 0xf0 && byte[1] < 0x90) ||
        (lead == 0xf4 && byte[1] > 0x8f))
        return 0;
    return width;
}

bool ob_utf8_valid(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        uint64_t eight;
        if (len - i >= sizeof eight) { /* most texts are mainly ASCII */
            memcpy(&eight, text + i, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                i += sizeof eight;
                continue;
            }
        }
        size_t width = ob_utf8_width(text + i, len - i);
        if (width == 0)
            return false;
        i += width;
    }
    return true;
}

unsigned ob_utf8_decode(const char *text, size_t width)
{
    static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned character = (unsigned char)text[0] & lead_bits[width];
    for (size_t i = 1; i < width; i++)
        character = character << 6 | ((unsigned char)text[i] & 0x3f);
    return character;
}

bool ob_utf8_controls(unsigned character)
{
    return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x61c || character == 0x200e ||
           character == 0x200f || (character >= 0x2028 && character <= 0x202e) ||
           (character >= 0x2066 && character <= 0x2069);
}
