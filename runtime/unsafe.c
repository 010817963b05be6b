/* See unsafe.h. Runs in the launcher. */
#include "runtime/unsafe.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "runtime/environ.h"
#include "runtime/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *unsafe_promise(unsigned stage)
{
	static const char *const promises[STAGE_COUNT] = {
		[STAGE_prepare] = "the command is known; nothing was changed",
		[STAGE_clone] = "the child is a process like any other, in no namespace of its own",
		[STAGE_idmap] = "nothing: it keeps the caller's ids and groups",
		[STAGE_cgroup] = "where there is one, a cgroup that is killed as a whole; it limits nothing",
		[STAGE_network] = "nothing: the caller's network",
		[STAGE_ids] = "a session of its own",
		[STAGE_mounts] = "the working folder; all files of the caller's are in reach",
		[STAGE_limits] = "no descriptor of the caller's but its streams; no limit is set",
		[STAGE_caps] = "nothing: the caller's capabilities stay",
		[STAGE_lockdown] = "nothing: no Landlock, no seccomp",
		[STAGE_init] = "init runs from a sealed file, and reaps what the payload leaves",
		[STAGE_exec] = "the payload is running; it is the caller",
	};

	return stage < STAGE_COUNT ? promises[stage] : "?";
}

int unsafe_policy(struct policy *out, const struct policy *p, struct nsbox_error *err)
{
	int r = policy_copy(out, p, err);

	if (r < 0)
		return r;
	out->net.mode = NET_DISABLED;
	out->net.path = PATH_INLET;
	out->limits.cpu_time = 0;
	out->limits.disk_action = DISK_DENY;
	strlist_free(&out->net.publish);
	return 0;
}

void unsafe_enforced(enum nsbox_strength out[ENF_COUNT], const struct policy *p,
		     const struct nsbox_run *run)
{
	bool is_counted = run->out != NSBOX_IO_FD && run->err != NSBOX_IO_FD;
	bool is_endless = (run->flags & NSBOX_RUN_TTY) && run->out == NSBOX_IO_RELAY &&
			  p->limits.output_action != OUTPUT_KILL;

	for (size_t i = 0; i < ENF_COUNT; i++)
		out[i] = NSBOX_STRENGTH_NONE;
	out[ENF_TIME] = NSBOX_STRENGTH_USERSPACE;
	if (is_counted && !is_endless)
		out[ENF_OUTPUT] = NSBOX_STRENGTH_USERSPACE;
}

void unsafe_plan(struct plan_builder *b, const char *cwd)
{
	PLAN_OP(b, .kind = OP_SESSION, .stage = STAGE_ids);
	PLAN_OP(b, .kind = OP_CHDIR, .stage = STAGE_mounts, .src = cwd);
	PLAN_OP(b, .kind = OP_FDS, .stage = STAGE_limits);
}

/* --------------------------------------------------------------------- files -- */

/* @text with BOX_RUN_DIR/ everywhere replaced. The boot programs have these bytes in
 * their settings and comments only. */
static char *moved(const char *text, size_t len, const char *dir, size_t *out_len)
{
	static const char from[] = BOX_RUN_DIR "/";
	struct buf b = BUF_INIT(SIZE_MAX / 2);
	const char *at = text, *end = text + len, *hit;
	char *result;

	while ((hit = memmem(at, (size_t)(end - at), from, sizeof(from) - 1))) {
		buf_add(&b, at, (size_t)(hit - at));
		buf_fmt(&b, "%s/", dir);
		at = hit + sizeof(from) - 1;
	}
	buf_add(&b, at, (size_t)(end - at));
	*out_len = b.len;
	result = buf_take(&b);
	buf_free(&b);
	return result;
}

static int move_list(struct strlist *list, const char *dir)
{
	for (size_t i = 0; i < list->n; i++) {
		size_t len;
		char *text = moved(list->v[i], strlen(list->v[i]), dir, &len);

		if (!text)
			return -1;
		free(list->v[i]);
		list->v[i] = text;
	}
	return 0;
}

static int write_file(int dirfd, const char *name, const char *data, size_t len)
{
	/* Readable for a box whose user is not the caller; the folder is closed to others. */
	owned_fd int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
				 0600);

	if (fd < 0 || fchmod(fd, 0644) < 0) /* whatever the caller's umask is */
		return -1;
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* The user's source goes as it is; what is ours names its own place. */
static int put_file(int dirfd, const struct lang_file *f, const char *dir)
{
	const char *name = strrchr(f->path, '/') + 1;
	owned_mem char *text = NULL;
	size_t len = f->len;

	if (strcmp(name, "<code>") == 0)
		return write_file(dirfd, name, f->data, f->len);
	text = moved(f->data, f->len, dir, &len);
	if (!text) {
		errno = ENOMEM;
		return -1;
	}
	return write_file(dirfd, name, text, len);
}

static char *make_dir(void)
{
	const char *tmp = getenv("TMPDIR");
	struct buf b = BUF_INIT(4096);
	char *path;

	buf_fmt(&b, "%s/nsbox-code.XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp");
	path = buf_take(&b);
	buf_free(&b);
	if (path && !mkdtemp(path)) {
		free(path);
		return NULL;
	}
	return path;
}

int unsafe_put(const char *dir, struct lang_command *cmd, struct nsbox_error *err)
{
	owned_fd int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dirfd < 0)
		return err_sys(err, "open %s", dir);
	for (size_t i = 0; i < cmd->file_count; i++)
		if (put_file(dirfd, &cmd->files[i], dir) < 0)
			return err_sys(err, "write %s/%s", dir,
				       strrchr(cmd->files[i].path, '/') + 1);
	if (move_list(&cmd->argv, dir) < 0 || move_list(&cmd->env, dir) < 0)
		return err_nomem(err);
	return 0;
}

int unsafe_files(char **dir, struct lang_command *cmd, struct nsbox_error *err)
{
	if (!cmd->file_count)
		return 0;
	*dir = make_dir();
	if (!*dir) {
		err_hint(err, "let TMPDIR name a folder that you may write");
		return err_sys(err, "make a folder for the code");
	}
	return unsafe_put(*dir, cmd, err);
}

/* The program may have put anything there: what is no file of one level stays, and with it
 * the folder. */
void unsafe_remove(char *dir)
{
	DIR *d = dir ? opendir(dir) : NULL;
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	if (dir)
		rmdir(dir);
	free(dir);
}

/* --------------------------------------------------------------- environment -- */

static const char *value_in(const char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env;
	return NULL;
}

int unsafe_environment(struct strlist *env, const char *const *caller, struct nsbox_error *err)
{
	static const char *const own[] = { "HOME", "PATH", "TMPDIR", "XDG_CACHE_HOME",
					   "MPLCONFIGDIR", "PIP_CACHE_DIR", "npm_config_cache" };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		const char *entry = value_in(caller, own[i]);

		for (size_t k = env->n; !entry && k > 0; k--)
			if (strncmp(env->v[k - 1], own[i], strlen(own[i])) == 0 &&
			    env->v[k - 1][strlen(own[i])] == '=')
				strlist_remove(env, k - 1);
		if (entry && environ_set(env, entry) < 0)
			return err_nomem(err);
	}
	return 0;
}
