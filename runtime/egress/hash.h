/* Hashing of what the payload chooses: keyed, so that it cannot choose collisions. */
#ifndef EGRESS_HASH_H
#define EGRESS_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_key {
	uint64_t k0, k1;
};
/* 0, or -1: the kernel gives no random bytes. Then nothing that needs them may go on. */
int random_bytes(void *to, size_t len);
uint64_t hash_bytes(const struct hash_key *key, const void *data, size_t len); /* SipHash-2-4 */

#endif
