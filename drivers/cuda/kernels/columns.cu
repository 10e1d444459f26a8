/*
 * columns.cu - work on a (rows, channels) matrix in which a thread keeps to one channel: sums over rows, batch
 * normalisation, bias and activation behind a product. The cut is described at struct columns_parameters.
 *
 * Sums over rows have two stages: a block leaves one double a channel, and a second kernel adds the blocks' sums.
 * Source: Ioffe, Szegedy 2015, arXiv:1502.03167; the gradient is their section 3 with the sums taken out.
 */
#include "device.h"

/* The rows of this block that this thread visits: first, first + blockDim.y .. below end. */
struct column_walk {
	uint64_t first, end;
	uint32_t channel;
	bool exists; /* the channel */
};

DEVICE column_walk walk_of(const columns_parameters &columns)
{
	column_walk walk;
	uint64_t begin = blockIdx.x * columns.chunk_rows, end = begin + columns.chunk_rows;
	walk.channel = blockIdx.y * blockDim.x + threadIdx.x;
	walk.exists = walk.channel < columns.channels;
	walk.first = begin + threadIdx.y;
	walk.end = end < columns.rows ? end : columns.rows;
	return walk;
}

/* Adds up the block's threads of each channel; the result is in those with threadIdx.y == 0. */
DEVICE double column_reduce(double value, double *scratch)
{
	uint32_t at = threadIdx.y * blockDim.x + threadIdx.x;
	__syncthreads();
	scratch[at] = value;
	for (uint32_t half = blockDim.y / 2; half; half /= 2) {
		__syncthreads();
		if (threadIdx.y < half)
			scratch[at] += scratch[at + half * blockDim.x];
	}
	return scratch[at];
}

DEVICE void store_column_partial(const columns_parameters &columns, double *partial, uint32_t sum, double value,
				 double *scratch, bool adds = false)
{
	uint32_t channel = blockIdx.y * blockDim.x + threadIdx.x;
	double *total = &partial[((uint64_t)sum * columns.row_chunks + blockIdx.x) * columns.channels + channel];
	value = column_reduce(value, scratch);
	if (threadIdx.y == 0 && channel < columns.channels)
		*total = adds ? *total + value : value;
}

/* What a walk loads of one row. */
struct loaded {
	float x, dy;
};

/*
 * Calls use(row, fetch(row)) for the thread's rows in order, and finish() after each run of them. A whole run is
 * fetched before it is used, because memory answers late; the rows behind the last whole run come one by one.
 */
template <typename F, typename U, typename E> DEVICE void walk_rows(const column_walk &walk, F fetch, U use, E finish)
{
	uint64_t row = walk.first, span = (uint64_t)blockDim.y * (KERNEL_RUN - 1);
	if (!walk.exists)
		return;
	for (; row < walk.end && walk.end - row > span; row += (uint64_t)blockDim.y * KERNEL_RUN) {
		loaded value[KERNEL_RUN];
#pragma unroll
		for (uint32_t k = 0; k < KERNEL_RUN; k++)
			value[k] = fetch(row + k * blockDim.y);
#pragma unroll
		for (uint32_t k = 0; k < KERNEL_RUN; k++)
			use(row + k * blockDim.y, value[k]);
		finish();
	}
	for (; row < walk.end; row += blockDim.y)
		use(row, fetch(row));
	finish();
}

/* Element by element. */
template <typename F, typename U> DEVICE void walk_map(const column_walk &walk, F fetch, U use)
{
	walk_rows(walk, fetch, use, []() {});
}

/* Two sums over the rows: terms(row, value, a, b) adds to a and b, runs in float. */
template <typename F, typename U>
DEVICE void walk_sums(const column_walk &walk, double *first, double *second, F fetch, U terms)
{
	float a = 0.0f, b = 0.0f;
	*first = *second = 0.0;
	walk_rows(
		walk, fetch, [&](uint64_t row, const loaded &value) { terms(row, value, a, b); },
		[&]() {
			*first += (double)a;
			*second += (double)b;
			a = b = 0.0f;
		});
}

/* ---- sums over rows ---- */

