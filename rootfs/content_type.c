/*
 * Owns: what kind of content a collected file has. Pure.
 * Must: never claim an image for something whose bytes are none: a viewer would
 * trust it. Mustn't: parse anything.
 */
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "rootfs/artifact_parts.h"

struct magic {
	const char *bytes;
	size_t len, at;
};

#define BYTES(text) { text, sizeof(text) - 1, 0 }

static const struct {
	const char *suffix, *type;
	struct magic magic;	/* len 0: text, or nothing reliable */
} types[] = {
	{ "png", "image/png", BYTES("\x89PNG\r\n\x1a\n") },
	{ "jpg", "image/jpeg", BYTES("\xff\xd8\xff") },
	{ "jpeg", "image/jpeg", BYTES("\xff\xd8\xff") },
	{ "gif", "image/gif", BYTES("GIF8") },
	{ "webp", "image/webp", { "WEBP", 4, 8 } },
	{ "bmp", "image/bmp", BYTES("BM") },
	{ "pdf", "application/pdf", BYTES("%PDF-") },
	{ "zip", "application/zip", BYTES("PK\x03\x04") },
	{ "xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	  BYTES("PK\x03\x04") },
	{ "docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	  BYTES("PK\x03\x04") },
	{ "gz", "application/gzip", BYTES("\x1f\x8b") },
	{ "parquet", "application/vnd.apache.parquet", BYTES("PAR1") },
	{ "sqlite", "application/vnd.sqlite3", BYTES("SQLite format 3") },
	{ "svg", "image/svg+xml", { 0 } },
	{ "csv", "text/csv", { 0 } },
	{ "tsv", "text/tab-separated-values", { 0 } },
	{ "txt", "text/plain", { 0 } },
	{ "log", "text/plain", { 0 } },
	{ "md", "text/markdown", { 0 } },
	{ "html", "text/html", { 0 } },
	{ "htm", "text/html", { 0 } },
	{ "css", "text/css", { 0 } },
	{ "js", "text/javascript", { 0 } },
	{ "json", "application/json", { 0 } },
	{ "xml", "application/xml", { 0 } },
	{ "yaml", "application/yaml", { 0 } },
	{ "yml", "application/yaml", { 0 } },
	{ "toml", "application/toml", { 0 } },
	{ "py", "text/x-python", { 0 } },
	{ "wav", "audio/wav", { "WAVE", 4, 8 } },
	{ "mp3", "audio/mpeg", { 0 } },
	{ "mp4", "video/mp4", { "ftyp", 4, 4 } },
};

static bool has_magic(const struct magic *m, const unsigned char *head, size_t len)
{
	return !m->len || (len >= m->at + m->len && memcmp(head + m->at, m->bytes, m->len) == 0);
}

const char *content_type(const char *name, const unsigned char *head, size_t len)
{
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && i < ARRAY_SIZE(types); i++)
		if (strcasecmp(dot + 1, types[i].suffix) == 0)
			return has_magic(&types[i].magic, head, len) ? types[i].type : NULL;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (types[i].magic.len >= 4 && has_magic(&types[i].magic, head, len))
			return types[i].type;
	return NULL;
}
