/* One run's entry in the list of boxes (registry.h), from its start to its result. */
#ifndef RUNTIME_LISTED_H
#define RUNTIME_LISTED_H

#include "nsbox.h"
#include "runtime/registry.h"

struct listed {
	struct registry_slot slot;
	struct registry_record record;
};

/* Neither fails: a run that cannot be listed is a run. */
void listed_begin(struct nsbox_box *box, const struct nsbox_run *run);
/* @r NULL: the run is dropped, and nobody will know how it ended. */
void listed_end(struct nsbox_box *box, const struct nsbox_result *r);

#endif