template <typename T> DEVICE void sum_rows_body(const column_sums_parameters &p)
{
	__shared__ double scratch[KERNEL_THREADS];
	column_walk walk = walk_of(p.columns);
	const T *x = (const T *)p.x + walk.channel;
	double sum, unused;
	walk_sums(
		walk, &sum, &unused,
		[&](uint64_t row) {
			return loaded{ load(x, row * p.columns.channels), 0.0f };
		},
		[&](uint64_t, const loaded &value, float &a, float &) { a += value.x; });
	store_column_partial(p.columns, p.partial, 0, sum, scratch, p.adds);
}
INSTANTIATE(sum_rows, column_sums_parameters)

/* x and dy of a row. */
template <typename T> DEVICE loaded load_pair(const void *x, const void *dy, uint64_t at)
{
	return { load((const T *)x, at), load((const T *)dy, at) };
}

/* dgamma and dbeta of layer normalisation, whose mean and deviation belong to rows. */
template <typename T> DEVICE void layer_norm_grad_param_body(const column_sums_parameters &p)
{
	__shared__ double scratch[KERNEL_THREADS];
	column_walk walk = walk_of(p.columns);
	double dgamma, dbeta;
	walk_sums(
		walk, &dgamma, &dbeta,
		[&](uint64_t row) { return load_pair<T>(p.x, p.dy, row * p.columns.channels + walk.channel); },
		[&](uint64_t row, const loaded &value, float &a, float &b) {
			a += value.dy * ((value.x - p.row_mean[row]) * p.row_deviation[row]);
			b += value.dy;
		});
	store_column_partial(p.columns, p.partial, 0, dgamma, scratch);
	store_column_partial(p.columns, p.partial, 1, dbeta, scratch);
}
INSTANTIATE(layer_norm_grad_param, column_sums_parameters)

/* The same of group normalisation, whose mean and deviation belong to a group of a sample. */
template <typename T> DEVICE void group_norm_grad_param_body(const column_sums_parameters &p)
{
	__shared__ double scratch[KERNEL_THREADS];
	column_walk walk = walk_of(p.columns);
	uint32_t group = walk.channel / (p.columns.channels / p.groups);
	double dgamma, dbeta;
	walk_sums(
		walk, &dgamma, &dbeta,
		[&](uint64_t row) { return load_pair<T>(p.x, p.dy, row * p.columns.channels + walk.channel); },
		[&](uint64_t row, const loaded &value, float &a, float &b) {
			uint64_t of = divide(row, p.positions).value * p.groups + group;
			a += value.dy * ((value.x - p.row_mean[of]) * p.row_deviation[of]);
			b += value.dy;
		});
	store_column_partial(p.columns, p.partial, 0, dgamma, scratch);
	store_column_partial(p.columns, p.partial, 1, dbeta, scratch);
}
INSTANTIATE(group_norm_grad_param, column_sums_parameters)

/* dgamma of RMS normalisation, which has no mean and no beta. */
template <typename T> DEVICE void rms_norm_grad_param_body(const column_sums_parameters &p)
{
	__shared__ double scratch[KERNEL_THREADS];
	column_walk walk = walk_of(p.columns);
	double dgamma, unused;
	walk_sums(
		walk, &dgamma, &unused,
		[&](uint64_t row) { return load_pair<T>(p.x, p.dy, row * p.columns.channels + walk.channel); },
		[&](uint64_t row, const loaded &value, float &a, float &) {
			a += value.dy * (value.x * p.row_deviation[row]);
		});
	store_column_partial(p.columns, p.partial, 0, dgamma, scratch);
}
INSTANTIATE(rms_norm_grad_param, column_sums_parameters)

/* Sum of the partial sums of one kind; complete in the threads with threadIdx.y == 0. */
DEVICE double column_total(const column_totals_parameters &p, uint32_t sum, uint32_t channel, double *scratch)
{
	const double *partial = p.partial + (uint64_t)sum * p.columns.row_chunks * p.columns.channels + channel;
	double total = 0.0;
	for (uint32_t k = threadIdx.y; k < p.columns.row_chunks && channel < p.columns.channels; k += blockDim.y)
		total += partial[(uint64_t)k * p.columns.channels];
	return column_reduce(total, scratch);
}

