/*
 * hints.c - words for what went wrong. Runs in the launcher; reads a few files of /proc
 * to name the cause, changes nothing.
 */
#include "runtime/hints.h"

#include "base/cleanup.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

/* -------------------------------------------------------------------- clone -- */

static bool file_says(const char *path, const char *text)
{
	struct buf b = BUF_INIT(64);
	bool same = fd_read_file(AT_FDCWD, path, &b) == 0 && b.len >= strlen(text) &&
		    strncmp(buf_text(&b), text, strlen(text)) == 0 &&
		    (b.len == strlen(text) || b.data[strlen(text)] == '\n');

	buf_free(&b);
	return same;
}

/* Causes that can be read; the first that holds is named. */
static const struct cause {
	int os_errno;
	const char *file, *value, *hint;
} causes[] = {
	{ EPERM, "/proc/sys/kernel/unprivileged_userns_clone", "0",
	  "this kernel forbids user namespaces to ordinary users: as root, "
	  "sysctl -w kernel.unprivileged_userns_clone=1" },
	{ EPERM, "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
	  "AppArmor restricts user namespaces: as root, sysctl -w "
	  "kernel.apparmor_restrict_unprivileged_userns=0, or a profile that allows userns" },
	{ ENOSPC, "/proc/sys/user/max_user_namespaces", "0",
	  "user namespaces are switched off: as root, sysctl -w user.max_user_namespaces=10000" },
	{ ENOSPC, NULL, NULL,
	  "too many or too deeply nested namespaces: see /proc/sys/user/max_*_namespaces" },
	{ EPERM, NULL, NULL,
	  "an outer container or security module forbids new namespaces: allow clone with "
	  "CLONE_NEWUSER there (Docker: --security-opt seccomp=unconfined); see nsbox doctor. Or accept a "
	  "weaker box: --isolation-floor landlock" },
	{ EAGAIN, NULL, NULL, "too many processes of this user: raise ulimit -u" },
	{ ENOMEM, NULL, NULL, "the host is out of memory or process ids" },
	{ EINVAL, NULL, NULL, "the kernel lacks a namespace type: see nsbox doctor" },
};

/* The first things a namespace's root does. Where they are refused, the namespace was made
 * and its capabilities work nowhere in it: that is how Ubuntu's AppArmor restricts ordinary
 * users, and what some outer sandboxes do. */
static bool lacks_capabilities(int kind, int os_errno)
{
	return (os_errno == EPERM || os_errno == EACCES) &&
	       (kind == OP_LOOPBACK || kind == OP_HOSTNAME || kind == OP_PRIVATE || kind == OP_ROOT);
}

