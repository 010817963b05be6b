/* The text of an /etc/hosts: hosts(5). Pure. */
#ifndef EGRESS_HOSTS_H
#define EGRESS_HOSTS_H

#include "policy/egress.h"

/* All addresses of all lines with this name, up to `max`; aliases count, case does not. */
unsigned hosts_find(const char *text, size_t len, const char *name, struct egress_addr *to,
		    unsigned max);
/* "localhost" or a name below it, canonical: loopback whatever a file or server says. */
bool hosts_is_localhost(const char *name);

#endif
