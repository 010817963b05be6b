/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the closest of a set of words, if any is close enough. */
#ifndef NSBOX_NEAREST_H
#define NSBOX_NEAREST_H

struct nearest {
	const char *wanted;	/* what was typed */
	const char *best;	/* NULL: nothing close yet */
	unsigned distance;	/* of best */
};
#define NEAREST_INIT(word) { .wanted = (word) }

void nearest_offer(struct nearest *n, const char *candidate);

#endif
