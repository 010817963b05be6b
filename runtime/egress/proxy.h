/* The dialog with a proxy of the host's, until the tunnel stands: CONNECT (RFC 9110) or
 * SOCKS5 (RFC 1928, 1929). Pure: bytes in, bytes out. */
#ifndef EGRESS_PROXY_H
#define EGRESS_PROXY_H

#include "policy/egress.h"
#include "runtime/egress_wire.h"

enum {
	PROXY_LOGIN_MAX = 255,	/* bytes of a user or password: RFC 1929 */
	PROXY_SAY_MAX = 3 + 2 * PROXY_LOGIN_MAX + 4 + 1 + 255 + 2,
};
enum proxy_state { PROXY_TALKING, PROXY_OPEN, PROXY_REFUSED };
struct proxy_dialog {
	enum proxy_state state;
	char why[128];		/* PROXY_REFUSED: without a secret, without the proxy's words */
	/* the rest is proxy.c's own */
	int step;
	bool has_login;
	uint8_t in[2048];
	size_t in_len;
	uint8_t say[PROXY_SAY_MAX]; /* SOCKS5: the login, then the request */
	size_t login_len, say_len;
};
struct proxy_ask {
	enum egress_proxy_kind kind;
	const char *user, *password; /* NULL or "": no login; no password */
	const char *host;	/* a name or an address's text */
	uint16_t port;
};
/* What to say first goes to `out`. May end as PROXY_REFUSED at once. */
void proxy_begin(struct proxy_dialog *d, const struct proxy_ask *ask, struct buf *out);
/* Bytes from the proxy: how many were taken (what follows the end of the dialog is the
 * server's), and what to say next in `out`. */
size_t proxy_hear(struct proxy_dialog *d, const uint8_t *data, size_t len, struct buf *out);

#endif
