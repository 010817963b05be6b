/*
 * Egress rules as an attacker writes them. Lines of text are entries of the three lists and
 * destinations; the same bytes are also tried as a compiled block. libFuzzer entry point; the
 * seeds are in corpus/egress.
 *
 * Besides not crashing (the sanitizers watch) these must hold: a refusal has one line; a
 * canonical name is its own canonical form; an entry that is taken is taken again; a private
 * address is never allowed without net.allow_private, nor one that stands for a name with it;
 * with no rule for it nothing is allowed under default-deny; a flag that a denial offers is
 * an entry that is taken.
 */
#include "policy/egress.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES_MAX = 64 };

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

/* "+entry": allow_out, "-entry": deny_out, "=entry": allow_private, "!": open, "~": deny wins,
 * "%": E2B's meaning; anything else is a destination. */
static const char *key_of_line(char first)
{
	return first == '+' ? "net.allow_out" : first == '-' ? "net.deny_out" :
	       first == '=' ? "net.allow_private" : NULL;
}

static void set_line(struct policy *p, const char *line)
{
	const char *key = key_of_line(line[0]);

	if (key && line[1])
		require(policy_set(p, key, line + 1, NULL) == 0);
	else if (line[0] == '!')
		require(policy_set(p, "net.mode", "open", NULL) == 0);
	else if (line[0] == '~')
		require(policy_set(p, "net.precedence", "deny", NULL) == 0);
	else if (line[0] == '%')
		require(policy_set(p, "net.compat", "e2b", NULL) == 0);
}

/* Said without the tables of the matcher. */
static bool is_surely_private(const struct egress_addr *a)
{
	const uint8_t *b = a->bytes;

	if (a->family == 4)
		return b[0] == 10 || b[0] == 127 || b[0] == 0 || b[0] >= 224 ||
		       (b[0] == 192 && b[1] == 168) || (b[0] == 169 && b[1] == 254) ||
		       (b[0] == 172 && b[1] >= 16 && b[1] < 32);
	return (b[0] & 0xfe) == 0xfc || b[0] == 0xff || (b[0] == 0xfe && b[1] >= 0x80);
}

static bool is_fake(const struct egress_addr *a)
{
	return a->family == 4 && a->bytes[0] == 198 && (a->bytes[1] & 0xfe) == 18;
}

static void check_words(const struct egress_rules *r, const struct egress_dest *d,
			const struct egress_verdict *v)
{
	struct buf what = BUF_INIT(65536), rule = BUF_INIT(65536), allow = BUF_INIT(65536);
	struct buf text = BUF_INIT(65536);

	egress_explain_denial(r, d, v, NULL,
			      &(struct egress_words){ &what, &rule, &allow });
	egress_explain(r, d, v, &text);
	require(what.len && rule.len && text.len);
	require(!what.failed && !rule.failed && !allow.failed && !text.failed);
	require(!strchr(buf_text(&text), '\n') && !strchr(buf_text(&rule), '\n'));
	require(!v->allowed || !allow.len);
	if (strncmp(buf_text(&allow), "--allow-out ", 12) == 0) {
		struct policy p = { 0 };

		/* up to the next flag it is one entry */
		allow.data[12 + strcspn(allow.data + 12, " ")] = '\0';
		require(policy_init(&p, NULL) == 0);
		require(policy_set(&p, "net.mode", "filtered", NULL) == 0);
		require(policy_set(&p, "net.allow_out", allow.data + 12, NULL) == 0);
		require(policy_check(&p, NULL) == 0);
		policy_free(&p);
	}
	buf_free(&what);
	buf_free(&rule);
	buf_free(&allow);
	buf_free(&text);
}

