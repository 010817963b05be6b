/* SPDX-License-Identifier: Apache-2.0 */
/* See top.h: the table and the JSON. Runs in the command. */
#include <inttypes.h>
#include <string.h>
#include <wchar.h>

#include "tools/nsbox/say.h"
#include "tools/nsbox/top.h"

enum { CELL = 128, NAME_LEAST = 8, NAME_MOST = 32, REST = 64 /* columns beside the name */ };

static const char *state_name(const struct nsbox_box_info *info)
{
	return info->state == NSBOX_BOX_RUNNING	   ? "running"
	       : info->state == NSBOX_BOX_FINISHED ? "finished"
						   : "lost";
}

/* --- cells ------------------------------------------------------------------ */

static void put_id(char *to, const struct top_box *b)
{
	snprintf(to, CELL, "%s", b->info.id);
}

static void put_name(char *to, const struct top_box *b)
{
	snprintf(to, CELL, "%s", b->info.name);
}

/* "12ms" "3.5s" "59s" "12m" "3h05m" "12d" */
static void put_age(char *to, const struct top_box *b)
{
	uint64_t ms = b->info.age_us / 1000, s = ms / 1000;

	if (b->info.age_us == NSBOX_UNKNOWN)
		snprintf(to, CELL, "-");
	else if (ms < 1000)
		snprintf(to, CELL, "%" PRIu64 "ms", ms);
	else if (s < 10)
		snprintf(to, CELL, "%" PRIu64 ".%" PRIu64 "s", s, ms / 100 % 10);
	else if (s < 100)
		snprintf(to, CELL, "%" PRIu64 "s", s);
	else if (s < 6000)
		snprintf(to, CELL, "%" PRIu64 "m", s / 60);
	else if (s < 86400)
		snprintf(to, CELL, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s / 60 % 60);
	else
		snprintf(to, CELL, "%" PRIu64 "d", s / 86400);
}

static void put_cpu(char *to, const struct top_box *b)
{
	if (b->cpu_milli == NSBOX_UNKNOWN)
		snprintf(to, CELL, "-");
	else
		snprintf(to, CELL, "%" PRIu64 "%%", (b->cpu_milli + 5) / 10);
}

/* "512M": at most five characters, rounded down. */
static void size_text(char *to, size_t room, uint64_t bytes)
{
	static const char units[] = "BKMGTPE";
	size_t unit = 0;

	while (bytes >> (10 * unit) >= 1024)
		unit++;
	snprintf(to, room, "%" PRIu64 "%c", bytes >> (10 * unit), units[unit]);
}

static void put_memory(char *to, const struct top_box *b)
{
	char now[16] = "-", limit[16] = "-";

	if (b->info.memory_bytes != NSBOX_UNKNOWN)
		size_text(now, sizeof(now), b->info.memory_bytes);
	if (b->info.memory_limit)
		size_text(limit, sizeof(limit), b->info.memory_limit);
	snprintf(to, CELL, "%s/%s", now, limit);
}

static void put_pids(char *to, const struct top_box *b)
{
	char now[24] = "-", limit[24] = "-";

	if (b->info.pids != NSBOX_UNKNOWN)
		snprintf(now, sizeof(now), "%" PRIu64, b->info.pids);
	if (b->info.pids_limit)
		snprintf(limit, sizeof(limit), "%" PRIu64, b->info.pids_limit);
	snprintf(to, CELL, "%s/%s", now, limit);
}

static void put_state(char *to, const struct top_box *b)
{
	const struct nsbox_box_info *info = &b->info;

	if (info->state != NSBOX_BOX_FINISHED)
		snprintf(to, CELL, "%s", state_name(info));
	else if (info->verdict == NSBOX_EXITED)
		snprintf(to, CELL, "%s %d", info->verdict_name, info->exit_code);
	else if (info->verdict == NSBOX_SIGNALED)
		snprintf(to, CELL, "%s %d", info->verdict_name, info->signal);
	else
		snprintf(to, CELL, "%s", info->verdict_name);
}

