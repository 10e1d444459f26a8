/* sample_plan.c - see sample_plan.h. */
#include "support/sample_plan.h"

#include <string.h>

/* ---- layout ------------------------------------------------------------------------------------------------- */

struct place {
	uint64_t bytes, offset;
	uint32_t first, last; /* steps, both included */
};

struct layout {
	const struct graph *graph;
	const uint32_t *sequence;
	uint32_t steps;
	uint32_t *newest;    /* [tensors]: instance */
	uint32_t *instance;  /* [operands of all steps]; TENSOR_NONE: persistent */
	uint32_t *last_read; /* [instances] */
	uint32_t *place_of;  /* [instances] */
	struct place *place;
	uint32_t instances, places;
};

static uint32_t storage_of(const struct graph *graph, uint32_t tensor)
{
	return graph->tensor[tensor].storage;
}

static bool transient(const struct graph *graph, uint32_t tensor)
{
	return !is_persistent(graph->tensor[storage_of(graph, tensor)].role);
}

/* Which instance each operand is, and when each instance is read last. */
static void find_instances(struct layout *l)
{
	uint32_t slot = 0;
	for (uint32_t s = 0; s < l->steps; s++) {
		const struct op *op = &l->graph->op[l->sequence[s]];
		const uint32_t *operand = l->graph->operand + op->first_operand;
		for (uint32_t k = 0; k < op->inputs + op->outputs; k++, slot++) {
			l->instance[slot] = TENSOR_NONE;
			if (!transient(l->graph, operand[k]))
				continue;
			uint32_t t = storage_of(l->graph, operand[k]);
			if (k >= op->inputs)
				l->newest[t] = l->instances++;
			l->instance[slot] = l->newest[t];
			l->last_read[l->newest[t]] = s;
		}
	}
}

/* The place of output 0 when it may take over that of an input, else TENSOR_NONE. */
static uint32_t taken_over(const struct layout *l, const struct op *op, uint32_t first_slot, uint32_t step)
{
	const uint32_t *operand = l->graph->operand + op->first_operand;
	for (uint32_t j = 0; j < op->inputs && j < 8; j++) {
		uint32_t instance = l->instance[first_slot + j];
		if (!(op_row(op->kind)->in_place >> j & 1) || instance == TENSOR_NONE || l->last_read[instance] != step)
			continue;
		if (l->graph->tensor[storage_of(l->graph, operand[j])].bytes ==
		    l->graph->tensor[operand[op->inputs]].bytes)
			return l->place_of[instance];
	}
	return TENSOR_NONE;
}

static void find_places(struct layout *l)
{
	uint32_t slot = 0;
	for (uint32_t s = 0; s < l->steps; s++) {
		const struct op *op = &l->graph->op[l->sequence[s]];
		const uint32_t *operand = l->graph->operand + op->first_operand;
		for (uint32_t k = op->inputs; k < op->inputs + op->outputs; k++) {
			uint32_t instance = l->instance[slot + k];
			if (instance == TENSOR_NONE)
				continue;
			uint32_t place = k == op->inputs ? taken_over(l, op, slot, s) : TENSOR_NONE;
			if (place == TENSOR_NONE) {
				place = l->places++;
				l->place[place].bytes = bytes_align(l->graph->tensor[operand[k]].bytes);
				l->place[place].first = s;
			}
			l->place[place].last = l->last_read[instance];
			l->place_of[instance] = place;
		}
		slot += op->inputs + op->outputs;
	}
}

/* Lowest offset from `base` up where place n meets none of those before it. */
static uint64_t first_fit(const struct layout *l, uint32_t n, uint64_t base)
{
	const struct place *own = &l->place[n];
	uint64_t offset = base;
	for (uint32_t i = 0; i < n; i++) {
		const struct place *other = &l->place[i];
		bool apart = other->last < own->first || own->last < other->first ||
			     other->offset >= offset + own->bytes || offset >= other->offset + other->bytes;
		if (!apart) {
			offset = other->offset + other->bytes;
			i = UINT32_MAX; /* start again */
		}
	}
	return offset;
}

