/* shape: table */
/*
 * The JSON schema of nsbox.result/1, the record of one run.
 *
 * Pure. Must name every field that runtime/record_json.c prints: fields are added here
 * and there together, never renamed.
 */
#include "policy/policy.h"

#include "base/cleanup.h"
#include "base/json.h"

struct field {
	const char *name, *type; /* type: JSON schema text */
	const char *help;
};

#define TEXT "\"type\":\"string\""
#define TEXT_OR_NULL "\"type\":[\"string\",\"null\"]"
#define COUNT "\"type\":\"integer\",\"minimum\":0"
#define COUNT_OR_NULL "\"type\":[\"integer\",\"null\"],\"minimum\":0"
#define MILLISECONDS "\"type\":[\"number\",\"null\"],\"minimum\":0"
#define FLAG "\"type\":\"boolean\""
#define FLAG_OR_NULL "\"type\":[\"boolean\",\"null\"]"
#define ENCODING "\"enum\":[\"utf-8\",\"base64\",null]"
#define STRENGTH "\"enum\":[\"kernel\",\"userspace\",\"none\"]"

static const struct field usage[] = {
	{ "wall_ms", MILLISECONDS, "wall clock from start to end" },
	{ "user_ms", MILLISECONDS, "processor time in user mode" },
	{ "system_ms", MILLISECONDS, "processor time in the kernel" },
	{ "memory_peak_bytes", COUNT_OR_NULL, "most memory in use at once" },
	{ "pids_peak", COUNT_OR_NULL, "most processes and threads at once" },
	{ "io_read_bytes", COUNT_OR_NULL, "read from block devices (io.stat, cgroup v2)" },
	{ "io_written_bytes", COUNT_OR_NULL, "written to block devices" },
	{ "throttled_ms", MILLISECONDS, "held back by limits.cpus (cpu.stat, cgroup v2)" },
	{ "throttled_count", COUNT_OR_NULL, "periods in which it was held back" },
	{ "cpu_stall_ms", MILLISECONDS, "something in the box waited for a processor (PSI)" },
	{ "memory_stall_ms", MILLISECONDS, "something in the box waited for memory" },
	{ "memory_full_stall_ms", MILLISECONDS, "all of the box waited for memory" },
	{ "io_stall_ms", MILLISECONDS, "something in the box waited for a disk" },
	{ "io_full_stall_ms", MILLISECONDS, "all of the box waited for a disk" },
	{ 0 },
};

static const struct field artifact[] = {
	{ "path", TEXT, "relative to the work folder; path_base64 is there when it is not UTF-8" },
	{ "host_path", TEXT, "where the copy is" },
	{ "size_bytes", COUNT, "bytes" },
	{ "content_type", TEXT_OR_NULL, "media type by name and first bytes" },
	{ "sha256", TEXT, "of what was copied" },
	{ 0 },
};

static const struct field skipped[] = {
	{ "path", TEXT, "relative to the work folder" },
	{ "why", TEXT, "why it was not copied" },
	{ 0 },
};

static const struct field denial[] = {
	{ "layer", TEXT, "which layer of the box refused" },
	{ "what", TEXT, "what was refused" },
	{ "rule", TEXT_OR_NULL, "the policy key and value that says so" },
	{ "allow", TEXT_OR_NULL, "the flags that would allow it" },
	{ "count", COUNT_OR_NULL, "how often; null: nobody counted" },
	{ 0 },
};

static const struct field network[] = {
	{ "mode", "\"enum\":[\"disabled\",\"filtered\",\"open\"]", "net.mode; disabled: a server of the box is published" },
	{ "path", "\"enum\":[\"inlet\",\"ports\",\"veth\",null]", "how it was built; ports: without nf_tables; null: never connected" },
	{ "connections", COUNT_OR_NULL, "that were allowed; null, here and below: not known" },
	{ "failed", COUNT_OR_NULL, "of these: the host could not be reached" },
	{ "denied", COUNT_OR_NULL, "connections, datagrams and lookups that were refused" },
	{ "lookups", COUNT_OR_NULL, "names that were looked up in the box" },
	{ "bytes_sent", COUNT_OR_NULL, "payload of TCP streams and datagrams" },
	{ "bytes_received", COUNT_OR_NULL, "the same, into the box" },
	{ "hosts", "\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"object\",\"required\":"
	  "[\"name\",\"connections\",\"failed\",\"bytes_sent\",\"bytes_received\"]}",
	  "the same counters for each name or address" },
	{ "capped", "\"type\":[\"array\",\"null\"],\"items\":{\"enum\":"
	  "[\"connections\",\"names\",\"bytes\",\"host_bytes\"]}", "the caps of net.* that were reached" },
	{ 0 },
};

