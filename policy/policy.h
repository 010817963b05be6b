/*
 * A policy: what one box may do. Plain data, no descriptors, no side effects.
 *
 * policy_keys[] (schema.c) is the only list of keys. The C setter, policy files,
 * command-line flags, JSON schema, man page and completion are driven by it.
 * Zero is the safest value of every field (no access, no limit lifted), except
 * limits, where policy_init() fills in the defaults of the table.
 */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "base/buf.h"
#include "base/err.h"
#include "base/strlist.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum key_type {
	KEY_BOOL,	/* bool:      "true" "false" "yes" "no" "on" "off" */
	KEY_SIZE,	/* uint64_t:  bytes, num_size() */
	KEY_TIME,	/* uint64_t:  microseconds, num_time() */
	KEY_SHARE,	/* uint64_t:  thousandths, num_share() */
	KEY_COUNT,	/* uint64_t:  num_uint() */
	KEY_CHOICE,	/* int:       index into key->choices */
	KEY_STRING,	/* char *:    NULL when unset */
	KEY_LIST,	/* struct strlist: setting appends, "" clears */
	KEY_LIST_OR_NULL, /* struct nullable_list: "null" = no check, "" = empty */
};

enum net_mode { NET_DISABLED, NET_FILTERED, NET_OPEN };
enum net_precedence { PRECEDENCE_ALLOW, PRECEDENCE_DENY };
enum net_path { PATH_INLET, PATH_VETH };
enum net_compat { COMPAT_NONE, COMPAT_E2B };
enum syscall_level {
	LEVEL_STRICT,	/* no fork or exec after start, no sockets */
	LEVEL_DEFAULT,
	LEVEL_BUILD,	/* the default filter; larger limits come from the profile */
	LEVEL_DEBUG,	/* ptrace, process_vm_*, kcmp on top */
	LEVEL_AUDIT,	/* what would be denied is logged by the kernel and allowed */
	LEVEL_COUNT
};
enum import_mode { IMPORT_TOPLEVEL, IMPORT_STRICT };
enum collect_when { COLLECT_ON_SUCCESS, COLLECT_ALWAYS, COLLECT_NEVER };
enum output_action { OUTPUT_TRUNCATE, OUTPUT_KILL };
enum oom_action { OOM_GROUP, OOM_PROCESS };
enum disk_action { DISK_DENY, DISK_KILL };
/* Of packages for Python. */
enum packages_installer { INSTALLER_AUTO, INSTALLER_PIP, INSTALLER_UV };
enum floor { FLOOR_USERSPACE, FLOOR_KERNEL };
enum isolation { ISOLATION_NAMESPACES, ISOLATION_LANDLOCK };
/* How far to go for a cgroup with controllers. */
enum cgroup_reach { REACH_HERE, REACH_SCOPE, REACH_MOVE };

struct nullable_list {
	bool is_set; /* false: null, no check; true and empty: nothing allowed */
	struct strlist list;
};