static bool wants_workspace(uint32_t kind)
{
	return kind == OP_MATMUL || kind == OP_CONV2D || kind == OP_CONV2D_GRAD_INPUT || kind == OP_CONV2D_GRAD_WEIGHT;
}

static uint64_t persistent_offset(const struct plan *plan, const char *name)
{
	const char *text = plan->program[0].graph.text;
	for (uint32_t i = 0; i < plan->persistents; i++)
		if (!strcmp(text + plan->persistent[i].name, name))
			return plan->persistent[i].offset;
	return 0;
}

static void write_operands(const struct plan *plan, const struct layout *l, struct program *program)
{
	uint32_t slot = 0;
	for (uint32_t s = 0; s < l->steps; s++) {
		const struct op *op = &l->graph->op[l->sequence[s]];
		program->instruction[s].op = l->sequence[s];
		program->instruction[s].first_operand = slot;
		for (uint32_t k = 0; k < op->inputs + op->outputs; k++, slot++) {
			uint32_t instance = l->instance[slot], t = l->graph->operand[op->first_operand + k];
			program->operand_offset[slot] =
				instance == TENSOR_NONE
					? persistent_offset(plan, tensor_name(l->graph, storage_of(l->graph, t)))
					: l->place[l->place_of[instance]].offset;
			program->operand_offset[slot] += tensor_offset(l->graph, t);
		}
	}
	program->operand_offsets = slot;
}

/* Places of all instances and workspaces, then peak and height. */
static void place_all(const struct plan *plan, struct layout *l, struct program *program, uint64_t workspace)
{
	uint32_t buffers = l->places;
	for (uint32_t s = 0; s < l->steps; s++)
		if (workspace && wants_workspace(l->graph->op[l->sequence[s]].kind))
			l->place[l->places++] = (struct place){ .bytes = workspace, .first = s, .last = s };
	program->height_bytes = plan->persistent_bytes;
	for (uint32_t i = 0; i < l->places; i++) {
		struct place *place = &l->place[i];
		place->offset = first_fit(l, i, plan->persistent_bytes);
		if (place->offset + place->bytes > program->height_bytes)
			program->height_bytes = place->offset + place->bytes;
		if (i < buffers)
			continue;
		program->instruction[place->first].workspace_offset = place->offset;
		program->instruction[place->first].workspace_bytes = place->bytes;
	}
	program->peak_bytes = plan->persistent_bytes;
	for (uint32_t s = 0; s < l->steps; s++) {
		uint64_t live = plan->persistent_bytes;
		for (uint32_t i = 0; i < l->places; i++)
			live += l->place[i].first <= s && s <= l->place[i].last ? l->place[i].bytes : 0;
		if (live > program->peak_bytes)
			program->peak_bytes = live;
	}
}

/* The largest op by itself: no schedule's peak is lower. Every op of these graphs is needed. */
static uint64_t largest_op(const struct graph *graph, uint64_t workspace)
{
	uint64_t most = 0;
	for (uint32_t o = 0; o < graph->ops; o++) {
		const struct op *op = &graph->op[o];
		const uint32_t *t = graph->operand + op->first_operand;
		uint64_t bytes = workspace && wants_workspace(op->kind) ? workspace : 0;
		bool taken = false;
		for (uint32_t k = 0; k < op->inputs + op->outputs; k++) {
			bool again = !transient(graph, t[k]);
			for (uint32_t j = 0; j < k; j++)
				again |= storage_of(graph, t[j]) == storage_of(graph, t[k]);
			bytes += again ? 0 : bytes_align(graph->tensor[storage_of(graph, t[k])].bytes);
			if (op->outputs && k < op->inputs && k < 8 && transient(graph, t[k]))
				taken |= op_row(op->kind)->in_place >> k & 1 &&
					 bytes_align(graph->tensor[storage_of(graph, t[k])].bytes) ==
						 bytes_align(graph->tensor[t[op->inputs]].bytes);
		}
		if (taken)
			bytes -= bytes_align(graph->tensor[t[op->inputs]].bytes);
		if (!op_row(op->kind)->view && bytes > most)
			most = bytes;
	}
	return most;
}

