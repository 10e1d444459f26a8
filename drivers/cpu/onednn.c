/* onednn.c - see onednn.h. Interface: oneDNN 2.6 C API, <oneapi/dnnl/dnnl.h>. */
#include "cpu/onednn.h"

#include <string.h>

enum resource_kind { RESOURCE_DESCRIPTION, RESOURCE_PRIMITIVE, RESOURCE_MEMORY };

struct cpu_resource {
	struct cpu_resource *next;
	void *handle;
	enum resource_kind kind;
};

static void resource_destroy(enum resource_kind kind, void *handle)
{
	if (kind == RESOURCE_DESCRIPTION)
		dnnl_primitive_desc_destroy(handle);
	else if (kind == RESOURCE_PRIMITIVE)
		dnnl_primitive_destroy(handle);
	else
		dnnl_memory_destroy(handle);
}

/* The device takes the object; it is destroyed at once when there is no memory to remember it. */
static enum tarn_status resource_take(struct device *device, enum resource_kind kind, void *handle)
{
	struct cpu_state *state = device->state;
	struct cpu_resource *resource = HOST_NEW(device->host, struct cpu_resource);
	if (!resource) {
		resource_destroy(kind, handle);
		return TARN_ENOMEM;
	}
	*resource = (struct cpu_resource){ state->resources, handle, kind };
	state->resources = resource;
	return TARN_OK;
}

enum tarn_status dnn_check(dnnl_status_t status, const char *call)
{
	if (status == dnnl_success)
		return TARN_OK;
	int length = (int)strcspn(call, "(");
	if (status == dnnl_out_of_memory)
		return tarn_fail(TARN_ENOMEM, "oneDNN: %.*s: the host has no memory left", length, call);
	if (status == dnnl_unimplemented)
		return tarn_fail(TARN_EUNSUPPORTED, "oneDNN: %.*s: not implemented for this op", length, call);
	return tarn_fail(TARN_EINTERNAL, "oneDNN: %.*s failed with status %d", length, call, (int)status);
}

enum tarn_status dnn_open(struct cpu_state *state)
{
	enum tarn_status st = DNN(dnnl_engine_create(&state->engine, dnnl_cpu, 0));
	if (!st)
		st = DNN(dnnl_stream_create(&state->stream, state->engine, dnnl_stream_in_order));
	return st;
}

void dnn_close(struct cpu_state *state)
{
	for (struct cpu_resource *r = state->resources; r; r = r->next)
		resource_destroy(r->kind, r->handle);
	state->resources = NULL;
	if (state->stream)
		dnnl_stream_destroy(state->stream);
	if (state->engine)
		dnnl_engine_destroy(state->engine);
	state->stream = NULL;
	state->engine = NULL;
}

dnnl_data_type_t dnn_type(uint32_t dtype)
{
	return dtype == DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
}

enum tarn_status dnn_layout(struct device *device, uint32_t dtype, int rank, const int64_t *dim, const int64_t *stride,
			    const dnnl_memory_desc_t **out)
{
	dnnl_memory_desc_t *layout = HOST_NEW(device->host, dnnl_memory_desc_t);
	if (!layout)
		return TARN_ENOMEM;
	dnnl_dims_t dense;
	if (!stride) {
		int64_t step = 1;
		for (int i = rank - 1; i >= 0; i--) {
			dense[i] = step;
			step *= dim[i];
		}
	}
	enum tarn_status st =
		DNN(dnnl_memory_desc_init_by_strides(layout, rank, dim, dnn_type(dtype), stride ? stride : dense));
	if (!st)
		*out = layout;
	return st;
}