static int hints_capabilities(struct nsbox_error *err)
{
	if (file_says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
		err_hint(err, "AppArmor takes the capabilities of user namespaces away: as root, sysctl -w "
			      "kernel.apparmor_restrict_unprivileged_userns=0, or a profile that allows userns");
	else
		err_hint(err, "the user namespace came without its capabilities: an outer container, sandbox "
			      "or security module takes them away; see nsbox doctor");
	return NSBOX_E_UNSUPPORTED;
}

int hints_clone(struct nsbox_error *err, int os_errno)
{
	for (size_t i = 0; i < ARRAY_SIZE(causes); i++) {
		if (causes[i].os_errno != os_errno)
			continue;
		if (!causes[i].file || file_says(causes[i].file, causes[i].value)) {
			err_hint(err, "%s", causes[i].hint);
			break;
		}
	}
	return err_errno(err, NSBOX_E_UNSUPPORTED, os_errno, "make the box's namespaces");
}

/* -------------------------------------------------------------------- setup -- */

static const struct op_hint {
	int kind, os_errno; /* os_errno 0: any */
	int code;
	const char *hint;
} op_hints[] = {
	{ OP_PROC, EPERM, NSBOX_E_UNSUPPORTED,
	  "an outer container masks /proc, so the kernel refuses a fresh one" },
	{ OP_BIND, ESTALE, NSBOX_E_SETUP, "the path was replaced while the box was being built" },
	{ OP_BIND, ENOENT, NSBOX_E_SETUP, "the path disappeared while the box was being built" },
	{ OP_BIND, EACCES, NSBOX_E_POLICY,
	  "the box's user may not reach this path: make the folders above it searchable" },
	{ OP_BIND, EROFS, NSBOX_E_POLICY,
	  "the place in the box lies in a read-only folder: choose another DEST" },
	{ OP_ATTACH, EROFS, NSBOX_E_POLICY,
	  "the place in the box lies in a read-only folder: choose another DEST" },
	{ OP_TMPFS, EROFS, NSBOX_E_POLICY,
	  "the place in the box lies in a read-only folder: choose another DEST" },
	{ OP_BIND, ENOTDIR, NSBOX_E_POLICY, "a file and a folder cannot be bound on each other" },
	{ OP_ATTACH, ENOTDIR, NSBOX_E_POLICY,
	  "a file and a folder cannot be bound on each other" },
	{ OP_MASK, ENOENT, NSBOX_E_SETUP,
	  "somebody removed it while the box was being built: run it again" },
	{ OP_CHDIR, ENOENT, NSBOX_E_POLICY, "the working directory does not exist in the box" },
	{ OP_CHDIR, ENOTDIR, NSBOX_E_POLICY, "the working directory is not a folder" },
	{ OP_CHDIR, EACCES, NSBOX_E_POLICY, "the box's user may not enter the working directory" },
	{ OP_FILE, ENOSPC, NSBOX_E_POLICY, "the files that nsbox puts into the box are too large" },
	{ OP_SECCOMP, EINVAL, NSBOX_E_UNSUPPORTED, "the kernel has no seccomp filters" },
	{ OP_LANDLOCK, 0, NSBOX_E_UNSUPPORTED, "see nsbox doctor, row landlock" },
	{ OP_LANDLOCK_PATH, EACCES, NSBOX_E_POLICY,
	  "the box's user may not reach this path: make the folders above it searchable, or take "
	  "an interpreter that all users can run" },
	{ OP_IDS, EINVAL, NSBOX_E_UNSUPPORTED, "the id map was not written" },
	{ OP_NETLINK, EPERM, NSBOX_E_UNSUPPORTED,
	  "an outer container or security module forbids to set up the box's own network: see nsbox doctor" },
	{ OP_NETLINK, 0, NSBOX_E_UNSUPPORTED,
	  "the kernel lacks a part of nf_tables (nft_tproxy): see nsbox doctor, row nftables" },
	{ OP_INLET, EPERM, NSBOX_E_UNSUPPORTED,
	  "an outer container or security module forbids packet, raw or transparent sockets" },
	{ OP_INLET, EAFNOSUPPORT, NSBOX_E_UNSUPPORTED,
	  "the kernel has no packet sockets (CONFIG_PACKET; as root: modprobe af_packet)" },
	{ OP_PORTS, EADDRINUSE, NSBOX_E_POLICY, "a port is named twice, or is 53, which the box's resolver has" },
};

static void op_subject(struct buf *out, const struct plan *plan, const struct op *op)
{
	const char *src = plan_str(plan, op->src), *dst = plan_str(plan, op->dst);

	if (src && dst)
		buf_fmt(out, " %s -> /%s", src, dst);
	else if (src || dst)
		buf_fmt(out, " %s%s", dst ? "/" : "", src ? src : dst);
}

int hints_setup(struct nsbox_error *err, const struct plan *plan, int index, int os_errno)
{
	struct buf subject = BUF_INIT(400);
	int code = NSBOX_E_SETUP;
	const struct op *op;

	if (os_errno == ENOSYS)
		err_hint(err, "%s", HINT_OLD_KERNEL);
	if (index < 0 || (uint32_t)index >= plan->op_count) {
		/* init gets the payload's arguments and environment, to pass them on. */
		if (os_errno == E2BIG)
			err_hint(err, "pass large data in a file (--ro) or on stdin (-i)");
		if (os_errno == EPROTOTYPE) /* init.c, may_inherit() */
			err_hint(err, "a datagram socket as standard input, output or error would send past the "
				      "rules of this box's network: give a pipe, a file or a stream");
		return err_errno(err, os_errno == E2BIG ? NSBOX_E_USAGE : NSBOX_E_SETUP, os_errno,
				 os_errno == E2BIG ? "pass the command and its environment on"
						   : "start init");
	}
	op = &plan_ops(plan)[index];
	if (lacks_capabilities(op->kind, os_errno))
		code = hints_capabilities(err);
	for (size_t i = 0; i < ARRAY_SIZE(op_hints); i++) {
		if (op_hints[i].kind != op->kind ||
		    (op_hints[i].os_errno && op_hints[i].os_errno != os_errno))
			continue;
		code = op_hints[i].code;
		err_hint(err, "%s", op_hints[i].hint);
		break;
	}
	op_subject(&subject, plan, op);
	code = err_errno(err, code, os_errno, "%s%s", op_name(op->kind), buf_text(&subject));
	buf_free(&subject);
	return code;
}

static const struct flag_name {
	uint64_t flag;
	const char *name;
} flag_names[] = {
	{ OP_RDONLY, "ro" },	 { OP_NOEXEC, "noexec" },   { OP_REC, "recursive" },
	{ OP_OPTIONAL, "optional" }, { OP_NODEV_OFF, "device" }, { OP_IS_FILE, "file" },
	{ OP_MUST_EXIST, "required" },
};

void hints_op(struct buf *out, const struct plan *plan, const struct op *op)
{
	buf_str(out, op_name(op->kind));
	op_subject(out, plan, op);
	for (size_t i = 0; i < ARRAY_SIZE(flag_names) && op->kind != OP_RLIMIT; i++)
		if (op->flags & flag_names[i].flag)
			buf_fmt(out, " %s", flag_names[i].name);
	if (op->kind == OP_RLIMIT)
		buf_fmt(out, " resource %llu", (unsigned long long)op->flags);
	if (op->n)
		buf_fmt(out, op->kind == OP_DIR || op->kind == OP_FILE || op->kind == OP_UMASK
				     ? " %llo" : " %llu", (unsigned long long)op->n);
	if (op->m)
		buf_fmt(out, " %llu", (unsigned long long)op->m);
	if (op->blob_len)
		buf_fmt(out, " (%u bytes)", op->blob_len);
	buf_char(out, '\n');
}

/* --------------------------------------------------------------------- exec -- */

static const struct exec_answer {
	int os_errno, status;
	const char *sentence;
} exec_answers[] = {
	{ ENOENT, 127, "not_found: no such command in the box" },
	{ ENOTDIR, 127, "not_found: no such command in the box" },
	{ EACCES, 126, "not_executable: the file may not be executed" },
	{ EPERM, 126, "not_executable: the file may not be executed" },
	{ ENOEXEC, 126, "not_executable: not a program this machine can run (no #! line?)" },
	{ EISDIR, 126, "not_executable: it is a folder" },
	{ ELOOP, 126, "not_executable: too many symbolic links" },
	{ ETXTBSY, 126, "not_executable: the file is open for writing" },
};

int hints_exec(int os_errno, const char **sentence)
{
	for (size_t i = 0; i < ARRAY_SIZE(exec_answers); i++)
		if (exec_answers[i].os_errno == os_errno) {
			*sentence = exec_answers[i].sentence;
			return exec_answers[i].status;
		}
	return 0;
}
