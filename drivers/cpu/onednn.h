/*
 * onednn.h - oneDNN primitives as stages of a kernel.
 *
 * Memory descriptors and primitives are made at compile time, memory objects and argument lists at bind time, so that
 * launching only executes. Scratchpads are the caller's (they lie in the workspace). All objects belong to the device
 * and are destroyed at close.
 */
#ifndef TARN_CPU_ONEDNN_H
#define TARN_CPU_ONEDNN_H

#include "cpu/cpu.h"

/* TARN_OK, or a sentence with the call and oneDNN's status. */
enum tarn_status dnn_check(dnnl_status_t status, const char *call);
#define DNN(call) dnn_check((call), #call)

enum tarn_status dnn_open(struct cpu_state *state);
/* Safe after a failed dnn_open. */
void dnn_close(struct cpu_state *state);

/*
 * A dense row-major layout of numbers of that type (enum dtype: f32 or bf16) with these dimensions, or one with the
 * given strides. Lives as long as the device.
 */
enum tarn_status dnn_layout(struct device *device, uint32_t dtype, int rank, const int64_t *dim, const int64_t *stride,
			    const dnnl_memory_desc_t **out);
dnnl_data_type_t dnn_type(uint32_t dtype);

/* What dnn_choose decided. */
struct dnn_choice {
	dnnl_primitive_desc_t description; /* owned by the device */
	const dnnl_memory_desc_t *weights; /* layout the primitive wants; NULL when `weights_query` was 0 */
	uint64_t workspace_bytes;          /* scratchpad, plus the reordered weights when they are not plain */
};

/* oneDNN's fused activation and user scratchpad. The attributes belong to the caller (dnnl_primitive_attr_destroy). */
enum tarn_status dnn_attributes(uint32_t activation, dnnl_primitive_attr_t *out);

/*
 * The first implementation, in oneDNN's order (fastest first), whose workspace is within the cap. `weights_query` (0:
 * none) names the operand whose layout the implementation may choose freely; `plain` is its layout in the arena.
 * TARN_EUNSUPPORTED with the smallest workspace that would do.
 */
enum tarn_status dnn_choose(struct device *device, const struct kernel *kernel, const_dnnl_op_desc_t description,
			    dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t hint, dnnl_query_t weights_query,
			    const dnnl_memory_desc_t *plain, struct dnn_choice *choice);

/* Appends a stage that executes `description`; its scratchpad starts at `scratchpad` in the workspace, which grows. */
enum tarn_status dnn_add_stage(struct device *device, struct kernel *kernel, dnnl_primitive_desc_t description,
			       uint64_t scratchpad, struct dnn_stage **out);
void dnn_add_argument(struct dnn_stage *stage, int argument, uint32_t operand, uint64_t offset,
		      const dnnl_memory_desc_t *layout);
/* Appends a stage that copies between two layouts. */
enum tarn_status dnn_add_reorder(struct device *device, struct kernel *kernel, const struct dnn_argument *from,
				 const struct dnn_argument *to, uint64_t scratchpad);

/* A primitive descriptor that dies with the device (hints of backward passes too). */
enum tarn_status dnn_own_description(struct device *device, dnnl_primitive_desc_t description);

enum tarn_status dnn_bind(struct device *device, struct bound_instr *instr);
enum tarn_status dnn_launch(struct cpu_state *state, const struct bound_instr *instr);

#endif
