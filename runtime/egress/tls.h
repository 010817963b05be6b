/* The first bytes of a TLS client: who does it say it wants? Pure. */
#ifndef EGRESS_TLS_H
#define EGRESS_TLS_H

#include "policy/egress.h"

/* Bytes of a connection's beginning that are looked at: a ClientHello over several records.
 * From so many on the answer is never TLS_MORE. */
enum { TLS_HELLO_MAX = 16384 + 5 * 4 };
enum tls_peek {
	TLS_MORE,	/* a beginning: give more (all bytes again) */
	TLS_HELLO,	/* complete */
	TLS_NOT,	/* these bytes are no TLS ClientHello */
	TLS_BAD,	/* one that is malformed, too long, or has two names */
};
struct tls_hello {
	char name[EGRESS_NAME_MAX + 1]; /* canonical; "": no SNI, or not a host name */
	bool has_sni;		/* with name "": it is not a host name */
	bool has_ech;		/* encrypted_client_hello: the real name may be another. Also
				   in what a browser sends to a host without it (GREASE) */
};
/* *out is written with TLS_HELLO only. What follows the ClientHello is not looked at. */
enum tls_peek tls_peek(struct tls_hello *out, const uint8_t *p, size_t len);

#endif
