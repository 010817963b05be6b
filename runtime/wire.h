/*
 * What launcher, child and init say to each other, over one SOCK_SEQPACKET pair.
 *
 * Each message is one packet that starts with struct wire_msg. A short packet, a
 * wrong magic, an unexpected type or EOF is a failure on either side, never "go
 * on": a dead peer must not look like a finished one.
 *
 *   launcher -> child   GO      the parent's stages are done; `stage` is the last
 *   launcher -> init    START   flags, then the payload's own BPF program (or none), then the
 *                               run's folder where there are no namespaces; with
 *                               a network, once the launcher has handed all of it on
 *   launcher -> init    SIGNAL  value: forward it to the payload's process group; op
 *                               WIRE_TELL: and say so
 *   launcher -> init    KILL    end the payload and all that came of it (WIRE_START_TREE)
 *   launcher -> init    PAUSE   value 1: stop all processes of the box, 0: continue
 *   child -> launcher   FAIL    stage, op, value = errno
 *   child -> launcher   FD      value: tag; the descriptor is in SCM_RIGHTS; with
 *                               WIRE_TAG_TREES there are several, and op has a bit for
 *                               each of the plan's trees that is among them; with
 *                               WIRE_TAG_INLET one for each of enum inlet_fd. PORTS and
 *                               POOL come in packets of up to WIRE_FDS_MAX
 *   init -> launcher    FAIL    stage exec, value = errno of execve
 *   init -> launcher    RUNNING stage exec: the payload's execve succeeded
 *   init -> launcher    SIGNALED value: that signal was sent (SIGNAL with WIRE_TELL)
 *   init -> launcher    EXIT    the payload's wait status and what it used
 */
#ifndef RUNTIME_WIRE_H
#define RUNTIME_WIRE_H

#include <stdint.h>

enum { WIRE_MAGIC = 0x6e736278 };

enum wire_type {
	WIRE_GO = 1, WIRE_START, WIRE_SIGNAL, WIRE_PAUSE,
	WIRE_FAIL, WIRE_FD, WIRE_RUNNING, WIRE_EXIT, WIRE_KILL,
	WIRE_SIGNALED
};
enum { WIRE_TELL = 1 };

struct wire_msg {
	uint32_t magic;
	uint16_t type;
	uint16_t stage;
	int32_t op;		/* index of the operation that failed; -1: none */
	int32_t value;
};

enum wire_start_flag {
	WIRE_START_TTY = 1,	/* fd 0 becomes the controlling terminal */
	WIRE_START_CHANNEL = 2,	/* fd 5 is the payload's channel: it gets it as 3 */
	WIRE_START_TREE = 4,	/* init is no PID 1: it must end its descendants itself */
	WIRE_START_WALLS = 8,	/* fd 6 is the payload's Landlock ruleset; init is held in
				   by one of scopes, so that kill(-1) is all of the box */
	WIRE_START_HELD = 16,	/* the filter has a listener, and init answers what it holds */
	WIRE_START_CALLS = 32,	/* calls on sockets among it: fd 7 is the pair to the supervisor */
};

struct wire_start {
	struct wire_msg head;
	uint32_t flags;
	uint32_t filter_len;	/* instructions that follow: struct sock_filter[] */
	uint32_t place_len;	/* and then the run's folder, with its NUL (WALLS); 0: none */
};

struct wire_exit {
	struct wire_msg head;
	int32_t status;		/* as of wait4(2) */
	uint32_t orphans;	/* 1: other processes were still alive */
	uint64_t max_rss_kib;	/* largest single process that was reaped */
	uint64_t user_us, system_us;
};

/* Descriptors of the child from stage `limits` on, and of init. */
enum { BOX_FD_SOCK = 3, BOX_FD_INIT = 4, BOX_FD_CHANNEL = 5, BOX_FD_RULESET = 6,
       BOX_FD_CALLS = 7 };
/* Where the payload finds its channel. */
enum { PAYLOAD_FD_CHANNEL = 3 };
/* Tags of WIRE_FD. */
enum { WIRE_TAG_WORK = 1, WIRE_TAG_PTY = 2, WIRE_TAG_SEGMENTS = 3, WIRE_TAG_TREES = 4,
       WIRE_TAG_LISTENER = 5, WIRE_TAG_INLET = 6, WIRE_TAG_PORTS = 7, WIRE_TAG_POOL = 8,
       WIRE_TAG_CALLS = 9 };
enum { WIRE_FDS_MAX = 16 };	/* descriptors of one packet */
/* The largest packet: START with a full BPF program (4096 instructions) and a path. */
enum { WIRE_MAX = 40960 };

#endif
