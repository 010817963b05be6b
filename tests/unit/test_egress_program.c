/*
 * test_egress_program.c - nsbox-egress by its wire: what it takes, what it answers, how it ends
 */
#include "tests/unit/program_box.h"

/* --- wrong words ------------------------------------------------------------------------------- */

static void play_no_config(void)
{
	start();
	tell_it(EGRESS_REPORT, 0, NULL, 0);
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void play_no_block(void)
{
	start();
	tell_it(EGRESS_CONFIG, 0, NULL, 0);
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void play_unsealed_block(void)
{
	int fd = memfd_create("block", MFD_CLOEXEC);

	start();
	if (ftruncate(fd, 1 << 16) < 0)
		_exit(156);
	tell_it(EGRESS_CONFIG, 0, &fd, 1);
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void play_zero_block(void)
{
	static char zeros[1 << 16];
	int fd = fd_sealed("block", zeros, sizeof(zeros));

	start();
	tell_it(EGRESS_CONFIG, 0, &fd, 1);
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void after_config(uint16_t type, uint16_t bits, const int *fds, size_t count)
{
	start();
	configure(&plain, RULES(QUAD4));
	tell_it(type, bits, fds, count);
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void play_rules_before_sockets(void)
{
	start();
	configure(&plain, RULES(QUAD4));
	configure(&plain, RULES(QUAD4));
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void play_half_an_inlet(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	after_config(EGRESS_INLET, 1 << INLET_GATE, &fd, 1);
}

static void play_fewer_than_said(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	after_config(EGRESS_INLET, 1 << INLET_DNS_UDP | 1 << INLET_DNS_TCP, &fd, 1);
}

static void play_unknown_type(void) { after_config(99, 0, NULL, 0); }
static void play_its_own_type(void) { after_config(EGRESS_READY, 0, NULL, 0); }
static void play_pool_for_nothing(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	after_config(EGRESS_POOL, 0, &fd, 1);
}

static void a_wrong_word_ends_it(void **state)
{
	static const struct { const char *name; void (*play)(void); long says, code; } rows[] = {
		{ "no configuration first", play_no_config, 0, 2 },
		{ "a configuration without a file", play_no_block, EGRESS_FAIL, 1 },
		{ "a file that can change", play_unsealed_block, EGRESS_FAIL, 1 },
		{ "a file of zeros", play_zero_block, EGRESS_FAIL, 1 },
		{ "rules again, before sockets", play_rules_before_sockets, EGRESS_FAIL, 1 },
		{ "a part of an inlet", play_half_an_inlet, EGRESS_FAIL, 1 },
		{ "fewer sockets than it was said", play_fewer_than_said, EGRESS_FAIL, 1 },
		{ "a type that is none", play_unknown_type, EGRESS_FAIL, 1 },
		{ "a type of its own", play_its_own_type, EGRESS_FAIL, 1 },
		{ "a pool without a port", play_pool_for_nothing, EGRESS_FAIL, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		print_message("%s\n", rows[i].name);
		scene(rows[i].play);
		expect("it says", rows[i].says);
		expect("and ends with", rows[i].code);
	}
}

static void play_packet_of_another_size(void)
{
	struct { struct egress_msg head; char more; } m = {
		.head = { .magic = EGRESS_MAGIC, .type = EGRESS_REPORT } };

	start();
	configure(&plain, RULES(QUAD4));
	tell_it(EGRESS_INLET, 0, NULL, 0);
	note("ready", hear_it());
	send(control, &m, sizeof(m.head) + 1, 0);
	note("it says", hear_it());
	note("and ends with", end_of_program());
}

static void a_packet_of_another_size_ends_it(void **state)
{
	(void)state;
	scene(play_packet_of_another_size);
	expect("ready", EGRESS_READY);
	expect("it says", 0);
	expect("and ends with", 0);
}

/* --- its life ------------------------------------------------------------------------------------ */

static void play_launcher_gone(void)
{
	start();
	configure(&plain, RULES(QUAD4));
	tell_it(EGRESS_INLET, 0, NULL, 0);
	note("ready", hear_it());
	close(control);
	note("ends with", end_of_program());
}

static void it_ends_with_its_launcher(void **state)
{
	(void)state;
	scene(play_launcher_gone);
	expect("ready", EGRESS_READY);
	expect("ends with", 0);
}

static void play_report_of_nothing(void)
{
	start();
	configure(&plain, RULES(QUAD4));
	tell_it(EGRESS_INLET, 0, NULL, 0);
	note("ready", hear_it());
	tell_it(EGRESS_REPORT, 0, NULL, 0);
	note("report", hear_it());
	note("of", (long)heard.head.size);
	note("then", hear_it());
	note("ends with", end_of_program());
}

static void it_reports_and_ends(void **state)
{
	(void)state;
	scene(play_report_of_nothing);
	expect("ready", EGRESS_READY);
	expect("report", EGRESS_TOTAL);
	expect("of", sizeof(struct egress_totals));
	expect("then", 0);
	expect("ends with", 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrong_word_ends_it),
		cmocka_unit_test(a_packet_of_another_size_ends_it),
		cmocka_unit_test(it_ends_with_its_launcher),
		cmocka_unit_test(it_reports_and_ends),
	};

	return run_inlet_tests(tests, ARRAY_SIZE(tests));
}
