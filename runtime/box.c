/*
 * box.c - the public face of a box. Checks every argument, then box_run.c.
 */
#include "runtime/box.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "runtime/hints.h"
#include "runtime/tiers.h"
#include "runtime/unsafe.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

extern const char nsbox_init_blob[], nsbox_init_blob_end[];

/* --------------------------------------------------------------------- open -- */

static int open_init(struct nsbox_error *err)
{
	int fd = fd_sealed("nsbox-init", nsbox_init_blob,
			   (size_t)(nsbox_init_blob_end - nsbox_init_blob));

	if (fd < 0) {
		err_hint(err, "%s", errno == EFBIG  ? "the caller's file size limit is too small: ulimit -f"
				    : errno == ENOSYS ? HINT_OLD_KERNEL
						      : "sysctl vm.memfd_noexec must not be 2");
		return err_sys(err, "put init into a memory file");
	}
	return fd;
}

static int take_policy(struct nsbox_box *box, const struct policy *p, struct nsbox_error *err)
{
	switch (box->tier) {
	case NSBOX_TIER_STATIC:
		return examine_policy(&box->policy, p, err);
	case NSBOX_TIER_LOCAL_UNSAFE:
		return unsafe_policy(&box->policy, p, err);
	default:
		return policy_copy(&box->policy, p, err);
	}
}

/* Of a plain process only the cgroup matters: what is in it is killed as a whole. */
static int find_host(struct nsbox_box *box, struct nsbox_error *err)
{
	int r = 0;

	if (box->tier == NSBOX_TIER_LOCAL_UNSAFE) {
		box->host.id.caller_uid = geteuid();
		box->host.id.caller_gid = getegid();
		cgroup_find(&box->host.place, (enum cgroup_reach)box->policy.enforce.cgroup);
		return 0;
	}
	box->is_walled = box->policy.isolation.floor == ISOLATION_LANDLOCK && walls_are_needed();
	host_find(&box->host, &box->policy, err, &r);
	if (r >= 0 && box->policy.fs.write.n)
		r = identity_for_writing(&box->host.id, err);
	return r;
}

int nsbox_box_open(struct nsbox_box **out, enum nsbox_tier tier,
		   const struct nsbox_policy *policy, struct nsbox_error *err)
{
	struct nsbox_box *box;
	int r;

	err_clear(err);
	if (!out || !policy)
		return err_set(err, NSBOX_E_USAGE, "nsbox_box_open: out or policy is NULL");
	r = tier_check(tier, err);
	if (r >= 0)
		r = policy_check(&policy->p, err);
	if (r < 0)
		return r;
	box = calloc(1, sizeof(*box));
	if (!box)
		return err_nomem(err);
	box->tier = tier;
	box->init_fd = box->listed.slot.fd = -1;
	box->host.place.fd = -1;
	box->packages = (struct packages)PACKAGES_INIT;
	egress_init(&box->egress);
	veth_init(&box->veth);
	pthread_mutex_init(&box->lock, NULL);
	r = take_policy(box, &policy->p, err);
	if (r >= 0)
		r = find_host(box, err);
	if (r >= 0)
		r = box->init_fd = open_init(err);
	if (r < 0) {
		nsbox_box_close(box);
		return r;
	}
	*out = box;
	return 0;
}

void nsbox_box_close(struct nsbox_box *box)
{
	if (!box)
		return;
	run_drop(box);
	egress_destroy(&box->egress);
	veth_end(&box->veth);
	if (box->init_fd >= 0)
		close(box->init_fd);
	cgroup_place_close(&box->host.place);
	interps_free(&box->interps);
	policy_free(&box->policy);
	pthread_mutex_destroy(&box->lock);
	free(box);
}

/* ---------------------------------------------------------------------- run -- */

/* No header is that long: a size that was never set, not a tail worth reading. */
enum { RUN_SIZE_MAX = 4096 };
enum { RUN_FLAGS = NSBOX_RUN_TTY | NSBOX_RUN_RAW_ESCAPES | NSBOX_RUN_CHANNEL |
		   NSBOX_RUN_AST };

static int check_env(const char *const *env, struct nsbox_error *err)
{
	for (size_t i = 0; env && env[i]; i++)
		if (!strchr(env[i], '=') || env[i][0] == '=') /* not shown: it may be a secret */
			return err_set(err, NSBOX_E_USAGE, "env[%zu] of the run is not NAME=VALUE", i);
	return 0;
}

static int check_tty(const struct nsbox_run *run, struct nsbox_error *err)
{
	if (run->out == NSBOX_IO_FD || run->in == NSBOX_IO_FD)
		return err_set(err, NSBOX_E_USAGE, "a pty is relayed: use NSBOX_IO_RELAY");
	if (run->tty_rows > UINT16_MAX || run->tty_cols > UINT16_MAX)
		return err_set(err, NSBOX_E_USAGE, "a terminal of %u x %u", run->tty_rows,
			       run->tty_cols);
	return 0;
}

