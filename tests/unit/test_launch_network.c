/*
 * A launch with a network: its sockets are handed on before the payload starts, or it does
 * not start. The box here has the host's files, for only the network is of interest.
 */
#include "base/fd.h"
#include "runtime/assemble.h"
#include "runtime/egress_wire.h"
#include "runtime/launch.h"
#include "runtime/stage.h"
#include "runtime/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern const char nsbox_init_blob[], nsbox_init_blob_end[];

enum { POOL = 20, LONG_MS = 30000, MOMENT_MS = 200 };

struct supervisor { /* what the callback was given */
	int out;		/* the payload's output */
	unsigned inlets, pool, ends, others;
	bool was_early;		/* the payload ran before all was here */
	int refuse_after;	/* packets; -1: none is refused */
};

static bool has_output(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, timeout_ms) == 1 && p.revents & POLLIN;
}

static int take(void *arg, unsigned tag, unsigned bits, const int *fds, size_t n,
		struct nsbox_error *err)
{
	struct supervisor *s = arg;
	socklen_t len = sizeof(int);
	int type;

	/* Were it started too early, it would be heard in this moment. */
	s->was_early |= has_output(s->out, MOMENT_MS);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(getsockopt(fds[i], SOL_SOCKET, SO_TYPE, &type, &len), 0);
	assert_int_equal(__builtin_popcount(bits), n);
	if (tag == WIRE_TAG_INLET)
		s->inlets |= bits;
	else if (tag == WIRE_TAG_POOL)
		s->pool += (unsigned)n;
	else if (!tag && !n)
		s->ends++;
	else
		s->others++;
	if (s->refuse_after-- == 0)
		return err_set(err, NSBOX_E_SETUP, "the supervisor is dead");
	return 0;
}

static struct plan *network_plan(void)
{
	const struct assemble_how how = { .pool = POOL };
	struct policy policy = { 0 };
	struct plan_builder b = { 0 };
	struct plan *plan;

	assert_int_equal(policy_init(&policy, NULL), 0);
	policy.net.mode = NET_FILTERED;
	assert_int_equal(assemble_network(&b, &policy, &how, NULL), 0);
	policy_free(&policy);
	PLAN_OP(&b, .kind = OP_IDS, .stage = STAGE_ids, .n = BOX_UID, .m = BOX_GID);
	PLAN_OP(&b, .kind = OP_SESSION, .stage = STAGE_ids);
	PLAN_OP(&b, .kind = OP_FDS, .stage = STAGE_limits);
	PLAN_OP(&b, .kind = OP_DROPCAPS, .stage = STAGE_caps);
	plan = plan_freeze(&b, NULL);
	assert_non_null(plan);
	return plan;
}

static int run(struct supervisor *s, bool has_supervisor, struct live *l, struct nsbox_error *err)
{
	const char *const argv[] = { "nsbox-init", "/bin/echo", "ran", NULL }, *const env[] = { NULL };
	struct view view = { 0 };
	struct identity id;
	int pipe_fds[2], failed_op, r;
	struct launch_request req = { .id = &id, .view = &view, .argv = argv, .env = env, .channel = -1,
				      .in = -1, .err = -1, .deadline_ms = LONG_MS,
				      .network = has_supervisor ? take : NULL, .network_arg = s };
	struct plan *plan = network_plan();

	assert_true(identity_find(&id, NULL) >= 0);
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	s->out = pipe_fds[0];
	req.out = pipe_fds[1];
	req.plan = plan;
	req.init_fd = fd_sealed("nsbox-init", nsbox_init_blob,
				(size_t)(nsbox_init_blob_end - nsbox_init_blob));
	assert_true(req.init_fd >= 0);
	r = launch(l, &req, &failed_op, err);
	close(req.init_fd);
	close(pipe_fds[1]);
	free(plan);
	return r;
}

static size_t open_descriptors(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void the_payload_starts_when_all_of_the_network_is_handed_on(void **state)
{
	struct supervisor s = { .refuse_after = -1 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct live l = LIVE_INIT;
	size_t before = open_descriptors();
	char text[8] = "";
	int r = run(&s, true, &l, &err);

	(void)state;
	if (r != 0)
		print_error("%s: %s\n", err.stage, err.message);
	assert_int_equal(r, 0);
	assert_int_equal(s.inlets, (1u << INLET_FD_COUNT) - 1);
	assert_int_equal(s.pool, POOL);
	assert_int_equal(s.ends, 1);
	assert_int_equal(s.others, 0);
	assert_false(s.was_early);
	assert_true(has_output(s.out, LONG_MS));
	assert_int_equal(read(s.out, text, sizeof(text)), 4);
	assert_string_equal(text, "ran\n");
	live_kill(&l);
	assert_int_equal(live_reap(&l, LONG_MS), 0);
	live_close(&l);
	close(s.out);
	assert_int_equal(open_descriptors(), before);
}

static void a_network_that_nobody_takes_is_the_end_of_the_box(void **state)
{
	(void)state;
	for (int refused = 0; refused < 4; refused++) { /* the inlet, two packets of the pool, the end */
		struct supervisor s = { .refuse_after = refused };
		struct nsbox_error err = NSBOX_ERROR_INIT;
		struct live l = LIVE_INIT;
		size_t before = open_descriptors();
		char c;

		assert_int_equal(run(&s, true, &l, &err), NSBOX_E_SETUP);
		assert_string_equal(err.stage, "network");
		assert_string_equal(err.message, "the supervisor is dead");
		assert_int_equal(read(s.out, &c, 1), 0); /* nothing was said, nobody is left */
		assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
		close(s.out);
		assert_int_equal(open_descriptors(), before);
	}
}

static void a_network_without_a_supervisor_is_refused(void **state)
{
	struct supervisor s = { .refuse_after = -1 };
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct live l = LIVE_INIT;

	(void)state;
	assert_int_equal(run(&s, false, &l, &err), NSBOX_E_USAGE);
	close(s.out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_payload_starts_when_all_of_the_network_is_handed_on),
		cmocka_unit_test(a_network_that_nobody_takes_is_the_end_of_the_box),
		cmocka_unit_test(a_network_without_a_supervisor_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
