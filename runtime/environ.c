/*
 * The environment of a box: a table, and what the policy adds to it.
 *
 * Owns the base table and the list of names that are not inherited. Runs in the
 * launcher; reads the caller's environment as an argument, never environ(7).
 * Mustn't: put a value into a message; values are where secrets are.
 */
#include "runtime/environ.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"

/* MAX_ARG_STRLEN: the kernel takes no longer string, its NUL included. */
#define ENTRY_MAX ((size_t)128 * 1024)
/* With argv it must stay below a quarter of the stack limit (8 MiB): execve(2). */
#define TOTAL_MAX ((size_t)1 << 20)

/*
 * HOME is the work folder: programs may write there, and find it empty. Caches
 * go to /tmp instead, where they are no artifacts. PYTHONDONTWRITEBYTECODE
 * and not PYTHONPYCACHEPREFIX: a prefix also hides the compiled files that the
 * read-only library folders already have.
 */
static const char *const base_table[] = {
	"HOME=/workspace",
	"TMPDIR=/tmp",
	"LANG=C.UTF-8",
	"TERM=dumb",
	"XDG_CACHE_HOME=/tmp/.cache",
	"MPLBACKEND=Agg", /* there is no display to open a window on */
	"MPLCONFIGDIR=/tmp/.cache/matplotlib",
	"PYTHONUNBUFFERED=1", /* what was printed before a timeout is kept */
	"PYTHONDONTWRITEBYTECODE=1",
	"PIP_CACHE_DIR=/tmp/.cache/pip",
	"PIP_DISABLE_PIP_VERSION_CHECK=1",
	"npm_config_cache=/tmp/.cache/npm",
	"npm_config_update_notifier=false",
};

/* Taken from the caller even without env.inherit, if they hold plain text only. */
static const char *const found_table[] = { "TZ", "TERM" };

/* Parts of a name, any case, that make it look like a secret. */
static const char *const secret_parts[] = {
	"SECRET", "TOKEN", "PASSW", "PASSPHRASE", "PASSCODE", "CREDENTIAL",
	"APIKEY", "API_KEY", "ACCESS_KEY", "ACCESSKEY", "PRIVATE", "SIGNING",
	"ENCRYPTION", "AUTH", "COOKIE", "SESSION", "JWT", "BEARER", "OAUTH",
	"DSN", "CONNECTION_STRING", "CONNSTR", "DATABASE_URL", "DB_URL",
	"REDIS_URL", "MONGO", "WEBHOOK", "SALT", "CERT", "KEYRING", "KEYCHAIN",
	"NETRC", "LICENSE",
};

/* Whole words between underscores, any case. */
static const char *const secret_words[] = {
	"KEY", "KEYS", "PW", "PWD", "PASS", "PIN", "PAT", "SIG", "CREDS", "CRED",
	"DOTENV", "SK", "OTP",
};

/* Families whose members are mostly secrets, or lead to them. */
static const char *const secret_prefixes[] = {
	"AWS_", "AZURE_", "ARM_", "GCP_", "GCLOUD_", "GOOGLE_", "CLOUDSDK_",
	"GITHUB_", "GH_", "GITLAB_", "CI_", "ACTIONS_", "RUNNER_", "BITBUCKET_",
	"OPENAI_", "ANTHROPIC_", "HF_", "HUGGING", "MISTRAL_", "COHERE_",
	"NPM_", "NODE_AUTH", "PYPI_", "TWINE_", "CARGO_REGISTR", "DOCKER_",
	"KUBE", "VAULT_", "CONSUL_", "NOMAD_", "HEROKU_", "STRIPE_", "SLACK_",
	"TWILIO_", "SENTRY_", "DATADOG_", "DD_", "PG", "MYSQL_", "POSTGRES",
	"SSH_", "GPG_", "OP_", "BW_", "SUDO_",
};

