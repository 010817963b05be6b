/*
 * DNS messages of a stranger, as a question and as an answer, and the text of a hosts file.
 * Besides not crashing: what we write is read again as the same, an answer stays within its
 * bounds, and what is passed on means what it meant. libFuzzer entry point; the seeds are in
 * corpus/dns. The first byte says what the rest is.
 */
#include "runtime/egress/dns_wire.h"
#include "runtime/egress/hosts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static void check_name(const struct dns_name *n)
{
	char text[EGRESS_NAME_MAX + 1];
	struct dns_name again;

	require(n->len >= 1 && n->wire[n->len - 1] == 0);
	if (!dns_name_text(text, n))
		return;
	require(strlen(text) <= EGRESS_NAME_MAX);
	require(dns_name_set(&again, text) && again.len == n->len);
	require(memcmp(again.wire, n->wire, n->len) == 0);
}

/* Our answer to it is an answer to it, in whatever room. */
static void check_reply(const struct dns_query *q, size_t room)
{
	struct egress_addr addrs[4] = { { .family = q->type == DNS_A ? 4 : 6 } };
	struct dns_reply r = { .ttl = 60, .addrs = addrs };
	uint8_t out[600];
	struct dns_result back;
	size_t n;

	addrs[1] = addrs[2] = addrs[3] = addrs[0];
	r.count = q->type == DNS_A || q->type == DNS_AAAA ? 4 : 0;
	n = dns_write_answer(out, room, q, &r);
	require(n <= room);
	if (!n)
		return;
	require(dns_read_answer(&back, q, out, n) == DNS_OURS);
	if (q->class == DNS_CLASS_IN)
		require(back.truncated || back.count == r.count);
}

static void check_question(const uint8_t *p, size_t len)
{
	uint8_t out[DNS_QUERY_MAX];
	struct dns_query q, again;
	enum dns_rcode rcode;
	size_t n;

	if (dns_read_query(&q, &rcode, p, len) == DNS_DROP)
		return;
	if (rcode != DNS_NOERROR) {
		n = dns_write_answer(out, sizeof(out), &q, &(struct dns_reply){ .rcode = rcode });
		require(n >= DNS_HEADER && (out[3] & 15) == (rcode & 15));
		return;
	}
	check_name(&q.name);
	n = dns_write_query(out, sizeof(out), &q);
	require(n && dns_read_query(&again, &rcode, out, n) == DNS_QUESTION);
	require(again.id == q.id && again.type == q.type && again.class == q.class);
	require(again.name.len == q.name.len &&
		memcmp(again.name.wire, q.name.wire, q.name.len) == 0);
	require(again.has_edns == q.has_edns && again.wants_dnssec == q.wants_dnssec);
	for (size_t room = 0; room <= 600; room += 25)
		check_reply(&q, room);
}

static void check_relay(const struct dns_query *q, const struct dns_result *r, const uint8_t *p,
			size_t len)
{
	uint8_t *out = malloc(len + 600);
	struct dns_result back;
	size_t n;

	require(out != NULL);
	n = dns_write_relay(out, len + 600, q, r, p);
	require(n && n <= len);
	require(dns_read_answer(&back, q, out, n) == DNS_OURS);
	require(back.answers == r->answers && back.count == r->count && back.links == r->links);
	require(memcmp(back.addrs, r->addrs, sizeof(r->addrs)) == 0);
	require(dns_name_equal(&back.last, &r->last) && back.only_asked == r->only_asked);
	free(out);
}

static void check_answer(const uint8_t *p, size_t len)
{
	struct dns_query q = { .class = DNS_CLASS_IN };
	struct dns_result r;
	size_t at = DNS_HEADER;

	if (len < DNS_HEADER || !dns_name_read(&q.name, p, len, &at) || len - at < 4)
		return;
	q.id = (uint16_t)(p[0] << 8 | p[1]);
	q.type = (uint16_t)(p[at] << 8 | p[at + 1]);
	if (dns_read_answer(&r, &q, p, len) != DNS_OURS || r.truncated)
		return;
	require(r.count <= DNS_ADDRS && r.links <= DNS_CHAIN);
	require(r.answers_at <= r.answers_end && r.answers_end <= len);
	require(r.count == 0 || q.type == DNS_A || q.type == DNS_AAAA);
	for (unsigned i = 0; i < r.count; i++)
		require(r.addrs[i].family == (q.type == DNS_A ? 4 : 6));
	check_name(&r.last);
	check_relay(&q, &r, p, len);
	q.id ^= 1;
	require(dns_read_answer(&r, &q, p, len) == DNS_FOREIGN);
}

static void check_hosts(const uint8_t *p, size_t len)
{
	struct egress_addr a[4];
	struct egress_addr reverse;
	char name[64];
	size_t n = len < sizeof(name) ? len : sizeof(name) - 1;

	memcpy(name, p, n);
	name[n] = '\0';
	dns_reverse(&reverse, name);
	for (unsigned max = 0; max <= 4; max++) {
		unsigned found = hosts_find((const char *)p, len, "a.test", a, max);

		require(found <= max);
		for (unsigned i = 0; i < found; i++)
			require(a[i].family == 4 || a[i].family == 6);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const checks[])(const uint8_t *, size_t) = {
		check_question, check_answer, check_hosts,
	};

	if (size)
		checks[data[0] % 3](data + 1, size - 1);
	return 0;
}
