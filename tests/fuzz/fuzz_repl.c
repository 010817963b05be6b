/*
 * What comes out of a kernel's box. Whatever it writes to its channel and prints: each
 * event is one JSON object whose id is that of the request in hand, a request ends once,
 * output is never more than its bound. libFuzzer entry point; seeds: corpus/repl.
 *
 * Input: bits of a byte say what the next piece is (its low 2 bits: channel, stdout,
 * stderr, a frame with a right length), its high 6 bits how many bytes.
 */
#include "tests/unit/repl_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

struct seen {
	uint64_t id;		/* of the request in hand */
	size_t printed[2];	/* bytes of text, as JSON writes it */
};

static bool is(struct jscan v, const char *text)
{
	return repl_is_text(v, text);
}

static void look_at(struct seen *s, const struct repl_event *e)
{
	struct jscan v, kind, text;
	uint64_t id = 0;

	require(!e->text.failed);
	require(jscan_check(&v, buf_text(&e->text), e->text.len, NULL) == 0);
	require(jscan_kind(v) == JSCAN_OBJECT);
	kind = repl_member(v, "event");
	require(jscan_kind(kind) == JSCAN_STRING);
	require(!is(kind, "ready") && !is(kind, "dead"));
	require(jscan_uint(repl_member(v, "id"), REPL_ID_MAX, &id) && id == s->id);
	for (int i = 0; i < 2; i++)
		if (is(kind, i ? "stderr" : "stdout")) {
			text = repl_member(v, "text");
			require(jscan_kind(text) == JSCAN_STRING);
			s->printed[i] += text.len - 2;
			require(s->printed[i] <= 6 * 103); /* \u00XX of each, and a held begin */
		}
	if (is(kind, "done")) {
		require(*repl_member(v, "restarted").p == 'f');
		s->id++;
		s->printed[0] = s->printed[1] = 0;
	}
}

static void take_events(struct repl_rig *r, struct seen *s)
{
	struct repl_event *e;

	while ((e = rig_event(r)) != NULL) {
		look_at(s, e);
		repl_event_free(e);
	}
	if (!r->k.current)
		rig_request(r, s->id);
}

/* The pieces of the input; false: the kernel is over. */
static bool feed(struct repl_rig *r, struct seen *s, const uint8_t *p, size_t n, unsigned where)
{
	const int to[] = { r->driver, r->out, r->err, r->driver };
	char head[4];
	int got;

	repl_wire_head(head, n);
	if (where == 3 && write(r->driver, head, 4) != 4)
		return false;
	if (n && write(to[where], p, n) != (ssize_t)n)
		return false;
	while ((got = repl_wire_read(&r->k)) == 1) {
		if (repl_frame_take(&r->k, NULL) < 0)
			return false;
		take_events(r, s);
	}
	return got == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen seen = { .id = 1 };
	struct repl_rig rig;

	require(rig_open(&rig));
	rig.k.is_shell = size % 2 == 1; /* what it says is taken apart further */
	rig_request(&rig, seen.id);
	while (size > 0) {
		unsigned where = *data & 3;
		size_t n = (size_t)(*data >> 2) * 4;

		data++;
		size--;
		n = n < size ? n : size;
		if (!feed(&rig, &seen, data, n, where))
			break;
		data += n;
		size -= n;
	}
	take_events(&rig, &seen);
	rig_close(&rig);
	return 0;
}
