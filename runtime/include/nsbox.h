/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nsbox.h - run untrusted code in a native Linux sandbox
 *
 * Three objects, in the order you meet them:
 *
 *   nsbox_policy   what the code may do; a value you build, then pass around
 *   nsbox_box      one live sandbox made from a policy
 *   nsbox_result   what one run did
 *
 * The shortest useful program:
 *
 *	struct nsbox_error err = NSBOX_ERROR_INIT;
 *	struct nsbox_run run = NSBOX_RUN_INIT;
 *	struct nsbox_policy *policy;
 *	struct nsbox_box *box;
 *	struct nsbox_result *res;
 *
 *	run.language = "python";
 *	run.code = "print(6 * 7)";
 *	if (nsbox_policy_new(&policy, "python", &err) < 0 ||
 *	    nsbox_box_open(&box, NSBOX_TIER_LOCAL, policy, &err) < 0 ||
 *	    nsbox_box_run(box, &run, &res, &err) < 0)
 *		return complain(&err);
 *
 * Rules that hold for every call:
 *
 *   - A call returns 0 (or a count) on success and a negative enum nsbox_code
 *     on failure. On failure outputs are untouched and *err says why; err may be
 *     NULL. Each call starts by clearing *err, so one record serves many calls.
 *   - A payload that crashes, is killed or runs out of time is a success: the
 *     library did its job. Read the verdict in the result.
 *   - Whoever got the pointer from *_new/_open/_run frees it. Strings and
 *     buffers read from an object live as long as that object. Free accepts NULL.
 *   - What a request points to (texts, lists, descriptors) is needed until the call
 *     that takes it returns, not for the run.
 *   - The library never exits, never prints, installs no signal handler, reaps
 *     no child but its own, and changes nothing of the calling process: not its
 *     directory, umask, environment, credentials or open descriptors. A running box
 *     is a child of the process: it brings a SIGCHLD, which may be ignored, and
 *     a wait of yours for any child may meet it, which does no harm.
 *   - Distinct objects may be used from distinct threads at once. One box is
 *     used by one thread at a time, but nsbox_box_kill() and nsbox_box_network() are
 *     safe from any.
 *     A policy may be read by many threads; nobody may change it meanwhile.
 *     The thread that started a run may end before it.
 *   - A box belongs to the process that opened it. A copy made by fork(2) must not
 *     use or close it; until it executes another program it also holds the
 *     descriptors of a run in flight, which then survives your own death.
 */
#ifndef NSBOX_H
#define NSBOX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NSBOX_API __attribute__((visibility("default")))
#define NSBOX_MUST_CHECK __attribute__((warn_unused_result))
#else
#define NSBOX_API
#define NSBOX_MUST_CHECK
#endif

#define NSBOX_VERSION_MAJOR 0
#define NSBOX_VERSION_MINOR 1
#define NSBOX_VERSION_PATCH 0

/* The version of the library that was loaded, not the one compiled against. */
NSBOX_API const char *nsbox_version(void);

/* ------------------------------------------------------------- errors -- */

/* What a caller can do about it, not which line failed. Values never change. */
enum nsbox_code {
	NSBOX_OK = 0,
	NSBOX_E_USAGE = -1,	  /* the call itself is wrong: fix the caller */
	NSBOX_E_POLICY = -2,	  /* the policy is malformed or contradicts itself */
	NSBOX_E_UNSUPPORTED = -3, /* this host cannot enforce the policy: see hint */
	NSBOX_E_SETUP = -4,	  /* a setup stage failed; nothing was run */
	NSBOX_E_BUSY = -5,	  /* the object is in use or in the wrong state */
	NSBOX_E_NOMEM = -6,
	NSBOX_E_SYSTEM = -7	  /* the kernel refused something unexpected */
};

/*
 * One failure, complete. Owned by the caller and never holds a pointer, so it
 * needs no free, survives being out of memory, and can be copied between
 * processes byte for byte. Within one call the first cause wins: later code may add
 * context in front of the message but never replaces code, os_errno or stage.
 */
