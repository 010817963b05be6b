/*
 * Owns: the box's /etc. Runs in the launcher.
 * Must: take a host file only through a row of the table that says what it is good
 * for. Mustn't: show a file that the host keeps from others, nor one that may hold a
 * secret or the host's identity (shadow, ssl/private, machine-id, npmrc, pip.conf).
 */
#include "rootfs/parts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "rootfs/paths.h"

/* What a copy costs grows with its size (read, plan, write, pages of the root): beyond one
 * page a mount is cheaper, and the box holds no memory for it. */
enum { CONTENT_MAX = 4096 };

/* ------------------------------------------------------------ our own -- */

#define NSSWITCH(hosts) "passwd: files\ngroup: files\nshadow: files\nhosts: " hosts "\n" \
			"networks: files\nprotocols: files\nservices: files\n"

/*
 * With a network, the name server is the supervisor's, on the box's own lo. musl takes no
 * refusal for an answer: it waits for `timeout` in all, 5 s unless told otherwise. glibc has
 * so long for each attempt, and a name server of the world may take a while where it is asked.
 */
static const struct {
	const char *dst, *text;
	const char *with_net;	/* instead; NULL: the same */
} own_files[] = {
	{ "etc/passwd", "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
			"nsbox:x:1000:1000:nsbox:/workspace:/bin/sh\n"
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", NULL },
	{ "etc/group", "root:x:0:\nnsbox:x:1000:\nnogroup:x:65534:\n", NULL },
	{ "etc/hosts", "127.0.0.1\tlocalhost nsbox\n::1\tlocalhost ip6-localhost\n", NULL },
	{ "etc/hostname", "nsbox\n", NULL },
	{ "etc/resolv.conf", "# this box has no name server\n",
	  "nameserver 127.0.0.1\noptions timeout:1 attempts:5\n" },
	{ "etc/nsswitch.conf", NSSWITCH("files"), NSSWITCH("files dns") },
};

/*
 * With net.path=veth nobody of ours answers: the name servers of the policy or the host,
 * as far as the box can reach them at all, which has IPv4 and a loopback of its own.
 */
static bool is_reachable(const char *address)
{
	uint8_t bytes[4];

	return inet_pton(AF_INET, address, bytes) == 1 && bytes[0] != 127 && bytes[0] != 0;
}

static void add_server(struct buf *out, const char *address, size_t len)
{
	char text[INET_ADDRSTRLEN];

	if (len >= sizeof(text))
		return;
	memcpy(text, address, len);
	text[len] = '\0';
	if (is_reachable(text))
		buf_fmt(out, "nameserver %s\n", text);
}

static void host_servers(struct buf *out)
{
	owned_fd int fd = openat(AT_FDCWD, "/etc/resolv.conf", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	static const char word[] = "nameserver", blanks[] = " \t";
	struct buf text = BUF_INIT(65536);

	if (fd >= 0 && fd_read_all(fd, &text) == 0)
		for (const char *line = buf_text(&text); *line; line += strcspn(line, "\n"),
				line += *line == '\n') {
			const char *value = line + sizeof(word) - 1;

			if (strncmp(line, word, sizeof(word) - 1) != 0 || !strchr(blanks, *value))
				continue;
			value += strspn(value, blanks);
			add_server(out, value, strcspn(value, " \t\r\n#"));
		}
	buf_free(&text);
}

static void veth_resolv_conf(struct buf *out, const struct policy *p)
{
	for (size_t i = 0; i < p->net.resolvers.n; i++)
		add_server(out, p->net.resolvers.v[i], strlen(p->net.resolvers.v[i]));
	if (!p->net.resolvers.n)
		host_servers(out);
	if (!out->len)
		buf_str(out, "# this box has no name server that it could reach\n");
}

/* ---------------------------------------------------------- the host's -- */

enum etc_kind {
	ETC_FILE,	/* its content, copied; bound where it is large */
	ETC_FOLDER,	/* bound read-only */
	ETC_LINK,	/* the link itself when it leads into /usr, else the content */
};

/* Each row costs some 10 µs of every start: what a program merely might read, and
 * does without, is not here. */
static const struct {
	const char *name;
	enum etc_kind kind;
	enum { ALWAYS, WITH_NET, WITH_PYTHON } when;
	const char *reason;
} host_rows[] = {
	{ "ld.so.cache", ETC_FILE, ALWAYS, "the loader finds libraries in unusual folders" },
	{ "localtime", ETC_LINK, ALWAYS, "local time" },
	{ "os-release", ETC_LINK, ALWAYS, "programs ask which distribution this is" },
	{ "mime.types", ETC_FILE, WITH_PYTHON, "mimetypes" },
	{ "matplotlibrc", ETC_FILE, WITH_PYTHON, "Debian's matplotlib fails without it" },
	{ "protocols", ETC_FILE, WITH_NET, "getprotobyname" },
	{ "services", ETC_FILE, WITH_NET, "getservbyname" },
	{ "gai.conf", ETC_FILE, WITH_NET, "order of addresses" },
	{ "host.conf", ETC_FILE, WITH_NET, "resolver order" },
	{ "ssl/openssl.cnf", ETC_FILE, ALWAYS, "openssl req and ca fail without it" },
	{ "ssl/certs", ETC_FOLDER, ALWAYS, "public certificate authorities" },
	{ "pki/tls/openssl.cnf", ETC_FILE, ALWAYS, "the same on Fedora and its relatives" },
	{ "pki/tls/certs", ETC_FOLDER, ALWAYS, "the same; pki/tls/private stays outside" },
	{ "pki/ca-trust/extracted", ETC_FOLDER, ALWAYS, "what pki/tls/certs links to" },
	{ "crypto-policies/back-ends", ETC_FOLDER, ALWAYS, "openssl.cnf includes it on Fedora" },
	{ "alternatives", ETC_FOLDER, ALWAYS, "/usr/bin/awk, editor, java are links through it" },
	{ "fonts", ETC_FOLDER, ALWAYS, "fontconfig: plots and documents" },
	{ "java-11-openjdk", ETC_FOLDER, ALWAYS, "the JVM does not start without it" },
	{ "java-17-openjdk", ETC_FOLDER, ALWAYS, "the same" },
	{ "java-21-openjdk", ETC_FOLDER, ALWAYS, "the same" },
	{ "java-25-openjdk", ETC_FOLDER, ALWAYS, "the same" },
	{ "R", ETC_FOLDER, ALWAYS, "R does not start without it" },
};

static bool has_python(const struct view_request *r)
{
	for (size_t i = 0; r->interps && r->interps[i]; i++)
		if (r->interps[i]->language && strcmp(r->interps[i]->language, "python") == 0)
			return true;
	return false;
}

struct place {
	struct plan_builder *b;
	unsigned stage;
	int etc;		/* the host's /etc */
	const char *name;	/* of the row */
	char dst[64];		/* "etc/" name */
};

static bool is_public(const struct stat *st, mode_t type, mode_t bits)
{
	return (st->st_mode & S_IFMT) == type && (st->st_mode & bits) == bits;
}

static void bind_host(const struct place *p, const struct stat *st, uint64_t flags)
{
	char src[80];

	snprintf(src, sizeof(src), "/%s", p->dst);
	PLAN_OP(p->b, .kind = OP_BIND, .stage = p->stage, .fd = -1,
		.flags = OP_RDONLY | OP_MAKE_DST | flags, .src = src, .dst = p->dst,
		.pin_dev = st->st_dev, .pin_ino = st->st_ino);
}

static int add_file(const struct place *p, struct nsbox_error *err)
{
	owned_fd int fd = openat(p->etc, p->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct buf text = BUF_INIT(CONTENT_MAX);
	struct stat st;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0 || !is_public(&st, S_IFREG, S_IROTH))
		return 0; /* absent or not for everybody: not for a box */
	if (st.st_size > CONTENT_MAX) {
		bind_host(p, &st, OP_IS_FILE);
		return 0;
	}
	if (fd_read_all(fd, &text) < 0)
		r = err_sys(err, "read /%s", p->dst);
	else
		PLAN_OP(p->b, .kind = OP_FILE, .stage = p->stage, .fd = -1, .n = 0444,
			.dst = p->dst, .blob = text.data, .blob_len = text.len);
	buf_free(&text);
	return r;
}

static int add_folder(const struct place *p, struct nsbox_error *err)
{
	struct stat st;

	(void)err;
	if (fstatat(p->etc, p->name, &st, 0) == 0 && is_public(&st, S_IFDIR, S_IROTH | S_IXOTH))
		bind_host(p, &st, 0);
	return 0;
}

/* Programs read where the link leads to (the name of the time zone), so keep it. */
static int add_link(const struct place *p, struct nsbox_error *err)
{
	char target[512];
	ssize_t n = readlinkat(p->etc, p->name, target, sizeof(target) - 1);

	if (n <= 0)
		return add_file(p, err);
	target[n] = '\0';
	if (!path_below(target, "/usr") && !path_below(target, "../usr"))
		return add_file(p, err);
	PLAN_OP(p->b, .kind = OP_SYMLINK, .stage = p->stage, .fd = -1, .src = target,
		.dst = p->dst);
	return 0;
}

static int (*const adders[])(const struct place *, struct nsbox_error *) = {
	[ETC_FILE] = add_file,
	[ETC_FOLDER] = add_folder,
	[ETC_LINK] = add_link,
};

static void add_own_files(struct plan_builder *b, const struct view_request *r, bool with_net)
{
	bool is_veth = with_net && r->policy->net.path == PATH_VETH;
	struct buf servers = BUF_INIT(CONTENT_MAX);

	for (size_t i = 0; i < ARRAY_SIZE(own_files); i++) {
		const char *text = with_net && own_files[i].with_net ? own_files[i].with_net
								     : own_files[i].text;

		if (is_veth && strcmp(own_files[i].dst, "etc/resolv.conf") == 0) {
			veth_resolv_conf(&servers, r->policy);
			text = buf_text(&servers);
		}
		PLAN_OP(b, .kind = OP_FILE, .stage = r->stage, .fd = -1, .n = 0444,
			.dst = own_files[i].dst, .blob = text, .blob_len = strlen(text));
	}
	buf_free(&servers);
}

int etc_build(struct plan_builder *b, const struct view_request *r, struct nsbox_error *err)
{
	owned_fd int etc = openat(AT_FDCWD, "/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct place p = { .b = b, .stage = r->stage, .etc = etc };
	const bool wanted[] = {
		[ALWAYS] = true,
		[WITH_NET] = r->policy->net.mode != NET_DISABLED,
		[WITH_PYTHON] = has_python(r),
	};
	int rc = 0;

	PLAN_OP(b, .kind = OP_DIR, .stage = r->stage, .fd = -1, .n = 0755, .dst = "etc");
	add_own_files(b, r, wanted[WITH_NET]);
	for (size_t i = 0; etc >= 0 && i < ARRAY_SIZE(host_rows) && rc == 0; i++) {
		if (!wanted[host_rows[i].when])
			continue;
		p.name = host_rows[i].name;
		snprintf(p.dst, sizeof(p.dst), "etc/%s", p.name);
		rc = adders[host_rows[i].kind](&p, err);
	}
	return rc;
}
