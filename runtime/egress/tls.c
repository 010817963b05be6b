/*
 * tls.c - see tls.h; RFC 8446 sections 4.1.2 and 5.1, RFC 6066 section 3
 *
 * Runs in the supervisor, on bytes that the box chose. A client that is let through on the
 * strength of this must not be able to show the server another name: so a hello that two
 * parsers could read differently is TLS_BAD, also where a lenient server would go on.
 *
 * Must:    check every length against the one around it, and that nothing is left over.
 * Mustn't: allocate; answer differently for the same bytes in other portions.
 */
#include "runtime/egress/tls.h"

#include <string.h>

enum {
	RECORD_HEAD = 5, RECORD_MAX = 16384, TYPE_HANDSHAKE = 22,
	MESSAGE_HEAD = 4, TYPE_CLIENT_HELLO = 1, MESSAGE_MAX = 16384,
	EXT_SERVER_NAME = 0, EXT_ENCRYPTED_CLIENT_HELLO = 0xfe0d, NAME_IS_HOST = 0,
};

/* --- what is left of a field, from the front ------------------------------------------- */

struct part {
	const uint8_t *p;
	size_t left;
	bool bad;	/* more was taken than was there: all later takes are empty */
};

static struct part take(struct part *from, size_t n)
{
	struct part piece = { from->p, n, false };

	if (from->bad || n > from->left) {
		from->bad = true;
		return (struct part){ from->p, 0, true };
	}
	from->p += n;
	from->left -= n;
	return piece;
}

static unsigned number(struct part *from, size_t bytes)
{
	struct part piece = take(from, bytes);
	unsigned n = 0;

	for (size_t i = 0; i < piece.left; i++)
		n = n << 8 | piece.p[i];
	return n;
}

/* A field with its length in front. */
static struct part vector(struct part *from, size_t bytes_of_length)
{
	return take(from, number(from, bytes_of_length));
}

/* --- the message ------------------------------------------------------------------------- */

/* A list of names of which RFC 6066 allows one of each type, and knows one type. */
static bool read_server_name(struct tls_hello *h, struct part ext)
{
	struct part list = vector(&ext, 2), name;
	unsigned type = number(&list, 1);

	name = vector(&list, 2);
	if (ext.bad || ext.left || list.bad || list.left || type != NAME_IS_HOST || !name.left ||
	    h->has_sni)
		return false;
	h->has_sni = true;
	if (!egress_name_canonical(h->name, (const char *)name.p, name.left))
		h->name[0] = '\0';
	return true;
}

static bool read_extensions(struct tls_hello *h, struct part all)
{
	while (all.left) {
		unsigned type = number(&all, 2);
		struct part ext = vector(&all, 2);

		if (all.bad)
			return false;
		if (type == EXT_SERVER_NAME && !read_server_name(h, ext))
			return false;
		if (type == EXT_ENCRYPTED_CLIENT_HELLO)
			h->has_ech = true;
	}
	return true;
}

static bool read_hello(struct tls_hello *h, struct part m)
{
	struct part session, ciphers, compression, extensions = { 0 };
	unsigned version = number(&m, 2);

	take(&m, 32); /* random */
	session = vector(&m, 1);
	ciphers = vector(&m, 2);
	compression = vector(&m, 1);
	if (m.left) /* a client of before 2003 ends here */
		extensions = vector(&m, 2);
	return !m.bad && !m.left && version >> 8 == 3 && session.left <= 32 && ciphers.left &&
	       ciphers.left % 2 == 0 && compression.left && read_extensions(h, extensions);
}

/* --- the records --------------------------------------------------------------------------- */

struct message {
	uint8_t bytes[MESSAGE_MAX];
	size_t len;
	size_t whole;	/* with its head; 0: not known yet */
};

/* Each byte is judged when it is there: no answer waits for a length that never comes. */
static enum tls_peek check_record_head(const uint8_t *p, size_t n, bool is_first)
{
	enum tls_peek no = is_first ? TLS_NOT : TLS_BAD;
	size_t length;

	if (n > 0 && p[0] != TYPE_HANDSHAKE)
		return no;
	/* 3.1 in the first hello of most clients, whatever they speak. */
	if ((n > 1 && p[1] != 3) || (n > 2 && p[2] > 4))
		return no;
	if (n < RECORD_HEAD)
		return TLS_MORE;
	length = (size_t)p[3] << 8 | p[4];
	return length == 0 || length > RECORD_MAX ? TLS_BAD : TLS_HELLO;
}

static enum tls_peek add_fragment(struct message *m, struct part there, size_t length)
{
	size_t room = sizeof(m->bytes) - m->len;
	size_t n = there.left < room ? there.left : room;

	memcpy(m->bytes + m->len, there.p, n);
	if (m->len == 0 && n && m->bytes[0] != TYPE_CLIENT_HELLO)
		return TLS_NOT;
	if (!m->whole && m->len + n >= MESSAGE_HEAD)
		m->whole = MESSAGE_HEAD + ((size_t)m->bytes[1] << 16 | (size_t)m->bytes[2] << 8 |
					   m->bytes[3]);
	if (m->whole > MESSAGE_MAX)
		return TLS_BAD;
	/* Nothing may share a record with the hello: what comes next has other keys, or waits
	 * for the server. */
	if (m->whole && m->len + length > m->whole)
		return TLS_BAD;
	m->len += n;
	return m->whole && m->len == m->whole ? TLS_HELLO : TLS_MORE;
}

static enum tls_peek gather(struct message *m, struct part in)
{
	for (bool is_first = true;; is_first = false) {
		enum tls_peek r = check_record_head(in.p, in.left, is_first);
		struct part there;
		size_t length;

		if (r != TLS_HELLO)
			return r;
		length = (size_t)in.p[3] << 8 | in.p[4];
		take(&in, RECORD_HEAD);
		there = take(&in, length < in.left ? length : in.left);
		r = add_fragment(m, there, length);
		if (r != TLS_MORE || there.left < length)
			return r;
	}
}

enum tls_peek tls_peek(struct tls_hello *out, const uint8_t *p, size_t len)
{
	struct part in = { p, len < TLS_HELLO_MAX ? len : TLS_HELLO_MAX, false };
	struct tls_hello h = { .has_sni = false };
	struct message m;
	enum tls_peek r;

	m.len = m.whole = 0;
	r = gather(&m, in);
	if (r == TLS_MORE && len >= TLS_HELLO_MAX)
		return TLS_BAD;
	if (r != TLS_HELLO)
		return r;
	if (!read_hello(&h, (struct part){ m.bytes + MESSAGE_HEAD, m.len - MESSAGE_HEAD, false }))
		return TLS_BAD;
	*out = h;
	return TLS_HELLO;
}