static const struct field before[] = {
	{ "schema", "\"const\":\"nsbox.result/1\"", "this schema's name" },
	{ "tier", "\"enum\":[\"static\",\"local\",\"docker\",\"local_unsafe\",\"docker_unsafe\"]",
	  "who enforced the policy" },
	{ "isolation", "\"enum\":[\"namespaces\",\"landlock\",\"none\"]",
	  "by what the payload was held in: isolation.floor; none: the tier local_unsafe" },
	{ "verdict", "\"enum\":[\"exited\",\"signaled\",\"timed_out\",\"out_of_memory\",\"pids_limit\","
	  "\"disk_limit\",\"output_limit\",\"denied\",\"skipped\",\"setup_failed\"]",
	  "how the run ended" },
	{ "exit_code", "\"type\":[\"integer\",\"null\"]", "null: it did not exit" },
	{ "signal", "\"type\":[\"integer\",\"null\"]", "the signal it died of" },
	{ "success", FLAG, "it exited with 0" },
	{ "reason", TEXT_OR_NULL, "a machine word, a colon and a sentence" },
	{ "stdout", TEXT_OR_NULL, "what was kept; null: not captured" },
	{ "stdout_encoding", ENCODING, "base64 when it is not UTF-8; null: not captured" },
	{ "stdout_bytes", COUNT_OR_NULL, "bytes written in all; null: nobody counted" },
	{ "stdout_truncated", FLAG_OR_NULL, "more was written than kept or passed on" },
	{ "stderr", TEXT_OR_NULL, "what was kept; null: not captured" },
	{ "stderr_encoding", ENCODING, "base64 when it is not UTF-8; null: not captured" },
	{ "stderr_bytes", COUNT_OR_NULL, "bytes written in all; null: nobody counted" },
	{ "stderr_truncated", FLAG_OR_NULL, "more was written than kept or passed on" },
	{ 0 },
};

static const struct field after[] = {
	{ "skipped_artifacts_total", COUNT, "more than skipped_artifacts when that list is full" },
	{ "working_directory", TEXT_OR_NULL, "in the box" },
	{ "notes", "\"type\":\"array\",\"items\":{\"type\":\"string\"}",
	  "what the caller should know, one sentence each" },
	{ "setup_ms", MILLISECONDS, "time until the program ran" },
	{ "orphans_killed", FLAG, "processes were still alive at the end" },
	{ "analysis", "\"type\":[\"object\",\"null\"]", "what a check of the source found: language, ok, error, imports, unauthorized, ast" },
	{ "packages", "\"type\":[\"object\",\"null\"],\"required\":[\"installer\",\"layer\",\"resolved\"],"
	  "\"properties\":{\"installer\":{\"type\":\"string\"},\"layer\":{\"type\":\"string\"},"
	  "\"resolved\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":"
	  "[\"name\",\"version\",\"hash\"]}}}",
	  "the layer of packages that the run had, and what its lock says; null: none" },
	{ 0 },
};

static const struct field enforced[] = {
	{ "memory", STRENGTH, "limits.memory" },
	{ "cpu", STRENGTH, "limits.cpus, limits.cpu_time" },
	{ "pids", STRENGTH, "limits.pids" },
	{ "network", STRENGTH, "net.*" },
	{ "filesystem", STRENGTH, "fs.*" },
	{ "syscalls", STRENGTH, "syscalls.*, process.subprocesses" },
	{ "time", STRENGTH, "limits.timeout" },
	{ "disk", STRENGTH, "limits.disk, limits.tmp, limits.shm" },
	{ "output", STRENGTH, "limits.stdout, limits.stderr" },
	{ "landlock", STRENGTH, "the second wall behind the mounts" },
	{ "io", STRENGTH, "limits.io_weight; none also when it is not set" },
	{ 0 },
};

