/* tarn_predict.c - `tarn predict`: what the network says of the samples in files. */
#include "command.h"

#include "base/host_arena.h"
#include "base/regular_file.h"
#include "base/status.h"
#include "data/array.h"
#include "data/image_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct prediction {
	struct tarn_session *session;
	struct tarn_result shape;
	struct host_arena arena;
	uint32_t batch;
	bool tokens, csv;
	float *result; /* of a batch */
};

/* The samples of a file. */
struct samples {
	enum tarn_input kind;
	const uint8_t *data;
	uint64_t count, bytes; /* bytes: of one */
};

static enum tarn_status read_file(struct prediction *p, const char *path, uint8_t **data, uint64_t *bytes)
{
	uint64_t done = 0;
	int fd;
	enum tarn_status st = regular_file_open(path, &fd, bytes);
	if (st)
		return st;
	*data = HOST_ARRAY(&p->arena, *bytes + 1, uint8_t);
	while (*data && done < *bytes) {
		ssize_t got = read(fd, *data + done, *bytes - done);
		if (got <= 0)
			break;
		done += (uint64_t)got;
	}
	close(fd);
	if (*data && done < *bytes)
		return tarn_fail(TARN_EIO, "%s: cannot read at byte %llu", path, (unsigned long long)done);
	return *data ? TARN_OK : TARN_ENOMEM;
}

static enum tarn_status fail_elements(const struct prediction *p, const char *path, uint64_t elements)
{
	return tarn_fail(TARN_EDATA, "%s: %llu values are no number of whole samples; the network reads %llu a sample",
			 path, (unsigned long long)elements, (unsigned long long)p->shape.inputs);
}

static enum tarn_status read_image(struct prediction *p, const char *path, struct samples *out)
{
	struct image_header header;
	uint8_t *file, *pixels;
	uint64_t bytes;
	enum tarn_status st = read_file(p, path, &file, &bytes);
	if (st)
		return st;
	st = image_parse(file, bytes, &header);
	if (st)
		return tarn_fail_prefix(st, "%s", path);
	uint64_t elements = (uint64_t)header.height * header.width * header.channels;
	if (elements != p->shape.inputs)
		return tarn_fail(TARN_EDATA,
				 "%s: an image of %u x %u with %u channels, %llu values; the network reads %llu", path,
				 header.height, header.width, header.channels, (unsigned long long)elements,
				 (unsigned long long)p->shape.inputs);
	pixels = HOST_ARRAY(&p->arena, elements, uint8_t);
	if (!pixels)
		return TARN_ENOMEM;
	st = image_decode(file, (size_t)bytes, &header, pixels);
	*out = (struct samples){ TARN_INPUT_BYTES, pixels, 1, elements };
	return st ? tarn_fail_prefix(st, "%s", path) : TARN_OK;
}

static enum tarn_status read_array(struct prediction *p, const char *path, bool npy, struct samples *out)
{
	const struct array_file file = { .path = path, .name = path, .npy = npy };
	struct data_stream *stream = HOST_NEW(&p->arena, struct data_stream);
	struct array_header header;
	if (!stream)
		return TARN_ENOMEM;
	stream->fd = -1;
	enum tarn_status st = array_open(stream, &file, &header);
	bool bytes = !st && header.type == ARRAY_U8, floats = !st && header.type == ARRAY_F32 && !header.big_endian;
	if (!st && !bytes && !floats)
		st = tarn_fail(TARN_EUNSUPPORTED, "%s: elements of type %s; bytes and little-endian float32 are read",
			       path, header.name);
	uint64_t elements = st ? 0 : header.bytes / (bytes ? 1 : 4);
	if (!st && (!elements || elements % p->shape.inputs))
		st = fail_elements(p, path, elements);
	uint8_t *data = st ? NULL : host_arena_alloc(&p->arena, header.bytes, 1);
	if (!st && !data)
		st = TARN_ENOMEM;
	if (!st)
		st = stream_read(stream, data, (size_t)header.bytes);
	stream_close(stream);
	*out = (struct samples){ bytes ? TARN_INPUT_BYTES : TARN_INPUT_FLOATS, data, elements / p->shape.inputs,
				 p->shape.inputs * (bytes ? 1 : 4) };
	return st;
}

/* The end of a text, in front of zeros that nothing before them sees; the place of its last token counts. */
static enum tarn_status read_tokens(struct prediction *p, const char *path, struct samples *out, uint32_t *last)
{
	uint8_t *text;
	uint64_t bytes, context = p->shape.inputs;
	enum tarn_status st = read_file(p, path, &text, &bytes);
	if (!st && !bytes)
		st = tarn_fail(TARN_EDATA, "%s: is empty; one byte at least is a token", path);
	int32_t *ids = st ? NULL : HOST_ARRAY(&p->arena, context, int32_t);
	if (st || !ids)
		return st ? st : TARN_ENOMEM;
	uint64_t first = bytes > context ? bytes - context : 0;
	for (uint64_t i = first; i < bytes; i++)
		ids[i - first] = text[i];
	*last = (uint32_t)(bytes - first - 1);
	*out = (struct samples){ TARN_INPUT_TOKENS, (const uint8_t *)ids, 1, context * sizeof *ids };
	return TARN_OK;
}

