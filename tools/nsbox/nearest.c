/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edit distance with swaps of neighbours (optimal string alignment): what fingers
 * do wrong. Runs in the command only. Must stay bounded: longer words than
 * WORD_MAX are never near anything.
 */
#include "tools/nsbox/nearest.h"

#include <string.h>

#define WORD_MAX 40

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static unsigned distance(const char *a, const char *b)
{
	unsigned d[WORD_MAX + 1][WORD_MAX + 1];
	size_t la = strlen(a), lb = strlen(b);

	for (size_t i = 0; i <= la; i++)
		d[i][0] = (unsigned)i;
	for (size_t j = 0; j <= lb; j++)
		d[0][j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		for (size_t j = 1; j <= lb; j++) {
			unsigned cost = a[i - 1] != b[j - 1];

			d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1,
					d[i - 1][j - 1] + cost);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[la][lb];
}

void nearest_offer(struct nearest *n, const char *candidate)
{
	size_t len = strlen(n->wanted);
	unsigned d;

	if (len > WORD_MAX || strlen(candidate) > WORD_MAX)
		return;
	d = distance(n->wanted, candidate);
	if (d > 1 + len / 4 || d >= strlen(candidate))
		return;
	if (n->best && n->distance <= d)
		return;
	n->best = candidate;
	n->distance = d;
}
