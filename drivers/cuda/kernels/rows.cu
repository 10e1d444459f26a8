/*
 * rows.cu - ops on rows: layer normalisation, cross-entropy over a softmax, the number of correct rows, gradients.
 *
 * A team of blockDim.x threads shares a row, a block has blockDim.y teams and walks over block_rows rows. Threads
 * beyond the last row take part in the barriers with an empty row.
 *
 * Sources: Ba et al. 2016, arXiv:1607.06450; with g = dy * gamma and xhat = (x - mean) * rstd
 *     dx = rstd * (g - avg(g) - xhat * avg(g * xhat)).
 */
#include "device.h"

/* Row number and length for this thread's team in round `round` of the block; length 0 beyond the last row. */
struct team_row {
	uint64_t row, at; /* at: index of the row's first element */
	uint32_t n;
	bool exists;
};

DEVICE team_row team_row_of(const row_parameters &p, uint32_t round)
{
	team_row team;
	team.row = (uint64_t)blockIdx.x * p.block_rows + round + threadIdx.y;
	team.exists = team.row < p.rows;
	team.at = team.row * p.channels;
	team.n = team.exists ? p.channels : 0;
	return team;
}

template <typename F> DEVICE double row_sum(uint32_t n, double *scratch, F f)
{
	return team_sum(strided_sum(threadIdx.x, n, blockDim.x, f), scratch, blockDim.x);
}

/* ---- layer normalisation; biased variance ---- */

template <typename T> DEVICE void layer_norm_body(const row_parameters &p)
{
	__shared__ double scratch[KERNEL_WARPS];
	team_row team = team_row_of(p, 0);
	const T *x = (const T *)p.x + team.at;
	T *y = (T *)p.y + team.at;
	double n = (double)p.channels;
	float mean = (float)(row_sum(team.n, scratch, [&](uint32_t i) { return load(x, i); }) / n);
	double squares = row_sum(team.n, scratch, [&](uint32_t i) {
		float d = load(x, i) - mean;
		return d * d;
	});
	float deviation = 1.0f / sqrtf((float)(squares / n) + p.epsilon);
	for (uint32_t i = threadIdx.x; i < team.n; i += blockDim.x)
		store(y, i, (load(x, i) - mean) * deviation * p.gamma[i] + p.beta[i]);
	if (team.exists && threadIdx.x == 0) {
		p.new_mean[team.row] = mean;
		p.new_deviation[team.row] = deviation;
	}
}
INSTANTIATE(layer_norm, row_parameters)

template <typename T> DEVICE void layer_norm_grad_body(const row_parameters &p)
{
	__shared__ double scratch[KERNEL_WARPS];
	team_row team = team_row_of(p, 0);
	const T *dy = (const T *)p.dy + team.at, *x = (const T *)p.x + team.at;
	T *dx = (T *)p.y + team.at;
	float mean = team.exists ? p.mean[team.row] : 0.0f, deviation = team.exists ? p.deviation[team.row] : 0.0f;
	auto g = [&](uint32_t i) { return load(dy, i) * p.gamma[i]; };
	auto xhat = [&](uint32_t i) { return (load(x, i) - mean) * deviation; };
	double n = (double)p.channels;
	float g_mean = (float)(row_sum(team.n, scratch, g) / n);
	float dot_mean = (float)(row_sum(team.n, scratch, [&](uint32_t i) { return g(i) * xhat(i); }) / n);
	for (uint32_t i = threadIdx.x; i < team.n; i += blockDim.x)
		store(dx, i, deviation * (g(i) - g_mean - xhat(i) * dot_mean));
}
INSTANTIATE(layer_norm_grad, row_parameters)

/* ---- RMS normalisation: the same with a mean of 0, which does not depend on x. Zhang, Sennrich 2019 ---- */

