/*
 * test_egress_tls.c - the name in a ClientHello: of real clients, in any portions, and of
 * clients that lie
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "runtime/egress/tls.h"

#include "hellos.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MESSAGE_AT = 5 };

static void from_hex(struct buf *b, const char *hex)
{
	for (; *hex; hex += 2) {
		unsigned byte;

		assert_int_equal(sscanf(hex, "%2x", &byte), 1);
		buf_char(b, (char)byte);
	}
	assert_false(b->failed);
}

static enum tls_peek peek(struct tls_hello *h, const struct buf *b)
{
	/* A copy of the exact size: the sanitizer sees a read past the end. */
	owned_mem uint8_t *exact = malloc(b->len ? b->len : 1);

	assert_non_null(exact);
	memcpy(exact, buf_text(b), b->len);
	memset(h, 0x55, sizeof(*h));
	return tls_peek(h, exact, b->len);
}

static void expect(const struct buf *b, enum tls_peek want)
{
	struct tls_hello h;

	assert_int_equal(peek(&h, b), want);
}

static void expect_name(const struct buf *b, const char *name, bool has_sni, bool has_ech)
{
	struct tls_hello h;

	assert_int_equal(peek(&h, b), TLS_HELLO);
	assert_string_equal(h.name, name);
	assert_int_equal(h.has_sni, has_sni);
	assert_int_equal(h.has_ech, has_ech);
}

/* --- recorded ------------------------------------------------------------------------------ */

static const struct recorded {
	const char *hex, *name;
	bool has_sni;
} recorded[] = {
	{ HELLO_PYTHON_TLS13, "api.example.org", true },
	{ HELLO_OPENSSL_TLS12, "www.example.org", true },
	{ HELLO_OPENSSL_NO_SNI, "", false },
	{ HELLO_BIG, "big.example.org", true },
};

static void hellos_of_real_clients_have_their_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(recorded); i++) {
		owned(buf_free) struct buf b = BUF_INIT(8192);

		from_hex(&b, recorded[i].hex);
		expect_name(&b, recorded[i].name, recorded[i].has_sni, false);
		buf_str(&b, "what follows is not looked at");
		expect_name(&b, recorded[i].name, recorded[i].has_sni, false);
	}
}

static void every_beginning_of_a_hello_asks_for_more(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(recorded); i++) {
		owned(buf_free) struct buf b = BUF_INIT(8192);
		size_t whole;

		from_hex(&b, recorded[i].hex);
		whole = b.len;
		for (b.len = 0; b.len < whole; b.len++)
			expect(&b, TLS_MORE);
		expect(&b, TLS_HELLO);
	}
}

static void add_record(struct buf *out, unsigned type, const char *p, size_t n)
{
	const char head[] = { (char)type, 3, 1, (char)(n >> 8), (char)n };

	buf_add(out, head, sizeof(head));
	buf_add(out, p, n);
}

/* The message of a hello of one record, in records of at most n bytes. */
static void split(struct buf *out, const struct buf *hello, size_t n)
{
	buf_clear(out);
	for (size_t at = MESSAGE_AT; at < hello->len; at += n)
		add_record(out, 22, hello->data + at,
			   n < hello->len - at ? n : hello->len - at);
	assert_false(out->failed);
}

static void a_hello_in_records_of_any_size_has_the_same_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(recorded); i++) {
		owned(buf_free) struct buf hello = BUF_INIT(8192), b = BUF_INIT(65536);

		from_hex(&hello, recorded[i].hex);
		for (size_t n = 1; n < hello.len; n++) {
			split(&b, &hello, n);
			expect_name(&b, recorded[i].name, recorded[i].has_sni, false);
		}
	}
}

static void a_hello_of_2_kib_in_records_of_a_byte_asks_for_more_until_its_end(void **state)
{
	owned(buf_free) struct buf hello = BUF_INIT(8192), b = BUF_INIT(65536);
	size_t whole;

	(void)state;
	from_hex(&hello, HELLO_BIG);
	assert_true(hello.len >= 2048);
	split(&b, &hello, 1);
	whole = b.len;
	assert_int_equal(whole, (hello.len - MESSAGE_AT) * 6);
	for (b.len = 0; b.len < whole; b.len++)
		expect(&b, TLS_MORE);
	expect_name(&b, "big.example.org", true, false);
}