struct policy {
	struct {
		struct strlist read;	/* PATH[:DEST] */
		struct strlist write;	/* PATH[:DEST] */
		struct strlist tmpfs;	/* DEST[:SIZE] */
		struct strlist hidden;	/* PATH in the box, covered by nothing */
		struct strlist protect;	/* names in fs.write folders: read-only */
		struct strlist protect_home; /* the same, relative to the home */
	} fs;
	struct {
		int mode;		/* enum net_mode */
		int precedence;		/* enum net_precedence */
		int path;		/* enum net_path */
		int compat;		/* enum net_compat */
		struct strlist allow_out, deny_out, allow_private;
		uint64_t connections;	/* at a time */
		uint64_t names;		/* looked up, in all */
		uint64_t bytes, host_bytes; /* both ways; 0: no limit */
		char *proxy;		/* of the host's, to go out by; NULL: none. Not to be
					   shown: policy_proxy_shown() */
		struct strlist resolvers; /* ADDRESS[:PORT]; empty: the host's */
		struct strlist publish;	/* [ADDRESS:]HOSTPORT:PORT */
	} net;
	struct {
		bool subprocesses;	/* false: no new process, no other program */
	} process;
	struct {
		struct strlist set;	/* NAME=VALUE */
		struct strlist pass;	/* NAME: taken from the caller */
		bool inherit;		/* all of the caller's but secret-looking ones */
	} env;
	struct {
		uint64_t timeout, grace, cpu_time;	/* µs; cpu_time 0: none */
		uint64_t cpus;				/* thousandths; 0: no limit */
		uint64_t memory, swap, disk, tmp, shm;	/* bytes */
		uint64_t memory_high;			/* bytes; 0: none */
		uint64_t inodes;			/* 0: by the size alone */
		uint64_t io_weight;			/* 0: unset */
		uint64_t pids, files, file_size;	/* file_size 0: no limit */
		uint64_t stdout_bytes, stderr_bytes;
		int output_action;			/* enum output_action */
		int oom;				/* enum oom_action */
		int disk_action;			/* enum disk_action */
	} limits;
	struct {
		struct nullable_list allow;
		int mode;		/* enum import_mode */
	} imports;
	struct {
		bool install;
		bool in_code;		/* what the code's own block asks for (PEP 723) */
		struct strlist list;
		uint64_t max_bytes;	/* that an install may write */
		int installer;		/* enum packages_installer */
	} packages;
	struct {
		int collect;		/* enum collect_when */
		struct strlist paths;	/* empty: the whole work folder */
		uint64_t max_count, max_bytes, max_depth;
	} artifacts;
	struct {
		int level;		/* enum syscall_level */
		struct strlist allow, deny; /* names */
	} syscalls;
	struct {
		struct strlist allow;	/* names below /dev beyond the basic set */
	} devices;
	struct {
		int floor;		/* enum floor */
		bool degraded;		/* --allow-degraded */
		struct strlist optional; /* keys that may stay unenforced */
		int cgroup;		/* enum cgroup_reach */
	} enforce;
	struct {
		int floor;		/* enum isolation */
	} isolation;
	struct {
		bool listed;		/* in the list that nsbox top reads */
	} observe;
	char *profile;			/* the built-in it started from */
};

/* Which layer of the box makes a key true; KEY_BY_* of one key are or-ed. */
enum {
	BY_MOUNTS = 1 << 0,	/* mount namespace */
	BY_LANDLOCK = 1 << 1,
	BY_SECCOMP = 1 << 2,
	BY_CGROUP = 1 << 3,
	BY_RLIMIT = 1 << 4,
	BY_SUPERVISOR = 1 << 5,	/* the launcher watches and kills */
	BY_NETNS = 1 << 6,
	BY_CODE = 1 << 7,	/* decided before anything runs */
	BY_NOBODY = 1 << 8,	/* not enforceable yet: any non-default is refused */
};

struct key {
	const char *name;	/* "limits.memory" */
	enum key_type type;
	size_t field;		/* offsetof(struct policy, ...) */
	const char *preset;	/* default, as text, a list one item a line; NULL:
				   unset or an empty list */
	uint64_t min, max;	/* of KEY_SIZE, KEY_TIME, KEY_SHARE, KEY_COUNT */
	const char *const *choices; /* KEY_CHOICE, NULL-terminated */
	const char *flag;	/* "--memory" or NULL */
	char letter;		/* 'm' for -m, or 0 */
	const char *value_name;	/* "SIZE" in help */
	unsigned by;		/* BY_* */
	enum { TIGHTER_LOWER, TIGHTER_FALSE, TIGHTER_FEWER, TIGHTER_MORE,
	       TIGHTER_FIRST, TIGHTER_LAST, TIGHTER_FIXED } tighter;
	const char *help;	/* one line, unit included */
	bool zero_is_all;	/* 0 or an empty list lifts the limit, so that it is
				   the loosest value, not the tightest */
	size_t also;		/* a shorthand: sets this field as well; 0: an
				   ordinary key (offset 0 is fs.read's) */
};
extern const struct key policy_keys[];
extern const size_t policy_key_count;

const struct key *policy_key(const char *name);		/* NULL: none such */
const char *policy_key_nearest(const char *name);	/* for "did you mean" */

/* --- values (policy.c) ------------------------------------------------- */