struct nsbox_error {
	uint32_t size;	      /* set by NSBOX_ERROR_INIT */
	int32_t code;	      /* enum nsbox_code */
	int32_t os_errno;     /* 0 when no system call was involved */
	char stage[24];	      /* setup stage, e.g. "idmap"; empty outside setup */
	char message[512];    /* one line, no trailing newline */
	char hint[512];	      /* what to do about it; may be empty */
};
#define NSBOX_ERROR_INIT { sizeof(struct nsbox_error), 0, 0, { 0 }, { 0 }, { 0 } }

/* ------------------------------------------------------------- policy -- */

struct nsbox_policy;

/*
 * Start from a built-in profile ("default", "strict", "python", "node", "shell",
 * "build", "debug"); NULL is "default". An unknown name is NSBOX_E_POLICY.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_policy_new(struct nsbox_policy **out, const char *profile,
		 struct nsbox_error *err);

/*
 * Set one key. Keys, types, defaults and help come from one table shared with
 * the command line, the policy file and the language bindings; see nsbox(5).
 * List keys append; a value of "" clears them. An unknown key is an error.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_policy_set(struct nsbox_policy *policy, const char *key,
		 const char *value, struct nsbox_error *err);

/*
 * Read a policy text (JSON with comments and trailing commas) on top of what
 * the policy holds. @name appears in messages: "name:3:7: unknown key". @layer
 * decides what it may do: a project's text may only tighten.
 */
enum nsbox_layer {
	NSBOX_LAYER_SYSTEM = 0,
	NSBOX_LAYER_USER = 1,
	NSBOX_LAYER_PROJECT = 2,
	NSBOX_LAYER_FLAGS = 3
};
NSBOX_API NSBOX_MUST_CHECK int
nsbox_policy_load(struct nsbox_policy *policy, const char *text, size_t len,
		  const char *name, enum nsbox_layer layer,
		  struct nsbox_error *err);

/* Contradictions and fields that no backend of this version can enforce. */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_policy_check(const struct nsbox_policy *policy, struct nsbox_error *err);

/* The whole policy as one JSON object; *out is malloc'ed, free() it. */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_policy_json(const struct nsbox_policy *policy, char **out,
		  struct nsbox_error *err);

/*
 * Advice on a policy that is right: network rules without effect, ranges that need one
 * flag more. One sentence a line, empty when there is none; *out is malloc'ed, free() it.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_policy_warnings(const struct nsbox_policy *policy, char **out,
		      struct nsbox_error *err);

/*
 * Could a box with this policy reach @destination, HOST[:PORT][/udp], by port 443 unless
 * another is written? 1: yes, 0: no, or a negative code. No name server is asked: of a
 * name that is allowed, a box judges the addresses as well. @form "text": one line for
 * people; "json": an object with verdict, rule and the flag that would allow it. *out is
 * malloc'ed, free() it.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_policy_reach(const struct nsbox_policy *policy, const char *destination,
		   const char *form, char **out, struct nsbox_error *err);

NSBOX_API void nsbox_policy_free(struct nsbox_policy *policy);

/*
 * The key table, for programs that build their own options from it. @i from 0;
 * NSBOX_E_USAGE past the end. The strings are static.
 */
struct nsbox_key {
	const char *name;	/* "limits.memory" */
	const char *type;	/* bool size time share count choice string list */
	const char *preset;	/* default as text; NULL: unset or an empty list */
	const char *const *choices; /* NULL-terminated, or NULL */
	const char *flag;	/* "--memory", or NULL */
	char letter;		/* 'm', or 0 */
	const char *value_name; /* "SIZE", or NULL when the flag takes no value */
	const char *help;
};
NSBOX_API int nsbox_key_info(size_t i, struct nsbox_key *out);

/* Built-in profiles by index: name (NULL past the end) and one-line help. */
NSBOX_API const char *nsbox_profile_name(size_t i);
NSBOX_API const char *nsbox_profile_help(size_t i);

/* JSON schemas: "policy" or "result". malloc'ed text, or NULL: unknown name. */
NSBOX_API char *nsbox_schema(const char *which);

/* ---------------------------------------------------------------- box -- */

struct nsbox_box;
struct nsbox_result;

enum nsbox_tier {
	NSBOX_TIER_STATIC = 1,	      /* parse and check only; nothing runs */
	NSBOX_TIER_LOCAL = 2,	      /* namespaces, cgroup, seccomp, Landlock */
	NSBOX_TIER_DOCKER = 3,	      /* the same policy, enforced by an engine */
	NSBOX_TIER_LOCAL_UNSAFE = 4,  /* no isolation; the name is the warning */
	NSBOX_TIER_DOCKER_UNSAFE = 5  /* an engine's container, no policy */
};