/* Every op costs a microsecond. */
static enum tarn_status certify(const struct plan *plan, struct program *program, uint32_t distinct, uint64_t workspace,
				struct host_arena *arena)
{
	program->cost_ns = HOST_ARRAY(arena, program->graph.ops, uint64_t);
	if (!program->cost_ns)
		return TARN_ENOMEM;
	for (uint32_t o = 0; o < program->graph.ops; o++)
		program->cost_ns[o] = 1000;
	program->recomputed_ops = program->instructions - distinct;
	program->base_time_ns = program->time_bound_ns = 1000ull * distinct;
	program->time_ns = 1000ull * program->instructions;
	program->peak_bound_bytes = plan->persistent_bytes + largest_op(&program->graph, workspace);
	return TARN_OK;
}

enum tarn_status sample_layout(const struct plan *plan, struct program *program, const uint32_t *sequence,
			       uint32_t steps, uint64_t workspace, struct host_arena *arena)
{
	const struct graph *graph = &program->graph;
	uint32_t slots = 0, distinct = 0;
	uint8_t *seen = HOST_ARRAY(arena, graph->ops, uint8_t);
	if (!seen)
		return TARN_ENOMEM;
	for (uint32_t s = 0; s < steps; s++) {
		slots += graph->op[sequence[s]].inputs + graph->op[sequence[s]].outputs;
		distinct += !seen[sequence[s]];
		seen[sequence[s]] = 1;
	}
	struct layout l = { .graph = graph, .sequence = sequence, .steps = steps };
	l.newest = HOST_ARRAY(arena, graph->tensors, uint32_t);
	l.instance = HOST_ARRAY(arena, slots, uint32_t);
	l.last_read = HOST_ARRAY(arena, slots, uint32_t);
	l.place_of = HOST_ARRAY(arena, slots, uint32_t);
	l.place = HOST_ARRAY(arena, (size_t)slots + steps, struct place);
	program->instruction = HOST_ARRAY(arena, steps, struct instruction);
	program->operand_offset = HOST_ARRAY(arena, slots, uint64_t);
	if (!l.newest || !l.instance || !l.last_read || !l.place_of || !l.place || !program->instruction ||
	    !program->operand_offset)
		return TARN_ENOMEM;
	program->instructions = steps;
	find_instances(&l);
	find_places(&l);
	place_all(plan, &l, program, workspace);
	program->none_peak_bytes = program->peak_bytes;
	write_operands(plan, &l, program);
	return certify(plan, program, distinct, workspace, arena);
}

uint32_t sample_sequence(const struct graph *graph, uint32_t *sequence)
{
	uint32_t count = 0;
	for (uint32_t op = 0; op < graph->ops; op++)
		if (!op_row(graph->op[op].kind)->view)
			sequence[count++] = op;
	return count;
}

enum tarn_status sample_persistents(struct host_arena *arena, struct plan *plan)
{
	const struct graph *first = &plan->program[0].graph;
	plan->persistent = HOST_ARRAY(arena, first->tensors, struct persistent);
	if (!plan->persistent)
		return TARN_ENOMEM;
	plan->persistents = 0;
	plan->persistent_bytes = 0;
	for (uint32_t t = 0; t < first->tensors; t++) {
		const struct tensor *tensor = &first->tensor[t];
		if (tensor->producer != OP_NONE)
			continue;
		uint64_t bytes = tensor->bytes;
		for (uint32_t p = 1; p < plan->programs; p++) {
			uint32_t other = graph_find(&plan->program[p].graph, tensor_name(first, t));
			if (other != TENSOR_NONE && plan->program[p].graph.tensor[other].bytes > bytes)
				bytes = plan->program[p].graph.tensor[other].bytes;
		}
		plan->persistent[plan->persistents++] = (struct persistent){ .offset = plan->persistent_bytes,
									     .bytes = bytes,
									     .name = tensor->name,
									     .tensor = t,
									     .role = tensor->role,
									     .dtype = tensor->dtype };
		plan->persistent_bytes += bytes_align(bytes);
	}
	return TARN_OK;
}