/* Numbers as they were in force: a null is a limit that did not hold or was not set. */
static const struct field limits[] = {
	{ "timeout_ms", MILLISECONDS, "limits.timeout, or the run's own" },
	{ "cpu_time_ms", MILLISECONDS, "limits.cpu_time" },
	{ "cpus", "\"type\":[\"number\",\"null\"],\"minimum\":0", "limits.cpus, cores" },
	{ "memory_bytes", COUNT_OR_NULL, "limits.memory" },
	{ "memory_high_bytes", COUNT_OR_NULL, "limits.memory_high" },
	{ "swap_bytes", COUNT_OR_NULL, "limits.swap" },
	{ "pids", COUNT_OR_NULL, "limits.pids" },
	{ "files", COUNT_OR_NULL, "limits.files, or the caller's own where that is lower" },
	{ "file_size_bytes", COUNT_OR_NULL, "limits.file_size" },
	{ "disk_bytes", COUNT_OR_NULL, "limits.disk; null: the work folder is one of yours" },
	{ "disk_inodes", COUNT_OR_NULL, "files and folders in it" },
	{ "tmp_bytes", COUNT_OR_NULL, "limits.tmp" },
	{ "tmp_inodes", COUNT_OR_NULL, "files and folders in /tmp" },
	{ "shm_bytes", COUNT_OR_NULL, "limits.shm" },
	{ "shm_inodes", COUNT_OR_NULL, "files and folders in /dev/shm" },
	{ "io_weight", COUNT_OR_NULL, "limits.io_weight" },
	{ "stdout_bytes", COUNT_OR_NULL, "limits.stdout; null: the program wrote to your descriptor, or to a terminal" },
	{ "stderr_bytes", COUNT_OR_NULL, "limits.stderr" },
	{ 0 },
};

static void put_fields(struct json *j, const struct field *f)
{
	for (; f->name; f++) {
		json_key(j, f->name);
		buf_char(j->out, '{');
		buf_str(j->out, f->type);
		buf_str(j->out, ",\"description\":");
		json_str(j, f->help);
		buf_char(j->out, '}');
	}
}

static void put_required(struct json *j, const struct field *f)
{
	for (; f->name; f++)
		json_str(j, f->name);
}

/* Fields may be added in later versions, so unknown ones are never errors. */
static void put_object(struct json *j, const struct field *f, bool may_be_null)
{
	json_object(j);
	json_key(j, "type");
	if (may_be_null)
		json_raw(j, "[\"object\",\"null\"]");
	else
		json_str(j, "object");
	json_key(j, "required");
	json_array(j);
	put_required(j, f);
	json_end(j, ']');
	json_key(j, "properties");
	json_object(j);
	put_fields(j, f);
	json_end(j, '}');
	json_end(j, '}');
}

static const struct {
	const char *name;
	const struct field *fields;
	bool is_array, may_be_null;
} parts[] = {
	{ "artifacts", artifact, true, false },
	{ "skipped_artifacts", skipped, true, false },
	{ "usage", usage, false, false },
	{ "enforced", enforced, false, false },
	{ "limits", limits, false, false },
	{ "denials", denial, true, false },
	{ "network", network, false, true },
};

static void put_part(struct json *j, size_t i)
{
	json_key(j, parts[i].name);
	if (!parts[i].is_array) {
		put_object(j, parts[i].fields, parts[i].may_be_null);
		return;
	}
	json_object(j);
	json_kstr(j, "type", "array");
	json_key(j, "items");
	put_object(j, parts[i].fields, false);
	json_end(j, '}');
}

void policy_result_schema(struct buf *out)
{
	struct json j = JSON_INIT(out);

	json_object(&j);
	json_kstr(&j, "$schema",
		  "https://json-schema.org/draft/2020-12/schema");
	json_kstr(&j, "title", "nsbox.result/1");
	json_kstr(&j, "description",
		  "What one run did. Fields are added, never renamed; what is not known is null.");
	json_kstr(&j, "type", "object");
	json_key(&j, "required");
	json_array(&j);
	put_required(&j, before);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		json_str(&j, parts[i].name);
	put_required(&j, after);
	json_end(&j, ']');
	json_key(&j, "properties");
	json_object(&j);
	put_fields(&j, before);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		put_part(&j, i);
	put_fields(&j, after);
	json_end(&j, '}');
	json_end(&j, '}');
}
