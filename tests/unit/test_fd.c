/* Descriptors: whole reads and writes, seals, and what openat2(2) refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

static char root[64];
static int root_fd = -1;

static int make_root(void **state)
{
	int fd;

	(void)state;
	strcpy(root, "/tmp/nsbox-fd-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0 || mkdirat(root_fd, "in", 0755) < 0)
		return -1;
	fd = openat(root_fd, "in/file", O_CREAT | O_WRONLY, 0600);
	if (fd < 0 || write(fd, "inside", 6) != 6)
		return -1;
	close(fd);
	return symlinkat("in/file", root_fd, "link") || symlinkat("/etc", root_fd, "out") ||
	       symlinkat("/proc/self/cwd", root_fd, "magic");
}

static int drop_root(void **state)
{
	static const char *const names[] = { "in/file", "link", "out", "magic" };

	(void)state;
	for (size_t i = 0; i < 4; i++)
		unlinkat(root_fd, names[i], 0);
	unlinkat(root_fd, "in", AT_REMOVEDIR);
	close(root_fd);
	return rmdir(root);
}

static void opening_beneath_follows_what_stays_and_refuses_what_leaves(void **state)
{
	const uint64_t beneath = RESOLVE_BENEATH, plain = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
	const struct {
		const char *path;
		uint64_t resolve;
		int want; /* errno, 0: opens */
	} rows[] = {
		{ "in/file", beneath, 0 },
		{ "link", beneath, 0 },
		{ "in/../link", beneath, 0 },
		{ "link", plain, ELOOP },
		{ "out/passwd", beneath, EXDEV },
		{ "../etc/passwd", beneath, EXDEV },
		{ "/etc/passwd", beneath, EXDEV },
		{ "/etc/passwd", 0, 0 }, /* control: it is there and readable */
		{ "out/passwd", 0, 0 },
		{ "absent", beneath, ENOENT },
		{ "/in/file", RESOLVE_IN_ROOT, 0 },
		{ "../../in/file", RESOLVE_IN_ROOT, 0 },
		{ "out/passwd", RESOLVE_IN_ROOT, ENOENT },
		{ "magic", RESOLVE_NO_MAGICLINKS, ELOOP },
		{ "magic", 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd = fd_open(root_fd, rows[i].path, O_RDONLY, 0, rows[i].resolve);
		int got = fd < 0 ? errno : 0;

		if (got != rows[i].want)
			print_error("row %zu: %s\n", i, rows[i].path);
		assert_int_equal(got, rows[i].want);
		if (fd >= 0) {
			assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
			close(fd);
		}
	}
}

static void a_mount_on_the_way_is_refused_with_no_xdev(void **state)
{
	int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), got;

	(void)state;
	assert_true(fd >= 0);
	got = fd_open(fd, "proc/version", O_RDONLY, 0, 0);
	assert_true(got >= 0);
	close(got);
	got = fd_open(fd, "proc/version", O_RDONLY, 0, RESOLVE_NO_XDEV);
	assert_int_equal(got, -1);
	assert_int_equal(errno, EXDEV);
	close(fd);
}

static void creating_takes_the_mode_and_opening_ignores_it(void **state)
{
	mode_t mask = umask(0);
	struct stat st;
	int fd = fd_open(root_fd, "in/new", O_CREAT | O_EXCL | O_WRONLY, 0640, RESOLVE_BENEATH);

	(void)state;
	umask(mask);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	close(fd);
	fd = fd_open(root_fd, "in", O_RDONLY | O_DIRECTORY, 0640, RESOLVE_BENEATH);
	assert_true(fd >= 0);
	close(fd);
	unlinkat(root_fd, "in/new", 0);
}

static void a_sealed_file_has_the_content_and_nobody_can_change_it(void **state)
{
	char text[8] = "";
	int fd = fd_sealed("seal", "content", 7);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof(text)), 7);
	assert_memory_equal(text, "content", 7);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 3), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 30), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(errno, EPERM);
	assert_ptr_equal(mmap(NULL, 7, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	close(fd);
}

static void reading_stops_at_the_ceiling_with_efbig(void **state)
{
	struct buf exact = BUF_INIT(6), small = BUF_INIT(5);

	(void)state;
	assert_int_equal(fd_read_file(root_fd, "in/file", &exact), 0);
	assert_string_equal(buf_text(&exact), "inside");
	assert_int_equal(fd_read_file(root_fd, "in/file", &small), -1);
	assert_int_equal(errno, EFBIG);
	assert_int_equal(fd_read_file(root_fd, "absent", &small), -1);
	assert_int_equal(errno, ENOENT);
	buf_free(&exact);
	buf_free(&small);
}

static void a_pipe_that_fills_up_gets_everything(void **state)
{
	static char out[300000];
	struct buf got = BUF_INIT(sizeof(out));
	int p[2], status;
	pid_t pid;

	(void)state;
	memset(out, 'q', sizeof(out));
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		close(p[0]);
		_exit(fd_write_all(p[1], out, sizeof(out)) ? 1 : 0);
	}
	close(p[1]);
	assert_int_equal(fd_read_all(p[0], &got), 0);
	close(p[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(got.len, sizeof(out));
	assert_memory_equal(got.data, out, sizeof(out));
	buf_free(&got);
}

static void writing_to_a_full_device_says_enospc(void **state)
{
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, "x", 1), -1);
	assert_int_equal(errno, ENOSPC);
	close(fd);
}

static void nonblocking_turns_waiting_into_eagain(void **state)
{
	char c;
	int p[2];

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(fd_nonblocking(p[0]), 0);
	assert_int_equal(read(p[0], &c, 1), -1);
	assert_int_equal(errno, EAGAIN);
	close(p[0]);
	close(p[1]);
	assert_int_equal(fd_nonblocking(p[0]), -1);
	assert_int_equal(errno, EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opening_beneath_follows_what_stays_and_refuses_what_leaves),
		cmocka_unit_test(a_mount_on_the_way_is_refused_with_no_xdev),
		cmocka_unit_test(creating_takes_the_mode_and_opening_ignores_it),
		cmocka_unit_test(a_sealed_file_has_the_content_and_nobody_can_change_it),
		cmocka_unit_test(reading_stops_at_the_ceiling_with_efbig),
		cmocka_unit_test(a_pipe_that_fills_up_gets_everything),
		cmocka_unit_test(writing_to_a_full_device_says_enospc),
		cmocka_unit_test(nonblocking_turns_waiting_into_eagain),
	};

	return cmocka_run_group_tests(tests, make_root, drop_root);
}
