/*
 * sleeper.h - a child that sleeps and dies with the test
 *
 * Include behind cmocka.h.
 */
#ifndef TESTS_UNIT_SLEEPER_H
#define TESTS_UNIT_SLEEPER_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

static inline pid_t sleeper(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return pid;
}

#endif
