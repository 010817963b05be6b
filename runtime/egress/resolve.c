/*
 * resolve.c - see resolve.h. Runs in the supervisor, in the host's network namespace.
 *
 * One entry a name: first it waits in a queue, then it asks for A and AAAA at once, then it
 * is known for its TTL. Whoever asks for the name meanwhile joins its waiters.
 *
 * Must: bound entries, questions under way and the queue; the payload chooses the names.
 */
#include "runtime/egress/resolve.h"

#include "base/cleanup.h"
#include "runtime/egress/hash.h"
#include "runtime/egress/hosts.h"
#include "runtime/egress/resolve_order.h"

#include <stddef.h>
#include <string.h>

enum {
	KNOWN_MAX = 1024, FLIGHT_MAX = 256, QUEUE_MAX = 1024,
	BUCKETS = 1024,
	SECOND = 1000000, FAILURE_TTL = 2, HALF_TTL = 30, TTL_MAX = 300, STATIC_TTL = TTL_MAX,
	GRACE_US = 300000,	/* for the other family, once one has addresses: RFC 8305, 3 */
	SILENT_US = 30 * SECOND, /* a server that did not answer is asked last for so long */
	TIMEOUT_MS = 5000, TIMEOUT_MS_MAX = 30000, ATTEMPTS = 2, ATTEMPTS_MAX = 5, /* resolv.conf(5) */
};

enum state { QUEUED, ASKING, KNOWN };
struct half {			/* one family of a name */
	struct ask ask;
	struct entry *of;
	bool over;
	enum lookup_result result;
	struct egress_addr addrs[DNS_ADDRS];
	unsigned count, links;
	uint32_t ttl;
};
struct entry {
	struct resolver *resolver;
	char name[EGRESS_NAME_MAX + 1];
	enum state state;
	struct entry *chain;		/* of the bucket */
	struct entry *next, **self;	/* QUEUED, KNOWN: of that list, oldest first */
	struct lookup *waiters;
	struct half *halves;		/* ASKING: A, AAAA */
	struct timer timer;		/* ASKING: grace; KNOWN: tell the waiters */
	uint32_t generation;		/* of the configuration it was asked under */
	enum lookup_result result;
	struct egress_addr addrs[LOOKUP_ADDRS];
	unsigned count;
	uint64_t until_us;
};
struct list {
	struct entry *first, **end;
	unsigned count;
};
struct resolver {
	struct loop *loop;
	struct hash_key key;
	struct entry *buckets[BUCKETS];
	struct list queue, known;
	unsigned flight;
	struct ask_servers servers;
	uint64_t silent_until[EGRESS_SERVERS];
	char *hosts;
	size_t hosts_len;
	uint32_t generation;
};

const char *lookup_text(enum lookup_result r)
{
	static const char *const text[] = {
		[LOOKUP_FOUND] = "found",
		[LOOKUP_NO_NAME] = "no such name",
		[LOOKUP_NO_ADDRESS] = "the name has no address",
		[LOOKUP_FAILED] = "the name servers could not answer",
		[LOOKUP_TIMEOUT] = "the name servers did not answer in time",
	};

	return text[r];
}

/* --- lists and table --------------------------------------------------------- */

static void list_add(struct list *l, struct entry *e)
{
	e->next = NULL;
	e->self = l->end;
	*l->end = e;
	l->end = &e->next;
	l->count++;
}

static void list_remove(struct list *l, struct entry *e)
{
	*e->self = e->next;
	if (e->next)
		e->next->self = e->self;
	else
		l->end = e->self;
	l->count--;
}

static struct entry **slot_of(struct resolver *r, const char *name)
{
	struct entry **at = &r->buckets[hash_bytes(&r->key, name, strlen(name)) % BUCKETS];

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->chain;
	return at;
}

static void drop_halves(struct entry *e)
{
	if (!e->halves)
		return;
	for (int i = 0; i < 2; i++)
		ask_cancel(&e->halves[i].ask);
	free(e->halves);
	e->halves = NULL;
}