/* The tiers as a table. @i from 0; NSBOX_E_USAGE past the end. The strings are static. */
struct nsbox_tier_info {
	const char *name;	/* "static" */
	const char *help;
	int32_t tier;		/* enum nsbox_tier */
	int32_t is_built;	/* this version has it; the booleans are 0 or 1 */
	int32_t runs_code;
	int32_t isolates;
};
NSBOX_API int nsbox_tier_info(size_t i, struct nsbox_tier_info *out);

/*
 * Build a sandbox. Refuses with NSBOX_E_UNSUPPORTED rather than drop a
 * protection the policy asks for. The policy is copied. A tier that this version does not
 * have (nsbox_tier_info) is NSBOX_E_UNSUPPORTED.
 *
 * A run of NSBOX_TIER_STATIC needs a language with code or file. It executes nothing of
 * the source: in a box with small limits of its own (of the policy only imports.*,
 * enforce.* and observe.* count) the interpreter that would run it parses it. Result:
 * NSBOX_SKIPPED, status 0 with the reason "parsed: ...", or 122 with "parse_failed: ...",
 * "unauthorized_imports: ..." or "relative_import: ..."; what was found is "analysis" in
 * the JSON. Output, arguments, artifacts and timeout of the request are not looked at.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_box_open(struct nsbox_box **out, enum nsbox_tier tier,
	       const struct nsbox_policy *policy, struct nsbox_error *err);

enum nsbox_io {
	NSBOX_IO_CAPTURE = 0, /* in memory, bounded by the policy (input: empty) */
	NSBOX_IO_NULL = 1,
	NSBOX_IO_FD = 2,      /* the payload gets the descriptor itself; no folder, since
				 that would lead it out of the box */
	NSBOX_IO_RELAY = 3    /* the library copies to (from) the descriptor, output bounded
				 by the policy; the payload never holds it. Its flags stay
				 as they are. A write that fails (a full disk) makes collect
				 fail with NSBOX_E_SYSTEM; a reader that left (EPIPE) only
				 breaks the payload's pipe, and no SIGPIPE is raised */
};

enum nsbox_run_flag {
	NSBOX_RUN_TTY = 1,	/* a pty of the box's own for stdin/stdout/stderr, relayed
				   to in_fd and out_fd without a bound (or captured within
				   it); err is not used. The caller puts its own terminal,
				   if there is one, into raw mode */
	NSBOX_RUN_CHANNEL = 4,	/* the payload has a stream socket as descriptor 3, whose other
				   end is nsbox_box_channel(): what a driver in the box and
				   its host say to each other, apart from its output */
	NSBOX_RUN_AST = 8,	/* the analysis of a checked Python source has its syntax tree
				   (at most 1 MiB of JSON and 200 levels) */
	NSBOX_RUN_RAW_ESCAPES = 2 /* a relay to a terminal passes every escape sequence;
				   otherwise titles, clipboard access and the like are
				   taken out, and without a pty also questions that the
				   terminal would answer by typing */
};

/*
 * One run. Every field left zero means its safe default, so a program compiled
 * against an older header keeps its behaviour on a newer library, and the other
 * way round: unknown non-zero tail bytes are refused, never ignored.
 *
 * Give either argv (a command looked up in the box's PATH) or language with code
 * or file. A command that is not there or may not be executed is a result, with exit
 * code 127 or 126 and a reason, as in a shell.
 */
