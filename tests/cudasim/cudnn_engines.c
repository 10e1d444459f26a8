/*
 * cudnn_engines.c - engine lists from the fixtures, which are a part of the library.
 */
#include "cudnn.h"

#include <stdio.h>
#include <stdlib.h>

/* Paths are as the compiler sees them, from the project's root. */
#define EMBED(name, path)                                                                          \
	__asm__(".pushsection .rodata\n" #name ":\n.incbin \"" path "\"\n.byte 0\n.popsection\n"); \
	extern const char name[] __attribute__((visibility("hidden")))
EMBED(engines_h200, "tests/cudasim/fixtures/engines_h200.txt");
EMBED(engines_rtx3060ti, "tests/cudasim/fixtures/engines_rtx3060ti.txt");

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');
	return end ? end + 1 : line + strlen(line);
}

/* Activations N H W C; weights O I H W or O H W I. */
static bool channels_last(const struct convolution_tensor *tensor)
{
	return tensor->stride[1] == 1 && (tensor->dim[1] > 1 || tensor->stride[3] == tensor->dim[1]);
}

/* The batch does not count: the lists were recorded for one, and tests use smaller ones. */
static bool matches(const char *line, const struct convolution *convolution)
{
	static const char *const pass[] = { "forward", "data", "filter" };
	char name[16], weights[8];
	long long n, h, w, c, k, kernel, padding, stride;
	if (sscanf(line,
		   "convolution %15s weights %7s n %lld h %lld w %lld c %lld k %lld kernel %lld padding %lld stride "
		   "%lld",
		   name, weights, &n, &h, &w, &c, &k, &kernel, &padding, &stride) != 10)
		return false;
	const int64_t *x = convolution->x.dim, *filter = convolution->w.dim;
	return strcmp(name, pass[convolution->pass]) == 0 && convolution->x.type == NUMBER_F32 &&
	       (strcmp(weights, "ohwi") == 0) == channels_last(&convolution->w) && c == x[1] && h == x[2] &&
	       w == x[3] && k == filter[0] && kernel == filter[2] && kernel == filter[3] &&
	       padding == convolution->padding[0] && padding == convolution->padding[1] &&
	       stride == convolution->stride[0] && stride == convolution->stride[1] && convolution->dilation[0] == 1 &&
	       convolution->dilation[1] == 1;
}

/* Of the entry that begins at `line`. */
static uint32_t read_entry(const char *line, bool fallback, struct engine *engine, uint32_t most)
{
	uint32_t count = 0;
	bool wanted = false;
	for (line = next_line(line); *line && strncmp(line, "convolution", 11) != 0; line = next_line(line)) {
		long long index, workspace;
		unsigned numerical, behavior;
		if (strncmp(line, "list ", 5) == 0)
			wanted = (strncmp(line + 5, "fallback", 8) == 0) == fallback;
		else if (wanted && count < most &&
			 sscanf(line, "engine %lld %lld %x %x", &index, &workspace, &numerical, &behavior) == 4)
			engine[count++] = (struct engine){ index, workspace, numerical, behavior };
	}
	return count;
}

/* For convolutions that were not recorded, in the pattern of those that were. */
static uint32_t general_list(const struct convolution *convolution, bool fallback, struct engine *engine, uint32_t most)
{
	const int64_t *x = convolution->x.dim;
	int64_t image = x[0] * x[1] * x[2] * x[3] * number_bytes(convolution->x.type);
	const struct engine first[] = { { 67, 131, 0x1, 0 }, { 70, image, 0, 0 }, { 28, 0, 0, 0 }, { 0, 0, 0x200, 0 } };
	const struct engine second[] = { { 25, 0, 0x10, 0 }, { 1, 2304, 0, 0 }, { 0, 0, 0x200, 0 } };
	const struct engine *from = fallback ? second : first;
	uint32_t count = fallback ? sizeof second / sizeof *second : sizeof first / sizeof *first;
	for (uint32_t i = 0; i < count && i < most; i++)
		engine[i] = from[i];
	return count < most ? count : most;
}

uint32_t engines_list(const struct convolution *convolution, uint32_t capability, bool fallback, struct engine *engine,
		      uint32_t most)
{
	for (const char *line = capability >= 90 ? engines_h200 : engines_rtx3060ti; *line; line = next_line(line))
		if (matches(line, convolution))
			return read_entry(line, fallback, engine, most);
	return general_list(convolution, fallback, engine, most);
}
