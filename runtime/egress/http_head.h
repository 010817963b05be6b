/* What the head of an HTTP/1 request says. Pure; parts of http.c. */
#ifndef EGRESS_HTTP_HEAD_H
#define EGRESS_HTTP_HEAD_H

#include "runtime/egress/http.h"

struct http_host {
	bool is_there;
	char name[EGRESS_NAME_MAX + 1];
	uint16_t port;
};
struct http_facts {
	bool is_http_1_0;
	struct http_host target, host;	/* of an absolute URI; of the header */
	bool has_length, has_coding;
	uint64_t length;
	bool is_chunked, wants_upgrade;
};

/* Neither 0 nor -1: refused, h->why says why. */
enum { HTTP_STOP = -2 };
int http_refuse(struct http *h, const char *why);

bool http_is_token(uint8_t c);
/* h->head is a whole head, with CR LF at the end of each line and no control character but
 * tabs. 0 or HTTP_STOP. */
int http_check_request_line(struct http *h); /* of it alone */
int http_read_head(struct http *h, struct http_facts *f);
int http_read_trailers(struct http *h);
/* Fills h->host. */
int http_judge_host(struct http *h, const struct http_facts *f, const struct http_rule *rule);

#endif
