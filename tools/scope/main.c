/*
 * nsbox-scope: asks the user's systemd for a transient scope with a delegated cgroup,
 * stays in it as its keeper, and moves processes into leaves of it on request. The half
 * of runtime/scope.h that needs libsystemd, as a program of its own, because neither
 * the library nor the static command links it.
 *
 * Run by runtime/scope.c with an empty environment and a socket pair as its stdin; the
 * messages are those of runtime/scope_wire.h. Runs as the caller, never setuid.
 *
 * Must:    end when the launcher does; answer each packet with one packet.
 * Mustn't: talk to a manager of another user, or of another pid namespace, where our
 *          numbers mean other processes.
 */
#include "runtime/scope_wire.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>

enum { SOCK = 0, PATIENCE_US = 7000000 };

#define MANAGER "org.freedesktop.systemd1"
#define MANAGER_PATH "/org/freedesktop/systemd1"
#define MANAGER_INTERFACE MANAGER ".Manager"

struct keeper {
	sd_bus *bus;
	char unit[64];
	bool is_done;	 /* the job that starts the scope */
	char result[32]; /* and what became of it */
};

/* --- answers ------------------------------------------------------------------ */

static int answer(const struct scope_answer *a)
{
	return send(SOCK, a, sizeof(*a), MSG_NOSIGNAL) == (ssize_t)sizeof(*a) ? 0 : -1;
}

/* @r: the negative errno of sd-bus, or 0. @detail: the manager's own words, or NULL. */
static int refuse_about(uint32_t pid, const char *what, int r, const char *detail)
{
	struct scope_answer a = { .magic = SCOPE_MAGIC, .pid = pid, .failed = 1, .os_errno = -r };

	snprintf(a.text, sizeof(a.text), "%s%s%s", what, detail ? ": " : "", detail ? detail : "");
	return answer(&a);
}

static int refuse(const char *what, int r, const char *detail)
{
	return refuse_about(0, what, r, detail);
}

/* --- the bus -------------------------------------------------------------------- */

/* SO_PEERCRED names who listens: the user's systemd, or its bus. Pid 0 is somebody
 * outside of our pid namespace. */
static int check_peer(sd_bus *bus)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int fd = sd_bus_get_fd(bus);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return fd < 0 ? fd : -errno;
	return peer.uid == geteuid() && peer.pid > 0 ? 0 : -EPERM;
}

static int open_bus(sd_bus **out, const char *name, bool is_message_bus)
{
	char address[64];
	sd_bus *bus = NULL;
	int r = sd_bus_new(&bus);

	if (r < 0)
		return r;
	snprintf(address, sizeof(address), "unix:path=/run/user/%u/%s", (unsigned)geteuid(), name);
	r = sd_bus_set_address(bus, address);
	if (r >= 0 && is_message_bus)
		r = sd_bus_set_bus_client(bus, 1);
	if (r >= 0)
		r = sd_bus_set_method_call_timeout(bus, PATIENCE_US);
	if (r >= 0)
		r = sd_bus_start(bus);
	if (r >= 0)
		r = check_peer(bus);
	if (r < 0) {
		sd_bus_close_unref(bus);
		return r;
	}
	*out = bus;
	return 0;
}

/* The manager's own socket first: it is there without a message bus, and nearer. */
static int find_bus(sd_bus **out)
{
	int r = open_bus(out, "systemd/private", false);

	return r < 0 ? open_bus(out, "bus", true) : r;
}

/* --- the scope ------------------------------------------------------------------ */

static int on_job_removed(sd_bus_message *m, void *data, sd_bus_error *error)
{
	const char *job, *unit, *result;
	struct keeper *k = data;
	uint32_t id;

	(void)error;
	if (sd_bus_message_read(m, "uoss", &id, &job, &unit, &result) < 0 ||
	    strcmp(unit, k->unit) != 0)
		return 0;
	k->is_done = true;
	snprintf(k->result, sizeof(k->result), "%s", result);
	return 0;
}