/* ---- the network ------------------------------------------------------------------------------------------------ */

#define IMAGE 8u
#define CHANNELS 4u
#define FEATURES (IMAGE * IMAGE * CHANNELS)
#define HIDDEN 24u
#define CLASSES 5u

/* Tensor ids of the network; one status for all additions, the first failure is kept. */
struct sample {
	struct graph *graph;
	uint32_t batch;
	enum tarn_status status;
	uint32_t scalars, input_slot, target_slot, loss_metric, correct_metric;
	uint32_t conv_w, mix_w, gamma, beta, running_mean, running_var, count, hidden_w, hidden_b, logits_w;
	uint32_t x, labels, conv, mean, var, apply, mix, sum, drop, flat, dense, hidden, logits, loss;
	uint32_t scale;
};

static uint32_t add_persistent(struct sample *s, const char *name, enum tensor_role role, enum dtype dtype,
			       uint32_t rank, const uint32_t *dim)
{
	uint32_t id = 0;
	if (!s->status)
		s->status = graph_add_persistent(s->graph, name, role, dtype, dim, rank, &id);
	return id;
}

#define PERSISTENT(role, dtype, name, ...)                                                                       \
	add_persistent(s, name, role, dtype, (uint32_t)(sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t)), \
		       (const uint32_t[]){ __VA_ARGS__ })

/* Returns output 0; the others follow it. */
static uint32_t add_op(struct sample *s, enum op_kind kind, enum op_phase phase, const char *name, struct op_attr attr,
		       uint32_t inputs, const uint32_t *input)
{
	uint32_t out[OP_MAX_OUTPUTS] = { 0 };
	if (!s->status)
		s->status = graph_add_op(s->graph, kind, phase, name, &attr, input, inputs, out);
	return out[0];
}

#define OP(kind, phase, name, attr, ...)                \
	add_op(s, OP_##kind, PHASE_##phase, name, attr, \
	       (uint32_t)(sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t)), (const uint32_t[]){ __VA_ARGS__ })
#define ATTR(...) ((struct op_attr){ __VA_ARGS__ })
#define NO_ATTR ((struct op_attr){ 0 })
#define WINDOW3                                                                                                   \
	{                                                                                                         \
		.kernel = { 3, 3 }, .stride = { 1, 1 }, .dilation = { 1, 1 }, .pad_begin = { 1, 1 }, .pad_end = { \
			1,                                                                                        \
			1                                                                                         \
		}                                                                                                 \
	}
#define WINDOW1                                                              \
	{                                                                    \
		.kernel = { 1, 1 }, .stride = { 1, 1 }, .dilation = { 1, 1 } \
	}

