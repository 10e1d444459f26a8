/* linear_bound.c - primal-dual hybrid gradient on sparse rows. */
#include "planner/linear_bound.h"

#include <math.h>
#include <string.h>

/* Iterations between looks at the bound. */
#define BLOCK 64u
/* Relative to the sum of magnitudes: far above n * 2^-53 for any number of terms in use. */
#define SAFETY 1e-9

/* Dual steps begin so much longer than the mean cost suggests: tried on the graphs of networks, where it saves most. */
#define FIRST_WEIGHT 10

struct iteration {
	const struct linear_program *lp;
	double *x, *x_mean, *y, *y_mean; /* present, and mean since the restart */
	double *x_start, *y_start;       /* at the restart */
	double *gradient;                /* A' y */
	double *activity;                /* A (2 x' - x) */
	double *column_step, *row_step;  /* of Pock and Chambolle */
	double weight;                   /* of primal against dual steps */
	uint32_t since_restart;
};

void linear_program_init(struct linear_program *lp, struct host_arena *arena)
{
	*lp = (struct linear_program){ .arena = arena };
}

static bool grow(struct linear_program *lp, void *array, size_t *room, size_t needed, size_t size)
{
	void **target = array, *larger;
	if (lp->failed)
		return false;
	larger = host_arena_grow(lp->arena, *target, room, needed, size);
	lp->failed = !larger;
	if (larger)
		*target = larger;
	return larger;
}

uint32_t linear_program_column(struct linear_program *lp, double cost)
{
	if (!grow(lp, &lp->cost, &lp->cost_room, (size_t)lp->columns + 1, sizeof *lp->cost))
		return 0;
	lp->cost[lp->columns] = cost;
	return lp->columns++;
}

void linear_program_row(struct linear_program *lp, double right)
{
	if (grow(lp, &lp->right, &lp->right_room, (size_t)lp->rows + 1, sizeof *lp->right))
		lp->right[lp->rows++] = right;
}

void linear_program_entry(struct linear_program *lp, uint32_t column, double value)
{
	size_t needed = (size_t)lp->entries + 1;
	if (value == 0 || !grow(lp, &lp->row_of, &lp->row_room, needed, sizeof *lp->row_of) ||
	    !grow(lp, &lp->column_of, &lp->column_room, needed, sizeof *lp->column_of) ||
	    !grow(lp, &lp->entry, &lp->entry_room, needed, sizeof *lp->entry))
		return;
	lp->row_of[lp->entries] = lp->rows - 1;
	lp->column_of[lp->entries] = column;
	lp->entry[lp->entries++] = value;
}

static void transpose_times(const struct linear_program *lp, const double *y, double *out)
{
	memset(out, 0, lp->columns * sizeof *out);
	for (uint32_t i = 0; i < lp->entries; i++)
		out[lp->column_of[i]] += lp->entry[i] * y[lp->row_of[i]];
}

/* The bound that y proves. Errors of the sums stay below SAFETY times the sums of magnitudes. Two scratches a column.
 */
static double bound_of(const struct linear_program *lp, const double *y, double *reduced, double *sizes)
{
	double sum = lp->constant, magnitude = fabs(lp->constant);
	for (uint32_t i = 0; i < lp->rows; i++) {
		sum += lp->right[i] * y[i];
		magnitude += fabs(lp->right[i] * y[i]);
	}
	memset(reduced, 0, lp->columns * sizeof *reduced);
	memset(sizes, 0, lp->columns * sizeof *sizes);
	for (uint32_t i = 0; i < lp->entries; i++) {
		double term = lp->entry[i] * y[lp->row_of[i]];
		reduced[lp->column_of[i]] += term;
		sizes[lp->column_of[i]] += fabs(term);
	}
	for (uint32_t j = 0; j < lp->columns; j++) {
		double left = lp->cost[j] - reduced[j];
		sum += left < 0 ? left : 0;
		magnitude += fabs(lp->cost[j]) + sizes[j];
	}
	return sum - SAFETY * magnitude;
}

enum tarn_status linear_program_value(const struct linear_program *lp, const double *y, double *bound)
{
	double *scratch = HOST_ARRAY(lp->arena, 2 * (size_t)lp->columns + 2, double);
	if (!scratch)
		return TARN_ENOMEM;
	*bound = bound_of(lp, y, scratch, scratch + lp->columns + 1);
	return TARN_OK;
}

/* Looks at what the present y proves, and remembers the best. */
static void look(struct iteration *k, double *y, double *bound)
{
	const struct linear_program *lp = k->lp;
	/* Between iterations both have room for a number a column. */
	double now = bound_of(lp, k->y, k->activity, k->gradient);
	if (now <= *bound)
		return;
	*bound = now;
	if (y)
		memcpy(y, k->y, lp->rows * sizeof *y);
}