/* Nobody waits for it. */
static void forget(struct entry *e)
{
	struct resolver *r = e->resolver;

	*slot_of(r, e->name) = e->chain;
	if (e->state == KNOWN)
		list_remove(&r->known, e);
	else if (e->state == QUEUED)
		list_remove(&r->queue, e);
	else
		r->flight--;
	drop_halves(e);
	timer_clear(&e->timer);
	free(e);
}

static void add_waiter(struct entry *e, struct lookup *l)
{
	l->next = e->waiters;
	l->self = &e->waiters;
	if (l->next)
		l->next->self = &l->next;
	e->waiters = l;
	if (e->state == KNOWN)
		timer_set(e->resolver->loop, &e->timer, loop_now());
}

static void remove_waiter(struct lookup *l)
{
	*l->self = l->next;
	if (l->next)
		l->next->self = l->self;
	l->next = NULL;
	l->self = NULL;
}

/* The oldest that nobody waits for. */
static void make_room(struct resolver *r)
{
	struct entry *e = r->known.first;

	while (e && e->waiters)
		e = e->next;
	if (e && r->known.count > KNOWN_MAX)
		forget(e);
}

/* --- known ------------------------------------------------------------------- */

/* A callback may ask, cancel and so free entries: nothing of `e` is used after the first. */
static void tell_waiters(struct timer *t)
{
	struct entry *e = PART_OF(t, struct entry, timer);
	struct lookup *waiters = e->waiters;
	struct egress_addr addrs[LOOKUP_ADDRS];
	enum lookup_result result = e->result;
	unsigned count = e->count;

	memcpy(addrs, e->addrs, sizeof(addrs));
	e->waiters = NULL;
	if (waiters)
		waiters->self = &waiters;
	while (waiters) {
		struct lookup *l = waiters;

		remove_waiter(l);
		memcpy(l->addrs, addrs, sizeof(addrs));
		l->count = count;
		l->done(l, result);
	}
}

/* It is in no list now. */
static void become_known(struct entry *e, enum lookup_result result, uint32_t ttl)
{
	struct resolver *r = e->resolver;

	e->state = KNOWN;
	e->result = result;
	e->until_us = e->generation == r->generation ? loop_now() + (uint64_t)ttl * SECOND : 0;
	e->timer.fire = tell_waiters;
	list_add(&r->known, e);
	if (e->waiters)
		timer_set(r->loop, &e->timer, loop_now());
	make_room(r);
}

/* --- asking ------------------------------------------------------------------ */

static void begin_queued(struct resolver *r);

static uint32_t clamp_ttl(uint32_t ttl)
{
	return ttl < 1 ? 1 : ttl > TTL_MAX ? TTL_MAX : ttl;
}

/* Which of two results is the name's, when neither has addresses: "there is no such name"
 * only when both say so, and nothing for sure when one is not known. */
static const struct half *worse(const struct half *a, const struct half *b)
{
	return a->result >= b->result ? a : b;
}

static void finish(struct entry *e)
{
	struct resolver *r = e->resolver;
	struct half *a = &e->halves[0], *aaaa = &e->halves[1];
	const struct half *says = worse(a, aaaa);
	enum lookup_result result = says->result;
	uint32_t ttl = a->ttl < aaaa->ttl ? a->ttl : aaaa->ttl;

	e->count = order_addrs(e->addrs, aaaa->addrs, aaaa->count, a->addrs, a->count);
	if (result >= LOOKUP_FAILED)
		ttl = e->count ? (ttl < HALF_TTL ? ttl : HALF_TTL) : FAILURE_TTL;
	if (e->count)
		result = LOOKUP_FOUND;
	drop_halves(e);
	timer_clear(&e->timer);
	r->flight--;
	become_known(e, result, clamp_ttl(ttl));
	begin_queued(r);
}

static void on_grace(struct timer *t)
{
	finish(PART_OF(t, struct entry, timer));
}