KERNEL tarn_finish_columns(PARAMETER(column_totals_parameters) p)
{
	__shared__ double scratch[KERNEL_THREADS];
	uint32_t channel = blockIdx.y * blockDim.x + threadIdx.x;
	double first = column_total(p, 0, channel, scratch);
	double second = p.sums > 1 ? column_total(p, 1, channel, scratch) : 0.0;
	if (threadIdx.y || channel >= p.columns.channels)
		return;
	p.out[0][channel] = (float)first;
	if (p.sums > 1)
		p.out[1][channel] = (float)second;
}

/* ---- batch normalisation ---- */

/*
 * Adds `count` rows to sum and raw second moment. They are summed around their own mean m, in float, where numbers are
 * small; s = n m + sum(x - m) and the raw moment q + 2 m sum(x - m) + n m^2 are exact identities, so that in double
 * nothing is lost even when the mean is a thousand deviations.
 */
template <typename T> DEVICE void stats_run(const T *x, uint64_t stride, uint32_t count, double &sum, double &raw)
{
	float value[KERNEL_RUN], middle = 0.0f, first = 0.0f, second = 0.0f;
#pragma unroll
	for (uint32_t k = 0; k < KERNEL_RUN; k++)
		value[k] = k < count ? load(x, k * stride) : 0.0f;
#pragma unroll
	for (uint32_t k = 0; k < KERNEL_RUN; k++)
		middle += value[k];
	middle *= 1.0f / (float)count;
#pragma unroll
	for (uint32_t k = 0; k < KERNEL_RUN; k++) {
		float d = k < count ? value[k] - middle : 0.0f;
		first += d;
		second += d * d;
	}
	double n = (double)count, m = (double)middle, d = (double)first;
	sum += n * m + d;
	raw += (double)second + 2.0 * m * d + n * m * m;
}

template <typename T> DEVICE void batch_stats_body(const batch_norm_parameters &p)
{
	__shared__ double scratch[KERNEL_THREADS];
	column_walk walk = walk_of(p.columns);
	const T *x = (const T *)p.x + walk.channel;
	double sum = 0.0, raw = 0.0;
	uint64_t stride = (uint64_t)blockDim.y * p.columns.channels, row = walk.first;
	if (walk.exists && row < walk.end) {
		uint64_t count = (walk.end - row + blockDim.y - 1) / blockDim.y;
		for (; count >= KERNEL_RUN; count -= KERNEL_RUN, row += (uint64_t)blockDim.y * KERNEL_RUN)
			stats_run(x + row * p.columns.channels, stride, KERNEL_RUN, sum, raw);
		if (count)
			stats_run(x + row * p.columns.channels, stride, (uint32_t)count, sum, raw);
	}
	store_column_partial(p.columns, p.partial, 0, sum, scratch);
	store_column_partial(p.columns, p.partial, 1, raw, scratch);
}
INSTANTIATE(batch_stats, batch_norm_parameters)

KERNEL tarn_finish_batch_stats(PARAMETER(column_totals_parameters) p)
{
	__shared__ double scratch[KERNEL_THREADS];
	uint32_t channel = blockIdx.y * blockDim.x + threadIdx.x;
	double rows = (double)p.columns.rows;
	double mean = column_total(p, 0, channel, scratch) / rows;
	double variance = column_total(p, 1, channel, scratch) / rows - mean * mean;
	if (threadIdx.y || channel >= p.columns.channels)
		return;
	p.out[0][channel] = (float)mean;
	p.out[1][channel] = variance < 0.0 ? 0.0f : (float)variance;
}

/* What belongs to a channel. */
struct channel_norm {
	float mean, deviation, scale, beta;
};

DEVICE channel_norm channel_norm_of(const batch_norm_parameters &p, const column_walk &walk)
{
	channel_norm norm = {};
	if (!walk.exists)
		return norm;
	norm.mean = p.mean[walk.channel];
	norm.deviation = 1.0f / sqrtf(p.variance[walk.channel] + p.epsilon);
	norm.scale = p.gamma[walk.channel] * norm.deviation;
	norm.beta = p.beta[walk.channel];
	return norm;
}

/* The one expression for BATCH_APPLY and for its recomputation in the gradients, which must find the same sign. */
DEVICE float normalised(float x, const channel_norm &norm)
{
	return (x - norm.mean) * norm.scale + norm.beta;
}