template <typename T> DEVICE void rms_norm_body(const row_parameters &p)
{
	__shared__ double scratch[KERNEL_WARPS];
	team_row team = team_row_of(p, 0);
	const T *x = (const T *)p.x + team.at;
	T *y = (T *)p.y + team.at;
	double squares = row_sum(team.n, scratch, [&](uint32_t i) { return load(x, i) * load(x, i); });
	float deviation = 1.0f / sqrtf((float)(squares / (double)p.channels) + p.epsilon);
	for (uint32_t i = threadIdx.x; i < team.n; i += blockDim.x)
		store(y, i, load(x, i) * deviation * p.gamma[i]);
	if (team.exists && threadIdx.x == 0)
		p.new_deviation[team.row] = deviation;
}
INSTANTIATE(rms_norm, row_parameters)

template <typename T> DEVICE void rms_norm_grad_body(const row_parameters &p)
{
	__shared__ double scratch[KERNEL_WARPS];
	team_row team = team_row_of(p, 0);
	const T *dy = (const T *)p.dy + team.at, *x = (const T *)p.x + team.at;
	T *dx = (T *)p.y + team.at;
	float deviation = team.exists ? p.deviation[team.row] : 0.0f;
	auto g = [&](uint32_t i) { return load(dy, i) * p.gamma[i]; };
	auto xhat = [&](uint32_t i) { return load(x, i) * deviation; };
	double dot = row_sum(team.n, scratch, [&](uint32_t i) { return g(i) * xhat(i); });
	float dot_mean = (float)(dot / (double)p.channels);
	for (uint32_t i = threadIdx.x; i < team.n; i += blockDim.x)
		store(dx, i, deviation * (g(i) - xhat(i) * dot_mean));
}
INSTANTIATE(rms_norm_grad, row_parameters)

/* ---- products of rows: of a direction and its length; Salimans, Kingma 2016, arXiv:1602.07868 ---- */

/* sum(dy * x) of each row */
template <typename T> DEVICE void row_dot_body(const row_parameters &p)
{
	__shared__ double scratch[KERNEL_WARPS];
	team_row team = team_row_of(p, 0);
	const T *dy = (const T *)p.dy + team.at, *x = (const T *)p.x + team.at;
	double dot = row_sum(team.n, scratch, [&](uint32_t i) { return load(dy, i) * load(x, i); });
	if (team.exists && threadIdx.x == 0)
		p.new_mean[team.row] = (float)dot;
}
INSTANTIATE(row_dot, row_parameters)

/* x * gamma / |x|, gamma being one of each row */
template <typename T> DEVICE void weight_norm_body(const row_parameters &p)
{
	__shared__ double scratch[KERNEL_WARPS];
	team_row team = team_row_of(p, 0);
	const T *x = (const T *)p.x + team.at;
	double squares = row_sum(team.n, scratch, [&](uint32_t i) { return load(x, i) * load(x, i); });
	float factor = team.exists ? (float)((double)p.gamma[team.row] / sqrt(squares)) : 0.0f;
	for (uint32_t i = threadIdx.x; i < team.n; i += blockDim.x)
		store((T *)p.y + team.at, i, load(x, i) * factor);
}
INSTANTIATE(weight_norm, row_parameters)

/* dgamma = dy . x / |x|;  dx = gamma / |x| * (dy - x * (dy . x) / |x|^2)   (their equation 3) */
template <typename T> DEVICE void weight_norm_grad_body(const row_parameters &p)
{
	__shared__ double scratch[KERNEL_WARPS];
	team_row team = team_row_of(p, 0);
	const T *dy = (const T *)p.dy + team.at, *x = (const T *)p.x + team.at;
	double squares = row_sum(team.n, scratch, [&](uint32_t i) { return load(x, i) * load(x, i); });
	double dot = row_sum(team.n, scratch, [&](uint32_t i) { return load(dy, i) * load(x, i); });
	if (!team.exists)
		return;
	float factor = (float)((double)p.gamma[team.row] / sqrt(squares)), along = (float)(dot / squares);
	for (uint32_t i = threadIdx.x; i < team.n; i += blockDim.x)
		store((T *)p.y + team.at, i, factor * (load(dy, i) - load(x, i) * along));
	if (threadIdx.x == 0)
		p.new_mean[team.row] = (float)(dot / sqrt(squares));
}
INSTANTIATE(weight_norm_grad, row_parameters)