static void add_persistents(struct sample *s)
{
	s->scalars = PERSISTENT(ROLE_SCALARS, DTYPE_U8, "scalars", sizeof(struct step_scalars));
	s->graph->scalars = s->scalars;
	s->graph->batch = s->batch;
	s->input_slot = PERSISTENT(ROLE_STAGING, DTYPE_F32, "staging/input", s->batch, IMAGE, IMAGE, 3);
	s->target_slot = PERSISTENT(ROLE_STAGING, DTYPE_I32, "staging/target", s->batch);
	s->loss_metric = PERSISTENT(ROLE_METRIC, DTYPE_F32, "metric/loss", 1);
	s->correct_metric = PERSISTENT(ROLE_METRIC, DTYPE_F32, "metric/correct", 1);
	s->conv_w = PERSISTENT(ROLE_PARAMETER, DTYPE_F32, "conv/weight", CHANNELS, 3, 3, 3);
	s->gamma = PERSISTENT(ROLE_PARAMETER, DTYPE_F32, "norm/gamma", CHANNELS);
	s->beta = PERSISTENT(ROLE_PARAMETER, DTYPE_F32, "norm/beta", CHANNELS);
	s->running_mean = PERSISTENT(ROLE_RUNNING_STATISTIC, DTYPE_F32, "norm/running_mean", CHANNELS);
	s->running_var = PERSISTENT(ROLE_RUNNING_STATISTIC, DTYPE_F32, "norm/running_var", CHANNELS);
	s->count = PERSISTENT(ROLE_COUNTER, DTYPE_U64, "norm/batches", 1);
	s->mix_w = PERSISTENT(ROLE_PARAMETER, DTYPE_F32, "mix/weight", CHANNELS, CHANNELS, 1, 1);
	s->hidden_w = PERSISTENT(ROLE_PARAMETER, DTYPE_F32, "hidden/weight", HIDDEN, FEATURES);
	s->hidden_b = PERSISTENT(ROLE_PARAMETER, DTYPE_F32, "hidden/bias", HIDDEN);
	s->logits_w = PERSISTENT(ROLE_PARAMETER, DTYPE_F32, "logits/weight", CLASSES, HIDDEN);
}

static void add_forward(struct sample *s, bool training)
{
	s->x = OP(INPUT, FORWARD, "input", NO_ATTR, s->input_slot);
	s->labels = OP(INPUT, FORWARD, "target", NO_ATTR, s->target_slot);
	s->conv = OP(CONV2D, FORWARD, "conv", ATTR(.window = WINDOW3), s->x, s->conv_w);
	s->mean = s->running_mean;
	s->var = s->running_var;
	if (training) {
		s->mean = OP(BATCH_STATS, FORWARD, "norm/stats", NO_ATTR, s->conv);
		s->var = s->mean + 1;
	}
	s->apply = OP(BATCH_APPLY, FORWARD, "norm", ATTR(.epsilon = 1e-5f, .activation = ACTIVATION_RELU), s->conv,
		      s->mean, s->var, s->gamma, s->beta);
	if (training)
		OP(RUNNING_UPDATE, FORWARD, "norm/update", ATTR(.momentum = 0.1f, .samples = s->batch * IMAGE * IMAGE),
		   s->running_mean, s->running_var, s->count, s->mean, s->var);
	s->mix = OP(CONV2D, FORWARD, "mix", ATTR(.window = WINDOW1), s->apply, s->mix_w);
	s->sum = OP(ADD, FORWARD, "sum", NO_ATTR, s->mix, s->apply);
	s->drop = s->sum;
	if (training)
		s->drop = OP(DROPOUT, FORWARD, "drop", ATTR(.rate = 0.25f, .stream = 1), s->sum, s->scalars);
	s->flat = OP(RESHAPE, FORWARD, "flat", ATTR(.rank = 2, .extent = { s->batch, FEATURES }), s->drop);
	s->dense = OP(MATMUL, FORWARD, "dense", ATTR(.transpose_b = 1), s->flat, s->hidden_w, s->hidden_b);
	s->hidden = OP(ACTIVATION, FORWARD, "hidden", ATTR(.activation = ACTIVATION_SILU), s->dense);
	s->logits = OP(MATMUL, FORWARD, "logits", ATTR(.transpose_b = 1), s->hidden, s->logits_w);
	s->loss = OP(SOFTMAX_CROSS_ENTROPY, FORWARD, "loss", NO_ATTR, s->logits, s->labels);
	uint32_t correct = OP(COUNT_CORRECT, FORWARD, "correct", NO_ATTR, s->logits, s->labels);
	OP(RECORD, FORWARD, "record/loss", NO_ATTR, s->loss_metric, s->loss);
	OP(RECORD, FORWARD, "record/correct", NO_ATTR, s->correct_metric, correct);
}

/* Clipped momentum for a weight matrix, plain descent for everything else. */
static void add_momentum(struct sample *s, const char *name, uint32_t w, uint32_t v, uint32_t dw)
{
	OP(MOMENTUM, UPDATE, name, ATTR(.momentum = 0.9f, .rate_scale = 1.0f), w, v, dw, s->scalars, s->scale);
}