template <typename T> DEVICE void batch_apply_body(const batch_norm_parameters &p)
{
	column_walk walk = walk_of(p.columns);
	channel_norm norm = channel_norm_of(p, walk);
	const T *x = (const T *)p.x + walk.channel;
	T *y = (T *)p.y + walk.channel;
	walk_map(
		walk,
		[&](uint64_t row) {
			return loaded{ load(x, row * p.columns.channels), 0.0f };
		},
		[&](uint64_t row, const loaded &value) {
			store(y, row * p.columns.channels, clamp_apply(p.low, p.high, normalised(value.x, norm)));
		});
}
INSTANTIATE(batch_apply, batch_norm_parameters)

/* dy behind the derivative of the fused activation. */
DEVICE float masked(const batch_norm_parameters &p, const loaded &value, const channel_norm &norm)
{
	return clamp_grad(p.low, p.high, normalised(value.x, norm), value.dy);
}

template <typename T> DEVICE void batch_reduce_body(const batch_norm_parameters &p)
{
	__shared__ double scratch[KERNEL_THREADS];
	column_walk walk = walk_of(p.columns);
	channel_norm norm = channel_norm_of(p, walk);
	double dgamma, dbeta;
	walk_sums(
		walk, &dgamma, &dbeta,
		[&](uint64_t row) { return load_pair<T>(p.x, p.dy, row * p.columns.channels + walk.channel); },
		[&](uint64_t, const loaded &value, float &a, float &b) {
			float g = masked(p, value, norm);
			a += g * ((value.x - norm.mean) * norm.deviation);
			b += g;
		});
	store_column_partial(p.columns, p.partial, 0, dgamma, scratch);
	store_column_partial(p.columns, p.partial, 1, dbeta, scratch);
}
INSTANTIATE(batch_reduce, batch_norm_parameters)

/* dx = scale * (g - dbeta/m - xhat * dgamma/m) */
template <typename T> DEVICE void batch_grad_input_body(const batch_norm_parameters &p)
{
	column_walk walk = walk_of(p.columns);
	channel_norm norm = channel_norm_of(p, walk);
	float reciprocal = 1.0f / (float)p.columns.rows;
	float gamma_share = walk.exists ? p.dgamma[walk.channel] * reciprocal : 0.0f;
	float beta_share = walk.exists ? p.dbeta[walk.channel] * reciprocal : 0.0f;
	T *dx = (T *)p.y + walk.channel;
	walk_map(
		walk, [&](uint64_t row) { return load_pair<T>(p.x, p.dy, row * p.columns.channels + walk.channel); },
		[&](uint64_t row, const loaded &value) {
			float xhat = (value.x - norm.mean) * norm.deviation;
			float dx_value = norm.scale * (masked(p, value, norm) - beta_share - xhat * gamma_share);
			store(dx, row * p.columns.channels, dx_value);
		});
}
INSTANTIATE(batch_grad_input, batch_norm_parameters)

KERNEL tarn_running_update(PARAMETER(running_update_parameters) p)
{
	uint32_t c = blockIdx.x * KERNEL_THREADS + threadIdx.x;
	if (c < p.channels) {
		p.new_mean[c] = p.keep * p.old_mean[c] + p.momentum * p.mean[c];
		p.new_variance[c] = p.keep * p.old_variance[c] + p.momentum * (p.variance[c] * p.unbiased);
	}
	if (c == 0)
		*p.new_count = *p.old_count + 1;
}

/* ---- behind a product whose library cannot add the bias or apply the activation itself ---- */

template <typename T> DEVICE void epilogue_body(const epilogue_parameters &p)
{
	column_walk walk = walk_of(p.columns);
	float bias = p.bias && walk.exists ? p.bias[walk.channel] : 0.0f;
	T *y = (T *)p.y + walk.channel;
	walk_map(
		walk,
		[&](uint64_t row) {
			return loaded{ load(y, row * p.columns.channels), 0.0f };
		},
		[&](uint64_t row, const loaded &value) {
			store(y, row * p.columns.channels, clamp_apply(p.low, p.high, value.x + bias));
		});
}
INSTANTIATE(epilogue, epilogue_parameters)