/* Both are over, or one has what is needed and the other gets a little longer. */
static void half_over(struct half *h)
{
	struct entry *e = h->of;

	h->over = true;
	if (e->halves[0].over && e->halves[1].over) {
		finish(e);
	} else if (h->result == LOOKUP_FOUND) {
		e->timer.fire = on_grace;
		timer_set(e->resolver->loop, &e->timer, loop_now() + GRACE_US);
	}
}

static void note_silence(struct resolver *r, const struct half *h)
{
	for (unsigned i = 0; i < EGRESS_SERVERS; i++)
		if (h->ask.silent >> i & 1 && h->of->generation == r->generation)
			r->silent_until[i] = loop_now() + SILENT_US;
}

/* Those that were silent lately come last; else the order is the configuration's. */
static struct ask_servers servers_now(const struct resolver *r)
{
	struct ask_servers s = r->servers;
	uint64_t now = loop_now();

	s.count = 0;
	for (int silent = 0; silent < 2; silent++) {
		for (unsigned i = 0; i < r->servers.count; i++) {
			if ((r->silent_until[i] > now) != silent)
				continue;
			s.index[s.count] = (uint8_t)i;
			s.v[s.count++] = r->servers.v[i];
		}
	}
	return s;
}

static void on_answer(struct ask *a, const struct dns_result *r, const uint8_t *msg);

static void ask_half(struct half *h, const struct dns_name *name)
{
	struct resolver *r = h->of->resolver;
	uint16_t type = h == &h->of->halves[0] ? DNS_A : DNS_AAAA;

	h->ask = (struct ask){ .done = on_answer, .servers = servers_now(r),
			       .query = { .type = type, .name = *name } };
	ask_start(&h->ask, r->loop);
}

static enum lookup_result result_of(const struct dns_result *r)
{
	if (r->rcode == DNS_NXDOMAIN)
		return LOOKUP_NO_NAME;
	return r->count ? LOOKUP_FOUND : LOOKUP_NO_ADDRESS;
}

static void on_answer(struct ask *a, const struct dns_result *r, const uint8_t *msg)
{
	struct half *h = PART_OF(a, struct half, ask);

	(void)msg;
	note_silence(h->of->resolver, h);
	if (!r || h->links + r->links > DNS_CHAIN) {
		h->result = !r && a->timed_out ? LOOKUP_TIMEOUT : LOOKUP_FAILED;
		half_over(h);
		return;
	}
	h->links += r->links;
	h->ttl = h->ttl < r->ttl ? h->ttl : r->ttl;
	h->result = result_of(r);
	/* A chain that leaves this server's knowledge: what is at its end was not said. */
	if (h->result == LOOKUP_NO_ADDRESS && r->links && !r->has_soa) {
		struct dns_name next = r->last;

		h->result = LOOKUP_TIMEOUT;
		ask_half(h, &next);
		return;
	}
	if (h->result != LOOKUP_FOUND && !r->has_soa)
		h->ttl = FAILURE_TTL; /* nothing says how long that holds */
	memcpy(h->addrs, r->addrs, sizeof(h->addrs));
	h->count = r->count;
	half_over(h);
}

/* It is in no list now. */
static void begin(struct entry *e)
{
	struct dns_name name;

	e->generation = e->resolver->generation;
	e->halves = dns_name_set(&name, e->name) ? calloc(2, sizeof(*e->halves)) : NULL;
	if (!e->halves) {
		become_known(e, LOOKUP_FAILED, FAILURE_TTL);
		return;
	}
	e->state = ASKING;
	e->resolver->flight++;
	for (int i = 0; i < 2; i++) {
		/* until it is over it counts as silent: grace may end it */
		e->halves[i].result = LOOKUP_TIMEOUT;
		e->halves[i].of = e;
		e->halves[i].ttl = UINT32_MAX;
		ask_half(&e->halves[i], &name);
	}
}

static void begin_queued(struct resolver *r)
{
	while (r->queue.first && r->flight < FLIGHT_MAX) {
		struct entry *e = r->queue.first;

		list_remove(&r->queue, e);
		begin(e);
	}
}