static void add_descent(struct sample *s, const char *name, uint32_t w, uint32_t dw)
{
	OP(SGD, UPDATE, name, ATTR(.rate_scale = 1.0f), w, dw, s->scalars);
}

static void add_backward(struct sample *s)
{
	uint32_t conv_v = PERSISTENT(ROLE_OPTIMIZER_STATE, DTYPE_F32, "conv/weight/v", CHANNELS, 3, 3, 3);
	uint32_t logits_v = PERSISTENT(ROLE_OPTIMIZER_STATE, DTYPE_F32, "logits/weight/v", CLASSES, HIDDEN);
	uint32_t dloss =
		add_op(s, OP_FILL, PHASE_BACKWARD, "dloss", ATTR(.alpha = 1, .rank = 1, .extent = { 1 }), 0, NULL);
	uint32_t dlogits = OP(SOFTMAX_CROSS_ENTROPY_GRAD, BACKWARD, "dlogits", NO_ATTR, s->logits, s->labels, dloss);
	uint32_t dlogits_w = OP(MATMUL, BACKWARD, "dlogits_w", ATTR(.transpose_a = 1), dlogits, s->hidden);
	uint32_t dhidden = OP(MATMUL, BACKWARD, "dhidden", NO_ATTR, dlogits, s->logits_w);
	uint32_t ddense =
		OP(ACTIVATION_GRAD, BACKWARD, "ddense", ATTR(.activation = ACTIVATION_SILU), dhidden, s->dense);
	uint32_t dhidden_w = OP(MATMUL, BACKWARD, "dhidden_w", ATTR(.transpose_a = 1), ddense, s->flat);
	uint32_t dhidden_b = OP(SUM_ROWS, BACKWARD, "dhidden_b", NO_ATTR, ddense);
	uint32_t dflat = OP(MATMUL, BACKWARD, "dflat", NO_ATTR, ddense, s->hidden_w);
	add_descent(s, "hidden/weight/update", s->hidden_w, dhidden_w);
	add_descent(s, "hidden/bias/update", s->hidden_b, dhidden_b);
	struct op_attr image = ATTR(.rank = 4, .extent = { s->batch, IMAGE, IMAGE, CHANNELS });
	uint32_t dview = OP(RESHAPE, BACKWARD, "dimage", image, dflat);
	uint32_t dsum = OP(DROPOUT, BACKWARD, "dsum", ATTR(.rate = 0.25f, .stream = 1), dview, s->scalars);
	uint32_t dmix_w = OP(CONV2D_GRAD_WEIGHT, BACKWARD, "dmix_w", ATTR(.window = WINDOW1), s->apply, dsum);
	uint32_t dmix = OP(CONV2D_GRAD_INPUT, BACKWARD, "dmix", ATTR(.window = WINDOW1, .extent = { IMAGE, IMAGE }),
			   dsum, s->mix_w);
	uint32_t dapply = OP(ADD, BACKWARD, "dapply", NO_ATTR, dsum, dmix);
	struct op_attr norm = ATTR(.epsilon = 1e-5f, .activation = ACTIVATION_RELU);
	uint32_t dgamma =
		OP(BATCH_REDUCE, BACKWARD, "dgamma", norm, dapply, s->conv, s->mean, s->var, s->gamma, s->beta);
	uint32_t dconv = OP(BATCH_GRAD_INPUT, BACKWARD, "dconv", norm, dapply, s->conv, s->mean, s->var, s->gamma,
			    s->beta, dgamma, dgamma + 1);
	uint32_t dconv_w = OP(CONV2D_GRAD_WEIGHT, BACKWARD, "dconv_w", ATTR(.window = WINDOW3), s->x, dconv);
	add_descent(s, "norm/gamma/update", s->gamma, dgamma);
	add_descent(s, "norm/beta/update", s->beta, dgamma + 1);
	add_descent(s, "mix/weight/update", s->mix_w, dmix_w);
	uint32_t conv_squares = OP(SUM_SQUARES, BACKWARD, "conv_squares", NO_ATTR, dconv_w);
	uint32_t logits_squares = OP(SUM_SQUARES, BACKWARD, "logits_squares", NO_ATTR, dlogits_w);
	s->scale = OP(CLIP_SCALE, BACKWARD, "clip", ATTR(.alpha = 1.0f), conv_squares, logits_squares);
	add_momentum(s, "conv/weight/update", s->conv_w, conv_v, dconv_w);
	add_momentum(s, "logits/weight/update", s->logits_w, logits_v, dlogits_w);
}

