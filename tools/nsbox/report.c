/* SPDX-License-Identifier: Apache-2.0 */
/* See report.h. Runs in the command, after the box. */
#include "tools/nsbox/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "tools/nsbox/record.h"
#include "tools/nsbox/say.h"

#define DENIALS_TOLD 8 /* the record has them all */

static int write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

static int write_line(int fd, const char *text)
{
	if (write_all(fd, text, strlen(text)) == 0 && write_all(fd, "\n", 1) == 0)
		return 0;
	say("write to descriptor %d: %s", fd, strerror(errno));
	return STATUS_NSBOX;
}

int report_text(const char *text)
{
	if (write_all(STDOUT_FILENO, text, strlen(text)) == 0)
		return STATUS_OK;
	say("write to standard output: %s", strerror(errno));
	return STATUS_NSBOX;
}

int report_error(const struct args *a, const struct nsbox_error *err)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out;

	say_error(err);
	if (!a->json && a->status_fd < 0)
		return error_status(err);
	out = open_memstream(&text, &len);
	if (!out || error_json(out, err) < 0 || fclose(out) != 0) {
		say("out of memory for the error record");
		return STATUS_NSBOX;
	}
	if (a->json && write_all(STDOUT_FILENO, text, len) < 0)
		say("write to standard output: %s", strerror(errno));
	/* A descriptor that is not open is what the error may be about. */
	if (a->status_fd >= 0 && fcntl(a->status_fd, F_GETFD) >= 0 &&
	    write_all(a->status_fd, text, len) < 0)
		say("write to descriptor %d: %s", a->status_fd, strerror(errno));
	free(text);
	return error_status(err);
}

/* --- for people ----------------------------------------------------------------- */

static bool has_word(const char *reason, const char *word)
{
	size_t len = strlen(word);

	return reason && strncmp(reason, word, len) == 0 && reason[len] == ':';
}

static const char *remedy(enum nsbox_verdict verdict, const char *reason)
{
	static const struct { enum nsbox_verdict verdict; const char *word, *text; } remedies[] = {
		{ NSBOX_TIMED_OUT, "cpu_time", "give it more with --cpu-time" },
		{ NSBOX_TIMED_OUT, NULL, "give it more with --timeout" },
		{ NSBOX_OUT_OF_MEMORY, NULL, "give it more with --memory" },
		{ NSBOX_PIDS_LIMIT, NULL, "allow more with --pids" },
		{ NSBOX_DISK_LIMIT, NULL, "give it more with --disk or --tmpfs DEST:SIZE" },
		{ NSBOX_OUTPUT_LIMIT, NULL, "allow more with --output-limit" },
		{ NSBOX_DENIED, NULL, "programs for another ABI (i386, x32) cannot run in a box" },
	};

	for (size_t i = 0; i < CLI_COUNT(remedies); i++) {
		if (remedies[i].verdict == verdict &&
		    (!remedies[i].word || has_word(reason, remedies[i].word)))
			return remedies[i].text;
	}
	return NULL;
}

/*
 * A reason is a machine word and a sentence. Behind a verdict the sentence is
 * enough; of a program that "exited" (126, 127) the word says what was wrong.
 */
static void say_verdict(const struct nsbox_result *res)
{
	enum nsbox_verdict verdict = nsbox_result_verdict(res);
	const char *reason = nsbox_result_reason(res);
	const char *sentence = reason ? strstr(reason, ": ") : NULL;
	const char *help = remedy(verdict, reason);
	int signo = nsbox_result_signal(res);

	if (verdict == NSBOX_EXITED && reason)
		say("%s", reason);
	else if (verdict == NSBOX_SIGNALED && (!reason || has_word(reason, "signal")))
		say("signaled: the program died of signal %d (%s)", signo, strsignal(signo));
	else if (verdict == NSBOX_SKIPPED && nsbox_result_status(res) == STATUS_OK)
		return; /* a source that was only to be checked, and is fine */
	else if (verdict == NSBOX_SKIPPED && sentence)
		say("%s", sentence + 2);
	else if (verdict != NSBOX_EXITED)
		say("%s%s%s%s", nsbox_result_verdict_name(res), sentence ? sentence : "",
		    help ? "; " : "", help ? help : "");
}