/* Every field at the default of the table. Free what it held before. */
int policy_init(struct policy *p, struct nsbox_error *err);
void policy_free(struct policy *p);
int policy_copy(struct policy *to, const struct policy *from,
		struct nsbox_error *err);

/*
 * The one rule for PATH[:DEST] (fs.read, fs.write): DEST begins at the last
 * ":/". Returns the length of PATH; *dest is NULL without DEST, which means the
 * same place. fs.hidden and other plain paths have no DEST.
 */
size_t policy_split_bind(const char *entry, const char **dest);
/* DEST[:SIZE] (fs.tmpfs): the length of DEST and *size (0: none given), or -1
 * when SIZE is malformed or below one page. */
long policy_split_tmpfs(const char *entry, uint64_t *size);

/*
 * Set one key from text. Adding an item that a list has is not an error and adds
 * nothing; in env.set a later NAME=VALUE replaces an earlier one. "extends" puts
 * the settings of a built-in profile on top of what is there. Also takes mellea's
 * CapabilityPolicy names (aliases.c: "network_access", "filesystem_read_roots",
 * ...) and Bud's `type`.
 * NSBOX_E_POLICY: unknown key (with a suggestion), malformed or out of range.
 */
int policy_set(struct policy *p, const char *key, const char *value,
	       struct nsbox_error *err);

/*
 * The value as text that policy_set() takes back; of a list one item a line (an
 * item a call), of an unset nullable list or string "null".
 */
int policy_get(const struct policy *p, const struct key *key, struct buf *out);

/* net.proxy as people may see it: the password is ***. */
void policy_proxy_shown(const char *url, struct buf *out);

/* Does a field differ from the default of the table? */
bool policy_is_preset(const struct policy *p, const struct key *key);

/* --- profiles (profiles.c): strict, default, python, node, shell, build, debug */

struct profile {
	const char *name, *help;
	const char *const (*settings)[2]; /* {key, value}, ends with {NULL, NULL} */
};
extern const struct profile policy_profiles[];
extern const size_t policy_profile_count;
const struct profile *policy_profile(const char *name);
int policy_from_profile(struct policy *p, const char *name,
			struct nsbox_error *err);

/* --- layers (merge.c) -------------------------------------------------- */

enum layer { LAYER_SYSTEM, LAYER_USER, LAYER_PROJECT, LAYER_FLAGS };

/* One setting with the place it came from. */
struct setting {
	char *key, *value;
	const char *file;	/* borrowed; lives as long as the settings do */
	unsigned line, column;	/* 1-based; 0: not from a file */
};
struct settings {
	struct setting *v;
	size_t n;
};
struct origin {
	const char *file; /* borrowed, as in struct setting */
	unsigned line, column;
};
/* @from NULL: from no file. 0, or -1 (no memory). */
int settings_add(struct settings *s, const char *key, const char *value,
		 const struct origin *from);
void settings_free(struct settings *s);

/*
 * Apply settings on top of p. LAYER_PROJECT may only tighten (by the `tighter`
 * column): a setting that loosens is an error with file:line:column.
 */
int policy_apply(struct policy *p, const struct settings *s, enum layer layer,
		 struct nsbox_error *err);

/* --- check (check.c): does the whole make sense? ------------------------ */

/* Contradictions, fields nobody can enforce yet, bad paths, bad names. */
int policy_check(const struct policy *p, struct nsbox_error *err);

/* --- show (show.c) ------------------------------------------------------ */

void policy_to_json(const struct policy *p, struct buf *out);
void policy_schema(struct buf *out);		/* JSON schema, draft 2020-12 */
void policy_result_schema(struct buf *out);	/* of nsbox.result/1 */

/* --- text (load.c; jansson, not linked into the static command) ---------- */

/*
 * JSON with // and C comments and trailing commas -> settings. Nested objects
 * are dotted keys; arrays are one setting an item. Errors read
 * "file:line:column: message" with a suggestion. Depth <= 16, size <= 1 MiB,
 * duplicate keys are errors.
 */
int policy_parse(struct settings *out, const char *text, size_t len,
		 const char *file, struct nsbox_error *err);

#endif
