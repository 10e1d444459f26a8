/*
 * session_curvature.c - what is asked about the Hessian, by products with it alone.
 *
 * Sources: Hutchinson 1990 (trace; Bekas et al. 2007 for the diagonal); Lanczos 1950, with every vector made orthogonal
 * to all before it, twice (Parlett 1998, chapter 6); Golub, Welsch 1969 and Ubaru, Chen, Saad 2017 (density).
 */
#include "session_vector.h"

#include "exec/tridiagonal.h"

#include <math.h>
#include <string.h>

/* The names of autodiff/curvature.h, which builds without planner do not have. */
static const struct vector input = { .prefix = "hvp/vector/" }, product = { .prefix = "hvp/product/" },
			   diagonal = { .prefix = "hvp/diagonal/" };
#define BASIS "hvp/basis/"

static const char *const tasks[] = { "product", "trace", "diagonal", "eigenvalues", "density", "hessian" };

static enum tarn_status check(const struct tarn_session *session)
{
	enum tarn_status st = session_check_running(session);
	if (st)
		return st;
	if (session->config.objective.type != OBJECTIVE_HVP)
		return tarn_fail(TARN_EINVAL,
				 "this session trains; products with the Hessian need objective.type: hvp");
	if (!session_computes(session))
		return tarn_fail(TARN_EUNSUPPORTED, "the null driver computes nothing: there is no Hessian");
	return TARN_OK;
}

/* ---- vectors ---- */

const char *tarn_hessian_parameter(const struct tarn_session *session, uint32_t index, uint64_t *elements)
{
	const struct plan *plan = &session->plan;
	size_t length = strlen(input.prefix);
	for (uint32_t i = 0; i < plan->persistents; i++) {
		const char *name = plan->program[0].graph.text + plan->persistent[i].name;
		if (strncmp(name, input.prefix, length) || index--)
			continue;
		*elements = plan->persistent[i].bytes / sizeof(float);
		return name + length;
	}
	return NULL;
}

static enum tarn_status find_vector(const struct tarn_session *session, enum tarn_vector which, uint64_t elements,
				    const struct vector **out)
{
	const struct vector *const vectors[] = { &input, &product, &diagonal };
	enum tarn_status st = check(session);
	if (st)
		return st;
	if ((unsigned)which > TARN_VECTOR_DIAGONAL)
		return tarn_fail(TARN_EINVAL, "there is no vector %d", (int)which);
	*out = vectors[which];
	uint64_t length = vector_elements(session, *out);
	if (!length)
		return tarn_fail(TARN_EINVAL, "only hvp.task: diagonal has a diagonal");
	if (length != elements)
		return tarn_fail(TARN_EINVAL, "a vector has %llu elements, not %llu", (unsigned long long)length,
				 (unsigned long long)elements);
	return TARN_OK;
}

enum tarn_status tarn_hessian_read(struct tarn_session *session, enum tarn_vector which, float *value,
				   uint64_t elements)
{
	const struct vector *vector;
	enum tarn_status st = find_vector(session, which, elements, &vector);
	return st ? st : vector_read(session, vector, value);
}

enum tarn_status tarn_hessian_write(struct tarn_session *session, enum tarn_vector which, const float *value,
				    uint64_t elements)
{
	const struct vector *vector;
	enum tarn_status st = find_vector(session, which, elements, &vector);
	return st ? st : vector_write(session, vector, value);
}

enum tarn_status tarn_hessian_random(struct tarn_session *session, uint32_t number)
{
	enum tarn_status st = check(session);
	return st ? st : vector_random(session, &input, session->config.train.seed, number);
}

/* Copies between the parameters and a vector. */
static enum tarn_status copy_parameters(struct tarn_session *session, const struct vector *vector, bool to_vector)
{
	float piece[4096];
	uint64_t elements;
	const char *name;
	for (uint32_t i = 0; (name = tarn_hessian_parameter(session, i, &elements)); i++) {
		const struct persistent *w = exec_find(&session->executor, name), *v = NULL;
		char text[512];
		snprintf(text, sizeof text, "%s%s", vector->prefix, name);
		v = exec_find(&session->executor, text);
		if (!w || !v)
			return tarn_fail(TARN_EINTERNAL, "%s is not in the plan", w ? text : name);
		const struct device *device = &session->device;
		for (uint64_t done = 0; done < w->bytes; done += sizeof piece) {
			uint64_t n = w->bytes - done < sizeof piece ? w->bytes - done : sizeof piece;
			const struct persistent *from = to_vector ? w : v, *to = to_vector ? v : w;
			enum tarn_status st = device->ops->read(&session->device, from->offset + done, piece, n);
			if (!st)
				st = device->ops->write(&session->device, to->offset + done, piece, n);
			if (!st)
				st = device->ops->synchronize(&session->device);
			if (st)
				return st;
		}
	}
	return TARN_OK;
}

