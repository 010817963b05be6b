/*
 * hash.c - see hash.h. Runs in the supervisor.
 *
 * Mustn't: fall back to anything guessable when getrandom(2) fails.
 */
#include "runtime/egress/hash.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

int random_bytes(void *to, size_t len)
{
	char *at = to;

	while (len) {
		ssize_t n = getrandom(at, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

struct sip {
	uint64_t a, b, c, d;
};

static uint64_t turn(uint64_t v, int bits)
{
	return v << bits | v >> (64 - bits);
}

static void sip_rounds(struct sip *s, int n)
{
	while (n-- > 0) {
		s->a += s->b;
		s->c += s->d;
		s->b = turn(s->b, 13) ^ s->a;
		s->d = turn(s->d, 16) ^ s->c;
		s->a = turn(s->a, 32) + s->d;
		s->c += s->b;
		s->d = turn(s->d, 21) ^ s->a;
		s->b = turn(s->b, 17) ^ s->c;
		s->c = turn(s->c, 32);
	}
}

static void sip_word(struct sip *s, uint64_t word)
{
	s->d ^= word;
	sip_rounds(s, 2);
	s->a ^= word;
}

uint64_t hash_bytes(const struct hash_key *key, const void *data, size_t len)
{
	struct sip s = {
		key->k0 ^ UINT64_C(0x736f6d6570736575), key->k1 ^ UINT64_C(0x646f72616e646f6d),
		key->k0 ^ UINT64_C(0x6c7967656e657261), key->k1 ^ UINT64_C(0x7465646279746573),
	};
	const uint8_t *p = data;
	uint64_t word = 0;

	for (size_t i = 0; i < len; i++) {
		word |= (uint64_t)p[i] << (8 * (i % 8));
		if (i % 8 != 7)
			continue;
		sip_word(&s, word);
		word = 0;
	}
	sip_word(&s, word | (uint64_t)len << 56);
	s.c ^= 0xff;
	sip_rounds(&s, 4);
	return s.a ^ s.b ^ s.c ^ s.d;
}
