/*
 * A driver for the fuzz harnesses where clang's libFuzzer is not installed:
 * replays every file of the corpus folders, then mutates them blindly for a given
 * time. Test code only. The seed is fixed, so that a failure repeats; the input
 * under test lies in a file before it is run, so that a crash leaves it behind.
 *
 * driver SECONDS CRASH_FOLDER [CORPUS_FOLDER...]
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MAX = 65536, SEEDS_MAX = 4096 };

struct seed {
	uint8_t *data;
	size_t len;
};

struct seeds {
	struct seed v[SEEDS_MAX];
	size_t n;
};

/* The current input, shared with the crash file so that no write is needed. */
struct window {
	uint64_t len;
	uint8_t data[INPUT_MAX];
};

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int seed_add(struct seeds *s, const char *path)
{
	FILE *f = fopen(path, "re");
	struct seed *seed = &s->v[s->n];

	if (!f)
		return -1;
	seed->data = malloc(INPUT_MAX);
	if (!seed->data) {
		fclose(f);
		return -1;
	}
	seed->len = fread(seed->data, 1, INPUT_MAX, f);
	s->n++;
	return fclose(f);
}

static int seeds_read(struct seeds *s, const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *entry;
	char path[4096];
	struct stat st;

	if (!d)
		return -1;
	while ((entry = readdir(d)) && s->n < SEEDS_MAX) {
		int n = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);

		if (n < 0 || (size_t)n >= sizeof(path) || stat(path, &st) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		if (seed_add(s, path) < 0) {
			closedir(d);
			return -1;
		}
	}
	return closedir(d);
}

static void mutate_once(struct window *w, const struct seeds *s, uint64_t *random)
{
	uint64_t r = next_random(random);
	size_t at = w->len ? r % w->len : 0;
	const struct seed *other = &s->v[(r >> 32) % s->n];
	size_t n;

	switch ((r >> 16) % 6) {
	case 0: /* flip a bit */
		w->data[at] ^= (uint8_t)(1u << (r >> 40) % 8);
		break;
	case 1: /* any byte */
		w->data[at] = (uint8_t)(r >> 40);
		break;
	case 2: /* cut the tail */
		w->len = at;
		break;
	case 3: /* drop a few bytes */
		n = 1 + (r >> 40) % 8;
		if (at + n < w->len) {
			memmove(w->data + at, w->data + at + n, w->len - at - n);
			w->len -= n;
		}
		break;
	case 4: /* double a piece */
		n = (w->len - at) / 2;
		if (n && w->len + n <= INPUT_MAX) {
			memmove(w->data + at + n, w->data + at, w->len - at);
			w->len += n;
		}
		break;
	default: /* the tail of another seed */
		n = other->len > at ? other->len - at : 0;
		memcpy(w->data + at, other->data + (other->len - n), n);
		w->len = at + n;
		break;
	}
}

static void run_one(struct window *w)
{
	/* A copy of the exact size, so that a read past the end is seen. */
	uint8_t *exact = malloc(w->len ? w->len : 1);

	if (!exact)
		exit(2);
	memcpy(exact, w->data, w->len);
	LLVMFuzzerTestOneInput(exact, w->len);
	free(exact);
}

static uint64_t run_all(struct window *w, const struct seeds *s, double seconds)
{
	uint64_t random = 0x9e3779b97f4a7c15u, runs = 0;
	time_t end = time(NULL) + (time_t)seconds;

	for (size_t i = 0; i < s->n; i++, runs++) {
		memcpy(w->data, s->v[i].data, s->v[i].len);
		w->len = s->v[i].len;
		run_one(w);
	}
	while (time(NULL) < end) {
		const struct seed *seed = &s->v[next_random(&random) % s->n];

		memcpy(w->data, seed->data, seed->len);
		w->len = seed->len;
		for (uint64_t n = 1 + next_random(&random) % 8; n; n--)
			mutate_once(w, s, &random);
		run_one(w);
		runs++;
	}
	return runs;
}

static struct window *window_map(const char *folder)
{
	char path[4096];
	int fd, n = snprintf(path, sizeof(path), "%s/current-input", folder);
	struct window *w;

	if (n < 0 || (size_t)n >= sizeof(path))
		return NULL;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*w)) < 0)
		return NULL;
	w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return w == MAP_FAILED ? NULL : w;
}

int main(int argc, char **argv)
{
	static struct seeds seeds;
	struct window *w = argc >= 3 ? window_map(argv[2]) : NULL;
	uint64_t runs;

	if (!w) {
		fprintf(stderr, "usage: driver SECONDS WRITABLE_FOLDER [CORPUS...]\n");
		return 2;
	}
	for (int i = 3; i < argc; i++)
		if (seeds_read(&seeds, argv[i]) < 0) {
			fprintf(stderr, "driver: cannot read corpus %s\n", argv[i]);
			return 2;
		}
	if (!seeds.n) { /* no corpus: start from nothing */
		seeds.v[0].data = calloc(1, 1);
		seeds.n = 1;
	}
	runs = run_all(w, &seeds, strtod(argv[1], NULL));
	printf("ok fuzz driver: %zu seeds, %llu executions\n", seeds.n,
	       (unsigned long long)runs);
	return 0;
}
