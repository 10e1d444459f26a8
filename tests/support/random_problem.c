/* random_problem.c - problem generators. */
#include "support/random_problem.h"

#include "base/bytes.h"

#include <string.h>

/* Grows a problem op by op. Tests give up when the host has no memory. */
struct builder {
	struct host_arena *arena;
	struct problem *p;
	size_t value_room, op_room, operand_room, after_room;
};

static void *must(void *pointer)
{
	if (!pointer)
		ck_abort_msg("%s", tarn_error());
	return pointer;
}

static struct builder builder_new(struct host_arena *arena)
{
	return (struct builder){ .arena = arena, .p = must(HOST_NEW(arena, struct problem)) };
}

static void add_operand(struct builder *b, uint32_t value)
{
	struct problem *p = b->p;
	p->operand = must(host_arena_grow(b->arena, p->operand, &b->operand_room, p->operands + 1, sizeof *p->operand));
	p->operand[p->operands++] = value;
}

/* Starts an op; inputs, outputs and afters follow, in this order. */
static struct problem_op *add_op(struct builder *b, uint64_t cost_ns, bool forward)
{
	struct problem *p = b->p;
	p->op = must(host_arena_grow(b->arena, p->op, &b->op_room, p->ops + 1, sizeof *p->op));
	p->op[p->ops] = (struct problem_op){ .cost_ns = cost_ns,
					     .first_input = p->operands,
					     .first_output = p->operands,
					     .first_after = p->afters,
					     .forward = forward };
	return &p->op[p->ops++];
}

static void add_input(struct builder *b, uint32_t value)
{
	struct problem_op *op = &b->p->op[b->p->ops - 1];
	for (uint32_t i = 0; i < op->inputs; i++)
		if (b->p->operand[op->first_input + i] == value)
			return;
	add_operand(b, value);
	op->inputs++;
	op->first_output = b->p->operands;
}

static uint32_t add_output(struct builder *b, uint64_t bytes)
{
	struct problem *p = b->p;
	p->value = must(host_arena_grow(b->arena, p->value, &b->value_room, p->values + 1, sizeof *p->value));
	struct problem_op *op = &p->op[p->ops - 1];
	p->value[p->values] =
		(struct problem_value){ .bytes = bytes_align(bytes), .producer = p->ops - 1, .output = op->outputs++ };
	add_operand(b, p->values);
	return p->values++;
}

static void add_after(struct builder *b, uint32_t op)
{
	struct problem *p = b->p;
	p->after = must(host_arena_grow(b->arena, p->after, &b->after_room, p->afters + 1, sizeof *p->after));
	p->after[p->afters++] = op;
	p->op[p->ops - 1].afters++;
}

/* An op with one output. */
static uint32_t add_simple(struct builder *b, uint64_t cost_ns, bool forward, uint32_t in_place, uint64_t bytes,
			   uint32_t inputs, const uint32_t *input)
{
	add_op(b, cost_ns, forward)->in_place = in_place;
	for (uint32_t i = 0; i < inputs; i++)
		add_input(b, input[i]);
	return add_output(b, bytes);
}

/* Picks inputs, newer values more often. */
static void add_random_inputs(struct builder *b, struct testing_random *random)
{
	struct problem *p = b->p;
	uint32_t inputs = p->values ? testing_between(random, testing_between(random, 0, 5) ? 1 : 0, 3) : 0;
	for (uint32_t i = 0; i < inputs; i++) {
		uint32_t recent = testing_between(random, 1, 4) * 2;
		uint32_t oldest = p->values > recent ? p->values - recent : 0;
		add_input(b, testing_between(random, testing_between(random, 0, 3) ? oldest : 0, p->values - 1));
	}
}

/* A few earlier ops; never one that comes after something itself. */
static void add_random_afters(struct builder *b, struct testing_random *random)
{
	struct problem *p = b->p;
	for (uint32_t i = testing_between(random, 0, 2); i > 0 && p->ops > 1; i--)
		add_after(b, testing_between(random, 0, p->ops - 2));
}

