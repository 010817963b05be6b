/* Stage idmap: who the box is on the host, and whose the files are that it writes. */
#ifndef RUNTIME_IDMAP_H
#define RUNTIME_IDMAP_H

#include "runtime/launch.h"

/*
 * The child exists and waits: write its id maps, give it its pipes, map the ids of the
 * writable trees that root shows to it. NSBOX_E_UNSUPPORTED: a file system without
 * idmapped mounts.
 */
int stage_idmap(const struct launch_request *r, const struct live *l, struct nsbox_error *err);

#endif