/* ---- cross-entropy over a softmax ---- */

struct softmax {
	float largest;
	double sum; /* of exp(x_k - largest) */
};

/* Of scale * x. */
template <typename T>
DEVICE softmax row_softmax(const T *x, uint32_t n, float scale, float *scratch, double *sum_scratch)
{
	softmax row = { -INFINITY, 0.0 };
	auto larger = [](float a, float b) { return b > a ? b : a; };
	for (uint32_t k = threadIdx.x; k < n; k += blockDim.x)
		row.largest = larger(row.largest, scale * load(x, k));
	row.largest = team_reduce(row.largest, scratch, blockDim.x, larger);
	row.sum = row_sum(n, sum_scratch, [&](uint32_t k) { return expf(scale * load(x, k) - row.largest); });
	return row;
}

/* ---- softmax itself; what a causal one does not see is 0 ---- */

DEVICE uint32_t visible(const row_parameters &p, const team_row &team)
{
	if (!p.causal_rows || !team.exists)
		return team.n;
	return (uint32_t)(team.row % p.causal_rows) + (p.channels - p.causal_rows) + 1;
}

template <typename T> DEVICE void softmax_body(const row_parameters &p)
{
	__shared__ float scratch[KERNEL_WARPS];
	__shared__ double sum_scratch[KERNEL_WARPS];
	team_row team = team_row_of(p, 0);
	const T *x = (const T *)p.x + team.at;
	uint32_t n = visible(p, team);
	softmax row = row_softmax(x, n, p.scale, scratch, sum_scratch);
	float reciprocal = (float)(1.0 / row.sum);
	for (uint32_t k = threadIdx.x; k < team.n; k += blockDim.x)
		store((T *)p.y + team.at, k, k < n ? expf(p.scale * load(x, k) - row.largest) * reciprocal : 0.0f);
}
INSTANTIATE(softmax, row_parameters)

/* scale * y * (dy - sum(dy y)); x of the parameters is y. */
template <typename T> DEVICE void softmax_grad_body(const row_parameters &p)
{
	__shared__ double scratch[KERNEL_WARPS];
	team_row team = team_row_of(p, 0);
	const T *dy = (const T *)p.dy + team.at, *y = (const T *)p.x + team.at;
	uint32_t n = visible(p, team);
	float dot = (float)row_sum(n, scratch, [&](uint32_t k) { return load(dy, k) * load(y, k); });
	for (uint32_t k = threadIdx.x; k < team.n; k += blockDim.x)
		store((T *)p.y + team.at, k, k < n ? p.scale * load(y, k) * (load(dy, k) - dot) : 0.0f);
}
INSTANTIATE(softmax_grad, row_parameters)

template <typename T> DEVICE void log_softmax_body(const row_parameters &p)
{
	__shared__ float scratch[KERNEL_WARPS];
	__shared__ double sum_scratch[KERNEL_WARPS];
	team_row team = team_row_of(p, 0);
	const T *x = (const T *)p.x + team.at;
	softmax row = row_softmax(x, team.n, 1.0f, scratch, sum_scratch);
	float lse = (float)((double)row.largest + log(row.sum));
	for (uint32_t k = threadIdx.x; k < team.n; k += blockDim.x)
		store((T *)p.y + team.at, k, load(x, k) - lse);
}
INSTANTIATE(log_softmax, row_parameters)