static void check_dest(const struct egress_rules *r, const struct policy *p,
		       const struct egress_dest *d)
{
	struct egress_verdict v = egress_judge(r, d);
	struct egress_addr a = d->addr ? egress_addr_normal(*d->addr) : (struct egress_addr){ 0 };

	if (v.allowed && d->addr && is_surely_private(&a))
		require(p->net.allow_private.n > 0);
	if (d->addr && is_fake(&a))
		require(!v.allowed);
	if (v.allowed && !egress_default_allows(r))
		require(v.why == EGRESS_BY_ALLOW && (size_t)v.rule < p->net.allow_out.n);
	if (v.why == EGRESS_BY_DENY)
		require(!v.allowed && (size_t)v.rule < p->net.deny_out.n);
	if (d->name && !d->addr && v.allowed)
		require(egress_judge_lookup(r, d->name).allowed);
	check_words(r, d, &v);
}

static void ask(const struct egress_rules *r, const struct policy *p, const char *line)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	char again[EGRESS_NAME_MAX + 1];
	struct egress_asked a;

	if (egress_ask(&a, line, &err) < 0) {
		require(err.message[0] && !strchr(err.message, '\n') && !strchr(err.hint, '\n'));
		return;
	}
	check_dest(r, p, &a.dest);
	if (!a.dest.name)
		return;
	require(egress_name_canonical(again, a.name, strlen(a.name)));
	require(strcmp(again, a.name) == 0);
	/* a name that resolves into a private range */
	a.addr = (struct egress_addr){ 4, { 10, 0, 0, 1 } };
	a.dest.addr = &a.addr;
	check_dest(r, p, &a.dest);
}

static void try_block(const uint8_t *data, size_t size)
{
	static const struct egress_addr addr = { 4, { 192, 0, 2, 1 } };
	const struct egress_dest name = { .name = "a.b.test", .proto = EGRESS_TCP, .port = 443 };
	const struct egress_dest literal = { .addr = &addr, .proto = EGRESS_UDP, .port = 53 };
	struct egress_rules *copy = malloc(size ? size : 1);
	uint16_t ports[16];

	require(copy != NULL);
	memcpy(copy, data, size);
	if (egress_is_valid(copy, size)) {
		egress_judge(copy, &name);
		egress_judge(copy, &literal);
		egress_judge_lookup(copy, name.name);
		egress_ports(copy, ports, 16);
	}
	free(copy);
}

/* A block of our own with a few bytes of the input laid over it: random bytes alone never
 * get past its head. */
static void try_damaged(const struct egress_rules *r, const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(r->size);

	require(copy != NULL);
	memcpy(copy, r, r->size);
	for (size_t i = 0; i + 3 <= size && i < 24; i += 3)
		copy[(data[i] | data[i + 1] << 8) % r->size] = data[i + 2];
	try_block(copy, r->size);
	free(copy);
}

static void check_policy(const struct policy *p, char *const *lines, size_t n,
			 const uint8_t *data, size_t size)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct strlist warnings = { 0 };
	struct egress_rules *r = NULL;
	int code = policy_check(p, &err);

	require(code == err.code && (code == 0 || code == NSBOX_E_POLICY));
	require(code == 0 || (err.message[0] && !strchr(err.message, '\n') &&
			      !strchr(err.hint, '\n')));
	if (code < 0)
		return;
	require(egress_compile(&r, p, &err) == 0);
	require(egress_is_valid(r, r->size));
	require(egress_warnings(p, &warnings) == 0);
	for (size_t i = 0; i < n; i++)
		if (!key_of_line(lines[i][0]))
			ask(r, p, lines[i]);
	try_damaged(r, data, size);
	strlist_free(&warnings);
	free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *lines[LINES_MAX], *rest = NULL;
	char name[EGRESS_NAME_MAX + 1];
	struct policy p = { 0 };
	size_t n = 0;

	require(text != NULL);
	try_block(data, size);
	egress_name_canonical(name, (const char *)data, size);
	memcpy(text, data, size);
	text[size] = '\0';
	require(policy_init(&p, NULL) == 0);
	require(policy_set(&p, "net.mode", "filtered", NULL) == 0);
	for (char *line = strtok_r(text, "\n", &rest); line && n < LINES_MAX;
	     line = strtok_r(NULL, "\n", &rest)) {
		lines[n++] = line;
		if (strlen(line) < 4096)
			set_line(&p, line);
	}
	check_policy(&p, lines, n, data, size);
	policy_free(&p);
	free(text);
	return 0;
}
