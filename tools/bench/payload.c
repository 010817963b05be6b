/*
 * Payloads for the memory rows.
 *   payload pause          sleep until killed
 *   payload flood BYTES    write that many bytes to stdout, 64 KiB at a time
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char block[65536];

static int flood(unsigned long long left)
{
	memset(block, 'x', sizeof(block));
	while (left) {
		size_t want = left < sizeof(block) ? (size_t)left : sizeof(block);
		ssize_t n = write(STDOUT_FILENO, block, want);

		if (n <= 0)
			return 1;
		left -= (unsigned long long)n;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "flood"))
		return flood(strtoull(argv[2], NULL, 10));
	for (;;)
		pause();
}
