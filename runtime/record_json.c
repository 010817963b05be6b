/*
 * record_json.c - what one run did, as nsbox.result/1
 *
 * Owns the text of the record. Runs in the launcher, when somebody asks for it.
 *
 * Must:    be one valid JSON object whatever bytes the payload produced; null for
 *          what is not known.
 * Mustn't: rename or drop a field: programs read it. Fields may be added.
 *
 * Everything that the box produced is hostile text: output, file names, what it
 * tried to reach. Streams that are not UTF-8 come as base64 and say so. A path
 * that is not UTF-8 has U+FFFD in it, and its exact bytes in path_base64.
 */
#include "runtime/record.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/utf8.h"

#include <string.h>

static const char *const strengths[] = {
	[NSBOX_STRENGTH_NONE] = "none",
	[NSBOX_STRENGTH_USERSPACE] = "userspace",
	[NSBOX_STRENGTH_KERNEL] = "kernel",
};

static void put_base64(struct json *j, const char *data, size_t len)
{
	json_raw(j, "\"");
	base64_add(j->out, data, len);
	buf_char(j->out, '"');
}

/* One name for the four keys of a stream: stdout, stdout_encoding, ... */
struct stream_keys {
	const char *text, *encoding, *bytes, *truncated;
};
static const struct stream_keys stdout_keys = {
	"stdout", "stdout_encoding", "stdout_bytes", "stdout_truncated",
};
static const struct stream_keys stderr_keys = {
	"stderr", "stderr_encoding", "stderr_bytes", "stderr_truncated",
};

static void put_text(struct json *j, const struct stream_keys *k,
		     const struct result_stream *s)
{
	size_t len = s->data ? s->len : 0;
	const char *data = s->data ? s->data : "";
	bool is_text = utf8_valid(data, len);

	json_key(j, k->text);
	if (!s->captured)
		json_null(j);
	else if (is_text)
		json_strn(j, data, len);
	else
		put_base64(j, data, len);
	json_kstr(j, k->encoding, !s->captured ? NULL : is_text ? "utf-8" : "base64");
}

static void put_stream(struct json *j, const struct stream_keys *k,
		       const struct result_stream *s)
{
	put_text(j, k, s);
	if (s->total == RESULT_UNKNOWN) {
		json_knull(j, k->bytes);
		json_knull(j, k->truncated);
		return;
	}
	json_kuint(j, k->bytes, s->total);
	json_kbool(j, k->truncated, s->truncated);
}

static void put_path(struct json *j, const char *path)
{
	json_kstr(j, "path", path);
	if (path && !utf8_valid(path, strlen(path))) {
		json_key(j, "path_base64");
		put_base64(j, path, strlen(path));
	}
}

static void put_artifacts(struct json *j, const struct artifacts *a)
{
	json_key(j, "artifacts");
	json_array(j);
	for (size_t i = 0; i < a->n; i++) {
		json_object(j);
		put_path(j, a->v[i].path);
		json_kstr(j, "host_path", a->v[i].host_path);
		json_kuint(j, "size_bytes", a->v[i].size);
		json_kstr(j, "content_type", a->v[i].content_type);
		json_kstr(j, "sha256", a->v[i].sha256);
		json_end(j, '}');
	}
	json_end(j, ']');
	json_key(j, "skipped_artifacts");
	json_array(j);
	for (size_t i = 0; i < a->skipped_n; i++) {
		json_object(j);
		put_path(j, a->skipped[i].path);
		json_kstr(j, "why", a->skipped[i].why);
		json_end(j, '}');
	}
	json_end(j, ']');
	json_kuint(j, "skipped_artifacts_total", a->skipped_total);
}

static void put_ms(struct json *j, const char *key, uint64_t us, bool is_known)
{
	json_key(j, key);
	if (is_known)
		json_ms(j, us);
	else
		json_null(j);
}

static void put_count(struct json *j, const char *key, uint64_t v, bool is_known)
{
	if (is_known)
		json_kuint(j, key, v);
	else
		json_knull(j, key);
}

static const char *const stalls[STALL_COUNT] = {
	[STALL_CPU] = "cpu_stall_ms",
	[STALL_MEMORY] = "memory_stall_ms",
	[STALL_MEMORY_FULL] = "memory_full_stall_ms",
	[STALL_IO] = "io_stall_ms",
	[STALL_IO_FULL] = "io_full_stall_ms",
};

static void put_accounts(struct json *j, const struct accounts *a)
{
	put_count(j, "io_read_bytes", a->io_read, a->has_io);
	put_count(j, "io_written_bytes", a->io_written, a->has_io);
	put_ms(j, "throttled_ms", a->throttled_us, a->has_throttled);
	put_count(j, "throttled_count", a->throttled_count, a->has_throttled);
	for (size_t i = 0; i < STALL_COUNT; i++)
		put_ms(j, stalls[i], a->stall_us[i], a->has_stall[i]);
}

static void put_usage(struct json *j, const struct nsbox_result *r)
{
	bool has_run = r->verdict != NSBOX_SKIPPED;

	json_key(j, "usage");
	json_object(j);
	put_ms(j, "wall_ms", r->usage.wall_us, has_run);
	put_ms(j, "user_ms", r->usage.user_us, r->usage.has_cpu);
	put_ms(j, "system_ms", r->usage.system_us, r->usage.has_cpu);
	put_count(j, "memory_peak_bytes", r->usage.memory_peak, r->usage.has_memory_peak);
	put_count(j, "pids_peak", r->usage.pids_peak, r->usage.has_pids_peak);
	put_accounts(j, &r->usage.accounts);
	json_end(j, '}');
}