/* True outside only, or an order to a loader or an interpreter. */
static const char *const outside_names[] = {
	"HOME", "PATH", "TMPDIR", "TMP", "TEMP", "PWD", "OLDPWD", "SHLVL", "_",
	"USER", "LOGNAME", "MAIL", "SHELL", "HOSTNAME", "DISPLAY", "XAUTHORITY",
	"WAYLAND_DISPLAY", "WINDOWID", "ENV", "BASH_ENV", "PROMPT_COMMAND",
	"SHELLOPTS", "BASHOPTS", "IFS", "CDPATH", "GLOBIGNORE", "PS4",
	"PERL5LIB", "PERL5OPT", "PERLLIB", "RUBYLIB", "RUBYOPT", "CLASSPATH",
	"JAVA_TOOL_OPTIONS", "NODE_OPTIONS", "NODE_PATH", "NODE_REPL_HISTORY",
	"GCONV_PATH", "LOCPATH", "MALLOC_TRACE", "TERMINFO", "TERMCAP",
	"VIRTUAL_ENV", "EDITOR", "VISUAL", "PAGER", "BROWSER", "HISTFILE",
	"MPLBACKEND", "MPLCONFIGDIR", "INIT_CWD", "INVOCATION_ID",
	"JOURNAL_STREAM", "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID",
};
static const char *const outside_prefixes[] = {
	"LD_", "DYLD_", "XDG_", "PYTHON", "PYENV_", "CONDA_", "NVM_", "UV_",
	"ASDF_", "MISE_", "npm_", "PIP_", "GIT_", "DBUS_", "BASH_FUNC_",
	"NSBOX_", "SYSTEMD_", "VSCODE_", "TMUX", "STY",
};

static size_t name_length(const char *entry)
{
	return strcspn(entry, "=");
}

static bool is_in(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], name) == 0)
			return true;
	return false;
}

static bool starts_with_one(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strncasecmp(list[i], name, strlen(list[i])) == 0)
			return true;
	return false;
}

static bool has_part(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(secret_parts); i++)
		if (strcasestr(name, secret_parts[i]))
			return true;
	return false;
}

static bool is_word(const char *s, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(secret_words); i++)
		if (strlen(secret_words[i]) == len &&
		    strncasecmp(secret_words[i], s, len) == 0)
			return true;
	return false;
}

static bool has_word(const char *name)
{
	for (const char *s = name; *s;) {
		size_t len = strcspn(s, "_-.");

		if (is_word(s, len))
			return true;
		s += len + (s[len] != '\0');
	}
	return false;
}

/* scheme://user:password@host, as proxies and databases are given. */
static bool holds_password(const char *value)
{
	const char *s = strstr(value, "://");

	for (; s; s = strstr(s, "://")) {
		size_t len;

		s += 3;
		len = strcspn(s, "/?# \t");
		if (memchr(s, '@', len))
			return true;
	}
	return false;
}

bool environ_may_inherit(const char *name, const char *value)
{
	return !is_in(outside_names, ARRAY_SIZE(outside_names), name) &&
	       !starts_with_one(outside_prefixes, ARRAY_SIZE(outside_prefixes),
				name) &&
	       !starts_with_one(secret_prefixes, ARRAY_SIZE(secret_prefixes),
				name) &&
	       !has_part(name) && !has_word(name) && !holds_password(value);
}

/* Letters that no terminal and no time zone file name needs are no plain text. */
static bool is_plain(const char *s)
{
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("+-_./,:<>", *s))
			return false;
	return true;
}

static const char *value_of(const char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

/* Entries are told by number: without a "=" nobody knows which part is a value. */
static int check_entry(bool is_fine, const char *key, size_t at,
		       const char *form, struct nsbox_error *err)
{
	if (is_fine)
		return 0;
	err_hint(err, "a name has 1 to 255 bytes and no '='");
	return err_set(err, NSBOX_E_POLICY, "%s: entry %zu is not %s", key,
		       at + 1, form);
}

static bool is_name_length(size_t len)
{
	return len > 0 && len <= 255;
}

int environ_set(struct strlist *env, const char *entry)
{
	size_t n = name_length(entry);

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], entry, n) == 0 &&
		    name_length(env->v[i]) == n) {
			strlist_remove(env, i);
			break;
		}
	return strlist_add(env, entry);
}

static int put(struct strlist *l, const char *entry, struct nsbox_error *err)
{
	size_t n = name_length(entry);

	if (strlen(entry) >= ENTRY_MAX) {
		err_hint(err, "give it as a file with --ro");
		return err_set(err, NSBOX_E_POLICY,
			       "the variable %.*s is longer than the 128 KiB that the kernel takes",
			       n < 255 ? (int)n : 255, entry);
	}
	return environ_set(l, entry) < 0 ? err_nomem(err) : 0;
}