/* The file's parameters pass through the network's own place; the product's holds these meanwhile. */
enum tarn_status tarn_hessian_snapshot(struct tarn_session *session, const char *path)
{
	struct snapshot_position ignored;
	enum tarn_status st = check(session);
	if (!st)
		st = copy_parameters(session, &product, true);
	if (st)
		return st;
	st = snapshot_load(session->snapshot, path, &ignored);
	if (!st)
		st = copy_parameters(session, &input, true);
	enum tarn_status back = copy_parameters(session, &product, false);
	return st ? st : back;
}

/* ---- products ---- */

static enum tarn_status multiply(struct tarn_session *session, struct tarn_curvature *out)
{
	enum tarn_status st = vector_combine(session, 0, &input, 0, &product);
	if (!st)
		st = session_pass(session, session->config.hvp.batches, &out->loss, &out->labels);
	if (!st)
		st = vector_combine(session, 1 / (double)out->labels, &product, 0, &product);
	out->products++;
	if (!st && !isfinite(out->loss))
		st = tarn_fail(TARN_EDIVERGED, "the loss is not finite (%f): there is no Hessian here", out->loss);
	return st;
}

enum tarn_status tarn_hessian_multiply(struct tarn_session *session, double *loss)
{
	struct tarn_curvature figures = { 0 };
	enum tarn_status st = check(session);
	if (!st)
		st = multiply(session, &figures);
	if (!st && loss)
		*loss = figures.loss;
	return st;
}

static enum tarn_status measure_product(struct tarn_session *session, struct tarn_curvature *out)
{
	double vv = 0, vw = 0, ww = 0;
	enum tarn_status st = multiply(session, out);
	if (!st)
		st = vector_dot(session, &input, &input, &vv);
	if (!st)
		st = vector_dot(session, &input, &product, &vw);
	if (!st)
		st = vector_dot(session, &product, &product, &ww);
	out->vector_norm = sqrt(vv);
	out->product_norm = sqrt(ww);
	out->curvature = vw / vv;
	return st;
}

/* The mean of v.Hv over random v with unit covariance is the trace, that of v * Hv the diagonal. */
static enum tarn_status estimate_trace(struct tarn_session *session, struct tarn_curvature *out)
{
	const struct config *config = &session->config;
	const uint32_t samples = config->hvp.samples;
	double sum = 0, squares = 0;
	enum tarn_status st = TARN_OK;
	if (config->hvp.task == HVP_DIAGONAL)
		st = vector_combine(session, 0, &input, 0, &diagonal);
	for (uint32_t s = 0; s < samples && !st; s++) {
		double dot = 0;
		st = vector_random(session, &input, config->train.seed, s);
		if (!st)
			st = multiply(session, out);
		if (!st)
			st = vector_dot(session, &input, &product, &dot);
		if (!st && config->hvp.task == HVP_DIAGONAL)
			st = vector_add_product(session, 1.0 / samples, &input, &product, &diagonal);
		sum += dot;
		squares += dot * dot;
	}
	out->trace = sum / samples;
	double variance = samples > 1 ? (squares - sum * out->trace) / (samples - 1.0) : NAN;
	out->trace_error = sqrt(fmax(variance, 0) / samples);
	if (samples == 1)
		out->trace_error = NAN;
	return st;
}

/* ---- Lanczos ---- */

static struct vector basis(uint32_t row)
{
	return (struct vector){ .prefix = BASIS, .row = row, .has_rows = true };
}

/* Takes out of the product what lies along the first `count` rows. Once more, for what rounding left. */
static enum tarn_status orthogonalise(struct tarn_session *session, uint32_t count)
{
	enum tarn_status st = TARN_OK;
	for (uint32_t k = 0; k < 2 * count && !st; k++) {
		const struct vector q = basis(k % count);
		double dot;
		st = vector_dot(session, &q, &product, &dot);
		if (!st)
			st = vector_combine(session, -dot, &q, 1, &product);
	}
	return st;
}

