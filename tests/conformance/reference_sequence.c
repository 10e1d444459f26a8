/* reference_sequence.c - the ops of sequence models as plain loops over doubles; see reference.h. */
#include "conformance/reference.h"

#include <math.h>
#include <string.h>

static uint64_t last_of(const struct reference_operand *x)
{
	return x->rank ? x->dim[x->rank - 1] : 1;
}

static void clear(struct reference_operand *x)
{
	memset(x->value, 0, x->elements * sizeof *x->value);
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static void batch_matmul(const struct op_attr *attr, const struct reference_operand *in, struct reference_operand *c)
{
	const uint32_t *a_dim = &in[0].dim[in[0].rank - 2], *b_dim = &in[1].dim[in[1].rank - 2];
	const uint32_t *c_dim = &c->dim[c->rank - 2];
	uint64_t inner = a_dim[attr->transpose_a ? 0 : 1], many = c->elements / ((uint64_t)c_dim[0] * c_dim[1]);
	double alpha = attr->alpha == 0 ? 1 : (double)attr->alpha;
	for (uint64_t g = 0; g < many; g++)
		for (uint64_t i = 0; i < c_dim[0]; i++)
			for (uint64_t j = 0; j < c_dim[1]; j++) {
				const double *a = in[0].value + g * a_dim[0] * a_dim[1];
				const double *b = in[1].value + g * b_dim[0] * b_dim[1];
				double sum = 0;
				for (uint64_t l = 0; l < inner; l++)
					sum += a[attr->transpose_a ? l * a_dim[1] + i : i * a_dim[1] + l] *
					       b[attr->transpose_b ? j * b_dim[1] + l : l * b_dim[1] + j];
				c->value[(g * c_dim[0] + i) * c_dim[1] + j] = alpha * sum;
			}
}

static void embedding(const struct reference_operand *in, struct reference_operand *y)
{
	uint64_t n = last_of(&in[0]);
	for (uint64_t i = 0; i < y->elements; i++) {
		double id = in[1].value[i / n];
		y->value[i] = id >= 0 && id < in[0].dim[0] ? in[0].value[(uint64_t)id * n + i % n] : NAN;
	}
}

static void embedding_grad(const struct reference_operand *in, struct reference_operand *table)
{
	uint64_t n = last_of(&in[0]);
	for (uint64_t i = 0; i < in[0].elements; i++) {
		double id = in[1].value[i / n];
		if (id >= 0 && id < table->dim[0])
			table->value[(uint64_t)id * n + i % n] += in[0].value[i];
	}
}

/* Columns of a row that count. */
static uint64_t seen(const struct op_attr *attr, const struct reference_operand *x, uint64_t row)
{
	uint64_t columns = last_of(x), rows = x->rank > 1 ? x->dim[x->rank - 2] : 1;
	return attr->causal ? row % rows + columns - rows + 1 : columns;
}

static void softmax(const struct op_attr *attr, bool logarithm, const struct reference_operand *x,
		    struct reference_operand *y)
{
	uint64_t n = last_of(x);
	double alpha = attr->alpha == 0 ? 1 : (double)attr->alpha;
	for (uint64_t r = 0; r < x->elements / n; r++) {
		double largest = -INFINITY, sum = 0;
		uint64_t count = seen(attr, x, r);
		for (uint64_t j = 0; j < count; j++)
			largest = fmax(largest, alpha * x->value[r * n + j]);
		for (uint64_t j = 0; j < count; j++)
			sum += exp(alpha * x->value[r * n + j] - largest);
		for (uint64_t j = 0; j < n; j++) {
			double z = alpha * x->value[r * n + j] - largest;
			y->value[r * n + j] = j >= count ? 0 : logarithm ? z - log(sum) : exp(z) / sum;
		}
	}
}

static void softmax_grad(const struct op_attr *attr, bool logarithm, const struct reference_operand *in,
			 struct reference_operand *dx)
{
	uint64_t n = last_of(&in[0]);
	double alpha = attr->alpha == 0 ? 1 : (double)attr->alpha;
	for (uint64_t r = 0; r < dx->elements / n; r++) {
		const double *dy = in[0].value + r * n, *y = in[1].value + r * n;
		uint64_t count = seen(attr, &in[0], r);
		double sum = 0;
		for (uint64_t j = 0; j < count; j++)
			sum += logarithm ? dy[j] : dy[j] * y[j];
		for (uint64_t j = 0; j < n; j++)
			dx->value[r * n + j] = j >= count  ? 0
					       : logarithm ? dy[j] - exp(y[j]) * sum
							   : alpha * y[j] * (dy[j] - sum);
	}
}

/* q, k, v and the position of an element in them. */
struct attention {
	const struct op_attr *attr;
	const struct reference_operand *q, *k, *v;
	double scale;
};

static double *head_at(const struct reference_operand *x, uint64_t b, uint64_t t, uint64_t h)
{
	return x->value + ((b * x->dim[1] + t) * x->dim[2] + h) * x->dim[3];
}

static struct attention attention_of(const struct op_attr *attr, const struct reference_operand *q)
{
	double scale = attr->alpha > 0 ? (double)attr->alpha : 1 / sqrt((double)q->dim[3]);
	return (struct attention){ attr, q, q + 1, q + 2, scale };
}

static double score(const struct attention *a, uint64_t b, uint64_t h, uint64_t i, uint64_t j)
{
	const double *q = head_at(a->q, b, i, h), *k = head_at(a->k, b, j, h / (a->q->dim[2] / a->k->dim[2]));
	double sum = 0;
	for (uint64_t d = 0; d < a->q->dim[3]; d++)
		sum += q[d] * k[d];
	return sum * a->scale;
}

static uint64_t keys_seen(const struct attention *a, uint64_t i)
{
	return a->attr->causal ? i + a->k->dim[1] - a->q->dim[1] + 1 : a->k->dim[1];
}

static void attention_forward(const struct attention *a, struct reference_operand *o, struct reference_operand *lse)
{
	const uint32_t *dim = a->q->dim;
	for (uint64_t b = 0; b < dim[0]; b++)
		for (uint64_t h = 0; h < dim[2]; h++)
			for (uint64_t i = 0; i < dim[1]; i++) {
				double largest = -INFINITY, sum = 0, *out = head_at(o, b, i, h);
				for (uint64_t j = 0; j < keys_seen(a, i); j++)
					largest = fmax(largest, score(a, b, h, i, j));
				for (uint64_t j = 0; j < keys_seen(a, i); j++)
					sum += exp(score(a, b, h, i, j) - largest);
				for (uint64_t d = 0; d < dim[3]; d++)
					out[d] = 0;
				for (uint64_t j = 0; j < keys_seen(a, i); j++) {
					const double *v = head_at(a->v, b, j, h / (dim[2] / a->v->dim[2]));
					double p = exp(score(a, b, h, i, j) - largest) / sum;
					for (uint64_t d = 0; d < dim[3]; d++)
						out[d] += p * v[d];
				}
				lse->value[(b * dim[2] + h) * dim[1] + i] = largest + log(sum);
			}
}

static void attention_backward(const struct attention *a, const struct reference_operand *in,
			       struct reference_operand *out)
{
	const uint32_t *dim = a->q->dim;
	for (int k = 0; k < 3; k++)
		clear(&out[k]);
	for (uint64_t b = 0; b < dim[0]; b++)
		for (uint64_t h = 0; h < dim[2]; h++)
			for (uint64_t i = 0; i < dim[1]; i++) {
				const double *g = head_at(&in[0], b, i, h), *o = head_at(&in[4], b, i, h);
				double lse = in[5].value[(b * dim[2] + h) * dim[1] + i], delta = 0;
				uint64_t group = h / (dim[2] / a->k->dim[2]);
				for (uint64_t d = 0; d < dim[3]; d++)
					delta += g[d] * o[d];
				for (uint64_t j = 0; j < keys_seen(a, i); j++) {
					double p = exp(score(a, b, h, i, j) - lse), dp = 0;
					const double *v = head_at(a->v, b, j, group);
					for (uint64_t d = 0; d < dim[3]; d++)
						dp += g[d] * v[d];
					double ds = a->scale * p * (dp - delta);
					for (uint64_t d = 0; d < dim[3]; d++) {
						head_at(&out[0], b, i, h)[d] += ds * head_at(a->k, b, j, group)[d];
						head_at(&out[1], b, j, group)[d] += ds * head_at(a->q, b, i, h)[d];
						head_at(&out[2], b, j, group)[d] += p * g[d];
					}
				}
			}
}

static void rotary(const struct op_attr *attr, const struct reference_operand *x, struct reference_operand *y)
{
	uint64_t width = x->dim[3], half = width / 2, heads = x->dim[2], positions = x->dim[1];
	for (uint64_t i = 0; i < x->elements; i++) {
		uint64_t d = i % width, t = i / width / heads % positions, pair = d % half;
		double angle = (double)t * pow((double)attr->alpha, -2.0 * (double)pair / (double)width);
		double other = d < half ? -x->value[i + half] : x->value[i - half];
		y->value[i] = x->value[i] * cos(angle) + other * sin(attr->transpose_a ? -angle : angle);
	}
}

static void rms_norm(const struct op_attr *attr, const struct reference_operand *in, struct reference_operand *out)
{
	uint64_t n = last_of(&in[0]);
	for (uint64_t r = 0; r < in[0].elements / n; r++) {
		const double *x = in[0].value + r * n;
		double square = 0;
		for (uint64_t i = 0; i < n; i++)
			square += x[i] * x[i] / (double)n;
		out[1].value[r] = 1 / sqrt(square + (double)attr->epsilon);
		for (uint64_t i = 0; i < n; i++)
			out[0].value[r * n + i] = x[i] * out[1].value[r] * in[1].value[i];
	}
}

static void rms_norm_grad(const struct reference_operand *in, struct reference_operand *dx)
{
	uint64_t n = last_of(&in[1]);
	for (uint64_t r = 0; r < in[1].elements / n; r++) {
		double rstd = in[2].value[r], dot = 0;
		for (uint64_t i = 0; i < n; i++)
			dot += in[0].value[r * n + i] * in[3].value[i] * in[1].value[r * n + i] * rstd / (double)n;
		for (uint64_t i = 0; i < n; i++)
			dx->value[r * n + i] =
				rstd * (in[0].value[r * n + i] * in[3].value[i] - in[1].value[r * n + i] * rstd * dot);
	}
}

static void rms_norm_grad_param(const struct reference_operand *in, struct reference_operand *dgamma)
{
	uint64_t n = last_of(&in[1]);
	for (uint64_t i = 0; i < in[1].elements; i++)
		dgamma->value[i % n] += in[0].value[i] * in[1].value[i] * in[2].value[i / n];
}

/* Both factors of a gate. */
static void gate_factors(const struct op_attr *attr, double a, double b, double *first, double *second)
{
	*first = attr->mode == GATE_TANH     ? tanh(a)
		 : attr->mode == GATE_LINEAR ? a
					     : reference_activation(attr->activation, 0, a);
	*second = attr->mode == GATE_ACTIVATION ? b : sigmoid(b);
}

static double gate_slope(const struct op_attr *attr, double a)
{
	if (attr->mode == GATE_TANH)
		return 1 - tanh(a) * tanh(a);
	if (attr->mode == GATE_LINEAR)
		return 1;
	double s = attr->activation == ACTIVATION_SIGMOID ? sigmoid(a) : a;
	return reference_activation_grad(attr->activation, 0, s);
}

static void gate(const struct op_attr *attr, const struct reference_operand *x, struct reference_operand *y)
{
	uint64_t n = last_of(y);
	for (uint64_t i = 0; i < y->elements; i++) {
		const double *row = x->value + i / n * 2 * n;
		double first, second;
		gate_factors(attr, row[i % n], row[n + i % n], &first, &second);
		y->value[i] = first * second;
	}
}

static void gate_grad(const struct op_attr *attr, const struct reference_operand *in, struct reference_operand *dx)
{
	uint64_t n = last_of(&in[0]);
	for (uint64_t i = 0; i < in[0].elements; i++) {
		uint64_t at = i / n * 2 * n + i % n;
		double a = in[1].value[at], b = in[1].value[at + n], first, second;
		gate_factors(attr, a, b, &first, &second);
		dx->value[at] = in[0].value[i] * gate_slope(attr, a) * second;
		dx->value[at + n] =
			in[0].value[i] * first * (attr->mode == GATE_ACTIVATION ? 1 : sigmoid(b) * (1 - sigmoid(b)));
	}
}

static bool counts(const struct op_attr *attr, double label)
{
	return !attr->has_ignore_index || label != attr->ignore_index;
}

double reference_rows_counted(const struct op_attr *attr, const struct reference_operand *labels)
{
	double counted = 0;
	for (uint64_t r = 0; r < labels->elements; r++)
		counted += counts(attr, labels->value[r]);
	return counted;
}

double reference_row_loss(const struct op_attr *attr, const double *x, uint64_t n, double label, double share,
			  double *dx, double *lse)
{
	double largest = x[0], sum = 0, total = 0, s = (double)attr->label_smoothing;
	for (uint64_t k = 0; k < n; k++)
		largest = fmax(largest, x[k]);
	for (uint64_t k = 0; k < n; k++) {
		sum += exp(x[k] - largest);
		total += x[k] - largest;
	}
	if (lse)
		*lse = largest + log(sum);
	bool counted = counts(attr, label);
	for (uint64_t k = 0; k < n && dx; k++)
		dx[k] = counted ? (exp(x[k] - largest) / sum - (1 - s) * (k == label) - s / (double)n) * share : 0;
	return counted ? log(sum) - (1 - s) * (x[(uint64_t)label] - largest) - s / (double)n * total : 0;
}

static void linear_cross_entropy(const struct op_attr *attr, bool backward, const struct reference_operand *in,
				 uint32_t inputs, struct reference_operand *out)
{
	uint64_t c = last_of(&in[0]), v = in[1].dim[0], rows = in[0].elements / c;
	const double *bias = inputs == 4 ? in[3].value : inputs == 6 ? in[5].value : NULL;
	double counted = reference_rows_counted(attr, &in[2]), logits[512], gradient[512];
	for (int k = 0; k < 3 && backward; k++)
		clear(&out[k]);
	for (uint64_t r = 0; r < rows; r++) {
		const double *x = in[0].value + r * c;
		for (uint64_t k = 0; k < v; k++) {
			logits[k] = bias ? bias[k] : 0;
			for (uint64_t i = 0; i < c; i++)
				logits[k] += x[i] * in[1].value[k * c + i];
		}
		if (!backward) {
			out[0].value[0] +=
				reference_row_loss(attr, logits, v, in[2].value[r], 0, NULL, &out[1].value[r]) /
				counted;
			continue;
		}
		/* The gradient reads the sums of the forward pass. */
		double share = in[4].value[0] / counted, s = (double)attr->label_smoothing;
		for (uint64_t k = 0; k < v; k++) {
			double p = exp(logits[k] - in[3].value[r]) - (1 - s) * (k == in[2].value[r]) - s / (double)v;
			gradient[k] = counts(attr, in[2].value[r]) ? p * share : 0;
		}
		for (uint64_t k = 0; k < v; k++) {
			out[2].value[k] += gradient[k];
			for (uint64_t i = 0; i < c; i++) {
				out[0].value[r * c + i] += gradient[k] * in[1].value[k * c + i];
				out[1].value[k * c + i] += gradient[k] * x[i];
			}
		}
	}
}

/* Element i of each of four gates of a row. */
struct lstm_gates {
	double i, f, g, o;
};

static struct lstm_gates lstm_gates(const double *row, uint64_t n, uint64_t i)
{
	return (struct lstm_gates){ sigmoid(row[i]), sigmoid(row[n + i]), tanh(row[2 * n + i]),
				    sigmoid(row[3 * n + i]) };
}

static void lstm_cell(const struct reference_operand *in, struct reference_operand *out)
{
	uint64_t n = last_of(&in[1]);
	for (uint64_t e = 0; e < in[1].elements; e++) {
		struct lstm_gates s = lstm_gates(in[0].value + e / n * 4 * n, n, e % n);
		out[1].value[e] = s.f * in[1].value[e] + s.i * s.g;
		out[0].value[e] = s.o * tanh(out[1].value[e]);
	}
}

static void lstm_cell_grad(const struct reference_operand *in, struct reference_operand *out)
{
	uint64_t n = last_of(&in[3]);
	for (uint64_t e = 0; e < in[3].elements; e++) {
		double *d = out[0].value + e / n * 4 * n + e % n, t = tanh(in[4].value[e]);
		struct lstm_gates s = lstm_gates(in[2].value + e / n * 4 * n, n, e % n);
		double dc = in[1].value[e] + in[0].value[e] * s.o * (1 - t * t);
		d[0] = dc * s.g * s.i * (1 - s.i);
		d[n] = dc * in[3].value[e] * s.f * (1 - s.f);
		d[2 * n] = dc * s.i * (1 - s.g * s.g);
		d[3 * n] = in[0].value[e] * t * s.o * (1 - s.o);
		out[1].value[e] = dc * s.f;
	}
}

static void gru_cell(const struct reference_operand *in, struct reference_operand *h)
{
	uint64_t n = last_of(h);
	for (uint64_t e = 0; e < h->elements; e++) {
		const double *x = in[0].value + e / n * 3 * n + e % n, *y = in[1].value + e / n * 3 * n + e % n;
		double r = sigmoid(x[0] + y[0]), z = sigmoid(x[n] + y[n]);
		h->value[e] = (1 - z) * tanh(x[2 * n] + r * y[2 * n]) + z * in[2].value[e];
	}
}

static void gru_cell_grad(const struct reference_operand *in, struct reference_operand *out)
{
	uint64_t n = last_of(&in[0]);
	for (uint64_t e = 0; e < in[0].elements; e++) {
		uint64_t at = e / n * 3 * n + e % n;
		const double *x = in[1].value + at, *y = in[2].value + at;
		double *dx = out[0].value + at, *dy = out[1].value + at, dh = in[0].value[e];
		double r = sigmoid(x[0] + y[0]), z = sigmoid(x[n] + y[n]), t = tanh(x[2 * n] + r * y[2 * n]);
		dx[2 * n] = dh * (1 - z) * (1 - t * t);
		dy[2 * n] = dx[2 * n] * r;
		dx[0] = dy[0] = dx[2 * n] * y[2 * n] * r * (1 - r);
		dx[n] = dy[n] = dh * (in[3].value[e] - t) * z * (1 - z);
		out[2].value[e] = dh * z;
	}
}

static void repeat(const struct reference_operand *a, const struct reference_operand *b, struct reference_operand *y)
{
	for (uint64_t i = 0; i < y->elements; i++)
		y->value[i] = (a ? a->value[i] : 0) + b->value[i % b->elements];
}

static void average(const struct op_attr *attr, const struct reference_operand *in, struct reference_operand *out)
{
	for (uint64_t i = 0; i < out->elements; i++)
		out->value[i] = (double)attr->alpha * in[0].value[i] + (1 - (double)attr->alpha) * in[1].value[i];
}

bool reference_run_sequence(enum op_kind kind, const struct op_attr *attr, const struct reference_operand *in,
			    uint32_t inputs, struct reference_operand *out)
{
	struct attention attention;
	switch (kind) {
	case OP_BATCH_MATMUL:
		return batch_matmul(attr, in, out), true;
	case OP_ADD_BROADCAST:
		return repeat(&in[0], &in[1], out), true;
	case OP_BROADCAST_ROWS:
		return repeat(NULL, &in[0], out), true;
	case OP_EMBEDDING:
		return embedding(in, out), true;
	case OP_EMBEDDING_GRAD:
		return embedding_grad(in, out), true;
	case OP_SOFTMAX:
	case OP_LOG_SOFTMAX:
		return softmax(attr, kind == OP_LOG_SOFTMAX, in, out), true;
	case OP_SOFTMAX_GRAD:
	case OP_LOG_SOFTMAX_GRAD:
		return softmax_grad(attr, kind == OP_LOG_SOFTMAX_GRAD, in, out), true;
	case OP_ATTENTION:
		attention = attention_of(attr, &in[0]);
		return attention_forward(&attention, &out[0], &out[1]), true;
	case OP_ATTENTION_GRAD:
		attention = attention_of(attr, &in[1]);
		return attention_backward(&attention, in, out), true;
	case OP_ROTARY:
		return rotary(attr, in, out), true;
	case OP_RMS_NORM:
		return rms_norm(attr, in, out), true;
	case OP_RMS_NORM_GRAD:
		return rms_norm_grad(in, out), true;
	case OP_RMS_NORM_GRAD_PARAM:
		return rms_norm_grad_param(in, out), true;
	case OP_GATE:
		return gate(attr, in, out), true;
	case OP_GATE_GRAD:
		return gate_grad(attr, in, out), true;
	case OP_LINEAR_CROSS_ENTROPY:
	case OP_LINEAR_CROSS_ENTROPY_GRAD:
		return linear_cross_entropy(attr, kind == OP_LINEAR_CROSS_ENTROPY_GRAD, in, inputs, out), true;
	case OP_LSTM_CELL:
		return lstm_cell(in, out), true;
	case OP_LSTM_CELL_GRAD:
		return lstm_cell_grad(in, out), true;
	case OP_GRU_CELL:
		return gru_cell(in, out), true;
	case OP_GRU_CELL_GRAD:
		return gru_cell_grad(in, out), true;
	case OP_EXPONENTIAL_AVERAGE:
		return average(attr, in, out), true;
	default:
		return false;
	}
}
