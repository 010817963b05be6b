/*
 * Packages by text alone: what a spec says (PEP 508, or npm's), what a pip.conf or an .npmrc
 * says, and the parts of an index URL. Pure: no file, no host. What comes of it is in runtime/packages*.c.
 */
#ifndef POLICY_PACKAGES_H
#define POLICY_PACKAGES_H

#include "base/buf.h"
#include "base/err.h"

enum { PACKAGE_SPEC_MAX = 512 };	/* bytes of one spec */

/*
 * "NumPy >= 1.26, <3 ; python_version > '3.9'" -> "numpy<3,>=1.26; python_version > '3.9'":
 * two texts that mean the same install are one, mostly, and one that passed is no flag, no
 * path and no URL for pip. Appends to @out, which may be NULL. NSBOX_E_POLICY with what is
 * wrong and what to write instead.
 */
int package_spec(const char *spec, struct buf *out, struct nsbox_error *err);

/* The same for npm: "@scope/name@^1" and " a@>=1  <2 " -> "a@>=1 <2". */
int npm_spec(const char *spec, struct buf *out, struct nsbox_error *err);
/* For one of them: a policy does not say of which language its packages are. */
int package_spec_any(const char *spec, struct nsbox_error *err);

/*
 * The block "# /// script" of a Python source (PEP 723): its dependencies, each of them a
 * spec that package_spec() takes, are appended to @out. No block: nothing. NSBOX_E_USAGE:
 * two blocks, TOML that is none, a spec that is none, or a requires-python that @version
 * ("3.11.7") does not meet.
 */
struct strlist;
int package_inline(const char *text, size_t len, const char *version, struct strlist *out,
		   struct nsbox_error *err);

/*
 * A pip.conf, as Python's RawConfigParser reads it: @take is called for each value in order,
 * @key in lower case with hyphens; continuation lines are joined by newlines. What is no
 * setting is left out, as pip would end there. @take: 0, or negative to stop. 0 or that.
 */
typedef int (*pip_take)(void *arg, const char *section, const char *key, const char *value);
int pip_conf_read(const char *text, size_t len, pip_take take, void *arg);
/* "PIP_INDEX_URL" or "--Index_URL" -> "index-url". */
void pip_key(const char *name, char out[64]);

/*
 * An .npmrc, as npm's "ini" reads it: @take is called for each setting in order, without what
 * "${NAME}" stands for; @is_more: one more of a list ("ca[] = ..."). @take as above.
 */
typedef int (*npm_take)(void *arg, const char *key, const char *value, bool is_more);
int npm_conf_read(const char *text, size_t len, npm_take take, void *arg);
enum { NPM_KEY_MAX = 512 };
/* "npm_config_fetch_retries" -> "fetch-retries"; false: no such variable. */
bool npm_key(const char *name, size_t len, char out[NPM_KEY_MAX]);

/* The login of @host in a .netrc, as Python's module netrc finds it; false: none. */
bool netrc_find(const char *text, size_t len, const char *host, struct buf *login,
		struct buf *password);

struct index_url {
	char *bare;		/* the URL without user and password */
	char *host;		/* lower case; an IPv6 address without brackets */
	char *user, *password;	/* decoded; NULL: none */
	uint16_t port;		/* 0: of a file */
	bool is_file;		/* file:///folder: host is empty, and path is decoded */
	char *path;
};
/* http, https and file alone. False: not such a URL, or out of memory. */
bool index_url_parse(struct index_url *out, const char *text);
void index_url_free(struct index_url *u);

#endif
