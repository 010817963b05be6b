/*
 * record.c - what one run did, for C callers
 *
 * Owns struct nsbox_result once the launcher has filled it in: the public getters,
 * the words of the record, and its end. Runs in the launcher.
 *
 * Must:    say only what was stored; what is not known stays unknown.
 * Mustn't: derive a verdict: that is the launcher's, from evidence.
 */
#include "runtime/record.h"

#include "base/cleanup.h"

#include <stdlib.h>
#include <string.h>

/*
 * D21. What nsbox itself ended has a code of its own, whatever signal it used for
 * it: 124 and not 137 for a timeout, 123 and not 137 for memory. In the same way a
 * payload that the syscall filter killed exits 122, "refused by policy", and not
 * 159 (128 + SIGSYS); the signal is in the record.
 */
enum {
	STATUS_REFUSED = 122,
	STATUS_LIMIT = 123,
	STATUS_TIMEOUT = 124,
	STATUS_BROKEN = 125,
	STATUS_NOT_EXECUTABLE = 126,
	STATUS_NOT_FOUND = 127,
	STATUS_SIGNAL = 128,
};

static const struct {
	const char *name;
	int status; /* 0: from the exit code or the signal */
} verdicts[] = {
	[NSBOX_SKIPPED] = { "skipped", STATUS_REFUSED },
	[NSBOX_EXITED] = { "exited", 0 },
	[NSBOX_SIGNALED] = { "signaled", 0 },
	[NSBOX_TIMED_OUT] = { "timed_out", STATUS_TIMEOUT },
	[NSBOX_OUT_OF_MEMORY] = { "out_of_memory", STATUS_LIMIT },
	[NSBOX_DENIED] = { "denied", STATUS_REFUSED },
	[NSBOX_PIDS_LIMIT] = { "pids_limit", STATUS_LIMIT },
	[NSBOX_DISK_LIMIT] = { "disk_limit", STATUS_LIMIT },
	[NSBOX_OUTPUT_LIMIT] = { "output_limit", STATUS_LIMIT },
};

/* Reasons of a skipped run that are no refusal: what the shell has codes for, and a source
 * that was only to be checked. */
static const struct {
	const char *word;
	int status;
} skips[] = {
	{ "not_executable", STATUS_NOT_EXECUTABLE },
	{ "not_found", STATUS_NOT_FOUND },
	{ "parsed", 0 },
};

static const char *const layers[ENF_COUNT] = {
	[ENF_MEMORY] = "memory",	 [ENF_CPU] = "cpu",
	[ENF_PIDS] = "pids",		 [ENF_NETWORK] = "network",
	[ENF_FILESYSTEM] = "filesystem", [ENF_SYSCALLS] = "syscalls",
	[ENF_TIME] = "time",		 [ENF_DISK] = "disk",
	[ENF_OUTPUT] = "output",	 [ENF_LANDLOCK] = "landlock",
	[ENF_IO] = "io",
};

const char *enforced_name(enum enforced_layer l)
{
	return (unsigned)l < ENF_COUNT ? layers[l] : "?";
}

const char *verdict_name(int verdict)
{
	return (unsigned)verdict < ARRAY_SIZE(verdicts) ? verdicts[verdict].name : "?";
}

enum nsbox_verdict nsbox_result_verdict(const struct nsbox_result *r)
{
	return r->verdict;
}

const char *nsbox_result_verdict_name(const struct nsbox_result *r)
{
	return verdict_name((int)r->verdict);
}

int nsbox_result_exit_code(const struct nsbox_result *r)
{
	return r->verdict == NSBOX_EXITED ? r->exit_code : -1;
}

int nsbox_result_signal(const struct nsbox_result *r)
{
	return r->signal;
}

static bool has_word(const char *reason, const char *word)
{
	size_t n = strlen(word);

	return reason && strncmp(reason, word, n) == 0 &&
	       (reason[n] == ':' || reason[n] == '\0');
}

