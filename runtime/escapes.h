/*
 * What a program may not send to the caller's terminal. Colours, cursor movement and
 * the like pass; taken out is what reaches beyond the screen:
 *   - strings that the terminal obeys or keeps: OSC (title, clipboard: OSC 52), DCS, APC,
 *     PM, SOS, also in their 8-bit (C1) form;
 *   - without a pty, questions that the terminal answers by typing: the answer would
 *     stand in the caller's shell (device and cursor reports, ENQ). With a pty the answer
 *     goes to the program that asked.
 */
#ifndef RUNTIME_ESCAPES_H
#define RUNTIME_ESCAPES_H

#include <stdbool.h>
#include <stddef.h>

enum { ESCAPES_HELD_MAX = 64 };

struct escapes {
	bool may_ask;		/* a pty: answers go into the box */
	unsigned char state;
	unsigned char held[ESCAPES_HELD_MAX]; /* a sequence that is not complete yet */
	size_t held_len;
	size_t string_len;	/* bytes of the string that is being dropped */
};

/* Filter len bytes from in to out, which has room for len + ESCAPES_HELD_MAX bytes and
 * may overlap in when it starts at least ESCAPES_HELD_MAX bytes before. Returns bytes
 * written. A sequence may be split over calls at any place. */
size_t escapes_filter(struct escapes *e, const void *in, size_t len, void *out);

#endif
