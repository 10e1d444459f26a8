/* tarn_tokens.c - `tarn tokens`: text files become byte tokens to train on, and to test on. */
#include "command.h"

#include "base/atomic_file.h"
#include "base/regular_file.h"
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tokens_arguments {
	char **text; /* files */
	int texts;
	const char *train, *test;
	double share; /* of the bytes, at the end, that are for testing */
	bool help;
};

static enum tarn_status read_share(const char *text, double *share)
{
	char *end;
	double percent = strtod(text, &end);
	if (end == text || *end || !(percent > 0 && percent < 100))
		return tarn_fail(TARN_EINVAL, "--test-share: \"%s\" is no percentage between 0 and 100, such as 10",
				 text);
	*share = percent / 100;
	return TARN_OK;
}

static enum tarn_status parse(int argc, char **argv, struct tokens_arguments *arguments)
{
	*arguments = (struct tokens_arguments){ .text = argv, .share = 0.1 };
	for (int i = 1; i < argc; i++) {
		const char *name = argv[i];
		bool valued = !strcmp(name, "-o") || !strcmp(name, "--test") || !strcmp(name, "--test-share");
		enum tarn_status st = TARN_OK;
		if (!strcmp(name, "--help") || !strcmp(name, "-h"))
			arguments->help = true;
		else if (valued && i + 1 == argc)
			st = tarn_fail(TARN_EINVAL, "tokens: %s needs a value", name);
		else if (!strcmp(name, "-o"))
			arguments->train = argv[++i];
		else if (!strcmp(name, "--test"))
			arguments->test = argv[++i];
		else if (!strcmp(name, "--test-share"))
			st = read_share(argv[++i], &arguments->share);
		else if (name[0] == '-' && name[1])
			st = tarn_fail(TARN_EINVAL,
				       "tokens: unknown option \"%s\"; known are -o, --test and --test-share", name);
		else
			argv[arguments->texts++] = argv[i];
		if (st)
			return st;
	}
	if (arguments->help)
		return TARN_OK;
	if (!arguments->texts)
		return tarn_fail(TARN_EINVAL, "tokens: no text is named; see `tarn help tokens`");
	if (!arguments->train)
		return tarn_fail(TARN_EINVAL, "tokens: -o FILE is missing: where the tokens go");
	return TARN_OK;
}

static enum tarn_status count_bytes(const struct tokens_arguments *arguments, uint64_t *total)
{
	*total = 0;
	for (int i = 0; i < arguments->texts; i++) {
		uint64_t bytes;
		int fd;
		enum tarn_status st = regular_file_open(arguments->text[i], &fd, &bytes);
		if (st)
			return st;
		close(fd);
		*total += bytes;
	}
	return *total ? TARN_OK : tarn_fail(TARN_EDATA, "tokens: the texts are empty");
}

/* Appends a text: the first bytes to one file, those from `train_bytes` of all texts on to the other. */
static enum tarn_status copy_text(const char *path, uint64_t train_bytes, uint64_t *done, struct atomic_file *train,
				  struct atomic_file *test)
{
	unsigned char buffer[1 << 16];
	uint64_t bytes;
	int fd;
	enum tarn_status st = regular_file_open(path, &fd, &bytes);
	while (!st) {
		ssize_t n = read(fd, buffer, sizeof buffer);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			st = tarn_fail(TARN_EIO, "%s: cannot read: %s", path, strerror(errno));
		if (n <= 0)
			break;
		uint64_t left = *done < train_bytes ? train_bytes - *done : 0;
		size_t first = left < (uint64_t)n ? (size_t)left : (size_t)n;
		st = atomic_file_write(train, buffer, first);
		if (!st && first < (size_t)n)
			st = atomic_file_write(test, buffer + first, (size_t)n - first);
		*done += (uint64_t)n;
	}
	if (fd >= 0)
		close(fd);
	return st;
}

static enum tarn_status write_tokens(const struct tokens_arguments *arguments, uint64_t train_bytes)
{
	static struct atomic_file train, test;
	uint64_t done = 0;
	train.fd = test.fd = -1;
	enum tarn_status st = atomic_file_open(&train, arguments->train);
	if (!st && arguments->test)
		st = atomic_file_open(&test, arguments->test);
	for (int i = 0; i < arguments->texts && !st; i++)
		st = copy_text(arguments->text[i], train_bytes, &done, &train, &test);
	if (!st)
		st = atomic_file_commit(&train, NULL);
	if (!st && arguments->test)
		st = atomic_file_commit(&test, NULL);
	if (st) {
		atomic_file_abandon(&train);
		if (arguments->test)
			atomic_file_abandon(&test);
	}
	return st;
}

int command_tokens(int argc, char **argv)
{
	struct tokens_arguments arguments;
	uint64_t total = 0, train = 0;
	enum tarn_status st = parse(argc, argv, &arguments);
	if (!st && arguments.help) {
		print_command_help("tokens");
		return 0;
	}
	if (!st)
		st = count_bytes(&arguments, &total);
	train = arguments.test ? total - (uint64_t)((double)total * arguments.share) : UINT64_MAX;
	if (!st)
		st = write_tokens(&arguments, train);
	if (st)
		return command_fail(st);
	printf("%s: %llu tokens of a byte each", arguments.train, (unsigned long long)(train < total ? train : total));
	if (arguments.test)
		printf("; %s: %llu", arguments.test, (unsigned long long)(total - train));
	printf("\n");
	return 0;
}
