/* tarn_sample.c - `tarn sample`: text from language models, images from pixel models. */
#include "command.h"

#include "base/atomic_file.h"
#include "base/host_arena.h"
#include "base/philox.h"
#include "base/status.h"
#include "sample_pixel.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COUNT 1024
#define BETWEEN 1u /* pixels between two images */

struct sampling {
	struct tarn_session *session;
	struct tarn_result shape;
	struct tarn_plan_info info;
	struct host_arena arena;
	struct sample_choice choice;
	uint64_t length, count;
	const char *prompt, *output;
	float *result;
};

static enum tarn_status read_option(const char *name, const char *text, double low, double high, bool whole,
				    double *value)
{
	char *end;
	if (!text)
		return TARN_OK;
	errno = 0;
	double number = strtod(text, &end);
	if (!*text || *end || errno || !(number >= low && number <= high) || (whole && floor(number) != number))
		return tarn_fail(TARN_EINVAL, "sample: %s %s: a %s from %g to %g is expected", name, text,
				 whole ? "whole number" : "number", low, high);
	*value = number;
	return TARN_OK;
}

static enum tarn_status read_options(const struct arguments *arguments, struct sampling *s)
{
	double length = 256, temperature = 1, top = 0, seed = 0, count = 1;
	enum tarn_status st = read_option("--length", arguments->length, 1, 1e9, true, &length);
	if (!st)
		st = read_option("--temperature", arguments->temperature, 0, 100, false, &temperature);
	if (!st)
		st = read_option("--top", arguments->top, 1, 1e9, true, &top);
	if (!st)
		st = read_option("--seed", arguments->seed, 0, 0x1p53, true, &seed);
	if (!st)
		st = read_option("--count", arguments->count, 1, MAX_COUNT, true, &count);
	s->length = (uint64_t)length;
	s->count = (uint64_t)count;
	s->choice = (struct sample_choice){ .temperature = temperature, .top = (uint32_t)top, .seed = (uint64_t)seed };
	s->prompt = arguments->prompt ? arguments->prompt : "\n";
	s->output = arguments->output;
	return st;
}

/* ---- text ---- */

/*
 * The network sees the last T - 1 tokens at most, from its first position on; zeros behind them do not reach back. Each
 * token takes one pass over all T.
 */
static enum tarn_status sample_text(struct sampling *s)
{
	const uint64_t context = s->shape.inputs, prompt = strlen(s->prompt), vocabulary = s->shape.dim[1];
	int32_t *ids = HOST_ARRAY(&s->arena, context, int32_t);
	uint64_t known = prompt < context ? prompt : context;
	enum tarn_status st = ids ? TARN_OK : TARN_ENOMEM;
	if (!st && !prompt)
		st = tarn_fail(TARN_EINVAL, "sample: --prompt is empty; one byte at least is needed to begin with");
	if (st)
		return st;
	for (uint64_t i = 0; i < known; i++)
		ids[i] = (uint8_t)s->prompt[prompt - known + i];
	fputs(s->prompt, stdout);
	for (uint64_t step = 0; step < s->length && !st; step++) {
		if (known == context) {
			memmove(ids, ids + 1, (context - 1) * sizeof *ids);
			ids[--known] = 0;
		}
		st = tarn_predict(s->session, TARN_INPUT_TOKENS, ids, 1, s->result);
		if (st)
			break;
		uint32_t token =
			sample_class(&s->choice, step, s->result + (known - 1) * vocabulary, (uint32_t)vocabulary);
		ids[known++] = (int32_t)token;
		if (vocabulary <= 256)
			putchar((int)token);
		else
			printf(" %u", token);
		fflush(stdout);
	}
	putchar('\n');
	return st;
}

/* ---- images ---- */

static enum tarn_status write_images(const struct sampling *s, const uint8_t *pixels)
{
	const uint32_t height = s->info.sample_dim[0], width = s->info.sample_dim[1], channels = s->info.sample_dim[2];
	const uint64_t columns = s->count * (width + BETWEEN) - BETWEEN;
	struct atomic_file file;
	FILE *out;
	enum tarn_status st = atomic_file_open_stream(&file, s->output, &out);
	if (st)
		return st;
	fprintf(out, "P%d\n%llu %u\n255\n", channels == 3 ? 6 : 5, (unsigned long long)columns, height);
	for (uint32_t y = 0; y < height; y++)
		for (uint64_t image = 0; image < s->count; image++) {
			for (uint32_t c = 0; image && c < BETWEEN * channels; c++)
				putc(255, out);
			fwrite(pixels + (image * height + y) * width * channels, 1, (size_t)width * channels, out);
		}
	return atomic_file_close_stream(&file, out, TARN_OK);
}

