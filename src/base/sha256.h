/* sha256.h - SHA-256 (FIPS 180-4) of a text that is in memory. For hashes of secrets that are random themselves; passwords need more. */
#ifndef OB_BASE_SHA256_H
#define OB_BASE_SHA256_H

#include <stddef.h>

enum { OB_SHA256_SIZE = 32 };

void ob_sha256(const void *data, size_t len, unsigned char hash[OB_SHA256_SIZE]);

#endif
