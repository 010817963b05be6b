/* What artifacts_collect() takes from a hostile folder, and what it leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rootfs/artifacts.h"

static char work[64], host[64];
static int work_fd;
static struct policy policy;
static struct nsbox_error err;
static struct artifacts got;

static void run(const char *fmt, ...)
{
	char cmd[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	assert_int_equal(system(cmd), 0);
}

static int begin(void **state)
{
	(void)state;
	strcpy(work, "/tmp/nsbox-work-XXXXXX");
	strcpy(host, "/tmp/nsbox-host-XXXXXX");
	if (!mkdtemp(work) || !mkdtemp(host))
		return -1;
	work_fd = open(work, O_PATH | O_DIRECTORY | O_CLOEXEC);
	policy = (struct policy){ 0 };
	policy.artifacts.max_count = 64;
	policy.artifacts.max_bytes = 1 << 20;
	policy.artifacts.max_depth = 8;
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	got = (struct artifacts){ 0 };
	return work_fd < 0;
}

static int finish(void **state)
{
	char cmd[256];

	(void)state;
	artifacts_free(&got);
	strlist_free(&policy.artifacts.paths);
	close(work_fd);
	snprintf(cmd, sizeof(cmd), "rm -rf %s %s", work, host);
	return system(cmd);
}

static void put(const char *name, const char *text)
{
	int fd = openat(work_fd, name, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static int collect_as(const char *to, uid_t uid, gid_t gid)
{
	const struct artifacts_request r = { .work_fd = work_fd, .host_dir = to, .policy = &policy,
					     .owner_uid = uid, .owner_gid = gid };

	return artifacts_collect(&got, &r, &err);
}

static int collect(void)
{
	return collect_as(host, geteuid(), getegid());
}

static const struct artifact *find(const char *path)
{
	for (size_t i = 0; i < got.n; i++)
		if (strcmp(got.v[i].path, path) == 0)
			return &got.v[i];
	return NULL;
}

static const char *why(const char *path)
{
	for (size_t i = 0; i < got.skipped_n; i++)
		if (strcmp(got.skipped[i].path, path) == 0)
			return got.skipped[i].why;
	return "taken";
}

static void assert_content(const char *name, const char *text)
{
	char path[512], data[256] = "";
	struct stat st;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", host, name);
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	f = fopen(path, "r");
	assert_non_null(f);
	(void)!fread(data, 1, sizeof(data) - 1, f);
	fclose(f);
	assert_string_equal(data, text);
}

static bool is_absent(const char *name)
{
	char path[512];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", host, name);
	return lstat(path, &st) < 0 && errno == ENOENT;
}

static int entries_of(const char *dir)
{
	int n = -2;
	DIR *d = opendir(dir);

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void plain_files_are_copied_with_size_hash_and_type(void **state)
{
	(void)state;
	put("b.csv", "abc");
	put("a..b", "dots");
	put("empty", "");
	put("plot.png", "\x89PNG\r\n\x1a\n rest");
	put("fake.png", "<script>");
	run("mkdir -p %s/plots/x", work);
	put("plots/x/c.txt", "deep");
	assert_int_equal(collect(), 0);
	assert_int_equal(got.n, 6);
	assert_int_equal(got.skipped_total, 0);
	assert_string_equal(got.v[0].path, "a..b"); /* sorted */
	assert_string_equal(find("b.csv")->content_type, "text/csv");
	assert_string_equal(find("b.csv")->sha256,
			    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_int_equal(find("b.csv")->size, 3);
	assert_int_equal(find("empty")->size, 0);
	assert_string_equal(find("empty")->sha256,
			    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_string_equal(find("plot.png")->content_type, "image/png");
	assert_null(find("fake.png")->content_type);
	assert_content("b.csv", "abc");
	assert_content("plots/x/c.txt", "deep");
	assert_content("empty", "");
	assert_true(strstr(find("plots/x/c.txt")->host_path, host) != NULL);
}

static void links_pipes_sockets_and_devices_are_left_with_a_reason(void **state)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	put("good", "control");
	put("one", "linked");
	assert_int_equal(linkat(work_fd, "one", work_fd, "two", 0), 0);
	assert_int_equal(symlinkat("/etc/shadow", work_fd, "shadow"), 0);
	assert_int_equal(symlinkat("/etc", work_fd, "etc"), 0);
	assert_int_equal(symlinkat("good", work_fd, "inner"), 0);
	assert_int_equal(mkfifoat(work_fd, "pipe", 0666), 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/sock", work);
	assert_int_equal(bind(s, (struct sockaddr *)&addr, sizeof(addr)), 0);
	if (geteuid() == 0)
		assert_int_equal(mknodat(work_fd, "zero", S_IFCHR | 0666, makedev(1, 5)), 0);
	assert_int_equal(collect(), 0);
	close(s);
	assert_int_equal(got.n, 1);
	assert_string_equal(got.v[0].path, "good");
	assert_string_equal(why("shadow"), "symlink");
	assert_string_equal(why("etc"), "symlink");
	assert_string_equal(why("inner"), "symlink");
	assert_string_equal(why("one"), "hard link");
	assert_string_equal(why("two"), "hard link");
	assert_string_equal(why("pipe"), "fifo");
	assert_string_equal(why("sock"), "socket");
	if (geteuid() == 0)
		assert_string_equal(why("zero"), "device");
	assert_int_equal(entries_of(host), 1);
}

static void a_sparse_terabyte_is_refused_by_its_size_at_once(void **state)
{
	struct timespec a, b;
	int fd = openat(work_fd, "huge", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
	close(fd);
	put("small", "x");
	clock_gettime(CLOCK_MONOTONIC, &a);
	assert_int_equal(collect(), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	assert_true(b.tv_sec - a.tv_sec < 2);
	assert_string_equal(why("huge"), "limit");
	assert_non_null(find("small"));
	assert_true(is_absent("huge"));
}

static void the_byte_limit_is_exact(void **state)
{
	(void)state;
	policy.artifacts.max_bytes = 8;
	put("a", "12345");
	put("b", "1234");
	put("c", "123");
	assert_int_equal(collect(), 0);
	assert_non_null(find("a"));
	assert_string_equal(why("b"), "limit");
	assert_non_null(find("c"));
}

static volatile int growing;

static void *grow(void *arg)
{
	char block[65536];
	int fd = openat(work_fd, "grows", O_WRONLY | O_APPEND | O_CLOEXEC);

	(void)arg;
	memset(block, 'g', sizeof(block));
	while (growing)
		if (write(fd, block, sizeof(block)) < 0)
			break;
	close(fd);
	return NULL;
}

static void a_file_that_grows_while_it_is_copied_stops_at_the_limit(void **state)
{
	pthread_t thread;
	struct stat st;

	(void)state;
	put("grows", "");
	growing = 1;
	assert_int_equal(pthread_create(&thread, NULL, grow, NULL), 0);
	policy.artifacts.max_bytes = 64 << 20;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(collect(), 0);
		if (got.n) {
			assert_true(got.v[0].size <= policy.artifacts.max_bytes);
			assert_int_equal(stat(got.v[0].host_path, &st), 0);
			assert_int_equal(st.st_size, got.v[0].size);
		} else {
			assert_string_equal(why("grows"), "limit");
		}
		artifacts_free(&got);
	}
	growing = 0;
	pthread_join(thread, NULL);
}

static void of_a_hundred_thousand_files_the_first_sixty_four_are_taken(void **state)
{
	(void)state;
	run("cd %s && seq -f f%%06.0f 1 100000 | xargs touch", work);
	assert_int_equal(collect(), 0);
	assert_int_equal(got.n, 64);
	assert_int_equal(got.skipped_total, 100000 - 64);
	assert_int_equal(got.skipped_n, 64);
	assert_string_equal(got.v[0].path, "f000001");
	assert_string_equal(got.v[63].path, "f000064");
	assert_int_equal(entries_of(host), 64);
}

static void depth_eight_is_taken_and_depth_nine_is_not(void **state)
{
	(void)state;
	run("mkdir -p %s/1/2/3/4/5/6/7/8", work);
	put("1/2/3/4/5/6/7/in", "8");
	put("1/2/3/4/5/6/7/8/out", "9");
	assert_int_equal(collect(), 0);
	assert_int_equal(got.n, 1);
	assert_non_null(find("1/2/3/4/5/6/7/in"));
	assert_string_equal(why("1/2/3/4/5/6/7/8"), "depth");
	assert_true(is_absent("1/2/3/4/5/6/7/8"));
}

static void any_bytes_in_a_name_come_out_as_they_are(void **state)
{
	(void)state;
	put("new\nline", "n");
	put("bad\xff\xfeutf8", "b");
	put("-rf", "d");
	put("\x1b[31mred", "e");
	assert_int_equal(collect(), 0);
	assert_int_equal(got.n, 4);
	assert_content("new\nline", "n");
	assert_content("bad\xff\xfeutf8", "b");
	assert_non_null(find("-rf"));
}

static void a_link_at_the_destination_is_replaced_not_followed(void **state)
{
	char victim[] = "/tmp/nsbox-victim-XXXXXX", path[128], text[16] = "";
	int fd = mkstemp(victim);

	(void)state;
	assert_int_equal(write(fd, "untouched", 9), 9);
	snprintf(path, sizeof(path), "%s/out.txt", host);
	assert_int_equal(symlink(victim, path), 0);
	put("out.txt", "new");
	assert_int_equal(collect(), 0);
	assert_content("out.txt", "new");
	assert_int_equal(pread(fd, text, sizeof(text) - 1, 0), 9);
	assert_string_equal(text, "untouched");
	close(fd);
	unlink(victim);
}

static void a_link_in_place_of_a_folder_or_a_folder_in_place_of_a_file_is_kept(void **state)
{
	char outside[] = "/tmp/nsbox-outside-XXXXXX", path[128];

	(void)state;
	assert_non_null(mkdtemp(outside));
	snprintf(path, sizeof(path), "%s/plots", host);
	assert_int_equal(symlink(outside, path), 0);
	run("mkdir -p %s/plots %s/file/full", work, host);
	put("plots/a", "a");
	put("file", "f");
	put("other", "control");
	assert_int_equal(collect(), 0);
	assert_string_equal(why("plots/a"), "destination is not a folder");
	assert_string_equal(why("file"), "destination is a folder");
	assert_non_null(find("other"));
	assert_int_equal(entries_of(outside), 0);
	assert_int_equal(entries_of(host), 3); /* and no temporary file */
	rmdir(outside);
}

static void caches_are_passed_over_without_a_word(void **state)
{
	(void)state;
	run("cd %s && mkdir -p .cache .npm a/__pycache__ a/.config && touch .cache/x .npm/y "
	    "a/__pycache__/z a/.config/kept .hidden",
	    work);
	assert_int_equal(collect(), 0);
	assert_int_equal(got.n, 2);
	assert_non_null(find("a/.config/kept"));
	assert_non_null(find(".hidden"));
	assert_int_equal(got.skipped_total, 0);
}

static void only_what_the_policy_names_is_taken_and_nothing_outside(void **state)
{
	(void)state;
	run("mkdir -p %s/d/e", work);
	put("d/e/f", "1");
	put("d/g", "2");
	put("h", "3");
	assert_int_equal(symlinkat("/etc", work_fd, "etc"), 0);
	strlist_add(&policy.artifacts.paths, "d/e");
	strlist_add(&policy.artifacts.paths, "/workspace/h");
	strlist_add(&policy.artifacts.paths, "../etc/passwd");
	strlist_add(&policy.artifacts.paths, "/etc/passwd");
	strlist_add(&policy.artifacts.paths, "etc/passwd");
	strlist_add(&policy.artifacts.paths, "none");
	assert_int_equal(collect(), 0);
	assert_int_equal(got.n, 2);
	assert_non_null(find("d/e/f"));
	assert_non_null(find("h"));
	assert_string_equal(why("../etc/passwd"), "outside the work folder");
	assert_string_equal(why("/etc/passwd"), "outside the work folder");
	assert_string_equal(why("etc/passwd"), "absent");
	assert_string_equal(why("none"), "absent");
}

static void files_older_than_the_run_are_not_its_artifacts(void **state)
{
	struct artifacts_request r = {
		.work_fd = work_fd, .host_dir = host, .policy = &policy,
		.owner_uid = geteuid(), .owner_gid = getegid(),
	};

	(void)state;
	put("old", "o");
	put("changed", "1");
	usleep(20000);
	clock_gettime(CLOCK_REALTIME_COARSE, &r.since);
	usleep(20000);
	put("changed", "2");
	put("new", "n");
	assert_int_equal(artifacts_collect(&got, &r, &err), 0);
	assert_int_equal(got.n, 2);
	assert_non_null(find("changed"));
	assert_non_null(find("new"));
	artifacts_free(&got);
	r.since = (struct timespec){ 0 };
	assert_int_equal(artifacts_collect(&got, &r, &err), 0);
	assert_int_equal(got.n, 3);
}

static void the_folder_is_made_private_and_the_files_belong_to_the_caller(void **state)
{
	char deep[128], path[160];
	struct stat st;

	(void)state;
	if (geteuid() != 0)
		skip();
	snprintf(deep, sizeof(deep), "%s/new/out", host);
	run("mkdir %s/d", work);
	put("d/f", "x");
	assert_int_equal(collect_as(deep, 12345, 12346), 0);
	assert_int_equal(stat(deep, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	assert_int_equal(st.st_uid, 12345);
	snprintf(path, sizeof(path), "%s/d/f", deep);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_uid, 12345);
	assert_int_equal(st.st_gid, 12346);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void a_folder_that_cannot_be_written_is_an_error_with_a_hint(void **state)
{
	(void)state;
	put("f", "x");
	assert_int_equal(collect_as("/proc/nothing/here", 0, 0), NSBOX_E_SYSTEM);
	assert_int_equal(err.os_errno, ENOENT);
	assert_true(strstr(err.message, "/proc/nothing/here") != NULL);
	assert_true(err.hint[0] != '\0');
	assert_int_equal(got.n, 0);
	err = (struct nsbox_error)NSBOX_ERROR_INIT;
	assert_int_equal(collect_as("relative", 0, 0), NSBOX_E_USAGE);
}

/* In a child: a mount namespace of its own. 0: as wanted. */
static int fill_small_disk(void)
{
	struct stat st;
	char path[128];

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", host, "tmpfs", 0, "size=64k") < 0)
		return 77;
	if (collect() != NSBOX_E_SYSTEM || err.os_errno != ENOSPC)
		return 1;
	snprintf(path, sizeof(path), "%s/a", host);
	if (stat(path, &st) < 0 || st.st_size != 1)
		return 2;
	return entries_of(host) == 1 ? 0 : 3;
}

static void a_full_disk_is_an_error_and_leaves_no_half_file(void **state)
{
	int fd, status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	put("a", "1");
	fd = openat(work_fd, "b", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	assert_int_equal(ftruncate(fd, 512 << 10), 0);
	close(fd);
	pid = fork();
	if (pid == 0)
		_exit(fill_small_disk());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
	assert_int_equal(collect(), 0); /* control: with room it works */
	assert_int_equal(got.n, 2);
}

static void a_mount_inside_the_work_folder_is_not_entered(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
	run("mkdir %s/m", work);
	put("m/below", "x");
	pid = fork();
	if (pid == 0) {
		char path[128];

		snprintf(path, sizeof(path), "%s/m", work);
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("/etc", path, NULL, MS_BIND, NULL) < 0)
			_exit(77);
		/* A descriptor of the other namespace's mount would not see this one. */
		close(work_fd);
		work_fd = open(work, O_PATH | O_CLOEXEC);
		_exit(collect() != 0 || got.n != 0 || strcmp(why("m"), "another mount") != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
	assert_int_equal(collect(), 0);
	assert_non_null(find("m/below"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(plain_files_are_copied_with_size_hash_and_type),
		CASE(links_pipes_sockets_and_devices_are_left_with_a_reason),
		CASE(a_sparse_terabyte_is_refused_by_its_size_at_once),
		CASE(the_byte_limit_is_exact),
		CASE(a_file_that_grows_while_it_is_copied_stops_at_the_limit),
		CASE(of_a_hundred_thousand_files_the_first_sixty_four_are_taken),
		CASE(depth_eight_is_taken_and_depth_nine_is_not),
		CASE(any_bytes_in_a_name_come_out_as_they_are),
		CASE(a_link_at_the_destination_is_replaced_not_followed),
		CASE(a_link_in_place_of_a_folder_or_a_folder_in_place_of_a_file_is_kept),
		CASE(caches_are_passed_over_without_a_word),
		CASE(only_what_the_policy_names_is_taken_and_nothing_outside),
		CASE(files_older_than_the_run_are_not_its_artifacts),
		CASE(the_folder_is_made_private_and_the_files_belong_to_the_caller),
		CASE(a_folder_that_cannot_be_written_is_an_error_with_a_hint),
		CASE(a_full_disk_is_an_error_and_leaves_no_half_file),
		CASE(a_mount_inside_the_work_folder_is_not_entered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