static uint64_t now_us(void)
{
	struct timespec t = { 0 };

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static int wait_for_job(struct keeper *k)
{
	uint64_t end = now_us() + PATIENCE_US;

	while (!k->is_done) {
		uint64_t now = now_us();
		int r = sd_bus_process(k->bus, NULL);

		if (r == 0 && now < end)
			r = sd_bus_wait(k->bus, end - now);
		if (r < 0 && r != -EINTR)
			return r;
		if (now >= end)
			return -ETIMEDOUT;
	}
	return strcmp(k->result, "done") == 0 ? 0 : -ECANCELED;
}

/* A pid of 0 is the sender, whichever number it has for the manager. */
static int start_unit(struct keeper *k, sd_bus_error *error)
{
	int r = sd_bus_match_signal(k->bus, NULL, NULL, MANAGER_PATH, MANAGER_INTERFACE,
				    "JobRemoved", on_job_removed, k);

	if (r < 0)
		return r;
	/* Signals go to subscribers; on the manager's own socket to everybody. */
	(void)sd_bus_call_method(k->bus, MANAGER, MANAGER_PATH, MANAGER_INTERFACE, "Subscribe",
				 NULL, NULL, "");
	return sd_bus_call_method(k->bus, MANAGER, MANAGER_PATH, MANAGER_INTERFACE,
				  "StartTransientUnit", error, NULL, "ssa(sv)a(sa(sv))", k->unit,
				  "fail", 4,
				  "Description", "s", "limits for boxes of nsbox",
				  "Delegate", "b", 1,
				  "CollectMode", "s", "inactive-or-failed",
				  "PIDs", "au", 1, (uint32_t)0,
				  0);
}

/* The line "0::/path" of the hierarchy of version 2. */
static int own_cgroup(char *path, size_t size)
{
	char line[1024];
	FILE *f = fopen("/proc/self/cgroup", "re");
	int r = -ENOENT;

	if (!f)
		return -errno;
	while (r == -ENOENT && fgets(line, sizeof(line), f)) {
		size_t n = strcspn(line, "\n");

		line[n] = '\0';
		if (strncmp(line, "0::", 3) == 0)
			r = snprintf(path, size, "%s", line + 3) < (int)size ? 0 : -ENAMETOOLONG;
	}
	fclose(f);
	return r;
}

/* Where we are, not what was promised. */
static bool is_in_unit(const char *path, const char *unit)
{
	const char *slash = strrchr(path, '/');

	return slash && strcmp(slash + 1, unit) == 0;
}

static int make_scope(struct keeper *k)
{
	struct scope_answer ready = { .magic = SCOPE_MAGIC };
	sd_bus_error error = SD_BUS_ERROR_NULL;
	int r = find_bus(&k->bus);

	if (r < 0) {
		refuse("the user's systemd cannot be reached", r, NULL);
		return -1;
	}
	snprintf(k->unit, sizeof(k->unit), "nsbox-%u-%llu.scope", (unsigned)getpid(),
		 (unsigned long long)now_us());
	r = start_unit(k, &error);
	if (r >= 0)
		r = wait_for_job(k);
	if (r < 0) {
		refuse("systemd made no scope", r, error.message);
		sd_bus_error_free(&error);
		return -1;
	}
	r = own_cgroup(ready.path, sizeof(ready.path));
	if (r < 0 || !is_in_unit(ready.path, k->unit)) {
		refuse("systemd made a scope and left this process out of it", r, NULL);
		return -1;
	}
	return answer(&ready);
}

/* --- requests ---------------------------------------------------------------------- */

static bool is_leaf_name(const char leaf[SCOPE_LEAF_MAX])
{
	return memchr(leaf, '\0', SCOPE_LEAF_MAX) && strncmp(leaf, "nsbox-", 6) == 0 &&
	       !strchr(leaf, '/');
}

/*
 * systemd moves the process; what the user's manager may not, the system's does for it:
 * org.freedesktop.systemd1(5), since version 238.
 */
static int attach(const struct keeper *k, const struct scope_request *q)
{
	struct scope_answer done = { .magic = SCOPE_MAGIC, .pid = q->pid };
	sd_bus_error error = SD_BUS_ERROR_NULL;
	char below[SCOPE_LEAF_MAX + 1];
	int r;

	snprintf(below, sizeof(below), "/%s", q->leaf);
	r = sd_bus_call_method(k->bus, MANAGER, MANAGER_PATH, MANAGER_INTERFACE,
			       "AttachProcessesToUnit", &error, NULL, "ssau", k->unit, below, 1,
			       q->pid);
	if (r < 0)
		r = refuse_about(q->pid, "systemd did not move it", r, error.message);
	else
		r = answer(&done);
	sd_bus_error_free(&error);
	return r;
}

/* Signals of jobs and units that nobody waits for would fill the socket. */
static void drain(sd_bus *bus)
{
	while (sd_bus_process(bus, NULL) > 0)
		;
}

static int serve(const struct keeper *k, int launcher)
{
	for (;;) {
		struct pollfd p[] = {
			{ .fd = SOCK, .events = POLLIN },
			{ .fd = launcher, .events = POLLIN },
			{ .fd = sd_bus_get_fd(k->bus), .events = POLLIN },
		};
		struct scope_request q;
		ssize_t n;

		if (poll(p, 3, -1) < 0 && errno != EINTR)
			return 1;
		if (p[2].revents & (POLLHUP | POLLERR))
			return 1;
		if (p[2].revents)
			drain(k->bus);
		if (p[1].revents)
			return 0;
		if (!p[0].revents)
			continue;
		n = recv(SOCK, &q, sizeof(q), MSG_DONTWAIT | MSG_TRUNC);
		if (n == 0)
			return 0;
		if (n != (ssize_t)sizeof(q) || q.magic != SCOPE_MAGIC || !q.pid ||
		    !is_leaf_name(q.leaf) || attach(k, &q) < 0)
			return 1;
	}
}

/*
 * The launcher's death is EOF, unless a process that it forked holds the socket as
 * well: so its pidfd is watched too. (A death signal would come when the thread ends
 * that started us.)
 */
static int watch_launcher(void)
{
	pid_t parent = getppid();
	int fd = (int)syscall(SYS_pidfd_open, parent, 0);

	return fd >= 0 && getppid() == parent ? fd : -1;
}

int main(void)
{
	struct keeper k = { 0 };
	int type, launcher;
	socklen_t size = sizeof(type);

	if (getsockopt(SOCK, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET) {
		fputs("nsbox-scope is a part of nsbox, not a command\n", stderr);
		return 125;
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* A ^C on the launcher's terminal is not for us, and its folder is not ours to hold. */
	if (setsid() < 0 || chdir("/") < 0)
		return 1;
	launcher = watch_launcher();
	if (launcher < 0) {
		refuse("nsbox-scope cannot watch its launcher", -errno, NULL);
		return 1;
	}
	return make_scope(&k) < 0 ? 1 : serve(&k, launcher);
}