static enum tarn_status read_samples(struct prediction *p, const char *path, struct samples *out, uint32_t *last)
{
	uint8_t head[8] = { 0 };
	uint64_t bytes;
	int fd;
	*last = 0;
	if (p->tokens)
		return read_tokens(p, path, out, last);
	enum tarn_status st = regular_file_open(path, &fd, &bytes);
	if (st)
		return st;
	ssize_t got = read(fd, head, sizeof head);
	close(fd);
	bool image = got > 2 && ((head[0] == 'P' && head[1] >= '2' && head[1] <= '6') || !memcmp(head, "\x89PNG", 4));
	return image ? read_image(p, path, out) : read_array(p, path, !memcmp(head, "\x93NUMPY", 6), out);
}

/* In place: softmax, in double precision. */
static void to_probabilities(float *row, uint32_t classes)
{
	double sum = 0, largest = (double)row[0];
	for (uint32_t c = 1; c < classes; c++)
		largest = fmax(largest, (double)row[c]);
	for (uint32_t c = 0; c < classes; c++)
		sum += exp((double)row[c] - largest);
	for (uint32_t c = 0; c < classes; c++)
		row[c] = (float)(exp((double)row[c] - largest) / sum);
}

static void print_row(const struct prediction *p, const char *path, uint64_t index, float *row, uint64_t count)
{
	const bool logits = p->shape.logits;
	uint32_t best = 0;
	if (logits)
		to_probabilities(row, (uint32_t)count);
	for (uint32_t c = 1; c < count; c++)
		best = row[c] > row[best] ? c : best;
	if (p->csv) {
		printf("%s,%llu", path, (unsigned long long)index);
		if (logits)
			printf(",%u", best);
		for (uint64_t c = 0; c < count; c++)
			printf(",%.7g", (double)row[c]);
		printf("\n");
		return;
	}
	printf("{");
	json_text("input", path);
	printf(", \"index\": %llu, ", (unsigned long long)index);
	if (logits)
		printf("\"class\": %u, \"probability\": %.7g, ", best, (double)row[best]);
	printf("\"%s\": [", logits ? "probabilities" : "values");
	for (uint64_t c = 0; c < count; c++)
		printf("%s%.7g", c ? ", " : "", (double)row[c]);
	printf("]}\n");
}

static enum tarn_status predict_file(struct prediction *p, const char *path)
{
	struct host_mark mark = host_arena_mark(&p->arena);
	struct samples samples = { .count = 0 };
	uint32_t last;
	enum tarn_status st = read_samples(p, path, &samples, &last);
	for (uint64_t done = 0; !st && done < samples.count;) {
		uint64_t left = samples.count - done, count = left < p->batch ? left : p->batch;
		st = tarn_predict(p->session, samples.kind, samples.data + done * samples.bytes, (uint32_t)count,
				  p->result);
		for (uint64_t i = 0; i < count && !st; i++) {
			float *row = p->result + i * p->shape.elements;
			uint64_t width = p->shape.elements;
			if (p->tokens && p->shape.rank == 2) {
				width = p->shape.dim[1];
				row += last * width;
			}
			print_row(p, path, done + i, row, width);
		}
		done += count;
	}
	host_arena_release(&p->arena, mark);
	return st;
}

static void print_header(const struct prediction *p)
{
	uint64_t width = p->tokens && p->shape.rank == 2 ? p->shape.dim[1] : p->shape.elements;
	printf("input,index%s", p->shape.logits ? ",class" : "");
	for (uint64_t c = 0; c < width; c++)
		printf(",%s%llu", p->shape.logits ? "p" : "v", (unsigned long long)c);
	printf("\n");
}

static enum tarn_status open_prediction(struct prediction *p, struct arguments *arguments)
{
	struct tarn_plan_info info;
	arguments->override[arguments->options.overrides++] = "train.snapshot=";
	arguments->options.weights_only = arguments->options.inference = arguments->options.result = true;
	enum tarn_status st = tarn_open(&arguments->options, &p->session);
	if (!st)
		st = tarn_result_info(p->session, &p->shape);
	if (!st)
		st = tarn_plan_info(p->session, &info);
	if (st)
		return st;
	p->batch = info.batch;
	p->tokens = info.tokens;
	p->csv = arguments->csv;
	p->result = HOST_ARRAY(&p->arena, p->shape.elements * p->batch, float);
	return p->result ? TARN_OK : TARN_ENOMEM;
}

int command_predict(int argc, char **argv)
{
	static struct arguments arguments;
	struct prediction prediction = { .session = NULL };
	enum tarn_status st =
		arguments_parse(argc, argv, ARGUMENT_CONFIG | ARGUMENT_WEIGHTS | ARGUMENT_INPUTS, &arguments);
	if (st)
		return command_fail(st);
	if (arguments.help) {
		print_command_help("predict");
		return 0;
	}
	if (!arguments.options.resume_path || !arguments.inputs)
		return command_fail(
			tarn_fail(TARN_EINVAL, "predict: %s; see `tarn help predict`",
				  arguments.inputs ? "which weights? Give --weights FILE" : "of which files?"));
	host_arena_init(&prediction.arena);
	st = open_prediction(&prediction, &arguments);
	if (!st && prediction.csv)
		print_header(&prediction);
	for (uint32_t i = 0; i < arguments.inputs && !st; i++)
		st = predict_file(&prediction, arguments.input[i]);
	tarn_close(prediction.session);
	host_arena_fini(&prediction.arena);
	return st ? command_fail(st) : 0;
}
