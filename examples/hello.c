/* Compiled and run inside one box by build_c.sh. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_length(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;
	size_t n = strlen(*x), m = strlen(*y);

	return n == m ? strcmp(*x, *y) : n < m ? -1 : 1;
}

int main(int argc, char **argv)
{
	printf("hello from C, %d words, sqrt(2) = %.6f\n", argc - 1, sqrt(2.0));
	qsort(argv + 1, (size_t)argc - 1, sizeof(*argv), by_length);
	for (int i = 1; i < argc; i++)
		printf("%zu %s\n", strlen(argv[i]), argv[i]);
	return 0;
}