template <typename T> DEVICE void log_softmax_grad_body(const row_parameters &p)
{
	__shared__ double scratch[KERNEL_WARPS];
	team_row team = team_row_of(p, 0);
	const T *dy = (const T *)p.dy + team.at, *y = (const T *)p.x + team.at;
	float sum = (float)row_sum(team.n, scratch, [&](uint32_t k) { return load(dy, k); });
	for (uint32_t k = threadIdx.x; k < team.n; k += blockDim.x)
		store((T *)p.y + team.at, k, load(dy, k) - expf(load(y, k)) * sum);
}
INSTANTIATE(log_softmax_grad, row_parameters)

/* Adds what the first thread of each team has; the block's first thread stores it. */
DEVICE void store_partial(const row_parameters &p, double total, double *scratch)
{
	total = team_sum(threadIdx.x == 0 ? total : 0.0, scratch, KERNEL_THREADS);
	if (threadIdx.x == 0 && threadIdx.y == 0)
		p.partial[blockIdx.x] = total;
}

DEVICE bool label_counts(const row_parameters &p, int32_t label)
{
	return !p.ignores || label != p.ignored;
}

/*
 * lse - (1-s) * logit[label] - s/K * sum(logits) with s = smoothing (Szegedy et al. 2016). A label outside the classes
 * reads nothing and gives NaN.
 */
template <typename T> DEVICE void cross_entropy_body(const row_parameters &p)
{
	__shared__ float scratch[KERNEL_WARPS];
	__shared__ double sum_scratch[KERNEL_WARPS];
	double total = 0.0, smoothing = (double)p.smoothing;
	for (uint32_t round = 0; round < p.block_rows; round += blockDim.y) {
		team_row team = team_row_of(p, round);
		const T *x = (const T *)p.x + team.at;
		softmax row = row_softmax(x, team.n, 1.0f, scratch, sum_scratch);
		double sum = 0.0;
		if (p.smoothing > 0.0f)
			sum = row_sum(team.n, sum_scratch, [&](uint32_t k) { return load(x, k); });
		if (!team.exists || threadIdx.x)
			continue;
		if (p.new_lse)
			p.new_lse[team.row] = (float)((double)row.largest + log(row.sum));
		if (!label_counts(p, p.label[team.row]))
			continue;
		uint32_t label = (uint32_t)p.label[team.row];
		double at = label < team.n ? (double)load(x, label) : (double)NAN;
		total += log(row.sum) - (1.0 - smoothing) * (at - (double)row.largest);
		if (p.smoothing > 0.0f)
			total -= smoothing * (sum / (double)team.n - (double)row.largest);
	}
	store_partial(p, total, sum_scratch);
}
INSTANTIATE(cross_entropy, row_parameters)

/* dx = (softmax - (1-s) onehot - s/K) * dloss / counted rows; 0 in rows that are ignored. With an lse softmax is exp(x
 * - lse). */
template <typename T> DEVICE void cross_entropy_grad_body(const row_parameters &p)
{
	__shared__ float scratch[KERNEL_WARPS];
	__shared__ double sum_scratch[KERNEL_WARPS];
	team_row team = team_row_of(p, 0);
	const float *x = (const float *)p.x + team.at; /* logits are float, their gradient is stored */
	T *dx = (T *)p.y + team.at;
	softmax row = { 0.0f, 1.0 };
	if (!p.lse)
		row = row_softmax(x, team.n, 1.0f, scratch, sum_scratch);
	else if (team.exists)
		row.largest = p.lse[team.row];
	float share = *p.factor / (p.counted ? (float)*p.counted : (float)p.all_rows);
	float reciprocal = (float)(1.0 / row.sum);
	float less = p.smoothing / (float)p.channels, hit = 1.0f - p.smoothing;
	uint32_t label = team.exists ? (uint32_t)p.label[team.row] : 0;
	bool counts = label_counts(p, (int32_t)label);
	for (uint32_t k = threadIdx.x; k < team.n; k += blockDim.x) {
		float value = expf(load(x, k) - row.largest) * reciprocal - less;
		store(dx, k, counts ? (k == label ? value - hit : value) * share : 0.0f);
	}
}
INSTANTIATE(cross_entropy_grad, row_parameters)