/* Pixel by pixel, row by row: each takes a pass, whose result at that pixel depends on those before it alone. */
static enum tarn_status sample_images(struct sampling *s)
{
	const uint32_t channels = s->info.sample_dim[2], parameters = s->shape.dim[2];
	const uint64_t places = (uint64_t)s->info.sample_dim[0] * s->info.sample_dim[1];
	uint8_t *pixels = HOST_ARRAY(&s->arena, s->count * s->shape.inputs, uint8_t);
	enum tarn_status st = pixels ? TARN_OK : TARN_ENOMEM;
	for (uint64_t first = 0; first < s->count && !st; first += s->info.batch) {
		uint64_t left = s->count - first, count = left < s->info.batch ? left : s->info.batch;
		for (uint64_t place = 0; place < places && !st; place++) {
			st = tarn_predict(s->session, TARN_INPUT_BYTES, pixels + first * s->shape.inputs,
					  (uint32_t)count, s->result);
			for (uint64_t i = 0; i < count && !st; i++) {
				const float *at = s->result + i * s->shape.elements + place * parameters;
				uint8_t *pixel = pixels + (first + i) * s->shape.inputs + place * channels;
				const uint64_t draw = (first + i) * places + place;
				if (s->shape.logits)
					*pixel = (uint8_t)sample_class(&s->choice, draw, at, parameters);
				else
					sample_mixture(&s->choice, draw, at, parameters, channels, pixel);
			}
		}
	}
	return st ? st : write_images(s, pixels);
}

/* What the network draws: text, pixels of 256 classes, or mixtures of logistic distributions. */
static enum tarn_status sample(struct sampling *s)
{
	const uint32_t *x = s->info.sample_dim, *y = s->shape.dim;
	if (s->info.tokens && s->shape.logits && s->shape.rank == 2)
		return sample_text(s);
	bool image = s->info.sample_rank == 3 && s->shape.rank == 3 && x[0] == y[0] && x[1] == y[1];
	bool classes = image && s->shape.logits && x[2] == 1 && y[2] == 256;
	bool mixture = image && !s->shape.logits && ((x[2] == 3 && y[2] % 10 == 0) || (x[2] == 1 && y[2] % 3 == 0));
	if (!classes && !mixture)
		return tarn_fail(TARN_EINVAL,
				 "sample: the network draws neither tokens nor pixels; gpt, lstm, gru, pixelcnn and "
				 "pixelcnnpp do");
	if (!s->output)
		return tarn_fail(TARN_EINVAL, "sample: -o FILE.%s says where the image goes",
				 x[2] == 3 ? "ppm" : "pgm");
	return sample_images(s);
}

static enum tarn_status open_sampling(struct sampling *s, struct arguments *arguments)
{
	static char batch[64];
	snprintf(batch, sizeof batch, "data.batch=%llu", (unsigned long long)(s->count < 16 ? s->count : 16));
	arguments->override[arguments->options.overrides++] = "train.snapshot=";
	arguments->override[arguments->options.overrides++] = "train.accumulate=1";
	arguments->override[arguments->options.overrides++] = batch;
	arguments->options.weights_only = arguments->options.inference = arguments->options.result = true;
	enum tarn_status st = tarn_open(&arguments->options, &s->session);
	if (!st)
		st = tarn_result_info(s->session, &s->shape);
	if (!st)
		st = tarn_plan_info(s->session, &s->info);
	if (st)
		return st;
	s->result = HOST_ARRAY(&s->arena, s->shape.elements * s->info.batch, float);
	return s->result ? TARN_OK : TARN_ENOMEM;
}

int command_sample(int argc, char **argv)
{
	static struct arguments arguments;
	struct sampling sampling = { .session = NULL };
	enum tarn_status st = arguments_parse(
		argc, argv, ARGUMENT_CONFIG | ARGUMENT_WEIGHTS | ARGUMENT_SAMPLE | ARGUMENT_OUTPUT, &arguments);
	if (st)
		return command_fail(st);
	if (arguments.help) {
		print_command_help("sample");
		return 0;
	}
	if (!arguments.options.resume_path)
		return command_fail(tarn_fail(TARN_EINVAL, "sample: which weights? Give --weights FILE"));
	host_arena_init(&sampling.arena);
	st = read_options(&arguments, &sampling);
	if (!st)
		st = open_sampling(&sampling, &arguments);
	if (!st)
		st = sample(&sampling);
	tarn_close(sampling.session);
	host_arena_fini(&sampling.arena);
	return st ? command_fail(st) : 0;
}