struct problem *random_problem(struct host_arena *arena, struct testing_random *random, uint32_t ops)
{
	struct builder b = builder_new(arena);
	for (uint32_t o = 0; o < ops; o++) {
		bool forward = o < ops / 2;
		add_op(&b, testing_between(random, 0, 20) * 10, forward);
		add_random_inputs(&b, random);
		uint32_t kind = testing_between(random, 0, 11);
		uint32_t outputs = kind == 0 && !forward ? 0 : kind <= 2 ? 2 : 1;
		for (uint32_t i = 0; i < outputs; i++)
			add_output(&b, TARN_ALIGNMENT * testing_between(random, 1, 6));
		struct problem_op *op = &b.p->op[o];
		op->once = !outputs || kind == 3;
		op->required = testing_between(random, 0, 5) == 0 || o == ops - 1;
		op->heavy = testing_between(random, 0, 3) == 0;
		op->workspace = testing_between(random, 0, 4) ? 0 : TARN_ALIGNMENT * testing_between(random, 1, 3);
		if (outputs && op->inputs && testing_between(random, 0, 1))
			op->in_place = testing_between(random, 0, (1u << op->inputs) - 1);
		if (op->once && testing_between(random, 0, 1))
			add_random_afters(&b, random);
	}
	return b.p;
}

/* --- Training steps: a tape of forward layers, then their derivatives in reverse. --- */

enum layer_kind { LAYER_CONV, LAYER_NORM, LAYER_RELU, LAYER_ADD, LAYER_CONCAT, LAYER_POOL };

struct layer {
	uint32_t kind;
	uint32_t input[2], inputs; /* values */
	uint32_t output;           /* value */
	uint32_t extra;            /* value: statistics of NORM, index of POOL */
	uint32_t op;               /* that reads the parameter */
	uint64_t parameter_bytes;
};

struct tape {
	struct builder b;
	struct layer *layer;
	size_t layer_room;
	uint32_t layers;
	uint32_t *gradient; /* [values]: newest gradient, or VALUE_NONE */
	bool clip;
	uint32_t *parameter_gradient, *reader, *reader_last; /* [layers]: for updates, readers as two ops */
	uint32_t updates;
};

/* Bandwidth-bound ops: one nanosecond for 10 bytes. */
static uint64_t cost_of_bytes(uint64_t bytes)
{
	return bytes / 10;
}

static uint64_t bytes_of(const struct tape *t, uint32_t value)
{
	return t->b.p->value[value].bytes;
}

static struct tape tape_new(struct host_arena *arena)
{
	return (struct tape){ .b = builder_new(arena) };
}

static uint32_t tape_input(struct tape *t, uint64_t bytes)
{
	add_op(&t->b, cost_of_bytes(bytes), true)->once = true;
	return add_output(&t->b, bytes);
}

static uint32_t tape_layer(struct tape *t, uint32_t kind, uint32_t inputs, const uint32_t *input, uint64_t bytes)
{
	t->layer = must(host_arena_grow(t->b.arena, t->layer, &t->layer_room, t->layers + 1, sizeof *t->layer));
	struct layer *layer = &t->layer[t->layers++];
	*layer = (struct layer){ .kind = kind, .inputs = inputs, .extra = VALUE_NONE };
	memcpy(layer->input, input, inputs * sizeof *input);
	uint64_t read = bytes_of(t, input[0]) + (inputs > 1 ? bytes_of(t, input[1]) : 0);
	uint64_t cost = cost_of_bytes(read + bytes) * (kind == LAYER_CONV ? 6 : 1);
	if (kind == LAYER_NORM)
		layer->extra = add_simple(&t->b, cost_of_bytes(read), true, 0, 512, 1, input);
	struct problem_op *op = add_op(&t->b, cost, true);
	op->heavy = kind == LAYER_CONV;
	op->in_place = kind == LAYER_RELU ? 1 : kind == LAYER_ADD ? 3 : 0;
	op->workspace = kind == LAYER_CONV ? 4096 : 0;
	for (uint32_t i = 0; i < inputs; i++)
		add_input(&t->b, input[i]);
	if (kind == LAYER_NORM)
		add_input(&t->b, layer->extra);
	layer->op = t->b.p->ops - 1;
	layer->output = add_output(&t->b, bytes);
	if (kind == LAYER_POOL)
		layer->extra = add_output(&t->b, bytes / 4);
	layer->parameter_bytes = kind == LAYER_CONV ? 36864 : kind == LAYER_NORM ? 512 : 0;
	return layer->output;
}