static const struct column {
	const char *title;
	size_t width;		/* 0: what the name gets; the last one has no bound */
	bool is_right;
	void (*put)(char *to, const struct top_box *b);
} columns[] = {
	{ "ID", 12, false, put_id },	     { "NAME", 0, false, put_name },
	{ "AGE", 6, true, put_age },	     { "CPU", 5, true, put_cpu },
	{ "MEM/LIMIT", 11, true, put_memory }, { "PIDS/LIMIT", 10, true, put_pids },
	{ "STATE", 0, false, put_state },
};

/* --- lines ------------------------------------------------------------------ */

/* Columns that the character at @s takes (@n bytes, UTF-8). */
static size_t width_of(const char *s, size_t n)
{
	static const unsigned char lead[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	wchar_t c = (unsigned char)s[0] & lead[n];
	int width;

	for (size_t i = 1; i < n; i++)
		c = c << 6 | (s[i] & 0x3f);
	width = wcwidth(c);
	return width < 0 ? 1 : (size_t)width;
}

struct line {
	FILE *out;
	size_t at, max;		/* columns; max 0: no bound */
};

static void put_spaces(struct line *l, size_t n)
{
	for (; n > 0 && (!l->max || l->at < l->max); n--, l->at++)
		putc(' ', l->out);
}

static size_t text_width(const char *text)
{
	size_t width = 0, n;

	for (; *text; text += n) {
		n = say_character(text);
		width += n ? width_of(text, n) : 1;
		n = n ? n : 1;
	}
	return width;
}

/* At most @most columns of the text; how many it took. */
static size_t put_text(struct line *l, const char *text, size_t most)
{
	size_t used = 0, n;

	for (; *text; text += n) {
		size_t width;

		n = say_character(text);
		width = n ? width_of(text, n) : 1;
		if (used + width > most || (l->max && l->at + width > l->max))
			break;
		if (n)
			fwrite(text, 1, n, l->out);
		else
			putc('?', l->out);
		l->at += width;
		used += width;
		n = n ? n : 1;
	}
	return used;
}

static void put_cell(struct line *l, const char *text, size_t width, bool is_right)
{
	size_t wanted = text_width(text), used;

	if (is_right && wanted < width)
		put_spaces(l, width - wanted);
	used = put_text(l, text, width > wanted || is_right ? wanted : width);
	if (!is_right && used < width)
		put_spaces(l, width - used);
}

static size_t name_width(const struct top_screen *s)
{
	size_t width = s->cols > REST ? s->cols - REST : NAME_LEAST;

	if (!s->cols || width > NAME_MOST)
		return NAME_MOST;
	return width < NAME_LEAST ? NAME_LEAST : width;
}

/* @b NULL: the titles. */
static void put_row(FILE *out, const struct top_box *b, const struct top_screen *s)
{
	struct line l = { .out = out, .max = s->cols };

	for (size_t i = 0; i < CLI_COUNT(columns); i++) {
		const struct column *c = &columns[i];
		bool is_last = i + 1 == CLI_COUNT(columns);
		char cell[CELL];

		if (b)
			c->put(cell, b);
		else
			snprintf(cell, sizeof(cell), "%s", c->title);
		if (is_last)
			put_text(&l, cell, CELL);
		else
			put_cell(&l, cell, c->width ? c->width : name_width(s), c->is_right);
		if (!is_last)
			put_spaces(&l, 1);
	}
}

static void put_line(FILE *out, const char *text, const struct top_screen *s)
{
	struct line l = { .out = out, .max = s->cols };

	put_text(&l, text, CELL);
	fputs(s->line_end, out);
}

void top_table(FILE *out, const struct top_list *l, const struct top_screen *s)
{
	size_t room = s->rows > 3 ? s->rows - 3 : 1; /* summary, titles, where the cursor stays */
	size_t shown = !s->rows || l->n <= room ? l->n : room - 1;
	char text[CELL];

	snprintf(text, sizeof(text), "nsbox top: %zu running, %zu ended", l->running, l->ended);
	put_line(out, text, s);
	fputs(s->head_begin, out);
	put_row(out, NULL, s);
	fputs(s->head_end, out);
	fputs(s->line_end, out);
	for (size_t i = 0; i < shown; i++) {
		put_row(out, &l->v[i], s);
		fputs(s->line_end, out);
	}
	if (shown == l->n)
		return;
	snprintf(text, sizeof(text), "... %zu more", l->n - shown);
	put_line(out, text, s);
}

/* --- JSON ------------------------------------------------------------------- */

static void put_ms(FILE *out, const char *key, uint64_t us)
{
	if (us == NSBOX_UNKNOWN)
		fprintf(out, ",\"%s\":null", key);
	else
		fprintf(out, ",\"%s\":%" PRIu64 ".%03u", key, us / 1000, (unsigned)(us % 1000));
}

/* @none is printed as null: NSBOX_UNKNOWN of a figure, 0 of a limit. */
static void put_number(FILE *out, const char *key, uint64_t value, uint64_t none)
{
	if (value == none)
		fprintf(out, ",\"%s\":null", key);
	else
		fprintf(out, ",\"%s\":%" PRIu64, key, value);
}

static void put_share(FILE *out, const char *key, uint64_t milli, uint64_t none)
{
	if (milli == none)
		fprintf(out, ",\"%s\":null", key);
	else
		fprintf(out, ",\"%s\":%" PRIu64 ".%03u", key, milli / 1000, (unsigned)(milli % 1000));
}

static void put_end(FILE *out, const struct nsbox_box_info *info)
{
	bool has_ended = info->state == NSBOX_BOX_FINISHED;

	if (!has_ended) {
		fputs(",\"verdict\":null,\"exit_code\":null,\"signal\":null", out);
		return;
	}
	fputs(",\"verdict\":", out);
	json_text(out, info->verdict_name);
	if (info->verdict == NSBOX_EXITED)
		fprintf(out, ",\"exit_code\":%d", info->exit_code);
	else
		fputs(",\"exit_code\":null", out);
	if (info->signal)
		fprintf(out, ",\"signal\":%d", info->signal);
	else
		fputs(",\"signal\":null", out);
}

static void put_box(FILE *out, const struct top_box *b)
{
	const struct nsbox_box_info *info = &b->info;

	fputs("{\"id\":", out);
	json_text(out, info->id);
	fputs(",\"name\":", out);
	json_text(out, info->name);
	fprintf(out, ",\"state\":\"%s\",\"launcher_pid\":%d", state_name(info), info->launcher_pid);
	put_ms(out, "started_ms", info->started_us);
	put_ms(out, "age_ms", info->age_us);
	put_share(out, "cpu", b->cpu_milli, NSBOX_UNKNOWN);
	put_ms(out, "cpu_ms", info->cpu_us);
	put_number(out, "memory_bytes", info->memory_bytes, NSBOX_UNKNOWN);
	put_number(out, "memory_limit_bytes", info->memory_limit, 0);
	put_number(out, "pids", info->pids, NSBOX_UNKNOWN);
	put_number(out, "pids_limit", info->pids_limit, 0);
	put_share(out, "cpus_limit", info->cpus_milli, 0);
	put_ms(out, "timeout_ms", info->timeout_us ? info->timeout_us : NSBOX_UNKNOWN);
	put_end(out, info);
	putc('}', out);
}

void top_json(FILE *out, const struct top_list *l)
{
	fprintf(out, "{\"schema\":\"nsbox.top/1\",\"running\":%zu,\"ended\":%zu,\"boxes\":[",
		l->running, l->ended);
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			putc(',', out);
		put_box(out, &l->v[i]);
	}
	fputs("]}\n", out);
}