static void say_truncation(const char *json, const char *stream)
{
	char flag[32], count[32];
	uint64_t total = 0;

	snprintf(flag, sizeof(flag), "%s_truncated", stream);
	snprintf(count, sizeof(count), "%s_bytes", stream);
	if (!record_true(record_field(json, flag)))
		return;
	if (record_uint(record_field(json, count), &total))
		say("%s was cut: the program wrote %" PRIu64
		    " bytes; allow more with --output-limit", stream, total);
	else
		say("%s was cut; allow more with --output-limit", stream);
}

static void say_denials(const char *json)
{
	const char *list = record_field(json, "denials"), *item;
	uint64_t count = 0;
	char layer[32], what[256], allow[256], times[48];
	size_t i;

	for (i = 0; (item = record_item(list, i)) && i < DENIALS_TOLD; i++) {
		record_text(record_field(item, "layer"), layer, sizeof(layer));
		record_text(record_field(item, "what"), what, sizeof(what));
		record_text(record_field(item, "allow"), allow, sizeof(allow));
		times[0] = '\0';
		if (record_uint(record_field(item, "count"), &count) && count > 1)
			snprintf(times, sizeof(times), " (%" PRIu64 " times)", count);
		say("denied by %s: %s%s%s%s", layer, what, times,
		    allow[0] ? "; allow it with " : "", allow);
	}
	if (item)
		say("more was denied: the record (--json or --status-fd) has all of it");
}

static void say_enforced(const struct nsbox_result *res)
{
	static const char *const layers[] = { "filesystem", "network", "syscalls", "landlock",
					      "memory", "cpu", "pids", "time", "disk",
					      "output" };
	static const char *const strengths[] = { "none", "userspace", "kernel" };
	char line[512] = "";
	size_t at = 0;

	for (size_t i = 0; i < CLI_COUNT(layers); i++) {
		unsigned s = nsbox_result_enforced(res, layers[i]);

		at += (size_t)snprintf(line + at, sizeof(line) - at, " %s=%s", layers[i],
				       s < CLI_COUNT(strengths) ? strengths[s] : "?");
	}
	say("enforced:%s", line);
}

static void say_usage(const char *json)
{
	static const char *const fields[] = { "wall_ms", "user_ms", "system_ms",
					      "memory_peak_bytes", "pids_peak" };
	const char *usage = record_field(json, "usage");
	char line[256] = "";
	size_t at = 0;

	for (size_t i = 0; usage && i < CLI_COUNT(fields); i++) {
		const char *value = record_field(usage, fields[i]);
		size_t len = value ? strcspn(value, ",}] ") : 0;

		if (len > 0 && len < 24 && *value != 'n')
			at += (size_t)snprintf(line + at, sizeof(line) - at, " %s=%.*s",
					       fields[i], (int)len, value);
	}
	if (at)
		say("used:%s", line);
}

static void say_artifacts(const struct nsbox_result *res)
{
	const char *path, *host;
	uint64_t size;

	for (size_t i = 0; i < nsbox_result_artifact_count(res); i++) {
		if (nsbox_result_artifact(res, i, &path, &host, &size) == 0)
			say("artifact: %s (%" PRIu64 " bytes)", host, size);
	}
}

static void tell(const struct args *a, const struct nsbox_result *res, const char *json)
{
	if (!a->quiet) {
		say_verdict(res);
		say_denials(json);
		for (size_t i = 0; nsbox_result_note(res, i); i++)
			say("note: %s", nsbox_result_note(res, i));
	}
	if (!a->quiet && !a->json) {
		say_truncation(json, "stdout");
		say_truncation(json, "stderr");
	}
	if (!a->verbose)
		return;
	say_artifacts(res);
	say_enforced(res);
	say_usage(json);
}

int report_result(const struct args *a, const struct nsbox_result *res)
{
	const char *json = nsbox_result_json(res);
	int status = nsbox_result_status(res);
	int written = 0;

	if (!json) {
		say("out of memory for the record of the run");
		return STATUS_NSBOX;
	}
	if (a->json)
		written |= write_line(STDOUT_FILENO, json);
	if (a->status_fd >= 0)
		written |= write_line(a->status_fd, json);
	if (!a->json || a->verbose)
		tell(a, res, json);
	return written ? STATUS_NSBOX : status;
}