static uint32_t tape_conv(struct tape *t, uint32_t x, uint64_t bytes)
{
	return tape_layer(t, LAYER_CONV, 1, &x, bytes);
}

static uint32_t tape_norm(struct tape *t, uint32_t x)
{
	return tape_layer(t, LAYER_NORM, 1, &x, bytes_of(t, x));
}

static uint32_t tape_relu(struct tape *t, uint32_t x)
{
	return tape_layer(t, LAYER_RELU, 1, &x, bytes_of(t, x));
}

static uint32_t tape_conv_norm_relu(struct tape *t, uint32_t x, uint64_t bytes)
{
	return tape_relu(t, tape_norm(t, tape_conv(t, x, bytes)));
}

/* Adds `g` to the gradient of a value, in place. */
static void tape_accumulate(struct tape *t, uint32_t value, uint32_t g)
{
	uint64_t bytes = bytes_of(t, g);
	if (t->gradient[value] == VALUE_NONE)
		t->gradient[value] = g;
	else
		t->gradient[value] = add_simple(&t->b, cost_of_bytes(3 * bytes), false, 3, bytes, 2,
						(uint32_t[]){ t->gradient[value], g });
}

static void tape_update(struct tape *t, uint32_t gradient, uint32_t reader, uint32_t reader_last, uint32_t factor)
{
	struct problem_op *op = add_op(&t->b, cost_of_bytes(3 * bytes_of(t, gradient)), false);
	op->once = true;
	add_input(&t->b, gradient);
	if (factor != VALUE_NONE)
		add_input(&t->b, factor);
	add_after(&t->b, reader);
	if (reader_last != reader)
		add_after(&t->b, reader_last);
}

/* The parameter's gradient is complete; its update comes now, or after the global norm. */
static void tape_parameter(struct tape *t, uint32_t gradient, uint32_t reader, uint32_t reader_last)
{
	if (!t->clip) {
		tape_update(t, gradient, reader, reader_last, VALUE_NONE);
		return;
	}
	t->parameter_gradient[t->updates] = gradient;
	t->reader[t->updates] = reader;
	t->reader_last[t->updates++] = reader_last;
}

static void backward_conv(struct tape *t, const struct layer *l, uint32_t g, bool first)
{
	uint64_t cost = cost_of_bytes(bytes_of(t, l->input[0]) + bytes_of(t, g)) * 6;
	uint32_t reader_last = l->op;
	if (!first) {
		uint32_t gx = add_simple(&t->b, cost, false, 0, bytes_of(t, l->input[0]), 1, &g);
		reader_last = t->b.p->ops - 1;
		tape_accumulate(t, l->input[0], gx);
	}
	uint32_t gw = add_simple(&t->b, cost, false, 0, l->parameter_bytes, 2, (uint32_t[]){ l->input[0], g });
	t->b.p->op[t->b.p->ops - 1].workspace = 8192;
	tape_parameter(t, gw, l->op, reader_last);
}

static void backward_norm(struct tape *t, const struct layer *l, uint32_t g)
{
	uint64_t bytes = bytes_of(t, g);
	uint32_t x = l->input[0];
	uint32_t sums = add_simple(&t->b, cost_of_bytes(2 * bytes), false, 0, l->parameter_bytes, 3,
				   (uint32_t[]){ g, x, l->extra });
	uint32_t gx =
		add_simple(&t->b, cost_of_bytes(3 * bytes), false, 1, bytes, 4, (uint32_t[]){ g, x, l->extra, sums });
	tape_accumulate(t, x, gx);
	tape_parameter(t, sums, l->op, t->b.p->ops - 1);
}