/* ((1-s) onehot + s/K) / counted rows; 0 in rows that are ignored. An element for each thread. */
KERNEL tarn_label_weights(PARAMETER(row_parameters) p)
{
	quotient place = divide((uint64_t)blockIdx.x * KERNEL_THREADS + threadIdx.x, p.channels);
	if (place.value >= p.rows)
		return;
	int32_t label = p.label[place.value];
	float share = 1.0f / (p.counted ? (float)*p.counted : (float)p.all_rows);
	float value = p.smoothing / (float)p.channels + (place.rest == (uint32_t)label ? 1.0f - p.smoothing : 0.0f);
	((float *)p.y)[place.value * p.channels + place.rest] = label_counts(p, label) ? value * share : 0.0f;
}

DEVICE double counted_labels(const label_share_parameters &p, const int32_t *label, uint64_t labels, double *scratch)
{
	double counted = 0.0;
	for (uint64_t i = threadIdx.x; i < labels; i += KERNEL_THREADS)
		counted += !p.ignores || label[i] != p.ignored ? 1.0 : 0.0;
	return team_sum(counted, scratch, KERNEL_THREADS);
}

/* One block. 0 where the part has none, whatever x is; x itself where the whole has none. */
KERNEL tarn_label_share(PARAMETER(label_share_parameters) p)
{
	__shared__ double scratch[KERNEL_WARPS];
	double part = counted_labels(p, p.part, p.part_labels, scratch);
	double whole = counted_labels(p, p.whole, p.whole_labels, scratch);
	if (threadIdx.x == 0)
		*p.y = whole == 0.0 ? *p.x : part == 0.0 ? 0.0f : (float)((double)*p.x * (part / whole));
}

/* One block. */
KERNEL tarn_count_labels(PARAMETER(count_labels_parameters) p)
{
	__shared__ double scratch[KERNEL_WARPS];
	double counted = 0.0;
	for (uint64_t row = threadIdx.x; row < p.rows; row += KERNEL_THREADS)
		counted += p.label[row] != p.ignored ? 1.0 : 0.0;
	counted = team_sum(counted, scratch, KERNEL_THREADS);
	if (threadIdx.x == 0)
		*p.counted = counted;
}

/*
 * A number that is larger for a larger value, and among equal values for a smaller index. NaN loses, except as the
 * first element, which nothing is larger than.
 */
DEVICE unsigned long long rank_of(float value, uint32_t index)
{
	if (value != value)
		value = index ? -INFINITY : INFINITY;
	uint32_t bits = __float_as_uint(value + 0.0f); /* -0 becomes 0 */
	bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
	return (unsigned long long)bits << 32 | (uint32_t)~index;
}

template <typename T> DEVICE void count_correct_body(const row_parameters &p)
{
	__shared__ unsigned long long scratch[KERNEL_WARPS];
	__shared__ double sum_scratch[KERNEL_WARPS];
	double correct = 0.0;
	for (uint32_t round = 0; round < p.block_rows; round += blockDim.y) {
		team_row team = team_row_of(p, round);
		const T *x = (const T *)p.x + team.at;
		unsigned long long best = 0;
		auto larger = [](unsigned long long a, unsigned long long b) { return b > a ? b : a; };
		for (uint32_t k = threadIdx.x; k < team.n; k += blockDim.x)
			best = larger(best, rank_of(load(x, k), k));
		best = team_reduce(best, scratch, blockDim.x, larger);
		if (!team.exists || threadIdx.x || !label_counts(p, p.label[team.row]))
			continue;
		correct += (uint32_t)~best == (uint32_t)p.label[team.row] ? 1.0 : 0.0;
	}
	store_partial(p, correct, sum_scratch);
}
INSTANTIATE(count_correct, row_parameters)