int nsbox_result_status(const struct nsbox_result *r)
{
	if ((unsigned)r->verdict >= ARRAY_SIZE(verdicts))
		return STATUS_BROKEN;
	if (r->verdict == NSBOX_EXITED)
		return r->exit_code >= 0 && r->exit_code <= 255 ? r->exit_code : STATUS_BROKEN;
	if (r->verdict == NSBOX_SIGNALED)
		return r->signal > 0 && r->signal < 128 ? STATUS_SIGNAL + r->signal :
							  STATUS_BROKEN;
	if (r->verdict == NSBOX_SKIPPED)
		for (size_t i = 0; i < ARRAY_SIZE(skips); i++)
			if (has_word(r->reason, skips[i].word))
				return skips[i].status;
	return verdicts[r->verdict].status;
}

const char *nsbox_result_note(const struct nsbox_result *r, size_t i)
{
	return r && i < r->notes.n ? r->notes.v[i] : NULL;
}

const char *nsbox_result_reason(const struct nsbox_result *r)
{
	return r->reason;
}

/* NULL when the stream was not captured; "" when it was, and stayed empty. */
static const void *stream(const struct result_stream *s, size_t *len)
{
	if (len)
		*len = s->captured && s->data ? s->len : 0;
	if (!s->captured)
		return NULL;
	return s->data ? s->data : "";
}

const void *nsbox_result_stdout(const struct nsbox_result *r, size_t *len)
{
	return stream(&r->out, len);
}

const void *nsbox_result_stderr(const struct nsbox_result *r, size_t *len)
{
	return stream(&r->err, len);
}

enum nsbox_strength nsbox_result_enforced(const struct nsbox_result *r, const char *layer)
{
	for (size_t i = 0; layer && i < ENF_COUNT; i++)
		if (strcmp(layers[i], layer) == 0)
			return r->enforced[i];
	return NSBOX_STRENGTH_NONE;
}

size_t nsbox_result_artifact_count(const struct nsbox_result *r)
{
	return r->artifacts.n;
}

int nsbox_result_artifact(const struct nsbox_result *r, size_t i, const char **path,
			  const char **host_path, uint64_t *size_bytes)
{
	const struct artifact *a;

	if (i >= r->artifacts.n)
		return NSBOX_E_USAGE;
	a = &r->artifacts.v[i];
	if (path)
		*path = a->path;
	if (host_path)
		*host_path = a->host_path;
	if (size_bytes)
		*size_bytes = a->size;
	return 0;
}

static void denial_free(struct denial *d)
{
	free(d->layer);
	free(d->what);
	free(d->rule);
	free(d->allow);
}

static char *copy_of(const char *s, bool *failed)
{
	char *copy = s ? strdup(s) : NULL;

	if (s && !copy)
		*failed = true;
	return copy;
}

int result_add_denial_times(struct nsbox_result *r, const char *layer,
			    const char *const texts[3], uint64_t count)
{
	struct denial d, *v;
	bool failed = false;

	v = realloc(r->denials, (r->denial_count + 1) * sizeof(*v));
	if (!v)
		return NSBOX_E_NOMEM;
	r->denials = v;
	d.layer = copy_of(layer, &failed);
	d.what = copy_of(texts[0], &failed);
	d.rule = copy_of(texts[1], &failed);
	d.allow = copy_of(texts[2], &failed);
	d.count = count;
	if (failed) {
		denial_free(&d);
		return NSBOX_E_NOMEM;
	}
	v[r->denial_count++] = d;
	free(take_ptr(r->json)); /* said less than this record now knows */
	return 0;
}

int result_add_denial(struct nsbox_result *r, const char *layer, const char *what,
		      const char *rule, const char *allow)
{
	return result_add_denial_times(r, layer, (const char *const[]){ what, rule, allow }, 0);
}

void network_use_forget(struct network_use *u)
{
	for (size_t i = 0; i < u->host_count; i++)
		free(u->hosts[i].name);
	free(take_ptr(u->hosts));
	u->host_count = 0;
	u->is_known = false;
	memset(&u->totals, 0, sizeof(u->totals));
}

void nsbox_result_free(struct nsbox_result *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->denial_count; i++)
		denial_free(&r->denials[i]);
	free(r->denials);
	network_use_forget(&r->network);
	artifacts_free(&r->artifacts);
	free(r->tier);
	free(r->reason);
	free(r->out.data);
	free(r->err.data);
	free(r->working_directory);
	strlist_free(&r->notes);
	free(r->analysis);
	free(r->packages);
	free(r->json);
	free(r);
}
