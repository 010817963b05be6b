/*
 * The packages of a run (packages.list): a layer of the user's cache that later boxes show
 * read-only, made once in a box of its own.
 *
 *   packages.c          the order: settings -> key -> layer, lock, remembered failure, install
 *   packages_pip.c      the caller's pip configuration: indexes, logins, proxy, CA
 *   packages_npm.c      the same of npm
 *   packages_origin.c   what both share: hosts, the loopback, secrets
 *   packages_store.c    the folder ~/.cache/nsbox/layers
 *   packages_install.c  the box that installs (its programs are runtime/lang/install.py and .js)
 *   packages_size.c     how much that box has written
 *   packages_record.c   a layer's lock as part of the record
 *   packages_cache.c    nsbox_cache(): what is there, and prune
 *
 * All of it runs in the launcher, with the caller's own rights. Nothing of the layer is ever
 * executed, imported or believed outside of a box.
 */
#ifndef RUNTIME_PACKAGES_H
#define RUNTIME_PACKAGES_H

#include "nsbox.h"
#include "base/buf.h"
#include "base/strlist.h"
#include "policy/policy.h"
#include "rootfs/interp.h"

#define BOX_PACKAGES "/run/nsbox/packages" /* where a box has the layer */

struct packages {
	char *folder;		/* on the host; NULL: the run has no packages */
	int lock;		/* keeps `nsbox cache prune` away from the layer; -1 */
	const char *language;	/* whose they are */
	const char *bin;	/* where below it its programs are; NULL: none */
	struct strlist pth;	/* names of its .pth files, sorted */
	char *record;		/* JSON object: the part "packages" of the run's record */
	char *failed;		/* the reason of a skipped run; folder is NULL then */
	bool is_killed;		/* by the caller, meanwhile: the same */
};
#define PACKAGES_INIT { .lock = -1 }
void packages_free(struct packages *p);

struct packages_request {
	const struct strlist *list;	/* of the policy, checked */
	const struct nsbox_run *run;	/* its code may ask for more (PEP 723); NULL: it may not */
	const struct interp *interp;
	uint64_t max_bytes;	/* that an install may write */
	int installer;		/* enum packages_installer: for Python */
	void (*progress)(void *arg, const char *text); /* NULL: nobody wants to know */
	void *progress_arg;
	/* A box of ours is running (NULL: no more): for who may want to kill it. True: it is
	 * to be killed already. */
	bool (*running)(void *arg, struct nsbox_box *box);
	void *running_arg;
};
/* Is there an installer for packages of that language? */
bool packages_know(const char *language);
/* 0 with a layer, with `failed`, or with neither: nothing was asked for; negative: not even tried. */
int packages_get(struct packages *out, const struct packages_request *r, struct nsbox_error *err);

/* --- packages_origin.c ---------------------------------------------------------------- */

struct pkg_setting {
	unsigned char rank;	/* the highest counts: a file, a nearer file, the environment */
	char *key, *value;
};

struct pkg_origin {
	const char *tool;	/* whose settings: "pip", "npm" */
	struct pkg_setting *v;
	size_t n;
	struct strlist folders;	/* of the host, shown to the install box as /index/0, ... */
	struct strlist trusted;	/* whose certificates are not looked at */
	struct strlist hosts;	/* HOST:PORT that it may reach */
	struct strlist private; /* addresses behind them that no box reaches otherwise */
	struct strlist secrets;	/* never to be shown */
	char *proxy;		/* for net.proxy; NULL: none */
	const char *name;	/* who installs: "pip", "uv", "npm" */
	char *installer;	/* npm's folder on the host, or the file uv; NULL: the
				   interpreter's own pip */
	bool no_scripts;	/* npm: install scripts are not to be run */
	struct buf conf;	/* text of the pip.conf or .npmrc in the box: no login in it */
	struct buf logins;	/* as a netrc, or as more lines of the .npmrc */
	struct buf ca, client, constraints; /* contents of files */
	struct buf more_ca;	/* npm: beside the certificates that node has */
	struct buf forward;	/* npm: "HOST PORT NAME" of registries on the host's loopback */
	struct buf names;	/* as in /etc/hosts: what the install box calls the host's loopback */
	struct buf shown;	/* one line for people: where packages come from */
};
#define ORIGIN_INIT { .conf = BUF_INIT(1 << 20), .logins = BUF_INIT(1 << 20), \
		      .ca = BUF_INIT(4 << 20), .client = BUF_INIT(1 << 20), \
		      .constraints = BUF_INIT(1 << 20), .names = BUF_INIT(1 << 16), \
		      .forward = BUF_INIT(1 << 16), .more_ca = BUF_INIT(4 << 20), \
		      .shown = BUF_INIT(1 << 16) }
