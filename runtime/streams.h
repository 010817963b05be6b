/* stdin, stdout, stderr of a run: the child's ends and the launcher's pumps. */
#ifndef RUNTIME_STREAMS_H
#define RUNTIME_STREAMS_H

#include "nsbox.h"
#include "runtime/launch.h"
#include "runtime/watch.h"

struct streams {
	int child[3];		/* -1: /dev/null of the box */
	bool child_owned[3];	/* close after the launch */
	int child_channel;	/* the same of the run's channel; -1: none */
};

#define STREAMS_INIT (struct streams){ .child = { -1, -1, -1 }, .child_channel = -1 }

int streams_open(struct streams *s, struct watch *w, const struct nsbox_run *run,
		 const struct policy *p, struct nsbox_error *err);
/* After streams_open(): the payload's descriptor 3 is a pipe, kept in w->report. */
int streams_open_report(struct streams *s, struct watch *w, uint64_t limit,
			struct nsbox_error *err);
void streams_close_child(struct streams *s);

/* With a pty there is no pipe: pump between the caller's descriptors and the master. */
int streams_open_pty(struct watch *w, const struct nsbox_run *run, struct nsbox_error *err);

#endif
