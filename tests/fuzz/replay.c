/*
 * replay.c - a main for fuzz targets without libFuzzer: every seed file as it is, then mutants of it that depend on the
 * seed's number and theirs alone. Ends with 0 when nothing aborts.
 *
 *   replay_TARGET MUTANTS FILE...
 *
 * Before each run the input is in replay.input of the current folder, so that it is there after a crash.
 */
#include "support/testing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t read_whole(const char *path, uint8_t *data)
{
	FILE *file = fopen(path, "rb");
	if (!file) {
		perror(path);
		exit(1);
	}
	size_t bytes = fread(data, 1, MOST_BYTES, file);
	fclose(file);
	return bytes;
}

/* A few changes: a bit, a byte, a digit, a cut, a piece moved. */
static size_t mutate(struct testing_random *random, uint8_t *data, size_t bytes)
{
	static const char likely[] = "0123456789-.,:{}[]\"\n\xFF\x80\x7F";
	for (uint32_t changes = testing_between(random, 1, 6); changes && bytes; changes--) {
		uint32_t last = (uint32_t)bytes - 1, at = testing_between(random, 0, last);
		uint32_t from = testing_between(random, 0, last), length = testing_between(random, 1, 32);
		switch (testing_between(random, 0, 5)) {
		case 0:
			data[at] = (uint8_t)(data[at] ^ 1u << testing_between(random, 0, 7));
			break;
		case 1:
			data[at] = (uint8_t)testing_between(random, 0, 255);
			break;
		case 2:
		case 3:
			data[at] = (uint8_t)likely[testing_between(random, 0, sizeof likely - 1)];
			break;
		case 4:
			if (from + length <= bytes && at + length <= bytes)
				memmove(data + at, data + from, length);
			break;
		default:
			if (!testing_between(random, 0, 3))
				bytes = at;
		}
	}
	return bytes;
}

/* Exactly as long as the input, so that a sanitizer sees every byte that is read beyond it. */
static void try(int kept, const uint8_t *data, size_t bytes)
{
	uint8_t *copy = malloc(bytes ? bytes : 1);
	if (!copy || pwrite(kept, data, bytes, 0) != (ssize_t)bytes || ftruncate(kept, (off_t)bytes))
		exit(1);
	memcpy(copy, data, bytes);
	LLVMFuzzerTestOneInput(copy, bytes);
	free(copy);
}

int main(int argc, char **argv)
{
	static uint8_t seed[MOST_BYTES], mutant[MOST_BYTES];
	unsigned long mutants = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	int kept = open("replay.input", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (int i = 2; i < argc; i++) {
		size_t bytes = read_whole(argv[i], seed);
		try(kept, seed, bytes);
		for (unsigned long k = 0; k < mutants; k++) {
			struct testing_random random = { (uint64_t)i << 32 | k };
			memcpy(mutant, seed, bytes);
			try(kept, mutant, mutate(&random, mutant, bytes));
		}
	}
	return 0;
}