static int check_run(const struct nsbox_run *run, struct nsbox_error *err)
{
	const int modes[] = { run->in, run->out, run->err };

	if (run->language && !(run->flags & RUN_KERNEL) && !run->code == !run->file)
		return err_set(err, NSBOX_E_USAGE, "give either code or file with a language");
	if (!run->language && (run->code || run->file || run->project || run->interpreter))
		return err_set(err, NSBOX_E_USAGE,
			       "code, file, project and interpreter need a language");
	if (run->timeout_ms > UINT64_MAX / 2000)
		return err_set(err, NSBOX_E_USAGE, "timeout_ms is out of range");
	if (run->cwd && run->cwd[0] != '/')
		return err_set(err, NSBOX_E_USAGE, "the working directory '%s' is not absolute",
			       run->cwd);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		if ((unsigned)modes[i] > NSBOX_IO_RELAY)
			return err_set(err, NSBOX_E_USAGE, "%d is no enum nsbox_io", modes[i]);
	if ((run->flags & NSBOX_RUN_TTY) && check_tty(run, err) < 0)
		return NSBOX_E_USAGE;
	if (run->name && !registry_is_clean(run->name)) /* not shown: who knows what it is */
		return err_set(err, NSBOX_E_USAGE,
			       "the name of the run is not 1 to 63 bytes of printable UTF-8");
	return check_env(run->env, err);
}

static int run_copy(struct nsbox_run *out, const struct nsbox_run *in, struct nsbox_error *err)
{
	const unsigned char *bytes = (const unsigned char *)in;
	size_t size = in ? in->size : 0;

	if (size < offsetof(struct nsbox_run, language) || size > RUN_SIZE_MAX)
		return err_set(err, NSBOX_E_USAGE, "struct nsbox_run has no size: use NSBOX_RUN_INIT");
	for (size_t i = sizeof(*out); i < size; i++)
		if (bytes[i]) {
			err_hint(err, "the program was compiled against a newer nsbox.h");
			return err_set(err, NSBOX_E_USAGE,
				       "struct nsbox_run has a field that this library does not know");
		}
	memset(out, 0, sizeof(*out));
	memcpy(out, in, size < sizeof(*out) ? size : sizeof(*out));
	return 0;
}

int run_read(struct nsbox_run *out, const struct nsbox_run *in, struct nsbox_error *err)
{
	int r = run_copy(out, in, err);

	if (r < 0)
		return r;
	if (out->flags & ~(uint32_t)RUN_FLAGS)
		return err_set(err, NSBOX_E_USAGE, "unknown flags %#x in struct nsbox_run",
			       out->flags);
	return check_run(out, err);
}

int run_read_kernel(struct nsbox_run *out, const struct nsbox_run *in, struct nsbox_error *err)
{
	int r = run_copy(out, in, err);

	if (r < 0)
		return r;
	if (!out->language)
		return err_set(err, NSBOX_E_USAGE, "a kernel needs a language");
	if (out->code || out->file || out->in || out->out || out->err ||
	    (out->flags & ~(uint32_t)NSBOX_RUN_CHANNEL))
		return err_set(err, NSBOX_E_USAGE,
			       "a kernel has no code, file, descriptors or flags: send requests");
	out->flags = RUN_KERNEL | NSBOX_RUN_CHANNEL;
	return check_run(out, err);
}

int nsbox_box_start(struct nsbox_box *box, const struct nsbox_run *in, struct nsbox_error *err)
{
	struct nsbox_run run;
	int r;

	err_clear(err);
	if (!box || !in)
		return err_set(err, NSBOX_E_USAGE, "nsbox_box_start: box or run is NULL");
	if (box->watch)
		return err_set(err, NSBOX_E_BUSY, "the box has a run in flight");
	r = run_read(&run, in, err);
	if (r >= 0)
		r = examine_decide(&box->examine, box->tier, &box->policy, &run, err);
	if (r < 0)
		return r;
	if (box->tier == NSBOX_TIER_STATIC)
		examine_request(&run);
	if (box->tier == NSBOX_TIER_LOCAL_UNSAFE && (run.flags & NSBOX_RUN_TTY))
		return err_set(err, NSBOX_E_UNSUPPORTED, "the tier local_unsafe has no terminal");
	return run_start(box, &run, err);
}

int nsbox_box_fd(const struct nsbox_box *box)
{
	return box && box->watch ? box->failed_exec ? box->watch->timer : box->watch->epoll : -1;
}