struct nsbox_run {
	uint32_t size; /* set by NSBOX_RUN_INIT */
	uint32_t flags;		 /* enum nsbox_run_flag */
	const char *language;	 /* "python", "javascript", "bash" */
	const char *code;	 /* source text */
	size_t code_len;	 /* 0: code ends at its NUL */
	const char *file;	 /* a host path: that file alone becomes visible */
	const char *project;	 /* a host folder, bound read-only, last on the module path */
	const char *interpreter; /* a host path; NULL: the one on PATH */
	const char *const *argv; /* NULL-terminated; with language: its arguments */
	const char *const *env;	 /* NULL-terminated NAME=VALUE, on top of the policy's */
	const char *cwd;	 /* in the box; NULL: see nsbox(1), --workdir */
	uint64_t timeout_ms;	 /* 0: the policy's timeout; there is always one. At most
				    UINT64_MAX / 2000 */
	int32_t in, out, err;	 /* enum nsbox_io */
	int32_t in_fd, out_fd, err_fd;
	const char *artifacts_dir; /* a host folder (made when missing); NULL: none */
	uint32_t tty_rows, tty_cols; /* 0: 24 x 80; at most 65535 */
	const char *name;	 /* in the list of boxes: 1 to 63 bytes of printable UTF-8;
				    NULL: the language, or the last part of argv[0] */
	/* While start installs packages.list, which may take minutes: what goes on, one line;
	 * NULL: it is over. Called by the thread that starts the run; NULL: by nobody. */
	void (*progress)(void *arg, const char *text);
	void *progress_arg;
};
#define NSBOX_RUN_INIT { sizeof(struct nsbox_run), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
			 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * Run to the end. With packages.list in the policy and no layer of them in the cache, the
 * start makes one first, in a box of its own. When that fails nothing is run: NSBOX_SKIPPED,
 * status 122, "packages_failed: Package installation failed: SPEC: ...".
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_box_run(struct nsbox_box *box, const struct nsbox_run *run,
	      struct nsbox_result **out, struct nsbox_error *err);

/*
 * The same in two halves, for event loops: start, poll nsbox_box_fd() for
 * reading, then collect. Collect returns NSBOX_E_BUSY while the run goes on: poll
 * again. It does what is to be done meanwhile (streams, clocks, limits), so call it
 * whenever the descriptor is readable; nothing else is needed. Any other failure ends
 * the run. Start is NSBOX_E_BUSY until the run before was collected; wait and collect
 * without a start are NSBOX_E_USAGE.
 *
 * The descriptor (level-triggered, close-on-exec; -1: nothing runs) is the same from
 * start to collect, which closes it: take it out of a loop that keeps numbers.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_box_start(struct nsbox_box *box, const struct nsbox_run *run,
		struct nsbox_error *err);
NSBOX_API int nsbox_box_fd(const struct nsbox_box *box);
NSBOX_API NSBOX_MUST_CHECK int
nsbox_box_collect(struct nsbox_box *box, struct nsbox_result **out,
		  struct nsbox_error *err);

/*
 * The host's end of the run's channel (NSBOX_RUN_CHANNEL): a connected AF_UNIX stream
 * socket, non-blocking, close-on-exec, the box's own from start to collect; -1: none. What
 * comes from it was written by unreviewed code. Read it without room for control data: the
 * kernel then drops descriptors that are sent along. Never send one, nor write without
 * MSG_NOSIGNAL.
 */
NSBOX_API int nsbox_box_channel(const struct nsbox_box *box);

/* Wait at most timeout_ms (-1: for ever) and handle what came. 1: collect now; 0: the
 * run goes on, perhaps before the time is over. */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_box_wait(struct nsbox_box *box, int timeout_ms, struct nsbox_error *err);

/* Forward a signal (1 to 64) to the payload's process group. NSBOX_E_BUSY: it has ended,
 * or nothing was started. */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_box_signal(struct nsbox_box *box, int signal, struct nsbox_error *err);

/* The caller's terminal changed its size (up to 65535). NSBOX_E_BUSY: no run with
 * NSBOX_RUN_TTY. */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_box_resize(struct nsbox_box *box, uint32_t rows, uint32_t cols,
		 struct nsbox_error *err);

/*
 * What a run would do, without doing it. @form "plan": each operation, one a
 * line; "explain": each stage with its promise and what the policy makes of it;
 * "json": both for programs. *out is malloc'ed.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_box_explain(struct nsbox_box *box, const struct nsbox_run *run,
		  const char *form, char **out, struct nsbox_error *err);

/*
 * Kill everything in the box. Safe from any thread while the box is not being closed;
 * idempotent. One that comes while a run is being started ends that run; an idle box
 * has nothing to kill. The run still has to be collected: NSBOX_SIGNALED, "killed: ...".
 */
NSBOX_API void nsbox_box_kill(struct nsbox_box *box);