static void put_enforced(struct json *j, const struct nsbox_result *r)
{
	json_key(j, "enforced");
	json_object(j);
	for (unsigned i = 0; i < ENF_COUNT; i++) {
		unsigned s = r->enforced[i];

		json_kstr(j, enforced_name(i),
			  s < ARRAY_SIZE(strengths) ? strengths[s] : "none");
	}
	json_end(j, '}');
}

static void put_limits(struct json *j, const struct in_force *f)
{
	static const struct { const char *key; enum limit_kind kind; } fields[] = {
#define X(name, text, what) [LIMIT_##name] = { text, what },
		LIMIT_FIELDS(X)
#undef X
	};

	json_key(j, "limits");
	json_object(j);
	for (size_t i = 0; i < LIMIT_FIELD_COUNT; i++) {
		if (fields[i].kind == LIMIT_COUNT)
			put_count(j, fields[i].key, f->v[i], f->is_set[i]);
		else /* both are thousandths of what is printed */
			put_ms(j, fields[i].key, f->v[i], f->is_set[i]);
	}
	json_end(j, '}');
}

static void put_denials(struct json *j, const struct nsbox_result *r)
{
	json_key(j, "denials");
	json_array(j);
	for (size_t i = 0; i < r->denial_count; i++) {
		const struct denial *d = &r->denials[i];

		json_object(j);
		json_kstr(j, "layer", d->layer);
		json_kstr(j, "what", d->what);
		json_kstr(j, "rule", d->rule);
		json_kstr(j, "allow", d->allow);
		put_count(j, "count", d->count, d->count != 0);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void put_hosts(struct json *j, const struct network_use *u)
{
	json_key(j, "hosts");
	if (!u->is_known) {
		json_null(j);
		return;
	}
	json_array(j);
	for (size_t i = 0; i < u->host_count; i++) {
		const struct network_host *h = &u->hosts[i];

		json_object(j);
		json_kstr(j, "name", h->name);
		json_kuint(j, "connections", h->use.connections);
		json_kuint(j, "failed", h->use.failed);
		json_kuint(j, "bytes_sent", h->use.bytes_out);
		json_kuint(j, "bytes_received", h->use.bytes_in);
		json_end(j, '}');
	}
	json_end(j, ']');
}

static void put_capped(struct json *j, const struct network_use *u)
{
	static const char *const names[] = { "connections", "names", "bytes", "host_bytes" };

	json_key(j, "capped");
	if (!u->is_known) {
		json_null(j);
		return;
	}
	json_array(j);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (u->totals.cap & 1u << i)
			json_str(j, names[i]);
	json_end(j, ']');
}

static void put_network(struct json *j, const struct network_use *u)
{
	const struct egress_totals *t = &u->totals;

	json_key(j, "network");
	if (!u->mode) {
		json_null(j);
		return;
	}
	json_object(j);
	json_kstr(j, "mode", u->mode);
	json_kstr(j, "path", u->path);
	put_count(j, "connections", t->connections, u->is_known);
	put_count(j, "failed", t->failed, u->is_known);
	put_count(j, "denied", t->denied, u->is_known);
	put_count(j, "lookups", t->lookups, u->is_known);
	put_count(j, "bytes_sent", t->bytes_out, u->is_known);
	put_count(j, "bytes_received", t->bytes_in, u->is_known);
	put_hosts(j, u);
	put_capped(j, u);
	json_end(j, '}');
}

static void put_head(struct json *j, const struct nsbox_result *r)
{
	int code = nsbox_result_exit_code(r);

	json_kstr(j, "schema", "nsbox.result/1");
	json_kstr(j, "tier", r->tier);
	json_kstr(j, "isolation", r->isolation);
	json_kstr(j, "verdict", nsbox_result_verdict_name(r));
	json_key(j, "exit_code");
	if (code >= 0)
		json_int(j, code);
	else
		json_null(j);
	json_key(j, "signal");
	if (r->signal > 0)
		json_int(j, r->signal);
	else
		json_null(j);
	json_kbool(j, "success", nsbox_result_status(r) == 0);
	json_kstr(j, "reason", r->reason);
}

static void put_record(struct json *j, const struct nsbox_result *r)
{
	json_object(j);
	put_head(j, r);
	put_stream(j, &stdout_keys, &r->out);
	put_stream(j, &stderr_keys, &r->err);
	put_artifacts(j, &r->artifacts);
	put_usage(j, r);
	put_enforced(j, r);
	put_limits(j, &r->limits);
	put_denials(j, r);
	put_network(j, &r->network);
	json_kstr(j, "working_directory", r->working_directory);
	json_key(j, "notes");
	json_array(j);
	for (size_t i = 0; i < r->notes.n; i++)
		json_str(j, r->notes.v[i]);
	json_end(j, ']');
	json_key(j, "setup_ms");
	json_ms(j, r->setup_us);
	json_kbool(j, "orphans_killed", r->orphans_killed);
	json_key(j, "analysis");
	json_raw(j, r->analysis ? r->analysis : "null");
	json_key(j, "packages");
	json_raw(j, r->packages ? r->packages : "null");
	json_end(j, '}');
}

/* Made once and kept in the record, so that it lives as long as that does. */
const char *nsbox_result_json(const struct nsbox_result *r)
{
	struct nsbox_result *own = (struct nsbox_result *)r;
	/* A control character takes six bytes; 64 MiB is for everything else. */
	owned(buf_free) struct buf text =
		BUF_INIT(6 * (r->out.len + r->err.len) + (64u << 20));
	struct json j = JSON_INIT(&text);

	if (r->json)
		return r->json;
	put_record(&j, r);
	own->json = buf_take(&text);
	return own->json;
}
