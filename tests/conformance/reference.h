/*
 * reference.h - every op once more, as plain loops over doubles.
 *
 * The oracle of the driver tests: written from the definitions in graph/op.h, slow and plain, sharing nothing with any
 * driver. All dtypes are held as doubles (labels, indices and counters too).
 */
#ifndef TARN_TESTS_REFERENCE_H
#define TARN_TESTS_REFERENCE_H

#include "graph/graph.h"

struct reference_operand {
	uint32_t rank;
	uint32_t dim[OP_MAX_RANK];
	uint64_t elements;
	double *value;
};

/* Computes the outputs, whose shapes are filled in and whose values have room. `scalars` may be NULL when not read. */
void reference_run(enum op_kind kind, const struct op_attr *attr, const struct step_scalars *scalars,
		   const struct reference_operand *input, uint32_t inputs, struct reference_operand *output);

/* reference_image.c: false when the kind is not one of its ops. */
bool reference_run_image(enum op_kind kind, const struct op_attr *attr, const struct reference_operand *input,
			 struct reference_operand *output);
/* reference_sequence.c: the same for the ops of sequence models; false when the op is none of them.
 * Output 0 is zero.
 */
bool reference_run_sequence(enum op_kind kind, const struct op_attr *attr, const struct reference_operand *input,
			    uint32_t inputs, struct reference_operand *output);

/*
 * A row of a cross-entropy: its loss before the mean (0 when it is ignored), its gradient times `share` into dx and its
 * log of the sum into lse, unless NULL. And how many rows are not ignored.
 */
double reference_row_loss(const struct op_attr *attr, const double *x, uint64_t n, double label, double share,
			  double *dx, double *lse);
double reference_rows_counted(const struct op_attr *attr, const struct reference_operand *labels);

double reference_activation(uint32_t activation, double alpha, double x);
/* From the output for those that activation_grad_reads_output names, else from the input. */
double reference_activation_grad(uint32_t activation, double alpha, double s);

#endif