/* --- without asking ---------------------------------------------------------- */

static unsigned static_addrs(const struct resolver *r, const char *name,
			     struct egress_addr to[LOOKUP_ADDRS])
{
	if (hosts_is_localhost(name)) {
		to[0] = (struct egress_addr){ 4, { 127, 0, 0, 1 } };
		to[1] = (struct egress_addr){ 6, { [15] = 1 } };
		return 2;
	}
	return hosts_find(r->hosts, r->hosts_len, name, to, LOOKUP_ADDRS);
}

/* --- the interface ----------------------------------------------------------- */

static struct entry *new_entry(struct resolver *r, const char *name)
{
	struct entry *e;

	if (r->queue.count >= QUEUE_MAX)
		return NULL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->resolver = r;
	e->generation = r->generation;
	memcpy(e->name, name, strlen(name) + 1);
	*slot_of(r, name) = e;
	return e;
}

static void start_entry(struct entry *e)
{
	struct resolver *r = e->resolver;

	e->count = static_addrs(r, e->name, e->addrs);
	if (e->count) {
		e->count = order_mixed(e->addrs, e->count);
		become_known(e, LOOKUP_FOUND, STATIC_TTL);
		return;
	}
	e->state = QUEUED;
	list_add(&r->queue, e);
	begin_queued(r);
}

int resolver_ask(struct resolver *r, struct lookup *l)
{
	struct entry *e = *slot_of(r, l->name);

	if (e && e->state == KNOWN && !e->waiters && e->until_us <= loop_now()) {
		forget(e);
		e = NULL;
	}
	if (e) {
		add_waiter(e, l);
		return 0;
	}
	e = new_entry(r, l->name);
	if (!e)
		return -1;
	add_waiter(e, l); /* first: it must not be the one to make room */
	start_entry(e);
	return 0;
}

void resolver_cancel(struct resolver *r, struct lookup *l)
{
	struct entry *e = *slot_of(r, l->name);

	if (!l->self)
		return;
	remove_waiter(l);
	if (e && !e->waiters && e->state == QUEUED)
		forget(e);
}

void resolver_relay(struct resolver *r, struct ask *a)
{
	a->servers = servers_now(r);
	ask_start(a, r->loop);
}

static uint32_t within(uint32_t v, uint32_t preset, uint32_t max)
{
	return v == 0 ? preset : v > max ? max : v;
}

void resolver_configure(struct resolver *r, const struct egress_config *config)
{
	char *hosts = malloc((size_t)config->hosts_len + 1);

	if (!hosts)
		return;
	if (config->hosts_len)
		memcpy(hosts, (const char *)config + config->hosts, config->hosts_len);
	free(r->hosts);
	r->hosts = hosts;
	r->hosts_len = config->hosts_len;
	r->servers = (struct ask_servers){
		.count = config->server_count < EGRESS_SERVERS ? config->server_count : EGRESS_SERVERS,
		.timeout_ms = within(config->timeout_ms, TIMEOUT_MS, TIMEOUT_MS_MAX),
		.attempts = within(config->attempts, ATTEMPTS, ATTEMPTS_MAX),
	};
	memcpy(r->servers.v, config->servers, sizeof(r->servers.v));
	memset(r->silent_until, 0, sizeof(r->silent_until));
	r->generation++;
	for (struct entry *e = r->known.first, *next; e; e = next) {
		next = e->next;
		e->until_us = 0;
		if (!e->waiters)
			forget(e);
	}
}

struct resolver *resolver_new(struct loop *loop, const struct egress_config *config)
{
	struct resolver *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->loop = loop;
	r->queue.end = &r->queue.first;
	r->known.end = &r->known.first;
	resolver_configure(r, config);
	if (!r->hosts || random_bytes(&r->key, sizeof(r->key)) < 0) {
		resolver_free(r);
		return NULL;
	}
	return r;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		while (r->buckets[i])
			forget(r->buckets[i]);
	free(r->hosts);
	free(r);
}