static void backward_layer(struct tape *t, const struct layer *l, bool first)
{
	uint32_t g = t->gradient[l->output];
	uint64_t bytes = bytes_of(t, g);
	switch (l->kind) {
	case LAYER_CONV:
		backward_conv(t, l, g, first);
		break;
	case LAYER_NORM:
		backward_norm(t, l, g);
		break;
	case LAYER_RELU:
		tape_accumulate(
			t, l->input[0],
			add_simple(&t->b, cost_of_bytes(3 * bytes), false, 1, bytes, 2, (uint32_t[]){ g, l->output }));
		break;
	case LAYER_ADD:
		tape_accumulate(t, l->input[0], g);
		tape_accumulate(t, l->input[1], g);
		break;
	case LAYER_CONCAT:
		for (uint32_t i = 0; i < 2; i++)
			tape_accumulate(t, l->input[i],
					add_simple(&t->b, cost_of_bytes(2 * bytes_of(t, l->input[i])), false, 0,
						   bytes_of(t, l->input[i]), 1, &g));
		break;
	default:
		tape_accumulate(t, l->input[0],
				add_simple(&t->b, cost_of_bytes(bytes_of(t, l->input[0])), false, 0,
					   bytes_of(t, l->input[0]), 2, (uint32_t[]){ g, l->extra }));
	}
}

/* Every parameter's gradient is read once for its norm, then all updates read the factor. */
static void tape_clip(struct tape *t)
{
	uint32_t *norm = must(HOST_ARRAY(t->b.arena, t->updates, uint32_t));
	for (uint32_t i = 0; i < t->updates; i++)
		norm[i] = add_simple(&t->b, cost_of_bytes(bytes_of(t, t->parameter_gradient[i])), false, 0, 64, 1,
				     &t->parameter_gradient[i]);
	uint32_t factor = add_simple(&t->b, 100, false, 0, 64, t->updates, norm);
	for (uint32_t i = 0; i < t->updates; i++)
		tape_update(t, t->parameter_gradient[i], t->reader[i], t->reader_last[i], factor);
}

static struct problem *tape_finish(struct tape *t, uint32_t output)
{
	uint32_t labels = tape_input(t, 512);
	add_op(&t->b, cost_of_bytes(bytes_of(t, output)), true)->required = true;
	add_input(&t->b, output);
	add_input(&t->b, labels);
	uint32_t loss_gradient_input = add_output(&t->b, 64);
	uint32_t room = 64 * t->layers + t->b.p->values;
	t->gradient = must(HOST_ARRAY(t->b.arena, room, uint32_t));
	memset(t->gradient, 0xff, room * sizeof *t->gradient);
	t->parameter_gradient = must(HOST_ARRAY(t->b.arena, t->layers, uint32_t));
	t->reader = must(HOST_ARRAY(t->b.arena, t->layers, uint32_t));
	t->reader_last = must(HOST_ARRAY(t->b.arena, t->layers, uint32_t));
	t->gradient[output] = add_simple(&t->b, cost_of_bytes(2 * bytes_of(t, output)), false, 0, bytes_of(t, output),
					 3, (uint32_t[]){ output, labels, loss_gradient_input });
	for (uint32_t i = t->layers; i-- > 0;)
		backward_layer(t, &t->layer[i], i == 0);
	if (t->clip)
		tape_clip(t);
	return t->b.p;
}

