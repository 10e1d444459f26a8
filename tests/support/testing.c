/* testing.c - see testing.h. */
#include "support/testing.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char skip_path[64];
static char directory[256];

void testing_skip(const char *test, const char *reason)
{
	FILE *file = fopen(skip_path, "a");
	if (!file)
		abort();
	fprintf(file, "%s: %s\n", test, reason);
	fclose(file);
}

/* Prints the reasons; returns how many. */
static int report_skips(void)
{
	FILE *file = fopen(skip_path, "r");
	char line[512];
	int count = 0;
	while (file && fgets(line, sizeof line, file)) {
		printf("skipped: %s", line);
		count++;
	}
	if (file)
		fclose(file);
	remove(skip_path);
	return count;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	return remove(path);
}

int testing_run(Suite *suite)
{
	snprintf(skip_path, sizeof skip_path, "/tmp/tarn-skips-%ld", (long)getpid());
	const char *base = getenv("TMPDIR");
	snprintf(directory, sizeof directory, "%s/tarn-test-XXXXXX", base && *base ? base : "/tmp");
	if (!mkdtemp(directory)) {
		fprintf(stderr, "cannot make %s: %s\n", directory, strerror(errno));
		return 1;
	}
	SRunner *runner = srunner_create(suite);
	srunner_run(runner, NULL, getenv("TARN_TEST_ONLY"), CK_ENV);
	int failed = srunner_ntests_failed(runner), run = srunner_ntests_run(runner);
	srunner_free(runner);
	nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	int skipped = report_skips();
	printf("tests: %d passed, %d failed, %d skipped\n", run - failed - skipped, failed, skipped);
	return failed || !run;
}

uint64_t testing_bits(struct testing_random *random)
{
	uint64_t z = random->state += 0x9E3779B97F4A7C15u;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

uint32_t testing_between(struct testing_random *random, uint32_t low, uint32_t high)
{
	return low + (uint32_t)(testing_bits(random) % ((uint64_t)high - low + 1));
}

float testing_float(struct testing_random *random)
{
	return (float)(testing_bits(random) >> 40) * 0x1p-23f - 1.0f;
}

const char *testing_directory(void)
{
	return directory;
}

const char *testing_file(const char *name, const void *data, size_t bytes)
{
	static char paths[8][512];
	static unsigned next;
	char *path = paths[next++ % 8];
	snprintf(path, sizeof paths[0], "%s/%s", directory, name);
	FILE *file = fopen(path, "wb");
	if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file)) {
		fprintf(stderr, "cannot write %s: %s\n", path, strerror(errno));
		abort();
	}
	return path;
}

const char *testing_npy(const char *name, const char *dtype, const char *shape, const void *data, size_t bytes)
{
	unsigned char file[4096] = "\x93NUMPY\x01";
	char header[118 + 1];
	int length =
		snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", dtype, shape);
	memset(header + length, ' ', sizeof header - 1 - (size_t)length);
	header[117] = '\n';
	file[8] = 118;
	memcpy(file + 10, header, 118);
	ck_assert_uint_le(128 + bytes, sizeof file);
	memcpy(file + 128, data, bytes);
	return testing_file(name, file, 128 + bytes);
}
