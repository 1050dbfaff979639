/* net_guard.c - see net_guard.h. Addresses are held as sixteen bytes, those of IPv4 in their mapped form
 * (::ffff:0:0/96): so one comparison serves both, and a mapped address cannot slip past a rule for IPv4. */
#include "sink/curl/net_guard.h"

#include "base/alloc.h"
#include "base/error.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { MAPPED = 96, ANY = -1 }; /* bits before the IPv4 address; the range of everything */

struct ob_net_range {
    uint8_t bytes[16];
    int bits;
};

#define V4(a, b, c, d, len) \
    { \
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}, MAPPED + (len) \
    }
#define V6(a, b, c, d, e, f, len) \
    { \
        {(a) >> 8, (a)&255, (b) >> 8, (b)&255, (c) >> 8, (c)&255, \
         (d) >> 8, (d)&255, (e) >> 8, (e)&255, (f) >> 8, (f)&255}, \
            len \
    }

/* The ranges of the special-purpose registries, and those that lead to IPv4 indirectly. */
static const struct ob_net_range refused[] = {
    V4(0, 0, 0, 0, 8),                 /* this host */
    V4(10, 0, 0, 0, 8),                /* private */
    V4(100, 64, 0, 0, 10),             /* carrier-grade NAT; holds a metadata service too */
    V4(127, 0, 0, 0, 8),               /* loopback */
    V4(168, 63, 129, 16, 32),          /* what a virtual machine of Azure asks about itself */
    V4(169, 254, 0, 0, 16),            /* link-local, metadata services */
    V4(172, 16, 0, 0, 12),             /* private */
    V4(192, 0, 0, 0, 24),              /* protocol assignments */
    V4(192, 0, 2, 0, 24),              /* documentation */
    V4(192, 88, 99, 0, 24),            /* 6to4 relays */
    V4(192, 168, 0, 0, 16),            /* private */
    V4(198, 18, 0, 0, 15),             /* benchmarks */
    V4(198, 51, 100, 0, 24),           /* documentation */
    V4(203, 0, 113, 0, 24),            /* documentation */
    V4(224, 0, 0, 0, 4),               /* multicast */
    V4(240, 0, 0, 0, 4),               /* reserved, broadcast */
    V6(0, 0, 0, 0, 0, 0, 96),          /* unspecified, loopback, IPv4-compatible */
    V6(0, 0, 0, 0, 0xffff, 0, 96),     /* IPv4-translated */
    V6(0x64, 0xff9b, 0, 0, 0, 0, 96),  /* NAT64 */
    V6(0x64, 0xff9b, 1, 0, 0, 0, 48),  /* NAT64, local use */
    V6(0x100, 0, 0, 0, 0, 0, 64),      /* discard */
    V6(0x2001, 0, 0, 0, 0, 0, 23),     /* protocol assignments, Teredo among them */
    V6(0x2001, 0xdb8, 0, 0, 0, 0, 32), /* documentation */
    V6(0x2002, 0, 0, 0, 0, 0, 16),     /* 6to4 */
    V6(0x3fff, 0, 0, 0, 0, 0, 20),     /* documentation */
    V6(0x5f00, 0, 0, 0, 0, 0, 16),     /* segment routing */
    V6(0xfc00, 0, 0, 0, 0, 0, 7),      /* unique local */
    V6(0xfe80, 0, 0, 0, 0, 0, 10),     /* link-local */
    V6(0xfec0, 0, 0, 0, 0, 0, 10),     /* site-local */
    V6(0xff00, 0, 0, 0, 0, 0, 8),      /* multicast */
};

void ob_net_guard_init(struct ob_net_guard *guard)
{
    memset(guard, 0, sizeof *guard);
}

void ob_net_guard_fini(struct ob_net_guard *guard)
{
    ob_free(guard->allowed);
    ob_net_guard_init(guard);
}