void origin_free(struct pkg_origin *c);
int pkg_set(struct pkg_origin *c, unsigned char rank, const char *key, const char *value);
const char *pkg_get(const struct pkg_origin *c, const char *key);
bool pkg_true(const char *value);
/* The first that @find makes of a folder of the caller's PATH; NULL: none. */
char *origin_on_path(char *(*find)(const char *dir));
int origin_secret(struct pkg_origin *c, const char *text);
int origin_host(struct pkg_origin *c, const char *host, unsigned port);
int origin_rename(struct pkg_origin *c, char **host, bool *is_renamed);
struct index_url;
void origin_put_url(struct buf *out, const struct index_url *u);
int origin_refuse_url(const struct pkg_origin *c, const char *key, struct nsbox_error *err);
int origin_content(const struct pkg_origin *c, struct buf *out, const char *what, const char *path,
		   struct nsbox_error *err);
int origin_proxy(struct pkg_origin *c, const char *proxy, struct nsbox_error *err);
/* The addresses of `private`: name look-ups, so only before an install. */
int origin_resolve(struct pkg_origin *c, struct nsbox_error *err);

/* What pip would take from its files and variables (packages_pip.c), what npm would
 * (packages_npm.c). */
int origin_of_pip(struct pkg_origin *c, const struct packages_request *r, struct nsbox_error *err);
int origin_of_npm(struct pkg_origin *c, const struct packages_request *r, struct nsbox_error *err);

/* --- packages_store.c ----------------------------------------------------------------- */

enum { LAYER_ID = 64, FAILURE_SECONDS = 600 };

struct store {
	int fd;			/* of the folder layers */
	char *path;
};
#define STORE_INIT { .fd = -1 }
int store_open(struct store *s, bool make, struct nsbox_error *err); /* 1: there is none */
void store_close(struct store *s);

/* True: the layer is there, and *lock holds it. */
bool store_take(const struct store *s, const char *id, int *lock);
/* Wait for the right to build a layer; -1 with errno (ECANCELED: @stop said so). */
int store_lock(const struct store *s, const char *id, bool (*stop)(void *arg), void *arg);
/* A new empty folder ID.new, whose path is returned; what a killed launcher left is removed. */
char *store_begin(const struct store *s, const char *id, struct nsbox_error *err);
/* Check what is in ID.new, add the file about, and make it the layer. 1: @why says what is wrong
 * with it. */
struct layer_size {
	uint64_t bytes, files;
};
int store_commit(const struct store *s, const char *id, const struct buf *about,
		 struct buf *why, struct nsbox_error *err);
void store_abort(const struct store *s, const char *id);
/* The reason of a failure that is younger than FAILURE_SECONDS, and its age in seconds. */
bool store_failed(const struct store *s, const char *id, struct buf *reason, uint64_t *age);
void store_fail(const struct store *s, const char *id, const char *reason);
/* Remove a layer, unless somebody uses it: 0; 1: in use; -1 with errno. */
int store_drop(const struct store *s, const char *id);
bool store_is_id(const char *name); /* of a layer */
/* Everything below a folder, and it; -1 with errno. */
int store_remove(int dirfd, const char *name);

/* --- packages_record.c ---------------------------------------------------------------- */

/* JSON object; NULL: out of memory. @layer: its folder. */
char *packages_record(int layer, const char *id, const char *installer);

/* --- packages_size.c ------------------------------------------------------------------ */

enum packages_size { SIZE_FINE, SIZE_FULL, SIZE_DEEP };
/* What is below the folder, against @max bytes. What is deleted and still open is not seen. */
enum packages_size packages_size(int fd, uint64_t max);

/* --- packages_install.c --------------------------------------------------------------- */

/* In front of the limit, in the reason of an install that was too large. */
#define SIZE_WORDS "packages.max_bytes, "

struct install {
	const struct packages_request *r;
	const struct strlist *specs;	/* normal forms, sorted */
	struct pkg_origin *config;	/* where they come from */
	const char *folder;		/* of the host: becomes /layer */
};
/* 0; 1: @why has the sentence of a failure; 2: killed by the caller; negative: not tried. */
int packages_install(const struct install *i, struct buf *why, struct nsbox_error *err);

#endif
