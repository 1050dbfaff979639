/* number.c - exact decimals: read, compare, divide. */
#include "jsonschema/number.h"

#include <string.h>

/* The exponent after the e, or a value beyond the limit when it has too many digits. */
static int64_t read_exponent(const char *text, size_t len)
{
    bool negative = len && *text == '-';
    int64_t value = 0;
    for (size_t i = len && (*text == '-' || *text == '+') ? 1 : 0; i < len; i++) {
        value = value * 10 + (text[i] - '0');
        if (value > 4LL * OB_NUMBER_EXPONENT_MAX)
            break;
    }
    return negative ? -value : value;
}

/* Joins the digits on both sides of the decimal point. */
static const char *join(const char *whole, size_t whole_len, const char *part, size_t part_len, struct ob_arena *arena)
{
    char *digits = ob_arena_alloc(arena, whole_len + part_len);
    if (digits) {
        memcpy(digits, whole, whole_len);
        memcpy(digits + whole_len, part, part_len);
    }
    return digits;
}

enum ob_number_result ob_number_read(struct ob_number *number, const char *text, size_t len, struct ob_arena *arena)
{
    *number = (struct ob_number){.negative = *text == '-'};
    const char *end = text + len, *whole = text + number->negative, *digits = whole;
    size_t whole_len = 0, part_len = 0;
    while (whole + whole_len < end && whole[whole_len] >= '0' && whole[whole_len] <= '9')
        whole_len++;
    const char *part = whole + whole_len;
    if (part < end && *part == '.')
        for (part++; part + part_len < end && part[part_len] >= '0' && part[part_len] <= '9';)
            part_len++;
    const char *rest = part + part_len;
    int64_t exponent = rest < end ? read_exponent(rest + 1, (size_t)(end - rest - 1)) : 0;
    size_t count = whole_len + part_len;
    if (count > OB_NUMBER_DIGITS_MAX)
        return OB_NUMBER_TOO_BIG;
    if (part_len && !(digits = join(whole, whole_len, part, part_len, arena)))
        return OB_NUMBER_NOMEM;
    exponent -= (int64_t)part_len;
    while (count && *digits == '0')
        digits++, count--;
    while (count && digits[count - 1] == '0')
        count--, exponent++;
    if (count == 0) {
        *number = (struct ob_number){0};
        return OB_NUMBER_OK;
    }
    if (exponent > OB_NUMBER_EXPONENT_MAX || exponent < -OB_NUMBER_EXPONENT_MAX)
        return OB_NUMBER_TOO_BIG;
    number->digits = digits;
    number->count = (uint32_t)count;
    number->exponent = (int32_t)exponent;
    return OB_NUMBER_OK;
}

static int compare_size(const struct ob_number *a, const struct ob_number *b)
{
    int64_t top_a = (int64_t)a->count + a->exponent, top_b = (int64_t)b->count + b->exponent;
    if (top_a != top_b)
        return top_a < top_b ? -1 : 1;
    int order = memcmp(a->digits, b->digits, a->count < b->count ? a->count : b->count);
    return order ? order : (a->count > b->count) - (a->count < b->count);
}

int ob_number_compare(const struct ob_number *a, const struct ob_number *b)
{
    int sign_a = a->count == 0 ? 0 : a->negative ? -1 : 1;
    int sign_b = b->count == 0 ? 0 : b->negative ? -1 : 1;
    if (sign_a != sign_b || sign_a == 0)
        return sign_a - sign_b;
    return sign_a * compare_size(a, b);
}

bool ob_number_is_integer(const struct ob_number *number)
{
    return number->exponent >= 0;
}

static uint64_t multiply(uint64_t a, uint64_t b, uint64_t modulus)
{
    return (uint64_t)((unsigned __int128)a * b % modulus);
}

static uint64_t power_of_ten(uint32_t exponent, uint64_t modulus)
{
    uint64_t result = 1 % modulus, base = 10 % modulus;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1)
            result = multiply(result, base, modulus);
        base = multiply(base, base, modulus);
    }
    return result;
}

bool ob_number_is_multiple(const struct ob_number *number, const struct ob_number *divisor)
{
    if (number->count == 0)
        return true;
    /* Its last digit, which is not zero, is to the right of the divisor's last one. */
    if (number->exponent < divisor->exponent)
        return false;
    uint64_t modulus = 0, rest = 0;
    for (uint32_t i = 0; i < divisor->count; i++)
        modulus = modulus * 10 + (uint64_t)(divisor->digits[i] - '0');
    if (modulus == 0)
        return false; /* only zero is a multiple of zero */
    for (uint32_t i = 0; i < number->count; i++)
        rest = (multiply(rest, 10, modulus) + (uint64_t)(number->digits[i] - '0')) % modulus;
    uint32_t shift = (uint32_t)((int64_t)number->exponent - divisor->exponent);
    return multiply(rest, power_of_ten(shift, modulus), modulus) == 0;
}

bool ob_number_to_size(const struct ob_number *number, size_t *size)
{
    if (number->negative || number->exponent < 0)
        return false;
    size_t value = 0;
    *size = SIZE_MAX;
    if (number->count && number->exponent > 20)
        return true;
    for (uint32_t i = 0; i < number->count; i++)
        if (__builtin_mul_overflow(value, (size_t)10, &value) ||
            __builtin_add_overflow(value, (size_t)(number->digits[i] - '0'), &value))
            return true;
    for (int32_t i = 0; i < number->exponent; i++)
        if (__builtin_mul_overflow(value, (size_t)10, &value))
            return true;
    *size = value;
    return true;
}
