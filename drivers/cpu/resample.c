/*
 * resample.c - an image in another height and width: nearest and bilinear upsampling, adaptive average pooling, and
 * their adjoints.
 *
 * All are one linear map for each axis: y[o] = sum_i w(o, i) x[i]. The adjoint sums over o instead. Both gather, each
 * element in a fixed order, so nothing is added to by two threads.
 */
#include "cpu/cpu.h"
#include "cpu/narrow.h"

#include <math.h>

/* Channels handled at once. */
#define BLOCK 256u

struct axis {
	uint32_t kind, mode;
	uint32_t in, out; /* of the forward op */
};

struct axis_range {
	uint32_t begin, end;
};

/* Position of o between the elements of the input: half-pixel centres, as PyTorch has it without align_corners. */
static float bilinear_position(const struct axis *axis, uint32_t o)
{
	float position = ((float)o + 0.5f) * ((float)axis->in / (float)axis->out) - 0.5f;
	return position < 0.0f ? 0.0f : position;
}

/* Elements of the input that o reads. */
static struct axis_range axis_reads(const struct axis *axis, uint32_t o)
{
	uint64_t in = axis->in, out = axis->out;
	if (axis->kind == OP_ADAPTIVE_AVG_POOL)
		return (struct axis_range){ (uint32_t)(o * in / out), (uint32_t)(((o + 1) * in + out - 1) / out) };
	if (axis->mode == UPSAMPLE_NEAREST) {
		uint32_t nearest = (uint32_t)(o * in / out);
		return (struct axis_range){ nearest, nearest + 1 };
	}
	uint32_t first = (uint32_t)bilinear_position(axis, o);
	first = first < axis->in ? first : axis->in - 1;
	return (struct axis_range){ first, first + 2 < axis->in ? first + 2 : axis->in };
}

static float axis_weight(const struct axis *axis, uint32_t o, uint32_t i)
{
	struct axis_range reads = axis_reads(axis, o);
	if (i < reads.begin || i >= reads.end)
		return 0.0f;
	if (axis->kind == OP_ADAPTIVE_AVG_POOL)
		return 1.0f / (float)(reads.end - reads.begin);
	if (axis->mode == UPSAMPLE_NEAREST || reads.end - reads.begin == 1)
		return 1.0f;
	float second = bilinear_position(axis, o) - (float)reads.begin;
	return i == reads.begin ? 1.0f - second : second;
}

/* Elements of the output that may read i: generous by one or two at each end, where the weight is 0. */
static struct axis_range axis_readers(const struct axis *axis, uint32_t i)
{
	uint64_t in = axis->in, out = axis->out;
	uint64_t begin = i < 2 ? 0 : (i - 2) * out / in, end = ((uint64_t)i + 2) * out / in + 2;
	return (struct axis_range){ (uint32_t)begin, (uint32_t)(end < out ? end : out) };
}

CPU_CLONES static void add_scaled(float *y, const float *x, float weight, uint32_t n)
{
	for (uint32_t c = 0; c < n; c++)
		y[c] += weight * x[c];
}

struct resample {
	struct axis height, width;
	bool adjoint;
};

static struct resample resample_of(const struct kernel *kernel)
{
	const uint32_t *from = kernel_input(kernel, 0)->dim, *to = kernel_output(kernel, 0)->dim;
	bool adjoint = kernel->kind == OP_UPSAMPLE_GRAD || kernel->kind == OP_ADAPTIVE_AVG_POOL_GRAD;
	bool adaptive = kernel->kind == OP_ADAPTIVE_AVG_POOL || kernel->kind == OP_ADAPTIVE_AVG_POOL_GRAD;
	const uint32_t *in = adjoint ? to : from, *out = adjoint ? from : to;
	struct axis axis = { adaptive ? OP_ADAPTIVE_AVG_POOL : OP_UPSAMPLE, kernel->attr.mode, in[1], out[1] };
	struct resample resample = { axis, axis, adjoint };
	resample.width.in = in[2];
	resample.width.out = out[2];
	return resample;
}

/* What element `at` of the result gathers, and with which weight. */
static struct axis_range gathered(const struct axis *axis, bool adjoint, uint32_t at)
{
	return adjoint ? axis_readers(axis, at) : axis_reads(axis, at);
}

static float gather_weight(const struct axis *axis, bool adjoint, uint32_t at, uint32_t from)
{
	return adjoint ? axis_weight(axis, from, at) : axis_weight(axis, at, from);
}

/* `n` channels of the result's pixel (h, w); `image` is the channels' first element of the image that it gathers from.
 */
static void resample_pixel(const struct bound_instr *instr, const struct resample *r, uint64_t image, uint32_t h,
			   uint32_t w, uint32_t n, float *y)
{
	const struct operand *from = kernel_input(instr->kernel, 0);
	struct axis_range vertical = gathered(&r->height, r->adjoint, h),
			  horizontal = gathered(&r->width, r->adjoint, w);
	float block[BLOCK];
	for (uint32_t c = 0; c < n; c++)
		y[c] = 0.0f;
	for (uint32_t i = vertical.begin; i < vertical.end; i++)
		for (uint32_t j = horizontal.begin; j < horizontal.end; j++) {
			float weight = gather_weight(&r->height, r->adjoint, h, i) *
				       gather_weight(&r->width, r->adjoint, w, j);
			uint64_t at = image + ((uint64_t)i * from->dim[2] + j) * from->channels;
			if (weight != 0.0f)
				add_scaled(y, narrow_view(from->dtype, instr->address[0], at, n, block), weight, n);
		}
}

/* Items are the rows of the resulting images. */
static void resample_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const struct operand *from = kernel_input(kernel, 0), *to = kernel_output(kernel, 0);
	const struct resample r = resample_of(kernel);
	uint32_t channels = to->channels;
	struct range rows = chunk_range(kernel, chunk, (uint64_t)to->dim[0] * to->dim[1]);
	for (uint64_t row = rows.begin; row < rows.end; row++) {
		uint32_t h = (uint32_t)(row % to->dim[1]);
		uint64_t image = row / to->dim[1] * from->dim[1] * from->dim[2] * channels;
		for (uint32_t w = 0; w < to->dim[2]; w++)
			for (uint32_t first = 0; first < channels; first += BLOCK) {
				uint32_t n = channels - first < BLOCK ? channels - first : BLOCK;
				uint64_t at = (row * to->dim[2] + w) * channels + first;
				float block[BLOCK];
				resample_pixel(instr, &r, image + first, h, w, n,
					       narrow_target(to->dtype, instr_output(instr, 0), at, block));
				narrow_put(to->dtype, block, instr_output(instr, 0), at, n);
			}
	}
}

enum tarn_status resample_prepare(struct device *device, struct kernel *kernel)
{
	const struct operand *to = kernel_output(kernel, 0);
	(void)device;
	kernel_cut(kernel, resample_body, (uint64_t)to->dim[0] * to->dim[1],
		   CPU_CHUNK_ELEMENTS / 4 / ((uint64_t)to->dim[2] * to->channels));
	return TARN_OK;
}