static void a_record_of_another_type_within_a_hello_is_malformed(void **state)
{
	static const unsigned types[] = { 20, 21, 23, 24, 0, 255 };
	owned(buf_free) struct buf hello = BUF_INIT(8192), b = BUF_INIT(65536);

	(void)state;
	from_hex(&hello, HELLO_PYTHON_TLS13);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		buf_clear(&b);
		add_record(&b, 22, hello.data + MESSAGE_AT, 100);
		expect(&b, TLS_MORE);
		add_record(&b, types[i], "\1\0", 2);
		add_record(&b, 22, hello.data + MESSAGE_AT + 100, hello.len - MESSAGE_AT - 100);
		expect(&b, TLS_BAD);
		b.len = 5 + 100 + 1; /* as soon as its type is there */
		expect(&b, TLS_BAD);
	}
}

static void a_message_behind_the_hello_in_its_record_is_malformed(void **state)
{
	owned(buf_free) struct buf hello = BUF_INIT(8192), b = BUF_INIT(8192);

	(void)state;
	from_hex(&hello, HELLO_PYTHON_TLS13);
	from_hex(&hello, &HELLO_PYTHON_TLS13[(size_t)2 * MESSAGE_AT]); /* a second hello */
	add_record(&b, 22, hello.data + MESSAGE_AT, hello.len - MESSAGE_AT);
	expect(&b, TLS_BAD);
	b.len = 9; /* the two lengths are enough */
	expect(&b, TLS_BAD);
}

/* --- what is no TLS -------------------------------------------------------------------------- */

static void what_is_no_tls_is_known_by_its_first_bytes(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} rows[] = {
		{ "G", 1 }, { "GET / HTTP/1.1\r\n\r\n", 18 }, { "SSH-2.0-x\r\n", 11 },
		{ "\x80", 1 }, { "\x80\x2e\x01\x03\x01\x00\x15", 7 },	/* SSLv2's hello */
		{ "\0", 1 }, { "\n", 1 }, { "\xff\xff\xff", 3 },
		{ "\x16\x02", 2 }, { "\x16\x03\x05", 3 }, { "\x16\xfe\xfd", 3 }, /* DTLS */
		{ "\x15\x03\x01\x00\x02\x01\x00", 7 },			/* an alert */
		{ "\x17\x03\x03\x00\x20", 5 },				/* data */
		{ "\x16\x03\x01\x00\x04\x02", 6 },			/* a ServerHello */
		{ "\x16\x03\x01\x00\x01\x00", 6 },			/* a HelloRequest */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		owned(buf_free) struct buf b = BUF_INIT(64);

		buf_add(&b, rows[i].bytes, rows[i].len);
		expect(&b, TLS_NOT);
	}
}

/* --- made ---------------------------------------------------------------------------------------- */

struct made {
	unsigned version, session, ciphers, compression;
	const char *extensions;
	size_t extensions_len;
	bool without;	/* no extensions at all */
	int lie;	/* added to the length of the extensions */
};

static void put16(struct buf *b, size_t n)
{
	buf_char(b, (char)(n >> 8));
	buf_char(b, (char)n);
}

static void put_zeros(struct buf *b, size_t n)
{
	while (n--)
		buf_char(b, 0);
}

static void make(struct buf *out, const struct made *m)
{
	owned(buf_free) struct buf b = BUF_INIT(65536);
	size_t n;

	put_zeros(&b, 4);
	put16(&b, m->version);
	put_zeros(&b, 32);
	buf_char(&b, (char)m->session);
	put_zeros(&b, m->session);
	put16(&b, m->ciphers);
	put_zeros(&b, m->ciphers);
	buf_char(&b, (char)m->compression);
	put_zeros(&b, m->compression);
	if (!m->without) {
		put16(&b, m->extensions_len + (size_t)m->lie);
		buf_add(&b, m->extensions, m->extensions_len);
	}
	n = b.len - 4;
	b.data[0] = 1;
	b.data[1] = (char)(n >> 16);
	b.data[2] = (char)(n >> 8);
	b.data[3] = (char)n;
	buf_clear(out);
	for (size_t at = 0; at < b.len; at += 16384)
		add_record(out, 22, b.data + at, b.len - at < 16384 ? b.len - at : 16384);
	assert_false(b.failed || out->failed);
}

static const struct made sound = { 0x303, 32, 4, 1, "", 0, false, 0 };

