/*
 * Owns: SHA-256 as FIPS 180-4 section 6.2 describes it. Pure.
 * Must: accept input in pieces of any size. Mustn't: allocate.
 */
#include "base/sha256.h"

#include <string.h>

/* Fractional parts of the cube roots of the first 64 primes (section 4.2.2). */
static const uint32_t K[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t turn(uint32_t x, unsigned by)
{
	return x >> by | x << (32 - by);
}

static uint32_t word(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void schedule(uint32_t w[64], const unsigned char *block)
{
	for (int t = 0; t < 16; t++)
		w[t] = word(block + 4 * t);
	for (int t = 16; t < 64; t++) {
		uint32_t a = w[t - 15], b = w[t - 2];

		w[t] = w[t - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[t - 7] +
		       (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
	}
}

static void compress(uint32_t h[8], const unsigned char *block)
{
	uint32_t w[64], v[8];

	schedule(w, block);
	memcpy(v, h, sizeof(v));
	for (int t = 0; t < 64; t++) {
		uint32_t e = v[4], a = v[0];
		uint32_t choose = (e & v[5]) ^ (~e & v[6]);
		uint32_t most = (a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]);
		uint32_t t1 = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + choose + K[t] +
			      w[t];
		uint32_t t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + most;

		memmove(v + 1, v, 7 * sizeof(v[0]));
		v[4] += t1;
		v[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++)
		h[i] += v[i];
}

void sha256_init(struct sha256 *s)
{
	/* Fractional parts of the square roots of the first eight primes. */
	static const uint32_t start[8] = {
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	};

	memcpy(s->h, start, sizeof(start));
	s->total = 0;
}

void sha256_add(struct sha256 *s, const void *data, size_t len)
{
	const unsigned char *at = data;
	size_t have = s->total % 64;

	s->total += len;
	if (have && len >= 64 - have) {
		memcpy(s->block + have, at, 64 - have);
		compress(s->h, s->block);
		at += 64 - have;
		len -= 64 - have;
		have = 0;
	}
	for (; !have && len >= 64; at += 64, len -= 64)
		compress(s->h, at);
	if (len)
		memcpy(s->block + have, at, len);
}

void sha256_end(struct sha256 *s, unsigned char digest[32])
{
	uint64_t bits = s->total * 8;
	unsigned char tail[72] = { 0x80 };
	/* The bit 1, then zeros so that 8 bytes of length end a block. */
	size_t pad = 64 - (s->total + 8) % 64;

	for (int i = 0; i < 8; i++)
		tail[pad + (size_t)i] = (unsigned char)(bits >> (56 - 8 * i));
	sha256_add(s, tail, pad + 8);
	for (int i = 0; i < 32; i++)
		digest[i] = (unsigned char)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_hex(const unsigned char digest[32], char text[65])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < 32; i++) {
		text[2 * i] = digits[digest[i] >> 4];
		text[2 * i + 1] = digits[digest[i] & 15];
	}
	text[64] = '\0';
}