struct problem *chain_problem(struct host_arena *arena, uint32_t stages, uint64_t bytes, bool updates)
{
	struct builder b = builder_new(arena);
	uint32_t *y = must(HOST_ARRAY(arena, stages + 1, uint32_t)),
		 *op = must(HOST_ARRAY(arena, stages + 1, uint32_t));
	add_op(&b, 1, true)->once = true;
	y[0] = add_output(&b, bytes);
	for (uint32_t i = 1; i <= stages; i++) {
		y[i] = add_simple(&b, 1000, true, 0, bytes, 1, &y[i - 1]);
		op[i] = b.p->ops - 1;
	}
	uint32_t g = add_simple(&b, 1000, false, 0, bytes, 1, &y[stages]);
	for (uint32_t i = stages; i >= 1; i--) {
		g = add_simple(&b, 2000, false, 0, bytes, 2, (uint32_t[]){ g, y[i - 1] });
		b.p->op[b.p->ops - 1].required = i == 1;
		if (!updates)
			continue;
		uint32_t reader = b.p->ops - 1;
		add_op(&b, 10, false)->once = true;
		add_input(&b, g);
		add_after(&b, op[i]);
		add_after(&b, reader);
	}
	return b.p;
}

struct problem *resnet_problem(struct host_arena *arena, uint32_t blocks, bool clip)
{
	struct tape t = tape_new(arena);
	t.clip = clip;
	uint64_t bytes = 1 << 20;
	uint32_t x = tape_conv_norm_relu(&t, tape_input(&t, bytes / 4), bytes);
	for (uint32_t stage = 0; stage < 3; stage++, bytes /= 2) {
		for (uint32_t block = 0; block < blocks; block++) {
			uint32_t y = tape_conv_norm_relu(&t, x, bytes);
			y = tape_norm(&t, tape_conv(&t, y, bytes));
			if (bytes_of(&t, x) != bytes)
				x = tape_norm(&t, tape_conv(&t, x, bytes));
			x = tape_relu(&t, tape_layer(&t, LAYER_ADD, 2, (uint32_t[]){ y, x }, bytes));
		}
	}
	return tape_finish(&t, tape_conv(&t, tape_layer(&t, LAYER_POOL, 1, &x, 4096), 640));
}

struct problem *unet_problem(struct host_arena *arena, uint32_t levels)
{
	struct tape t = tape_new(arena);
	uint32_t *skip = must(HOST_ARRAY(arena, levels, uint32_t));
	uint64_t bytes = 4 << 20;
	uint32_t x = tape_input(&t, bytes / 8);
	for (uint32_t i = 0; i < levels; i++, bytes /= 2) {
		x = tape_conv_norm_relu(&t, tape_conv_norm_relu(&t, x, bytes), bytes);
		skip[i] = x;
		x = tape_layer(&t, LAYER_POOL, 1, &x, bytes / 4);
	}
	x = tape_conv_norm_relu(&t, tape_conv_norm_relu(&t, x, bytes), bytes);
	for (uint32_t i = levels; i-- > 0;) {
		bytes *= 2;
		x = tape_conv(&t, x, bytes);
		x = tape_layer(&t, LAYER_CONCAT, 2, (uint32_t[]){ x, skip[i] }, 2 * bytes);
		x = tape_conv_norm_relu(&t, tape_conv_norm_relu(&t, x, bytes), bytes);
	}
	return tape_finish(&t, tape_conv(&t, x, bytes / 8));
}

struct problem *densenet_problem(struct host_arena *arena, uint32_t layers)
{
	struct tape t = tape_new(arena);
	uint64_t growth = 1 << 18;
	uint32_t x = tape_conv(&t, tape_input(&t, growth / 4), 2 * growth);
	for (uint32_t i = 0; i < layers; i++) {
		uint32_t y = tape_conv(&t, tape_relu(&t, tape_norm(&t, x)), growth);
		x = tape_layer(&t, LAYER_CONCAT, 2, (uint32_t[]){ x, y }, bytes_of(&t, x) + growth);
	}
	return tape_finish(&t, tape_conv(&t, x, 640));
}