enum tarn_status dnn_attributes(uint32_t activation, dnnl_primitive_attr_t *out)
{
	dnnl_post_ops_t fused = NULL;
	dnnl_primitive_attr_t attributes;
	enum tarn_status st = DNN(dnnl_primitive_attr_create(&attributes));
	if (st)
		return st;
	st = DNN(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
	if (!st && activation != ACTIVATION_NONE) {
		st = DNN(dnnl_post_ops_create(&fused));
		if (!st && activation == ACTIVATION_RELU)
			st = DNN(dnnl_post_ops_append_eltwise(fused, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f));
		else if (!st)
			st = DNN(dnnl_post_ops_append_eltwise(fused, 1.0f, dnnl_eltwise_clip, 0.0f, 6.0f));
		if (!st)
			st = DNN(dnnl_primitive_attr_set_post_ops(attributes, fused));
		if (fused)
			dnnl_post_ops_destroy(fused);
	}
	if (st)
		dnnl_primitive_attr_destroy(attributes);
	else
		*out = attributes;
	return st;
}

enum tarn_status dnn_own_description(struct device *device, dnnl_primitive_desc_t description)
{
	return resource_take(device, RESOURCE_DESCRIPTION, description);
}

static const dnnl_memory_desc_t *description_layout(dnnl_primitive_desc_t description, dnnl_query_t query)
{
	return dnnl_primitive_desc_query_md(description, query, 0);
}

static uint64_t scratchpad_bytes(dnnl_primitive_desc_t description)
{
	return bytes_align(dnnl_memory_desc_get_size(description_layout(description, dnnl_query_scratchpad_md)));
}

static uint64_t choice_bytes(dnnl_primitive_desc_t description, dnnl_query_t weights_query,
			     const dnnl_memory_desc_t *plain)
{
	uint64_t bytes = scratchpad_bytes(description);
	if (!weights_query)
		return bytes;
	const dnnl_memory_desc_t *weights = description_layout(description, weights_query);
	return dnnl_memory_desc_equal(weights, plain) ? bytes : bytes + bytes_align(dnnl_memory_desc_get_size(weights));
}

enum tarn_status dnn_choose(struct device *device, const struct kernel *kernel, const_dnnl_op_desc_t description,
			    dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t hint, dnnl_query_t weights_query,
			    const dnnl_memory_desc_t *plain, struct dnn_choice *choice)
{
	struct cpu_state *state = device->state;
	dnnl_primitive_desc_iterator_t iterator = NULL;
	dnnl_status_t status =
		dnnl_primitive_desc_iterator_create(&iterator, description, attributes, state->engine, hint);
	uint64_t smallest = UINT64_MAX;
	for (; status == dnnl_success; status = dnnl_primitive_desc_iterator_next(iterator)) {
		dnnl_primitive_desc_t candidate = dnnl_primitive_desc_iterator_fetch(iterator);
		uint64_t bytes = choice_bytes(candidate, weights_query, plain);
		smallest = bytes < smallest ? bytes : smallest;
		if (bytes > state->workspace_cap) {
			dnnl_primitive_desc_destroy(candidate);
			continue;
		}
		dnnl_primitive_desc_iterator_destroy(iterator);
		choice->description = candidate;
		choice->weights = weights_query ? description_layout(candidate, weights_query) : NULL;
		choice->workspace_bytes = bytes;
		return dnn_own_description(device, candidate);
	}
	if (iterator)
		dnnl_primitive_desc_iterator_destroy(iterator);
	if (smallest == UINT64_MAX)
		return tarn_fail(TARN_EUNSUPPORTED, "cpu: oneDNN has no kernel for %s \"%s\" with these shapes",
				 op_row(kernel->kind)->name, kernel->name);
	return tarn_fail(
		TARN_EUNSUPPORTED,
		"cpu: %s \"%s\": no kernel works within the workspace cap of %llu bytes; the smallest needs %llu",
		op_row(kernel->kind)->name, kernel->name, (unsigned long long)state->workspace_cap,
		(unsigned long long)smallest);
}

void dnn_add_argument(struct dnn_stage *stage, int argument, uint32_t operand, uint64_t offset,
		      const dnnl_memory_desc_t *layout)
{
	stage->argument[stage->arguments++] = (struct dnn_argument){ argument, operand, offset, layout };
}

enum tarn_status dnn_add_stage(struct device *device, struct kernel *kernel, dnnl_primitive_desc_t description,
			       uint64_t scratchpad, struct dnn_stage **out)
{
	struct dnn_stage *stage = &kernel->stage[kernel->stages];
	enum tarn_status st = DNN(dnnl_primitive_create(&stage->primitive, description));
	if (!st)
		st = resource_take(device, RESOURCE_PRIMITIVE, stage->primitive);
	if (st)
		return st;
	kernel->stages++;
	uint64_t bytes = scratchpad_bytes(description);
	if (bytes)
		dnn_add_argument(stage, DNNL_ARG_SCRATCHPAD, DNN_WORKSPACE, scratchpad,
				 description_layout(description, dnnl_query_scratchpad_md));
	if (kernel->info.workspace_bytes < scratchpad + bytes)
		kernel->info.workspace_bytes = scratchpad + bytes;
	*out = stage;
	return TARN_OK;
}

enum tarn_status dnn_add_reorder(struct device *device, struct kernel *kernel, const struct dnn_argument *from,
				 const struct dnn_argument *to, uint64_t scratchpad)
{
	struct cpu_state *state = device->state;
	dnnl_primitive_attr_t attributes;
	dnnl_primitive_desc_t description;
	struct dnn_stage *stage;
	enum tarn_status st = dnn_attributes(ACTIVATION_NONE, &attributes);
	if (st)
		return st;
	st = DNN(dnnl_reorder_primitive_desc_create(&description, from->layout, state->engine, to->layout,
						    state->engine, attributes));
	dnnl_primitive_attr_destroy(attributes);
	if (!st)
		st = dnn_own_description(device, description);
	if (!st)
		st = dnn_add_stage(device, kernel, description, scratchpad, &stage);
	if (st)
		return st;
	dnn_add_argument(stage, DNNL_ARG_FROM, from->operand, from->offset, from->layout);
	dnn_add_argument(stage, DNNL_ARG_TO, to->operand, to->offset, to->layout);
	return TARN_OK;
}

static enum tarn_status bind_argument(struct device *device, const struct bound_instr *instr,
				      const struct dnn_argument *from, dnnl_exec_arg_t *to)
{
	struct cpu_state *state = device->state;
	void *address = from->operand == DNN_WORKSPACE ? (unsigned char *)instr->workspace + from->offset
						       : instr->address[from->operand];
	to->arg = from->argument;
	enum tarn_status st = DNN(dnnl_memory_create(&to->memory, from->layout, state->engine, address));
	return st ? st : resource_take(device, RESOURCE_MEMORY, to->memory);
}

enum tarn_status dnn_bind(struct device *device, struct bound_instr *instr)
{
	for (uint32_t s = 0; s < instr->kernel->stages; s++) {
		const struct dnn_stage *stage = &instr->kernel->stage[s];
		instr->argument[s] = HOST_ARRAY(device->host, stage->arguments, dnnl_exec_arg_t);
		if (!instr->argument[s])
			return TARN_ENOMEM;
		for (uint32_t i = 0; i < stage->arguments; i++) {
			enum tarn_status st = bind_argument(device, instr, &stage->argument[i], &instr->argument[s][i]);
			if (st)
				return st;
		}
	}
	return TARN_OK;
}

enum tarn_status dnn_launch(struct cpu_state *state, const struct bound_instr *instr)
{
	for (uint32_t s = 0; s < instr->kernel->stages; s++) {
		const struct dnn_stage *stage = &instr->kernel->stage[s];
		enum tarn_status st = DNN(dnnl_primitive_execute(stage->primitive, state->stream, (int)stage->arguments,
								 instr->argument[s]));
		if (st)
			return st;
	}
	return TARN_OK;
}
