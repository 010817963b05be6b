/* The rules of a policy for one box behind a veth, as a table of nf_tables. */
#ifndef VETH_RULES_H
#define VETH_RULES_H

#include "policy/egress.h"

#include <libmnl/libmnl.h>

struct filter {
	const struct egress_rules *rules;
	const char *table;
	const char *device;	/* of the host, or of the box */
	uint32_t box;		/* its address, the host's byte order */
	bool is_host;		/* the host's side: NAT as well, and the table dies with the
				   socket; else the box's own */
};
/* 0, or a negative errno: then nothing of it is in force. */
int filter_load(const struct filter *f, struct mnl_socket *nl);

#endif