struct problem *recurrent_problem(struct host_arena *arena, uint32_t steps)
{
	struct builder b = builder_new(arena);
	uint32_t *h = must(HOST_ARRAY(arena, steps + 1, uint32_t)),
		 *gate = must(HOST_ARRAY(arena, steps + 1, uint32_t));
	uint32_t *reader = must(HOST_ARRAY(arena, 2 * (size_t)steps, uint32_t)), readers = 0;
	add_op(&b, 1, true)->once = true;
	uint32_t x = add_output(&b, (uint64_t)steps * 1024);
	h[0] = add_simple(&b, 1, true, 0, 4096, 0, NULL);
	for (uint32_t i = 1; i <= steps; i++) {
		gate[i] = add_simple(&b, 5000, true, 0, 16384, 2, (uint32_t[]){ h[i - 1], x });
		reader[readers++] = b.p->ops - 1;
		h[i] = add_simple(&b, 500, true, 0, 4096, 2, (uint32_t[]){ gate[i], h[i - 1] });
	}
	uint32_t g = add_simple(&b, 100, false, 0, 4096, 1, &h[steps]), sum = VALUE_NONE;
	for (uint32_t i = steps; i >= 1; i--) {
		uint32_t gg = add_simple(&b, 700, false, 0, 16384, 2, (uint32_t[]){ g, gate[i] });
		g = add_simple(&b, 5000, false, 0, 4096, 1, &gg);
		reader[readers++] = b.p->ops - 1;
		uint32_t gw = add_simple(&b, 5000, false, 0, 65536, 3, (uint32_t[]){ gg, h[i - 1], x });
		sum = sum == VALUE_NONE ? gw : add_simple(&b, 2000, false, 3, 65536, 2, (uint32_t[]){ sum, gw });
	}
	add_op(&b, 2000, false)->once = true;
	add_input(&b, sum);
	for (uint32_t i = 0; i < readers; i++)
		add_after(&b, reader[i]);
	return b.p;
}

struct problem *random_training_problem(struct host_arena *arena, struct testing_random *random, uint32_t layers)
{
	struct builder b = builder_new(arena);
	uint32_t *made = must(HOST_ARRAY(arena, layers, uint32_t)),
		 *gradient = must(HOST_ARRAY(arena, layers, uint32_t));
	uint32_t reach = testing_between(random, 1, 3), first[16], inputs;
	b.p->any_size = true;
	for (uint32_t i = 0; i < layers; i++) {
		add_op(&b, testing_between(random, 0, 20), true)->workspace = testing_between(random, 0, 3);
		inputs = i ? testing_between(random, 1, 2) : 0;
		for (uint32_t k = 0; k < inputs; k++)
			add_input(&b, made[i - 1 - testing_between(random, 0, (i < reach ? i : reach) - 1)]);
		if (i && i + 1 < layers && testing_between(random, 0, 1))
			add_input(&b, made[i - 1]);
		made[i] = add_output(&b, testing_between(random, 1, 9));
	}
	/* The gradient of a layer reads those of its readers, the layer's inputs and, sometimes, the layer itself. */
	for (uint32_t i = layers; i-- > 0;) {
		uint32_t forward_inputs = b.p->op[i].inputs;
		for (uint32_t k = 0; k < forward_inputs; k++)
			first[k] = problem_inputs(b.p, i)[k];
		add_op(&b, testing_between(random, 0, 25), false);
		bool last = true;
		for (uint32_t j = i + 1; j < layers; j++)
			for (uint32_t k = 0; k < b.p->op[j].inputs; k++)
				if (problem_inputs(b.p, j)[k] == made[i]) {
					add_input(&b, gradient[j]);
					last = false;
				}
		for (uint32_t k = 0; k < forward_inputs; k++)
			add_input(&b, first[k]);
		if (last || testing_between(random, 0, 1))
			add_input(&b, made[i]);
		if (!i) {
			b.p->op[b.p->ops - 1].required = true;
			b.p->op[b.p->ops - 1].workspace = testing_between(random, 0, 9);
		} else {
			gradient[i] = add_output(&b, testing_between(random, 1, 9));
		}
	}
	return b.p;
}