static enum tarn_status build_program(struct program *program, enum program_kind kind, uint32_t batch,
				      struct host_arena *arena, struct sample *s)
{
	*program = (struct program){ .kind = kind, .batch = batch };
	enum tarn_status st = graph_init(&program->graph, arena);
	*s = (struct sample){ .graph = &program->graph, .batch = batch, .status = st };
	if (st)
		return st;
	bool training = kind == PROGRAM_TRAIN || kind == PROGRAM_TRAIN_LAST;
	add_persistents(s);
	add_forward(s, training);
	if (training)
		add_backward(s);
	return s->status;
}

/* Before `reader` runs, the producers of `again` run once more, in the order given. */
struct recompute {
	uint32_t reader;
	uint32_t again[4];
	uint32_t count;
};

static uint32_t sequence_with_recompute(const struct sample *s, uint32_t *sequence)
{
	const struct graph *g = s->graph;
	const struct recompute plan[] = {
		{ g->tensor[graph_find(g, "dlogits_w")].producer, { s->hidden }, 1 },
		{ g->tensor[graph_find(g, "dhidden_w")].producer, { s->apply, s->mix, s->sum, s->drop }, 4 },
	};
	uint32_t count = 0;
	for (uint32_t op = 0; op < g->ops; op++) {
		for (size_t i = 0; i < sizeof plan / sizeof *plan; i++)
			for (uint32_t k = 0; plan[i].reader == op && k < plan[i].count; k++)
				sequence[count++] = g->tensor[plan[i].again[k]].producer;
		if (!op_row(g->op[op].kind)->view)
			sequence[count++] = op;
	}
	return count;
}

enum tarn_status sample_plan(struct host_arena *arena, struct plan *plan)
{
	static const struct {
		enum program_kind kind;
		uint32_t batch;
	} wanted[] = { { PROGRAM_TRAIN, 6 }, { PROGRAM_TRAIN_LAST, 2 }, { PROGRAM_EVALUATE, 6 } };
	struct sample sample[3];
	*plan = (struct plan){ .programs = 3,
			       .config_lines = "name=sample\nmemory.budget=1 MiB\n",
			       .driver = "cpu",
			       .threads = 2,
			       .alignment = (uint32_t)TARN_ALIGNMENT,
			       .budget_bytes = 1 << 20 };
	enum tarn_status st = TARN_OK;
	for (uint32_t p = 0; !st && p < plan->programs; p++)
		st = build_program(&plan->program[p], wanted[p].kind, wanted[p].batch, arena, &sample[p]);
	if (!st)
		st = sample_persistents(arena, plan);
	for (uint32_t p = 0; !st && p < plan->programs; p++) {
		struct program *program = &plan->program[p];
		uint32_t *sequence = HOST_ARRAY(arena, 2 * (size_t)program->graph.ops, uint32_t);
		if (!sequence)
			return TARN_ENOMEM;
		uint32_t steps = p == 0 ? sequence_with_recompute(&sample[p], sequence)
					: sample_sequence(&program->graph, sequence);
		st = sample_layout(plan, program, sequence, steps, 256, arena);
		if (program->height_bytes > plan->arena_bytes)
			plan->arena_bytes = program->height_bytes;
	}
	plan->min_budget_bytes = plan->arena_bytes;
	if (!st)
		plan_seal(plan);
	return st;
}
