/*
 * Package specs of pip and npm, pip.conf files, .npmrc files, index URLs and the blocks of PEP 723. Whatever comes:
 * a spec that passes has a normal form that passes and is its own, and is nothing but a name for pip or npm; a URL without
 * its login has none. libFuzzer entry point; seeds: corpus/packages.
 *
 * Input: a byte for the kind, then the text.
 */
#include "base/strlist.h"
#include "policy/packages.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static void try_spec(const char *text)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct buf once = BUF_INIT(1 << 16), twice = BUF_INIT(1 << 16);

	if (package_spec(text, &once, &err) < 0) {
		require(once.len == 0 && err.code == NSBOX_E_POLICY && err.message[0]);
	} else {
		const char *s = buf_text(&once);

		require(once.len > 0 && !strpbrk(s, "\n\r\\") && s[0] != '-' && s[0] != '.');
		require(strcspn(s, "/@") >= strcspn(s, ";"));
		/* A marker is spaced out and may pass the limit of a spec by that. */
		if (once.len <= PACKAGE_SPEC_MAX) {
			require(package_spec(s, &twice, &err) == 0);
			require(strcmp(buf_text(&twice), s) == 0);
		}
	}
	buf_free(&once);
	buf_free(&twice);
}

static int take(void *arg, const char *section, const char *key, const char *value)
{
	size_t *count = arg;

	require(section[0] && strlen(section) < 64 && key[0] && strlen(key) < 64 && value);
	require(!strpbrk(key, "_ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
	return ++*count > 100 ? -1 : 0;
}

static void try_url(const char *text)
{
	struct index_url u, bare;

	if (!index_url_parse(&u, text))
		return;
	require(u.bare && u.host && u.path && (u.is_file || u.port));
	require(!u.user == !u.password);
	require(index_url_parse(&bare, u.bare));
	require(!bare.user && strcmp(bare.host, u.host) == 0 && bare.port == u.port);
	index_url_free(&bare);
	index_url_free(&u);
}

static void try_inline(const char *text, size_t len)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct strlist found = { 0 };
	int r = package_inline(text, len, "3.11.7", &found, &err);

	require(r == 0 || (r == NSBOX_E_USAGE && err.message[0]));
	for (size_t i = 0; i < found.n; i++)
		require(package_spec(found.v[i], NULL, &err) == 0);
	strlist_free(&found);
}

static void try_npm_spec(const char *text)
{
	struct nsbox_error err = NSBOX_ERROR_INIT;
	struct buf once = BUF_INIT(1 << 16), twice = BUF_INIT(1 << 16);

	if (npm_spec(text, &once, &err) < 0) {
		require(once.len == 0 && err.code == NSBOX_E_POLICY && err.message[0]);
	} else {
		const char *s = buf_text(&once), *slash = strchr(s, '/');

		require(once.len > 0 && !strpbrk(s, "\n\r:\\;$&") && !strchr("-./~_", s[0]));
		require(!slash || (s[0] == '@' && !strchr(slash + 1, '/')));
		require(npm_spec(s, &twice, &err) == 0 && strcmp(buf_text(&twice), s) == 0);
	}
	buf_free(&once);
	buf_free(&twice);
}

static int take_npm(void *arg, const char *key, const char *value, bool is_more)
{
	size_t *count = arg;

	(void)is_more;
	require(key[0] && value);
	return ++*count > 100 ? -1 : 0;
}

static void try_netrc(const char *text, size_t len)
{
	struct buf login = BUF_INIT(1 << 16), password = BUF_INIT(1 << 16);

	if (netrc_find(text, len, "e.test", &login, &password))
		require(login.len || password.len);
	buf_free(&login);
	buf_free(&password);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t count = 0;
	char *text;

	if (!size)
		return 0;
	text = malloc(size);
	require(text);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0] % 8) {
	case 0:
		try_spec(text);
		break;
	case 1:
		(void)pip_conf_read(text, size - 1, take, &count);
		break;
	case 2:
		try_url(text);
		break;
	case 3:
		try_inline(text, size - 1);
		break;
	case 4:
		try_npm_spec(text);
		break;
	case 5:
		try_netrc(text, size - 1);
		break;
	default:
		(void)npm_conf_read(text, size - 1, take_npm, &count);
	}
	free(text);
	return 0;
}