static void map_v4(uint8_t bytes[16], const void *v4)
{
    memset(bytes, 0, 10);
    bytes[10] = bytes[11] = 0xff;
    memcpy(bytes + 12, v4, 4);
}

/* Returns how many bits precede the part that a CIDR counts; -1 if this is not an address. */
static int parse(const char *text, uint8_t bytes[16])
{
    struct in_addr v4;
    if (inet_pton(AF_INET, text, &v4) == 1) {
        map_v4(bytes, &v4);
        return MAPPED;
    }
    return inet_pton(AF_INET6, text, bytes) == 1 ? 0 : -1;
}

static bool within(const uint8_t bytes[16], const struct ob_net_range *range)
{
    int whole = range->bits / 8, rest = range->bits % 8;
    if (memcmp(bytes, range->bytes, (size_t)whole) != 0)
        return false;
    return !rest || ((bytes[whole] ^ range->bytes[whole]) >> (8 - rest)) == 0;
}

static bool range_parse(const char *cidr, struct ob_net_range *range)
{
    char text[64];
    const char *slash = strchr(cidr, '/');
    size_t len = slash ? (size_t)(slash - cidr) : strlen(cidr);
    if (strcmp(cidr, "any") == 0) {
        range->bits = ANY;
        return true;
    }
    if (len >= sizeof text)
        return false;
    memcpy(text, cidr, len);
    text[len] = '\0';
    int before = parse(text, range->bytes);
    range->bits = 128;
    if (before < 0)
        return false;
    if (!slash)
        return true;
    char *end;
    long bits = strtol(slash + 1, &end, 10);
    if (slash[1] < '0' || slash[1] > '9' || *end || bits > 128 - before)
        return false;
    range->bits = before + (int)bits;
    return true;
}

enum outbox_code ob_net_guard_allow(struct ob_net_guard *guard, const char *cidr, struct outbox_error *err)
{
    struct ob_net_range range;
    if (!range_parse(cidr, &range))
        return ob_error_set(err, OUTBOX_INVALID,
                            "\"%s\" is not an address range; write 127.0.0.0/8, ::1 or fd00::/8, or \"any\"", cidr);
    size_t size = guard->count * sizeof range;
    struct ob_net_range *grown = ob_realloc(guard->allowed, size, size + sizeof range);
    if (!grown)
        return ob_error_nomem(err);
    guard->allowed = grown;
    guard->allowed[guard->count++] = range;
    return OUTBOX_OK;
}

/* A wide range of IPv6, such as ::/1, holds the mapped addresses too: it must not let IPv4 in by surprise. */
static bool allows(const struct ob_net_range *range, const uint8_t bytes[16])
{
    static const struct ob_net_range mapped = V4(0, 0, 0, 0, 0);
    if (range->bits == ANY)
        return true;
    return within(bytes, range) && (range->bits >= MAPPED || !within(bytes, &mapped));
}

/* ISATAP (RFC 5214): under any prefix, the last four bytes are an address of IPv4 that the packet is sent to. */
static bool is_isatap(const uint8_t bytes[16])
{
    return (bytes[8] & ~2) == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe;
}

static bool passes(const struct ob_net_guard *guard, const uint8_t bytes[16])
{
    for (size_t i = 0; i < guard->count; i++)
        if (allows(&guard->allowed[i], bytes))
            return true;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (within(bytes, &refused[i]))
            return false;
    return !is_isatap(bytes);
}

bool ob_net_guard_passes(const struct ob_net_guard *guard, const struct sockaddr *address, size_t len)
{
    uint8_t bytes[16];
    if (address->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        map_v4(bytes, &v4.sin_addr);
        return passes(guard, bytes);
    }
    if (address->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        return passes(guard, v6.sin6_addr.s6_addr);
    }
    return false;
}

bool ob_net_guard_passes_text(const struct ob_net_guard *guard, const char *address)
{
    uint8_t bytes[16];
    return address && parse(address, bytes) >= 0 && passes(guard, bytes);
}
