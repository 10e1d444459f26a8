/*
 * loss.c - cross-entropy over a softmax, mean squared error, the number of correct rows, the gradients, and the weights
 * of labels.
 *
 * Sums are double and in the order of the rows, then of the chunks.
 */
#include "cpu/lanes.h"
#include "cpu/reduction.h"
#include "cpu/rows.h"

#include <math.h>
#include <string.h>

static void cross_entropy_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *logits = kernel_input(instr->kernel, 0);
	const struct label_rule rule = label_rule_of(instr->kernel);
	const int32_t *label = instr->address[1];
	uint32_t classes = logits->channels;
	struct range rows = chunk_range(instr->kernel, chunk, logits->rows);
	double total = 0.0;
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		const float *x = (const float *)instr->address[0] + r * classes;
		if (!label_counts(&rule, label[r]))
			continue;
		struct row_exponentials sum = row_exponentials(x, classes);
		total += row_loss(&rule, x, classes, label[r], (double)sum.largest + log(sum.total));
	}
	((double *)instr->workspace)[chunk] = total;
}

static void cross_entropy_grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *logits = kernel_input(instr->kernel, 0);
	const struct label_rule rule = label_rule_of(instr->kernel);
	const int32_t *label = instr->address[1];
	uint32_t classes = logits->channels;
	float share = *(const float *)instr->address[2] / (float)labels_counted(&rule, label, logits->rows);
	struct range rows = chunk_range(instr->kernel, chunk, logits->rows);
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		const float *x = (const float *)instr->address[0] + r * classes;
		float *dx = (float *)instr_output(instr, 0) + r * classes;
		if (!label_counts(&rule, label[r])) {
			memset(dx, 0, classes * sizeof *dx);
			continue;
		}
		struct row_exponentials sum = row_exponentials(x, classes);
		row_loss_grad(&rule, x, dx, classes, label[r], sum.largest, (float)(1.0 / sum.total), share);
	}
}

static void label_weights_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *labels = kernel_input(instr->kernel, 0);
	const struct label_rule rule = label_rule_of(instr->kernel);
	const int32_t *label = instr->address[0];
	uint32_t classes = kernel_output(instr->kernel, 0)->channels;
	double share = 1.0 / (double)labels_counted(&rule, label, labels->elements), s = (double)rule.smoothing;
	struct range rows = chunk_range(instr->kernel, chunk, labels->elements);
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		float *q = (float *)instr_output(instr, 0) + r * classes;
		float others = label_counts(&rule, label[r]) ? (float)(share * s / classes) : 0.0f;
		for (uint32_t k = 0; k < classes; k++)
			q[k] = others;
		if (label_counts(&rule, label[r]) && (uint32_t)label[r] < classes)
			q[label[r]] = (float)(share * (1.0 - s + s / classes));
	}
}

static bool is_first_largest(const float *x, uint32_t classes, uint32_t label)
{
	float largest = lanes_largest(x, classes, 1.0f);
	if (label >= classes || x[label] != largest)
		return false;
	for (uint32_t k = 0; k < label; k++)
		if (x[k] == largest)
			return false;
	return true;
}

static void count_correct_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *logits = kernel_input(instr->kernel, 0);
	const struct label_rule rule = label_rule_of(instr->kernel);
	const int32_t *label = instr->address[1];
	uint32_t classes = logits->channels;
	struct range rows = chunk_range(instr->kernel, chunk, logits->rows);
	double correct = 0.0;
	for (uint64_t r = rows.begin; r < rows.end; r++) {
		const float *x = (const float *)instr->address[0] + r * classes;
		correct += label_counts(&rule, label[r]) && is_first_largest(x, classes, (uint32_t)label[r]);
	}
	((double *)instr->workspace)[chunk] = correct;
}

static void squared_error_body(const struct bound_instr *instr, uint64_t chunk)
{
	const float *prediction = instr->address[0], *target = instr->address[1];
	struct range range = chunk_range(instr->kernel, chunk, kernel_input(instr->kernel, 0)->elements);
	double total = 0.0;
	for (uint64_t i = range.begin; i < range.end; i++) {
		double d = (double)prediction[i] - (double)target[i];
		total += d * d;
	}
	((double *)instr->workspace)[chunk] = total;
}

CPU_CLONES static void squared_error_grad(const float *prediction, const float *target, float *out, uint64_t n,
					  float factor)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		out[i] = (prediction[i] - target[i]) * factor;
}

static void squared_error_grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	uint64_t elements = kernel_input(instr->kernel, 0)->elements;
	struct range range = chunk_range(instr->kernel, chunk, elements);
	float factor = (float)(2.0 * (double)*(const float *)instr->address[2] / (double)elements);
	squared_error_grad((const float *)instr->address[0] + range.begin,
			   (const float *)instr->address[1] + range.begin,
			   (float *)instr_output(instr, 0) + range.begin, range.end - range.begin, factor);
}

static void mean_finish(const struct bound_instr *instr)
{
	const struct operand *in = kernel_input(instr->kernel, 0);
	const struct label_rule rule = label_rule_of(instr->kernel);
	uint64_t divisor = instr->kernel->kind == OP_MEAN_SQUARED_ERROR
				   ? in->elements
				   : labels_counted(&rule, instr->address[1], in->rows);
	*(float *)instr_output(instr, 0) = (float)(reduction_total(instr) / (double)divisor);
}

static void sum_finish(const struct bound_instr *instr)
{
	*(float *)instr_output(instr, 0) = (float)reduction_total(instr);
}

/* A few thousand labels at most: one chunk counts them. */
static void label_share_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct label_rule rule = label_rule_of(instr->kernel);
	uint64_t part = labels_counted(&rule, instr->address[1], kernel_input(instr->kernel, 1)->elements);
	uint64_t whole = labels_counted(&rule, instr->address[2], kernel_input(instr->kernel, 2)->elements);
	const float *x = instr->address[0];
	float *y = instr_output(instr, 0);
	(void)chunk;
	if (!whole)
		*y = *x;
	else
		*y = part ? (float)((double)*x * (double)part / (double)whole) : 0.0f;
}

enum tarn_status loss_prepare(struct device *device, struct kernel *kernel)
{
	const struct operand *in = kernel_input(kernel, 0);
	(void)device;
	if (kernel->kind == OP_SOFTMAX_CROSS_ENTROPY)
		reduction_prepare(kernel, cross_entropy_body, in->rows, in->channels, mean_finish);
	else if (kernel->kind == OP_COUNT_CORRECT)
		reduction_prepare(kernel, count_correct_body, in->rows, in->channels, sum_finish);
	else if (kernel->kind == OP_MEAN_SQUARED_ERROR)
		reduction_prepare(kernel, squared_error_body, in->elements, 1, mean_finish);
	else if (kernel->kind == OP_LABEL_WEIGHTS)
		kernel_cut(kernel, label_weights_body, in->elements,
			   CPU_CHUNK_ELEMENTS / kernel_output(kernel, 0)->channels);
	else if (kernel->kind == OP_LABEL_SHARE)
		kernel_cut(kernel, label_share_body, 1, 1);
	else if (kernel->kind == OP_SOFTMAX_CROSS_ENTROPY_GRAD)
		kernel_cut(kernel, cross_entropy_grad_body, in->rows, CPU_CHUNK_ELEMENTS / 16 / in->channels);
	else
		kernel_cut(kernel, squared_error_grad_body, in->elements, CPU_CHUNK_ELEMENTS);
	return TARN_OK;
}