/*
 * Replace the network rules of a run in flight: net.mode, allow_out, deny_out,
 * allow_private, precedence, connections, names, bytes and host_bytes of @policy, all at
 * once; the rest of it is not looked at, and the next run has the box's own policy again.
 * Under a lower net.names what was looked up stays, and nothing new is looked up.
 * Returns when the new rules hold; what they no longer allow is closed by then.
 * Safe from any thread while the box is not being closed.
 *
 * NSBOX_E_USAGE: net.mode of the box or of @policy is disabled. NSBOX_E_BUSY: nothing
 * runs. NSBOX_E_POLICY: the old rules go on. NSBOX_E_SETUP: the rules were not taken,
 * and the run has no network any more.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_box_network(struct nsbox_box *box, const struct nsbox_policy *policy,
		  struct nsbox_error *err);

/* Kill, remove every trace on the host but the entry in the list of boxes, and free. */
NSBOX_API void nsbox_box_close(struct nsbox_box *box);

/* ------------------------------------------------------------- kernel -- */

/*
 * An interpreter that stays: it runs one cell after another in a box that is held
 * open, keeps its state between them, and answers with the value of the last
 * expression. Requests and events are JSON objects, listed in libnsbox(3); what comes
 * from the box was checked before (UTF-8, JSON, at most 64 MiB and 64 levels), and is
 * as little to be trusted as any other output of a program.
 *
 *   open, send, then whenever the descriptor is readable: next until it returns 0.
 *
 * Requests are done one after another, in the order they were sent. What a cell printed
 * comes before its event "done"; what a thread prints later comes with the next request.
 * A cell prints at most limits.stdout and limits.stderr of the policy; what is over is
 * counted and dropped. An interpreter that dies ends the request in hand (status
 * "exited", or what was the cause) and is started anew, in a fresh run of the same box:
 * its variables and its files outside of what the policy binds are gone.
 *
 * One kernel is used by one thread at a time.
 */
struct nsbox_kernel;

/*
 * @run: language, and what else is wanted of interpreter, project, argv (arguments), env,
 * cwd, name, artifacts_dir; no code, no file, no descriptors, no flags but
 * NSBOX_RUN_CHANNEL. timeout_ms is the life of the kernel, restarts included; 0: a day, and
 * then limits.timeout of the policy is the time of each request that says none. The box must
 * be idle; it is busy until close, and must not be closed before. Returns when the
 * interpreter was started; the event "ready" says that it answers. NSBOX_E_POLICY: with less
 * than 104 of limits.files there is none of Python, with less than 120 none of bash.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_kernel_open(struct nsbox_kernel **out, struct nsbox_box *box,
		  const struct nsbox_run *run, struct nsbox_error *err);

/* Poll it for reading; level-triggered, close-on-exec, the same until close. */
NSBOX_API int nsbox_kernel_fd(const struct nsbox_kernel *k);

/*
 * Queue one request, or the answer to an event "call". NSBOX_E_USAGE: it is no such
 * object; it says why. NSBOX_E_BUSY: too much is queued, nobody waits for that answer, or
 * the kernel is over.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_kernel_send(struct nsbox_kernel *k, const char *json, size_t len,
		  struct nsbox_error *err);

/*
 * 1: *json is an event, *len bytes and a NUL; it lives until the next call on this
 * kernel. 0: none now. Negative: the kernel is over, and every request had its event;
 * NSBOX_E_BUSY when its time is over or it was ended, else what went wrong. Close it.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_kernel_next(struct nsbox_kernel *k, const char **json, size_t *len,
		  struct nsbox_error *err);

/*
 * Interrupt the request in hand, as Ctrl-C does, at the earliest 5 ms after it began; an
 * interpreter that goes on for two seconds is killed and started anew. Nothing is done when
 * there is none. Never ends a request behind it, even when it comes as the one in hand ends.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_kernel_interrupt(struct nsbox_kernel *k, struct nsbox_error *err);

/* Kill what is left and free, also on failure. out: the result of the box's last run, or
 * NULL. k may be NULL when out is. */
NSBOX_API int
nsbox_kernel_close(struct nsbox_kernel *k, struct nsbox_result **out,
		   struct nsbox_error *err);

/* ------------------------------------------------------------- result -- */