/*
 * From the random vector `number`: *steps rows (fewer where they span all there is), the matrix's diagonal and what
 * stands beside it; beside[steps - 1] is the norm of what is left.
 */
static enum tarn_status lanczos(struct tarn_session *session, uint32_t number, double *along, double *beside,
				uint32_t *steps, struct tarn_curvature *out)
{
	const struct config *config = &session->config;
	uint32_t limit = config->hvp.steps < out->parameters ? config->hvp.steps : (uint32_t)out->parameters;
	double norm = 0, largest = 0;
	enum tarn_status st = vector_random(session, &product, config->train.seed, number);
	if (!st)
		st = vector_dot(session, &product, &product, &norm);
	norm = sqrt(norm);
	*steps = 0;
	for (uint32_t j = 0; j < limit && !st; j++) {
		const struct vector q = basis(j);
		st = vector_combine(session, 1 / norm, &product, 0, &q);
		if (!st)
			st = vector_combine(session, 1, &q, 0, &input);
		if (!st)
			st = multiply(session, out);
		if (!st)
			st = vector_dot(session, &q, &product, &along[j]);
		if (!st)
			st = orthogonalise(session, j + 1);
		if (!st)
			st = vector_dot(session, &product, &product, &norm);
		norm = beside[j] = sqrt(norm);
		largest = fmax(largest, fabs(along[j]) + norm);
		*steps = j + 1;
		/* Products are float32: what is smaller than their rounding is no direction. */
		if (norm <= 1e-6 * largest)
			break;
	}
	return st;
}

static enum tarn_status find_eigenvalues(struct tarn_session *session, struct tarn_curvature *out)
{
	double along[TARN_MAX_EIGENVALUES], beside[TARN_MAX_EIGENVALUES], first[TARN_MAX_EIGENVALUES],
		last[TARN_MAX_EIGENVALUES];
	uint32_t steps;
	enum tarn_status st = lanczos(session, 0, along, beside, &steps, out);
	if (st)
		return st;
	double left = beside[steps - 1];
	st = tridiagonal_solve(steps, along, beside, first, last);
	out->eigenvalues = session->config.hvp.eigenvalues < steps ? session->config.hvp.eigenvalues : steps;
	for (uint32_t i = 0; i < out->eigenvalues && !st; i++) {
		out->eigenvalue[i] = along[steps - 1 - i];
		out->residual[i] = left * fabs(last[steps - 1 - i]);
	}
	return st;
}

static enum tarn_status find_density(struct tarn_session *session, struct tarn_curvature *out)
{
	double along[TARN_MAX_EIGENVALUES], beside[TARN_MAX_EIGENVALUES], first[TARN_MAX_EIGENVALUES],
		last[TARN_MAX_EIGENVALUES];
	const uint32_t samples = session->config.hvp.samples;
	enum tarn_status st = TARN_OK;
	if ((uint64_t)samples * session->config.hvp.steps > TARN_MAX_NODES)
		return tarn_fail(TARN_EINVAL, "hvp.samples %u times hvp.steps %u are more than %d nodes", samples,
				 session->config.hvp.steps, TARN_MAX_NODES);
	for (uint32_t s = 0; s < samples && !st; s++) {
		uint32_t steps;
		st = lanczos(session, s, along, beside, &steps, out);
		if (!st)
			st = tridiagonal_solve(steps, along, beside, first, last);
		for (uint32_t i = 0; i < steps && !st; i++) {
			out->node[out->nodes] = along[i];
			out->weight[out->nodes++] = first[i] * first[i] / samples;
		}
	}
	return st;
}

enum tarn_status tarn_curvature_run(struct tarn_session *session, struct tarn_curvature *out)
{
	enum tarn_status st = check(session);
	if (st)
		return st;
	const struct config *config = &session->config;
	memset(out, 0, sizeof *out);
	out->task = tasks[config->hvp.task];
	out->mode = config->hvp.mode == HVP_FORWARD ? "forward" : "reverse";
	out->parameters = vector_elements(session, &input);
	switch ((enum hvp_task)config->hvp.task) {
	case HVP_TRACE:
	case HVP_DIAGONAL:
		return estimate_trace(session, out);
	case HVP_EIGENVALUES:
		return find_eigenvalues(session, out);
	case HVP_DENSITY:
		return find_density(session, out);
	case HVP_HESSIAN:
		return TARN_OK;
	case HVP_PRODUCT:
		break;
	}
	return measure_product(session, out);
}
