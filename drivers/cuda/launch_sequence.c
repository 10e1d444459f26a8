/* launch_sequence.c - embedding, repeated tensors, masks of weights, gated units, LSTM and GRU cells. */
#include "cuda/launch.h"

#include <math.h>

/* Blocks that share the table in the gradient of an embedding. */
#define TABLE_RUNS 256u

static enum tarn_status add_elements(struct launch_call *call, const char *function, uint64_t elements,
				     const void *parameter, size_t bytes)
{
	return launch_add(call, function, launch_blocks(elements, 1), launch_flat_block(), parameter, bytes);
}

/* a, b -> a + b repeated; or b -> b repeated. */
enum tarn_status launch_repeat(struct launch_call *call)
{
	bool add = call->op->kind == OP_ADD_BROADCAST;
	uint32_t repeated = call->op->inputs - 1;
	struct repeat_parameters p = { .a = add ? launch_address(call, 0) : 0, .b = launch_address(call, repeated) };
	p.y = launch_output_address(call, 0);
	p.elements = tensor_elements(launch_output(call, 0));
	p.period = tensor_elements(launch_tensor(call, repeated));
	return add_elements(call, add ? "tarn_add_broadcast_f32" : "tarn_broadcast_rows_f32", p.elements, &p, sizeof p);
}

enum tarn_status launch_weight_mask(struct launch_call *call)
{
	const struct tensor *w = launch_tensor(call, 0);
	struct mask_parameters p = { .x = launch_address(call, 0), .y = launch_output_address(call, 0) };
	uint64_t area = launch_product(w, 2, 4);
	if (area > INT32_MAX)
		return launch_fail(call, "a kernel of %llu weights; at most %d", (unsigned long long)area, INT32_MAX);
	p.elements = tensor_elements(w);
	p.area = (uint32_t)area;
	p.kept = p.area / 2 + (call->op->attr.mode == MASK_B);
	return add_elements(call, "tarn_weight_mask_f32", p.elements, &p, sizeof p);
}

enum tarn_status launch_embedding(struct launch_call *call)
{
	struct embedding_parameters p = { .x = launch_address(call, 0), .id = launch_address(call, 1) };
	p.y = launch_output_address(call, 0);
	p.rows = tensor_elements(launch_tensor(call, 1));
	p.width = launch_channels(launch_output(call, 0));
	if (call->op->kind == OP_EMBEDDING) {
		p.words = launch_tensor(call, 0)->dim[0];
		p.wide_table = launch_tensor(call, 0)->dtype == DTYPE_F32;
		p.wide_result = launch_output(call, 0)->dtype == DTYPE_F32;
		return add_elements(call, "tarn_embedding_f32", p.rows * p.width, &p, sizeof p);
	}
	const bool narrow = launch_output(call, 0)->dtype != DTYPE_F32;
	p.words = launch_output(call, 0)->dim[0];
	p.block_words = launch_divide(p.words, TABLE_RUNS);
	if (narrow && p.block_words > EMBEDDING_WORDS)
		p.block_words = EMBEDDING_WORDS;
	struct extent3 grid = launch_blocks(p.width, 1);
	grid.y = launch_divide(p.words, p.block_words);
	return LAUNCH_ADD(call, narrow ? "tarn_embedding_grad_narrow_f32" : "tarn_embedding_grad_f32", grid,
			  launch_flat_block(), p);
}

enum tarn_status launch_rotary(struct launch_call *call)
{
	const struct tensor *x = launch_tensor(call, 0);
	struct rotary_parameters p = { .x = launch_address(call, 0), .y = launch_output_address(call, 0) };
	p.batch = x->dim[0];
	p.positions = x->dim[1];
	p.heads = x->dim[2];
	p.width = x->dim[3];
	p.log_base = log((double)call->op->attr.alpha);
	p.backwards = call->op->attr.transpose_a;
	struct extent3 grid = launch_blocks(p.positions * (p.width / 2), 1);
	grid.y = p.batch < UINT16_MAX ? p.batch : UINT16_MAX;
	return LAUNCH_ADD(call, "tarn_rotary_f32", grid, launch_flat_block(), p);
}

/* What a gate does to its first factor. */
static uint32_t gate_first_of(const struct op_attr *attr)
{
	if (attr->mode == GATE_TANH)
		return GATE_OF_TANH;
	if (attr->mode == GATE_LINEAR)
		return GATE_OF_NONE;
	switch (attr->activation) {
	case ACTIVATION_SILU:
		return GATE_OF_SILU;
	case ACTIVATION_GELU:
		return GATE_OF_GELU;
	case ACTIVATION_GELU_TANH:
		return GATE_OF_GELU_TANH;
	case ACTIVATION_SIGMOID:
		return GATE_OF_SIGMOID;
	default:
		return GATE_OF_SOFTPLUS;
	}
}

enum tarn_status launch_gate(struct launch_call *call)
{
	const struct op_attr *attr = &call->op->attr;
	bool backward = call->op->kind == OP_GATE_GRAD;
	const struct tensor *narrow = backward ? launch_tensor(call, 0) : launch_output(call, 0);
	struct gate_parameters p = { .dy = backward ? launch_address(call, 0) : 0 };
	p.x = launch_address(call, backward);
	p.y = launch_output_address(call, 0);
	p.elements = tensor_elements(narrow);
	p.width = launch_channels(narrow);
	p.first = gate_first_of(attr);
	p.second_is_sigmoid = attr->mode != GATE_ACTIVATION;
	return add_elements(call, backward ? "tarn_gate_grad_f32" : "tarn_gate_f32", p.elements, &p, sizeof p);
}

/* gates, c_prev -> h, c;  dh, dc, gates, c_prev, c -> dgates, dc_prev */
enum tarn_status launch_lstm_cell(struct launch_call *call)
{
	bool backward = call->op->kind == OP_LSTM_CELL_GRAD;
	uint32_t gates = backward ? 2 : 0;
	struct cell_parameters p = { .gates = launch_address(call, gates),
				     .previous = launch_address(call, gates + 1) };
	if (backward) {
		p.dh = launch_address(call, 0);
		p.dc = launch_address(call, 1);
		p.c = launch_address(call, 4);
	}
	p.out = launch_output_address(call, 0);
	p.out_state = launch_output_address(call, 1);
	p.elements = tensor_elements(launch_tensor(call, gates + 1));
	p.width = launch_channels(launch_tensor(call, gates + 1));
	return add_elements(call, backward ? "tarn_lstm_cell_grad_f32" : "tarn_lstm_cell_f32", p.elements, &p,
			    sizeof p);
}

/* gates_x, gates_h, h_prev -> h;  dh, gates_x, gates_h, h_prev -> dgates_x, dgates_h, dh_prev */
enum tarn_status launch_gru_cell(struct launch_call *call)
{
	bool backward = call->op->kind == OP_GRU_CELL_GRAD;
	uint32_t gates = backward ? 1 : 0;
	struct cell_parameters p = { .gates = launch_address(call, gates), .out = launch_output_address(call, 0) };
	p.hidden_gates = launch_address(call, gates + 1);
	p.previous = launch_address(call, gates + 2);
	if (backward) {
		p.dh = launch_address(call, 0);
		p.out_hidden_gates = launch_output_address(call, 1);
		p.out_state = launch_output_address(call, 2);
	}
	p.elements = tensor_elements(launch_tensor(call, gates + 2));
	p.width = launch_channels(launch_tensor(call, gates + 2));
	return add_elements(call, backward ? "tarn_gru_cell_grad_f32" : "tarn_gru_cell_f32", p.elements, &p, sizeof p);
}