/* A result is complete: it needs neither its box nor its policy any more. Only
 * nsbox_result_note() and _free() take NULL. */
enum nsbox_verdict {
	NSBOX_SKIPPED = 0, /* refused before running; see nsbox_result_reason() */
	NSBOX_EXITED = 1,
	NSBOX_SIGNALED = 2,
	NSBOX_TIMED_OUT = 3,
	NSBOX_OUT_OF_MEMORY = 4,
	NSBOX_DENIED = 5, /* killed for a forbidden system call */
	NSBOX_PIDS_LIMIT = 6,
	NSBOX_DISK_LIMIT = 7,
	NSBOX_OUTPUT_LIMIT = 8
};

NSBOX_API enum nsbox_verdict nsbox_result_verdict(const struct nsbox_result *r);
/* "exited", "timed_out", ...: the words of the record. */
NSBOX_API const char *nsbox_result_verdict_name(const struct nsbox_result *r);
/* The program's own code, or -1 when it did not exit. */
NSBOX_API int nsbox_result_exit_code(const struct nsbox_result *r);
/* The signal it died of, or 0. */
NSBOX_API int nsbox_result_signal(const struct nsbox_result *r);
/* What a command-line tool should exit with: the program's own code, 128+n when it died
 * of signal n, 122 to 127 for what nsbox(1) lists. */
NSBOX_API int nsbox_result_status(const struct nsbox_result *r);
/* NULL, or a machine word, ": " and a sentence for people. */
NSBOX_API const char *nsbox_result_reason(const struct nsbox_result *r);
/* What the caller should know beside the verdict, one sentence each (a socket that
 * was hidden in a bound folder, say); NULL past the end. */
NSBOX_API const char *nsbox_result_note(const struct nsbox_result *r, size_t i);
/* What was kept, *len bytes (len may be NULL) and a NUL behind them; NULL when the stream
 * was not captured. With more than the policy's limit a notice stands in the middle. */
NSBOX_API const void *nsbox_result_stdout(const struct nsbox_result *r,
					  size_t *len);
NSBOX_API const void *nsbox_result_stderr(const struct nsbox_result *r,
					  size_t *len);

/*
 * How strongly one layer was in force during the run: "memory", "cpu", "pids",
 * "network", "filesystem", "syscalls", "time", "disk", "output", "landlock", "io".
 * Nothing is reported that was not verified.
 */
enum nsbox_strength {
	NSBOX_STRENGTH_NONE = 0,
	NSBOX_STRENGTH_USERSPACE = 1, /* a supervisor watches and kills */
	NSBOX_STRENGTH_KERNEL = 2
};
NSBOX_API enum nsbox_strength
nsbox_result_enforced(const struct nsbox_result *r, const char *layer);

/* Artifacts: count, then path in the work folder, path on the host, size in bytes; each
 * may be NULL. NSBOX_E_USAGE past the end. */
NSBOX_API size_t nsbox_result_artifact_count(const struct nsbox_result *r);
NSBOX_API int nsbox_result_artifact(const struct nsbox_result *r, size_t i,
				    const char **path, const char **host_path,
				    uint64_t *size_bytes);

/* The whole result as one JSON object; lives as long as the result. Made by the first
 * call, so not by two threads at once. NULL: out of memory. */
NSBOX_API const char *nsbox_result_json(const struct nsbox_result *r);
NSBOX_API void nsbox_result_free(struct nsbox_result *r);

/* -------------------------------------------------------------- boxes -- */

/*
 * The caller's boxes, whoever started them: those of every program that runs under the
 * same effective uid and sees the same /run and /tmp. For showing: the list is a file
 * that each program of that user may write, so it is no proof of anything, and a box
 * whose policy has observe.listed off, or that could not be listed, is not in it.
 */
enum nsbox_box_state {
	NSBOX_BOX_RUNNING = 1,	/* or over, and not collected yet */
	NSBOX_BOX_FINISHED = 2,
	NSBOX_BOX_LOST = 3	/* ended without a result: its launcher was killed, or
				   closed the box */
};

#define NSBOX_UNKNOWN UINT64_MAX