static int put_pair(struct strlist *l, const char *name, const char *value,
		    struct nsbox_error *err)
{
	struct buf b = BUF_INIT(ENTRY_MAX + 512);
	int ret;

	buf_str(&b, name);
	buf_char(&b, '=');
	buf_str(&b, value);
	/* A buffer that is full holds an entry that is cut: too long as well. */
	ret = b.failed && strlen(name) + strlen(value) < ENTRY_MAX ?
		err_nomem(err) : 0;
	if (ret == 0 && b.failed)
		ret = err_set(err, NSBOX_E_POLICY,
			      "the variable %.255s is longer than the 128 KiB that the kernel takes",
			      name);
	if (ret == 0)
		ret = put(l, buf_text(&b), err);
	buf_free(&b);
	return ret;
}

static int add_base(struct strlist *l, const char *const *caller,
		    const char *path, struct nsbox_error *err)
{
	int ret = put_pair(l, "PATH", path, err);

	for (size_t i = 0; ret == 0 && i < ARRAY_SIZE(base_table); i++)
		ret = put(l, base_table[i], err);
	for (size_t i = 0; ret == 0 && i < ARRAY_SIZE(found_table); i++) {
		const char *value = value_of(caller, found_table[i]);

		if (value && *value && strlen(value) < 64 && is_plain(value))
			ret = put_pair(l, found_table[i], value, err);
	}
	return ret;
}

static int add_inherited(struct strlist *l, const char *const *caller,
			 struct nsbox_error *err)
{
	int ret = 0;

	for (; ret == 0 && caller && *caller; caller++) {
		size_t n = name_length(*caller);
		char name[256];

		if (n == 0 || n >= sizeof(name) || (*caller)[n] != '=')
			continue; /* execve(2) passes anything; it has no name */
		memcpy(name, *caller, n);
		name[n] = '\0';
		if (environ_may_inherit(name, *caller + n + 1))
			ret = put(l, *caller, err);
	}
	return ret;
}

static int add_passed(struct strlist *l, const struct strlist *names,
		      const char *const *caller, struct nsbox_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < names->n; i++) {
		const char *name = names->v[i];
		const char *value;

		ret = check_entry(is_name_length(strlen(name)) &&
				  !strchr(name, '='), "env.pass", i, "NAME", err);
		value = value_of(caller, name);
		if (ret == 0 && value)
			ret = put_pair(l, name, value, err);
	}
	return ret;
}

static int add_set(struct strlist *l, const struct strlist *entries,
		   struct nsbox_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < entries->n; i++) {
		const char *e = entries->v[i];
		size_t n = name_length(e);

		ret = check_entry(is_name_length(n) && e[n] == '=', "env.set",
				  i, "NAME=VALUE", err);
		if (ret == 0)
			ret = put(l, e, err);
	}
	return ret;
}

static int check_total(const struct strlist *l, struct nsbox_error *err)
{
	size_t total = 0;

	for (size_t i = 0; i < l->n; i++)
		total += strlen(l->v[i]) + 1 + sizeof(char *);
	if (total <= TOTAL_MAX)
		return 0;
	err_hint(err, "pass fewer variables, or give the data as a file with --ro");
	return err_set(err, NSBOX_E_POLICY,
		       "the environment of the box has %zu bytes, more than %zu",
		       total, TOTAL_MAX);
}

int environ_build(struct strlist *out, const struct policy *p,
		  const char *const *caller_env, const char *path,
		  struct nsbox_error *err)
{
	struct strlist l = { 0 };
	int ret = add_base(&l, caller_env, path, err);

	if (ret == 0 && p->env.inherit)
		ret = add_inherited(&l, caller_env, err);
	if (ret == 0)
		ret = add_passed(&l, &p->env.pass, caller_env, err);
	if (ret == 0)
		ret = add_set(&l, &p->env.set, err);
	if (ret == 0)
		ret = check_total(&l, err);
	if (ret < 0) {
		strlist_free(&l);
		return ret;
	}
	*out = l;
	return 0;
}
