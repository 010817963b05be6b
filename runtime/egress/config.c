/*
 * config.c - see config.h. Runs in the supervisor.
 *
 * The launcher is on our side of the wall; what is checked here is that a version that does
 * not fit, or memory that went wrong, ends in a refusal and not in open rules.
 */
#include "runtime/egress/config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { SIZE_MAX_CONFIG = 64 << 20, HOSTS_MAX = 1 << 20, NAMES_LIMIT = 65000 };

/* Behind the head, whose numbers are no text. */
static bool is_offset(const struct egress_config *c, uint32_t offset)
{
	return offset >= sizeof(*c) && offset < c->size;
}

static bool is_string(const struct egress_config *c, uint32_t offset)
{
	return !offset || (is_offset(c, offset) &&
			   memchr((const char *)c + offset, 0, c->size - offset));
}

static bool hosts_are_valid(const struct egress_config *c)
{
	if (!c->hosts)
		return !c->hosts_len;
	return is_offset(c, c->hosts) && c->hosts_len <= HOSTS_MAX &&
	       c->hosts_len <= c->size - c->hosts;
}

static bool servers_are_valid(const struct egress_config *c)
{
	if (c->server_count > EGRESS_SERVERS)
		return false;
	for (uint32_t i = 0; i < c->server_count; i++)
		if ((c->servers[i].family != 4 && c->servers[i].family != 6) || !c->servers[i].port)
			return false;
	return true;
}

static bool proxy_is_valid(const struct egress_config *c)
{
	if (c->proxy.kind > PROXY_SOCKS5 || !is_string(c, c->proxy.host) ||
	    !is_string(c, c->proxy.user) || !is_string(c, c->proxy.password))
		return false;
	return c->proxy.kind == PROXY_NONE || (c->proxy.host && c->proxy.port);
}

bool config_is_valid(const void *block, size_t size)
{
	const struct egress_config *c = block;

	if (size < sizeof(*c) || size > SIZE_MAX_CONFIG || c->magic != EGRESS_MAGIC ||
	    c->size != size)
		return false;
	if (!is_offset(c, c->rules) || c->rules % 8 ||
	    !egress_is_valid((const char *)c + c->rules, size - c->rules))
		return false;
	return hosts_are_valid(c) && servers_are_valid(c) && proxy_is_valid(c) &&
	       c->max_connections && c->max_names && c->max_names <= NAMES_LIMIT;
}

const struct egress_config *config_map(int fd)
{
	const int sealed = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *p;

	/* What can still be written would be another block after it was checked. */
	if (seals < 0 || (seals & sealed) != sealed || fstat(fd, &st) < 0 ||
	    st.st_size < (off_t)sizeof(struct egress_config) || st.st_size > SIZE_MAX_CONFIG)
		return NULL;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (config_is_valid(p, (size_t)st.st_size))
		return p;
	munmap(p, (size_t)st.st_size);
	return NULL;
}

static bool same_text(const struct egress_config *a, uint32_t at, const struct egress_config *b,
		      uint32_t bt)
{
	if (!at || !bt)
		return at == bt;
	return strcmp((const char *)a + at, (const char *)b + bt) == 0;
}

bool config_same_proxy(const struct egress_config *a, const struct egress_config *b)
{
	return a->proxy.kind == b->proxy.kind && a->proxy.port == b->proxy.port &&
	       same_text(a, a->proxy.host, b, b->proxy.host) &&
	       same_text(a, a->proxy.user, b, b->proxy.user) &&
	       same_text(a, a->proxy.password, b, b->proxy.password);
}

void config_unmap(const struct egress_config *c)
{
	if (c)
		munmap((void *)(uintptr_t)c, c->size);
}