struct nsbox_box_info {
	uint32_t size;		/* set by NSBOX_BOX_INFO_INIT */
	int32_t state;		/* enum nsbox_box_state */
	char id[16];		/* 12 hexadecimal digits */
	char name[64];		/* printable UTF-8 */
	int32_t launcher_pid;	/* for showing only; it may be another process by now */
	int32_t init_pid;	/* the same of the box's PID 1, as the host counts; -1 */
	uint64_t started_us;	/* CLOCK_REALTIME, microseconds */
	uint64_t age_us;	/* running: since then; finished: how long it ran; lost:
				   NSBOX_UNKNOWN when nobody saw the end */
	/* Running: now. Finished: all of it, and the peaks. NSBOX_UNKNOWN: nobody knows. */
	uint64_t cpu_us;	/* user and system */
	uint64_t memory_bytes;
	uint64_t pids;		/* processes (running: and threads) without the box's init */
	uint64_t memory_limit;	/* bytes; 0 here and below: no limit */
	uint64_t pids_limit;
	uint64_t cpus_milli;	/* thousandths of a core */
	uint64_t timeout_us;
	int32_t verdict;	/* finished: enum nsbox_verdict, exit code, signal, as in the */
	int32_t exit_code;	/* result; else 0, -1, 0 */
	int32_t signal;
	uint32_t reserved;
	const char *verdict_name; /* finished: "exited", ...; else NULL. Static */
};
#define NSBOX_BOX_INFO_INIT { sizeof(struct nsbox_box_info), 0, { 0 }, { 0 }, 0, 0, 0, 0, 0, \
			      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * A snapshot of the list, in no order: open, next until it returns 0, close. A user
 * without boxes has an empty list. The figures of a running box are read by next, which
 * looks at each of its processes where no cgroup counts them.
 *
 * next returns 1 with *info filled up to the size it came with, 0 at the end;
 * NSBOX_E_USAGE: a size that was never set. close accepts NULL.
 */
struct nsbox_boxes;
NSBOX_API NSBOX_MUST_CHECK int
nsbox_boxes_open(struct nsbox_boxes **out, struct nsbox_error *err);
NSBOX_API NSBOX_MUST_CHECK int
nsbox_boxes_next(struct nsbox_boxes *boxes, struct nsbox_box_info *info,
		 struct nsbox_error *err);
NSBOX_API void nsbox_boxes_close(struct nsbox_boxes *boxes);

/* ------------------------------------------------------------- doctor -- */

/*
 * Prove every capability of this host by doing it in a throw-away child.
 * Returns 0 when the local tier works fully, 1 when degraded, 2 when not at all; a
 * negative code when it could not ask. @form "text" or "json"; *out is malloc'ed.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_doctor(const char *form, char **out, struct nsbox_error *err);

/* -------------------------------------------------------------- cache -- */

/*
 * The packages that runs with packages.list have installed: layers in the caller's cache
 * folder, each with its size, what it was asked for and what was resolved. @form "text" or
 * "json"; *out is malloc'ed.
 *
 * prune removes the layers that no run has used for @unused_ms milliseconds (0: all), and
 * what interrupted installs left; it returns 1 when something stayed because a run uses it,
 * else 0.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_cache_list(const char *form, char **out, struct nsbox_error *err);
NSBOX_API NSBOX_MUST_CHECK int
nsbox_cache_prune(uint64_t unused_ms, const char *form, char **out, struct nsbox_error *err);

/* -------------------------------------------------------------- sweep -- */

/*
 * Remove what launchers left that were killed, or that the machine took along when it
 * lost its power: cgroups of boxes and half-written files of the cache, and in
 * @folders (NULL-terminated host paths; NULL: none) placeholders of the names that
 * @policy protects (NULL: the default policy) and half-written artifacts. What somebody
 * still uses is locked, and stays; nobody is killed. A launcher that ends, even by
 * SIGKILL, leaves nothing of all this unless it is killed in the very moment; each
 * run also sweeps cgroups a little.
 *
 * 0: nothing is left; 1: something is, since processes are in it; or a negative code.
 * @form "text" (a line for each thing, none for nothing) or "json"; *out is malloc'ed.
 */
NSBOX_API NSBOX_MUST_CHECK int
nsbox_sweep(const struct nsbox_policy *policy, const char *const *folders,
	    const char *form, char **out, struct nsbox_error *err);

#ifdef __cplusplus
}
#endif
#endif /* NSBOX_H */