static void iterate(struct iteration *k)
{
	const struct linear_program *lp = k->lp;
	transpose_times(lp, k->y, k->gradient);
	double *ahead = k->activity + lp->rows; /* 2 x' - x */
	for (uint32_t j = 0; j < lp->columns; j++) {
		double x = k->x[j] - k->column_step[j] / k->weight * (lp->cost[j] - k->gradient[j]);
		x = x < 0 ? 0 : x > 1 ? 1 : x;
		ahead[j] = 2 * x - k->x[j];
		k->x[j] = x;
		k->x_mean[j] += x;
	}
	memset(k->activity, 0, lp->rows * sizeof *k->activity);
	for (uint32_t i = 0; i < lp->entries; i++)
		k->activity[lp->row_of[i]] += lp->entry[i] * ahead[lp->column_of[i]];
	for (uint32_t i = 0; i < lp->rows; i++) {
		double y = k->y[i] + k->row_step[i] * k->weight * (lp->right[i] - k->activity[i]);
		k->y[i] = y > 0 ? y : 0;
		k->y_mean[i] += k->y[i];
	}
	k->since_restart++;
}

static void begin_epoch(struct iteration *k)
{
	memcpy(k->x_start, k->x, k->lp->columns * sizeof *k->x);
	memcpy(k->y_start, k->y, k->lp->rows * sizeof *k->y);
	memset(k->x_mean, 0, k->lp->columns * sizeof *k->x);
	memset(k->y_mean, 0, k->lp->rows * sizeof *k->y);
	k->since_restart = 0;
}

static double distance(const double *a, const double *b, const double *step, uint32_t n)
{
	double sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += (a[i] - b[i]) * (a[i] - b[i]) / step[i];
	return sqrt(sum);
}

/* Goes on from the mean; the weight moves towards what the distances travelled suggest. */
static void restart(struct iteration *k)
{
	const struct linear_program *lp = k->lp;
	for (uint32_t j = 0; j < lp->columns; j++)
		k->x[j] = k->x_mean[j] / k->since_restart;
	for (uint32_t i = 0; i < lp->rows; i++)
		k->y[i] = k->y_mean[i] / k->since_restart;
	double dx = distance(k->x, k->x_start, k->column_step, lp->columns);
	double dy = distance(k->y, k->y_start, k->row_step, lp->rows);
	if (dx > 1e-10 && dy > 1e-10)
		k->weight = exp(0.5 * log(dy / dx) + 0.5 * log(k->weight));
	begin_epoch(k);
}

static void set_steps(struct iteration *k)
{
	const struct linear_program *lp = k->lp;
	for (uint32_t i = 0; i < lp->entries; i++) {
		k->column_step[lp->column_of[i]] += fabs(lp->entry[i]);
		k->row_step[lp->row_of[i]] += fabs(lp->entry[i]);
	}
	for (uint32_t j = 0; j < lp->columns; j++)
		k->column_step[j] = k->column_step[j] > 0 ? 1 / k->column_step[j] : 1;
	for (uint32_t i = 0; i < lp->rows; i++)
		k->row_step[i] = k->row_step[i] > 0 ? 1 / k->row_step[i] : 1;
}

static enum tarn_status iteration_init(struct iteration *k, const struct linear_program *lp)
{
	size_t columns = (size_t)lp->columns + 1, rows = (size_t)lp->rows + 1;
	*k = (struct iteration){
		.lp = lp,
		.x = HOST_ARRAY(lp->arena, columns, double),
		.x_mean = HOST_ARRAY(lp->arena, columns, double),
		.x_start = HOST_ARRAY(lp->arena, columns, double),
		.y = HOST_ARRAY(lp->arena, rows, double),
		.y_mean = HOST_ARRAY(lp->arena, rows, double),
		.y_start = HOST_ARRAY(lp->arena, rows, double),
		.gradient = HOST_ARRAY(lp->arena, columns, double),
		.activity = HOST_ARRAY(lp->arena, columns + rows, double),
		.column_step = HOST_ARRAY(lp->arena, columns, double),
		.row_step = HOST_ARRAY(lp->arena, rows, double),
		.weight = 1,
	};
	if (!k->x || !k->x_mean || !k->x_start || !k->y || !k->y_mean || !k->y_start || !k->gradient || !k->activity ||
	    !k->column_step || !k->row_step)
		return TARN_ENOMEM;
	set_steps(k);
	double sum = 0;
	for (uint32_t j = 0; j < lp->columns; j++)
		sum += fabs(lp->cost[j]);
	if (sum > 0)
		k->weight = FIRST_WEIGHT * sum / lp->columns;
	begin_epoch(k);
	return TARN_OK;
}

enum tarn_status linear_program_bound(struct linear_program *lp, uint64_t work, double enough, double *y, double *bound)
{
	struct iteration k;
	if (lp->failed)
		return TARN_ENOMEM;
	enum tarn_status st = iteration_init(&k, lp);
	if (st)
		return st;
	uint64_t each = 2 * ((uint64_t)lp->entries + lp->columns + lp->rows) + 1, done = 0;
	uint32_t epoch = BLOCK;
	look(&k, y, bound);
	while (done < work && *bound < enough) {
		for (uint32_t i = 0; i < BLOCK; i++)
			iterate(&k);
		done += each * BLOCK;
		look(&k, y, bound);
		if (k.since_restart < epoch)
			continue;
		restart(&k);
		look(&k, y, bound);
		epoch = epoch < 4096 ? epoch + epoch / 4 : epoch;
	}
	return TARN_OK;
}