static void the_frame_of_a_hello_has_its_lengths_checked(void **state)
{
	static const struct {
		struct made made;
		enum tls_peek want;
	} rows[] = {
		{ { 0x303, 32, 4, 1, "", 0, false, 0 }, TLS_HELLO },
		{ { 0x301, 0, 2, 1, NULL, 0, true, 0 }, TLS_HELLO }, /* of before extensions */
		{ { 0x303, 32, 4, 1, "\0\x17\0\0", 4, false, 0 }, TLS_HELLO },
		{ { 0x203, 32, 4, 1, "", 0, false, 0 }, TLS_BAD },
		{ { 0x303, 33, 4, 1, "", 0, false, 0 }, TLS_BAD },
		{ { 0x303, 32, 0, 1, "", 0, false, 0 }, TLS_BAD },
		{ { 0x303, 32, 3, 1, "", 0, false, 0 }, TLS_BAD },
		{ { 0x303, 32, 4, 0, "", 0, false, 0 }, TLS_BAD },
		{ { 0x303, 32, 4, 1, "\0\x17\0\0", 4, false, 1 }, TLS_BAD },
		{ { 0x303, 32, 4, 1, "\0\x17\0\0", 4, false, -1 }, TLS_BAD },
		{ { 0x303, 32, 4, 1, "\0\x17\0\1", 4, false, 0 }, TLS_BAD },
		{ { 0x303, 32, 4, 1, "\0\x17\0", 3, false, 0 }, TLS_BAD },
		{ { 0x303, 32, 4, 1, "\0", 1, false, 0 }, TLS_BAD },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		owned(buf_free) struct buf b = BUF_INIT(8192);

		make(&b, &rows[i].made);
		expect(&b, rows[i].want);
	}
}

static void lengths_of_records_and_messages_are_checked(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} rows[] = {
		{ "\x16\x03\x01\x00\x00", 5 },		/* a record without a byte */
		{ "\x16\x03\x01\x40\x01", 5 },		/* one of more than 16 KiB */
		{ "\x16\x03\x01\x40\x00\x01\x00\x3f\xfd", 9 }, /* a message of more */
		{ "\x16\x03\x01\x00\x04\x01\xff\xff\xff", 9 },
		{ "\x16\x03\x01\x00\x04\x01\x00\x00\x00", 9 }, /* one of nothing */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		owned(buf_free) struct buf b = BUF_INIT(64);

		buf_add(&b, rows[i].bytes, rows[i].len);
		expect(&b, TLS_BAD);
		b.len--;
		expect(&b, TLS_MORE);
	}
}

static void a_hello_of_16_kib_is_read_and_a_longer_way_there_is_refused(void **state)
{
	owned(buf_free) struct buf b = BUF_INIT(1 << 20), hello = BUF_INIT(1 << 20);
	static char padding[16384] = { 0, 21 };
	size_t frame = 4 + 2 + 32 + 1 + 32 + 2 + 4 + 1 + 1 + 2;
	struct made m = sound;

	(void)state;
	m.extensions = padding;
	m.extensions_len = 16384 - frame;
	padding[2] = (char)((m.extensions_len - 4) >> 8);
	padding[3] = (char)(m.extensions_len - 4);
	make(&hello, &m);
	assert_int_equal(hello.len, 5 + 16384);
	expect(&hello, TLS_HELLO);
	split(&b, &hello, 4096);
	assert_int_equal(b.len, TLS_HELLO_MAX);
	expect(&b, TLS_HELLO);
	split(&b, &hello, 1024);
	expect(&b, TLS_BAD);
	b.len = TLS_HELLO_MAX;
	expect(&b, TLS_BAD);
	b.len--;
	expect(&b, TLS_MORE);
}

/* An extension 0 of one list: lengths follow from the entries. */
static void put_sni(struct buf *b, const char *entries, size_t n)
{
	put16(b, 0);
	put16(b, n + 2);
	put16(b, n);
	buf_add(b, entries, n);
}

static void put_entry(struct buf *b, unsigned type, const char *name, size_t n)
{
	buf_char(b, (char)type);
	put16(b, n);
	buf_add(b, name, n);
}

static void make_sni(struct buf *out, const struct buf *extensions)
{
	struct made m = sound;

	m.extensions = buf_text(extensions);
	m.extensions_len = extensions->len;
	make(out, &m);
}

static void expect_sni(const char *name, size_t n, const char *want)
{
	owned(buf_free) struct buf entry = BUF_INIT(1024), e = BUF_INIT(1024), b = BUF_INIT(8192);

	put_entry(&entry, 0, name, n);
	put_sni(&e, buf_text(&entry), entry.len);
	make_sni(&b, &e);
	expect_name(&b, want, true, false);
}

static void names_have_one_form_or_none(void **state)
{
	static const char nul[] = "evil.test\0.example.org";

	(void)state;
	expect_sni("API.Example.Org", 15, "api.example.org");
	expect_sni("api.example.org.", 16, "api.example.org");
	expect_sni("192.0.2.1", 9, "");
	expect_sni("0x7f.1", 6, "");
	expect_sni(nul, sizeof(nul) - 1, "");
	expect_sni("api.example.org\0", 16, "");
	expect_sni("user@example.org", 16, "");
	expect_sni("b\xc3\xbc" "cher.example", 14, "");
	expect_sni("a..b", 4, "");
	expect_sni(".", 1, "");
	expect_sni("example.org:443", 15, "");
}

