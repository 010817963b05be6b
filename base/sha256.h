/*
 * SHA-256 (FIPS 180-4). Ours because the command is one static binary against
 * musl, where no packaged hash library can be linked; checked against
 * sha256sum(1) and the standard's vectors in the tests.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
	uint32_t h[8];
	uint64_t total;
	unsigned char block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t len);
void sha256_end(struct sha256 *s, unsigned char digest[32]);
void sha256_hex(const unsigned char digest[32], char text[65]);

#endif