int nsbox_box_channel(const struct nsbox_box *box)
{
	return box && box->watch ? box->watch->channel : -1;
}

int nsbox_box_wait(struct nsbox_box *box, int timeout_ms, struct nsbox_error *err)
{
	int r;

	err_clear(err);
	if (!box || !box->watch)
		return err_set(err, NSBOX_E_USAGE, "nsbox_box_wait: nothing runs");
	if (box->failed_exec || box->over)
		return 1;
	r = watch_turn(box->watch, timeout_ms, err);
	if (r == 1)
		box->over = true;
	return r;
}

int nsbox_box_collect(struct nsbox_box *box, struct nsbox_result **out, struct nsbox_error *err)
{
	int r;

	err_clear(err);
	if (!box || !out || !box->watch)
		return err_set(err, NSBOX_E_USAGE, "nsbox_box_collect: nothing was started");
	r = nsbox_box_wait(box, 0, err);
	if (r < 0) {
		run_drop(box);
		return r;
	}
	if (r == 0)
		return err_set(err, NSBOX_E_BUSY, "the run goes on");
	return run_collect(box, out, err);
}

int nsbox_box_run(struct nsbox_box *box, const struct nsbox_run *run, struct nsbox_result **out,
		  struct nsbox_error *err)
{
	int r;

	err_clear(err);
	if (!out)
		return err_set(err, NSBOX_E_USAGE, "nsbox_box_run: out is NULL");
	r = nsbox_box_start(box, run, err);
	if (r < 0)
		return r;
	do {
		r = nsbox_box_wait(box, -1, err);
	} while (r == 0);
	if (r < 0) {
		run_drop(box);
		return r;
	}
	return run_collect(box, out, err);
}

/* ------------------------------------------------------------------ meanwhile -- */

int nsbox_box_signal(struct nsbox_box *box, int sig, struct nsbox_error *err)
{
	err_clear(err);
	if (!box)
		return err_set(err, NSBOX_E_USAGE, "nsbox_box_signal: box is NULL");
	if (!box->watch || box->failed_exec)
		return err_set(err, NSBOX_E_BUSY, "nothing runs");
	return watch_signal(box->watch, sig, err);
}

int nsbox_box_resize(struct nsbox_box *box, uint32_t rows, uint32_t cols, struct nsbox_error *err)
{
	struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols };

	err_clear(err);
	if (!box)
		return err_set(err, NSBOX_E_USAGE, "nsbox_box_resize: box is NULL");
	if (rows > UINT16_MAX || cols > UINT16_MAX)
		return err_set(err, NSBOX_E_USAGE, "a terminal of %u x %u", rows, cols);
	if (!box->watch || box->watch->live.pty < 0)
		return err_set(err, NSBOX_E_BUSY, "no pty");
	if (ioctl(box->watch->live.pty, TIOCSWINSZ, &size) < 0)
		return err_sys(err, "resize the pty");
	return 0;
}

static int refuse_mode(const char *which, struct nsbox_error *err)
{
	err_hint(err, "the mode of a box that runs stays: give the policy filtered or open");
	return err_set(err, NSBOX_E_USAGE, "nsbox_box_network: net.mode of the %s is disabled",
		       which);
}

int nsbox_box_network(struct nsbox_box *box, const struct nsbox_policy *policy,
		      struct nsbox_error *err)
{
	struct policy p;
	int r;

	err_clear(err);
	if (!box || !policy)
		return err_set(err, NSBOX_E_USAGE, "nsbox_box_network: box or policy is NULL");
	if (box->policy.net.mode == NET_DISABLED)
		return refuse_mode("box", err);
	if (policy->p.net.mode == NET_DISABLED)
		return refuse_mode("policy", err);
	if (box->policy.net.path == PATH_VETH)
		return err_set(err, NSBOX_E_UNSUPPORTED,
			       "nsbox_box_network: rules of net.path=veth stay as they are");
	r = policy_check(&policy->p, err);
	if (r < 0)
		return r;
	/* How it gets out (servers, proxy, published ports) is the box's own. */
	p = policy->p;
	p.net.resolvers = box->policy.net.resolvers;
	p.net.proxy = box->policy.net.proxy;
	p.net.path = box->policy.net.path;
	p.net.publish = box->policy.net.publish;
	return egress_update(&box->egress, &p, &box->host.id, err);
}

void nsbox_box_kill(struct nsbox_box *box)
{
	if (!box)
		return;
	pthread_mutex_lock(&box->lock);
	if (box->watch)
		watch_kill(box->watch, KILL_CALLER, 0);
	else
		box->kill_wanted = box->starting;
	if (box->helper)
		nsbox_box_kill(box->helper);
	pthread_mutex_unlock(&box->lock);
}