static void two_names_are_malformed(void **state)
{
	owned(buf_free) struct buf entries = BUF_INIT(1024), e = BUF_INIT(1024), b = BUF_INIT(8192);

	(void)state;
	put_entry(&entries, 0, "a.test", 6);
	put_sni(&e, buf_text(&entries), entries.len);
	make_sni(&b, &e);
	expect_name(&b, "a.test", true, false);
	put_sni(&e, buf_text(&entries), entries.len); /* two extensions */
	make_sni(&b, &e);
	expect(&b, TLS_BAD);
	put_entry(&entries, 0, "b.test", 6); /* two entries of one */
	buf_clear(&e);
	put_sni(&e, buf_text(&entries), entries.len);
	make_sni(&b, &e);
	expect(&b, TLS_BAD);
	buf_clear(&entries);
	put_entry(&entries, 0, "a.test", 6);
	put_entry(&entries, 1, "b.test", 6); /* of a type that is not known */
	buf_clear(&e);
	put_sni(&e, buf_text(&entries), entries.len);
	make_sni(&b, &e);
	expect(&b, TLS_BAD);
}

static void a_list_of_names_has_its_lengths_checked(void **state)
{
	static const struct {
		const char *ext;
		size_t len;
	} rows[] = {
		{ "\0\0\0\0", 4 },			/* empty, as only a server may send it */
		{ "\0\0\0\2\0\0", 6 },			/* a list of nothing */
		{ "\0\0\0\5\0\3\0\0\0", 9 },		/* a name of nothing */
		{ "\0\0\0\6\0\4\1\0\1a", 10 },		/* of another type alone */
		{ "\0\0\0\6\0\4\0\0\2a", 10 },		/* a name that is longer than the list */
		{ "\0\0\0\7\0\5\0\0\1ab", 11 },		/* and one that is shorter */
		{ "\0\0\0\6\0\5\0\0\1a", 10 },		/* a list that is longer than its place */
		{ "\0\0\0\7\0\4\0\0\1ab", 11 },		/* and one that is shorter */
		{ "\0\0\0\1\0", 5 },
	};
	owned(buf_free) struct buf e = BUF_INIT(64), b = BUF_INIT(8192);

	(void)state;
	buf_add(&e, "\0\0\0\6\0\4\0\0\1a", 10);
	make_sni(&b, &e);
	expect_name(&b, "a", true, false);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		buf_clear(&e);
		buf_add(&e, rows[i].ext, rows[i].len);
		make_sni(&b, &e);
		expect(&b, TLS_BAD);
	}
}

static void an_encrypted_hello_inside_is_noticed(void **state)
{
	owned(buf_free) struct buf e = BUF_INIT(64), b = BUF_INIT(8192);

	(void)state;
	buf_add(&e, "\0\0\0\6\0\4\0\0\1a" "\xfe\x0d\0\4\0\0\1\0", 18);
	make_sni(&b, &e);
	expect_name(&b, "a", true, true);
	buf_clear(&e);
	buf_add(&e, "\xfe\x0d\0\0", 4);
	make_sni(&b, &e);
	expect_name(&b, "", false, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hellos_of_real_clients_have_their_names),
		cmocka_unit_test(every_beginning_of_a_hello_asks_for_more),
		cmocka_unit_test(a_hello_in_records_of_any_size_has_the_same_name),
		cmocka_unit_test(a_hello_of_2_kib_in_records_of_a_byte_asks_for_more_until_its_end),
		cmocka_unit_test(a_record_of_another_type_within_a_hello_is_malformed),
		cmocka_unit_test(a_message_behind_the_hello_in_its_record_is_malformed),
		cmocka_unit_test(what_is_no_tls_is_known_by_its_first_bytes),
		cmocka_unit_test(the_frame_of_a_hello_has_its_lengths_checked),
		cmocka_unit_test(lengths_of_records_and_messages_are_checked),
		cmocka_unit_test(a_hello_of_16_kib_is_read_and_a_longer_way_there_is_refused),
		cmocka_unit_test(names_have_one_form_or_none),
		cmocka_unit_test(two_names_are_malformed),
		cmocka_unit_test(a_list_of_names_has_its_lengths_checked),
		cmocka_unit_test(an_encrypted_hello_inside_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
