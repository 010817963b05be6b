/*
 * escapes.c - the filter between a box and the caller's terminal. Pure.
 *
 * A state machine after ECMA-48: ESC starts a sequence, ESC [ a control sequence with a
 * final byte 0x40..0x7e, ESC ] P X ^ _ a string up to ESC \ or BEL.
 */
#include "runtime/escapes.h"

#include <string.h>

enum state { GROUND, AFTER_ESC, IN_CSI, IN_STRING, ESC_IN_STRING, AFTER_C2 };

enum {
	BEL = 0x07, ENQ = 0x05, CAN = 0x18, SUB = 0x1a, ESC = 0x1b,
	C2 = 0xc2,		/* UTF-8 lead byte of U+0080..U+00BF, C1 among them */
	STRING_MAX = 65536,	/* an unfinished string swallows no more than this */
};

struct sink {
	unsigned char *at;
};

static void emit(struct sink *s, const unsigned char *data, size_t len)
{
	memmove(s->at, data, len);
	s->at += len;
}

static void hold(struct escapes *e, unsigned char c)
{
	e->held[e->held_len++] = c;
}

static void release(struct escapes *e, struct sink *s)
{
	emit(s, e->held, e->held_len);
	e->held_len = 0;
	e->state = GROUND;
}

static void forget(struct escapes *e, enum state next)
{
	e->held_len = 0;
	e->string_len = 0;
	e->state = (unsigned char)next;
}

static bool starts_string(unsigned char c)
{
	return c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_';
}

/* Final bytes of control sequences that a terminal answers: DA, DSR, DECREQTPARM, window
 * reports, XTVERSION. */
static bool asks(unsigned char final)
{
	return final == 'c' || final == 'n' || final == 't' || final == 'x' || final == 'q';
}

static void in_ground(struct escapes *e, unsigned char c, struct sink *s)
{
	if (c == ESC || c == C2) {
		hold(e, c);
		e->state = c == ESC ? AFTER_ESC : AFTER_C2;
	} else if (c != ENQ || e->may_ask) {
		emit(s, &c, 1);
	}
}

/* U+0090 and its like are the 8-bit forms of ESC P and its like: minus 0x40. */
static void after_c2(struct escapes *e, unsigned char c, struct sink *s)
{
	unsigned char seven_bit = (unsigned char)(c - 0x40);

	if (c >= 0x80 && c <= 0x9f && starts_string(seven_bit)) {
		forget(e, IN_STRING);
	} else if (c == 0x9b) {
		hold(e, c);
		e->state = IN_CSI;
	} else if (c == 0x9a && !e->may_ask) { /* DECID */
		forget(e, GROUND);
	} else {
		hold(e, c);
		release(e, s);
	}
}

static void after_esc(struct escapes *e, unsigned char c, struct sink *s)
{
	if (starts_string(c)) {
		forget(e, IN_STRING);
	} else if (c == '[') {
		hold(e, c);
		e->state = IN_CSI;
	} else if (c == 'Z' && !e->may_ask) { /* DECID */
		forget(e, GROUND);
	} else if (c == ESC) {
		release(e, s);
		in_ground(e, c, s);
	} else {
		hold(e, c);
		release(e, s);
	}
}

static void in_csi(struct escapes *e, unsigned char c, struct sink *s)
{
	if (c == ESC || c == CAN || c == SUB) { /* it never was one */
		forget(e, GROUND);
		in_ground(e, c, s);
	} else if (c >= 0x40 && c <= 0x7e) {
		hold(e, c);
		if (asks(c) && !e->may_ask)
			forget(e, GROUND);
		else
			release(e, s);
	} else if (e->held_len + 1 < ESCAPES_HELD_MAX) {
		hold(e, c);
	} else { /* longer than any that means something */
		forget(e, GROUND);
	}
}

static void in_string(struct escapes *e, unsigned char c)
{
	if (c == BEL || c == CAN || c == SUB || ++e->string_len > STRING_MAX)
		forget(e, GROUND);
	else if (c == ESC)
		e->state = ESC_IN_STRING;
}

/* ESC \ ends the string; any other ESC ends it too and begins a sequence of its own. */
static void esc_in_string(struct escapes *e, unsigned char c, struct sink *s)
{
	forget(e, GROUND);
	if (c == '\\')
		return;
	hold(e, ESC);
	e->state = AFTER_ESC;
	after_esc(e, c, s);
}

size_t escapes_filter(struct escapes *e, const void *in, size_t len, void *out)
{
	const unsigned char *at = in;
	struct sink s = { out };

	for (size_t i = 0; i < len; i++) {
		unsigned char c = at[i];

		switch ((enum state)e->state) {
		case GROUND:
			in_ground(e, c, &s);
			break;
		case AFTER_ESC:
			after_esc(e, c, &s);
			break;
		case IN_CSI:
			in_csi(e, c, &s);
			break;
		case IN_STRING:
			in_string(e, c);
			break;
		case ESC_IN_STRING:
			esc_in_string(e, c, &s);
			break;
		case AFTER_C2:
			after_c2(e, c, &s);
			break;
		}
	}
	return (size_t)(s.at - (unsigned char *)out);
}
