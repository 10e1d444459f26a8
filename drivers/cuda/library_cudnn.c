/*
 * library_cudnn.c - convolutions by cuDNN's backend interface.
 *
 * Activations are N H W C and weights O I KH KW, as op.h says; both are told to cuDNN as strides, and engines that want
 * the weights in another order copy them into their workspace.
 *
 * The engine is chosen once for each signature, before planning: the first of cuDNN's list (heuristic mode A, then its
 * fallback list) that is deterministic, keeps float32 unless tf32 is allowed, and needs no more workspace than
 * memory.workspace_cap. The list is a function of the op and the device. Where no engine is left, own kernels take
 * over. Without a device cuDNN makes the same choice from a description of one (its "deviceless" planning, since 9.8).
 */
#include "cuda/cuda_driver.h"

#include <string.h>

#define MAX_DESCRIPTORS 12u
/* Alignment that cuDNN may count on; the arena's is 64. */
#define TENSOR_ALIGNMENT 16
/* 3000 to 3999 say that this engine or list does not take the op (cudnn_graph.h); anything else is a failure. */
#define IS_UNSUPPORTED(status) ((status) >= 3000 && (status) < 4000)

enum { UID_IMAGE = 'x', UID_WEIGHT = 'w', UID_RESULT = 'y' };

struct convolution {
	void *descriptor[MAX_DESCRIPTORS]; /* in the order they were made */
	uint32_t descriptors;
	void *plan; /* the last of them; NULL on a described device */
	uint64_t workspace_bytes;
	uint32_t kind;
	bool narrow;                    /* stored in 16 bits, which tensor cores multiply exactly */
	uint32_t image, weight, result; /* which operand of the op each is */
};

/* The three directions differ in names only. */
struct direction {
	int descriptor, image, weight, result, convolution, alpha, beta;
};

static const struct direction *direction_of(uint32_t kind)
{
	static const struct direction forward = { ABI_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
						  ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
						  ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
						  ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
						  ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
						  ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
						  ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA };
	static const struct direction grad_input = { ABI_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
						     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
						     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
						     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
						     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
						     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
						     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA };
	static const struct direction grad_weight = {
		ABI_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
		ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
		ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
		ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
		ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
		ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
		ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA
	};
	if (kind == OP_CONV2D)
		return &forward;
	return kind == OP_CONV2D_GRAD_INPUT ? &grad_input : &grad_weight;
}

/* Operands: CONV2D x, w [, bias], y; GRAD_INPUT dy, w, dx; GRAD_WEIGHT x, dy, dw. */
static void find_operands(struct convolution *convolution, const struct op *node)
{
	uint32_t output = node->inputs;
	convolution->kind = node->kind;
	convolution->image = node->kind == OP_CONV2D_GRAD_INPUT ? output : 0;
	convolution->weight = node->kind == OP_CONV2D_GRAD_WEIGHT ? output : 1;
	convolution->result = output;
	if (node->kind != OP_CONV2D)
		convolution->result = node->kind == OP_CONV2D_GRAD_INPUT ? 0 : 1;
}

/* A sequence of calls that stops at the first failure; what it makes belongs to `convolution`. */
struct maker {
	struct cuda_state *state;
	struct convolution *convolution;
	enum tarn_status status;
};

static void *make(struct maker *maker, int type)
{
	struct convolution *convolution = maker->convolution;
	void *descriptor = NULL;
	if (!maker->status)
		maker->status = DNN(maker->state, cudnnBackendCreateDescriptor, type, &descriptor);
	if (!maker->status)
		convolution->descriptor[convolution->descriptors++] = descriptor;
	return descriptor;
}

static void set(struct maker *maker, void *descriptor, int name, int type, int64_t count, const void *values)
{
	if (!maker->status)
		maker->status = DNN(maker->state, cudnnBackendSetAttribute, descriptor, name, type, count, values);
}

static void finish(struct maker *maker, void *descriptor)
{
	if (!maker->status)
		maker->status = DNN(maker->state, cudnnBackendFinalize, descriptor);
}

/* cuDNN's order of dimensions is N C H W (O I KH KW); strides say how they lie in memory. */
static void *make_tensor(struct maker *maker, int64_t uid, uint32_t dtype, const int64_t dim[4],
			 const int64_t stride[4])
{
	const int type = dtype == DTYPE_BF16  ? ABI_CUDNN_DATA_BFLOAT16
			 : dtype == DTYPE_F16 ? ABI_CUDNN_DATA_HALF
					      : ABI_CUDNN_DATA_FLOAT;
	const int64_t alignment = TENSOR_ALIGNMENT;
	void *tensor = make(maker, ABI_CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	set(maker, tensor, ABI_CUDNN_ATTR_TENSOR_DATA_TYPE, ABI_CUDNN_TYPE_DATA_TYPE, 1, &type);
	set(maker, tensor, ABI_CUDNN_ATTR_TENSOR_DIMENSIONS, ABI_CUDNN_TYPE_INT64, 4, dim);
	set(maker, tensor, ABI_CUDNN_ATTR_TENSOR_STRIDES, ABI_CUDNN_TYPE_INT64, 4, stride);
	set(maker, tensor, ABI_CUDNN_ATTR_TENSOR_UNIQUE_ID, ABI_CUDNN_TYPE_INT64, 1, &uid);
	set(maker, tensor, ABI_CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, ABI_CUDNN_TYPE_INT64, 1, &alignment);
	finish(maker, tensor);
	return tensor;
}

static void *make_image(struct maker *maker, int64_t uid, const struct tensor *tensor)
{
	const int64_t n = tensor->dim[0], h = tensor->dim[1], w = tensor->dim[2], c = tensor->dim[3];
	return make_tensor(maker, uid, tensor->dtype, (const int64_t[]){ n, c, h, w },
			   (const int64_t[]){ h * w * c, 1, w * c, c });
}

static void *make_weight(struct maker *maker, const struct tensor *tensor)
{
	const int64_t o = tensor->dim[0], i = tensor->dim[1], h = tensor->dim[2], w = tensor->dim[3];
	return make_tensor(maker, UID_WEIGHT, tensor->dtype, (const int64_t[]){ o, i, h, w },
			   (const int64_t[]){ i * h * w, h * w, w, 1 });
}

static void *make_window(struct maker *maker, const struct window *window)
{
	const int type = ABI_CUDNN_DATA_FLOAT, mode = ABI_CUDNN_CROSS_CORRELATION;
	const int64_t axes = 2;
	const struct {
		int name;
		const uint32_t *value;
	} list[] = { { ABI_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window->pad_begin },
		     { ABI_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window->pad_end },
		     { ABI_CUDNN_ATTR_CONVOLUTION_DILATIONS, window->dilation },
		     { ABI_CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window->stride } };
	void *made = make(maker, ABI_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	set(maker, made, ABI_CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, ABI_CUDNN_TYPE_INT64, 1, &axes);
	set(maker, made, ABI_CUDNN_ATTR_CONVOLUTION_COMP_TYPE, ABI_CUDNN_TYPE_DATA_TYPE, 1, &type);
	set(maker, made, ABI_CUDNN_ATTR_CONVOLUTION_CONV_MODE, ABI_CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		set(maker, made, list[i].name, ABI_CUDNN_TYPE_INT64, 2,
		    (const int64_t[]){ list[i].value[0], list[i].value[1] });
	finish(maker, made);
	return made;
}

/* The op as a graph of one operation. */
static void *make_operation_graph(struct maker *maker, const struct graph *graph, uint32_t op)
{
	const struct convolution *convolution = maker->convolution;
	const struct direction *names = direction_of(convolution->kind);
	const uint32_t *operand = op_inputs(graph, op);
	const float one = 1.0f, zero = 0.0f;
	void *image = make_image(maker, UID_IMAGE, &graph->tensor[operand[convolution->image]]);
	void *weight = make_weight(maker, &graph->tensor[operand[convolution->weight]]);
	void *result = make_image(maker, UID_RESULT, &graph->tensor[operand[convolution->result]]);
	void *window = make_window(maker, &graph->op[op].attr.window);
	void *operation = make(maker, names->descriptor);
	set(maker, operation, names->image, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &image);
	set(maker, operation, names->weight, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &weight);
	set(maker, operation, names->result, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &result);
	set(maker, operation, names->convolution, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &window);
	set(maker, operation, names->alpha, ABI_CUDNN_TYPE_FLOAT, 1, &one);
	set(maker, operation, names->beta, ABI_CUDNN_TYPE_FLOAT, 1, &zero);
	finish(maker, operation);
	void *operations = make(maker, ABI_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	if (maker->state->dnn)
		set(maker, operations, ABI_CUDNN_ATTR_OPERATIONGRAPH_HANDLE, ABI_CUDNN_TYPE_HANDLE, 1,
		    &maker->state->dnn);
	set(maker, operations, ABI_CUDNN_ATTR_OPERATIONGRAPH_OPS, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
	finish(maker, operations);
	return operations;
}

/* Notes of an engine that the run's promises or its precision exclude. */
static enum tarn_status is_allowed(struct cuda_state *state, const struct convolution *convolution, void *configuration,
				   bool *allowed)
{
	int note[ABI_CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
	int64_t count = 0;
	void *engine = NULL;
	enum tarn_status st = DNN(state, cudnnBackendCreateDescriptor, ABI_CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
	if (!st)
		st = DNN(state, cudnnBackendGetAttribute, configuration, ABI_CUDNN_ATTR_ENGINECFG_ENGINE,
			 ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine);
	if (!st)
		st = DNN(state, cudnnBackendGetAttribute, engine, ABI_CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
			 ABI_CUDNN_TYPE_NUMERICAL_NOTE, ABI_CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, note);
	*allowed = true;
	for (int64_t i = 0; i < count && !st; i++)
		switch (note[i]) {
		case ABI_CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
		case ABI_CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
		case ABI_CUDNN_NUMERICAL_NOTE_FFT:
		case ABI_CUDNN_NUMERICAL_NOTE_WINOGRAD:
			*allowed = false;
			break;
		case ABI_CUDNN_NUMERICAL_NOTE_TENSOR_CORE: /* float32 on tensor cores is tf32 */
			*allowed &= state->tf32 || convolution->narrow;
			break;
		case ABI_CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
			*allowed &= state->tf32;
			break;
		default:
			break;
		}
	if (engine)
		state->libraries.dnn.cudnnBackendDestroyDescriptor(engine);
	return st;
}

/* A plan with this engine; *taken: it is within the limit, and belongs to the convolution now. */
static enum tarn_status try_engine(struct cuda_state *state, struct convolution *convolution, void *configuration,
				   bool *taken)
{
	const struct cudnn_calls *dnn = &state->libraries.dnn;
	void *plan = NULL;
	int64_t count, workspace = 0;
	enum tarn_status st =
		DNN(state, cudnnBackendCreateDescriptor, ABI_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
	*taken = false;
	if (st)
		return st;
	int where = state->described ? ABI_CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP : ABI_CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
	if (state->described)
		st = DNN(state, cudnnBackendSetAttribute, plan, where, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
			 &state->dnn_device);
	else
		st = DNN(state, cudnnBackendSetAttribute, plan, where, ABI_CUDNN_TYPE_HANDLE, 1, &state->dnn);
	if (!st)
		st = DNN(state, cudnnBackendSetAttribute, plan, ABI_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
			 ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration);
	int finalized = st ? 0 : dnn->cudnnBackendFinalize(plan);
	if (!st && !IS_UNSUPPORTED(finalized))
		st = cudnn_check(state, finalized, "cudnnBackendFinalize");
	if (!st && !finalized)
		st = DNN(state, cudnnBackendGetAttribute, plan, ABI_CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
			 ABI_CUDNN_TYPE_INT64, 1, &count, &workspace);
	if (!st && !finalized && (uint64_t)workspace <= state->workspace_cap) {
		*taken = true;
		convolution->plan = plan;
		convolution->workspace_bytes = (uint64_t)workspace;
		convolution->descriptor[convolution->descriptors++] = plan;
	} else {
		dnn->cudnnBackendDestroyDescriptor(plan);
	}
	return st;
}

static enum tarn_status try_list(struct cuda_state *state, struct convolution *convolution, void **configuration,
				 int64_t count)
{
	bool taken = false;
	enum tarn_status st = TARN_OK;
	for (int64_t i = 0; i < count && !taken && !st; i++) {
		bool allowed;
		st = is_allowed(state, convolution, configuration[i], &allowed);
		if (!st && allowed)
			st = try_engine(state, convolution, configuration[i], &taken);
		if (taken) { /* the plan refers to it */
			convolution->descriptor[convolution->descriptors++] = configuration[i];
			configuration[i] = NULL;
		}
	}
	return st;
}

/* The engines that a heuristic lists for the graph, best first, until one is taken. */
static enum tarn_status search_list(struct cuda_state *state, struct convolution *convolution, void *operations,
				    int mode)
{
	const struct cudnn_calls *dnn = &state->libraries.dnn;
	struct host_mark mark = host_arena_mark(state->host);
	void *list = NULL, **configuration = NULL;
	int64_t count = 0, made = 0;
	enum tarn_status st = DNN(state, cudnnBackendCreateDescriptor, ABI_CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &list);
	if (!st)
		st = DNN(state, cudnnBackendSetAttribute, list, ABI_CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
			 ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operations);
	if (!st)
		st = DNN(state, cudnnBackendSetAttribute, list, ABI_CUDNN_ATTR_ENGINEHEUR_MODE,
			 ABI_CUDNN_TYPE_HEUR_MODE, 1, &mode);
	if (!st && state->described)
		st = DNN(state, cudnnBackendSetAttribute, list, ABI_CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
			 ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &state->dnn_device);
	int finalized = st ? 0 : dnn->cudnnBackendFinalize(list);
	if (!st && !IS_UNSUPPORTED(finalized))
		st = cudnn_check(state, finalized, "cudnnBackendFinalize");
	if (!st && !finalized)
		st = DNN(state, cudnnBackendGetAttribute, list, ABI_CUDNN_ATTR_ENGINEHEUR_RESULTS,
			 ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, NULL);
	if (!st && count) {
		configuration = HOST_ARRAY(state->host, (size_t)count, void *);
		st = configuration ? TARN_OK : TARN_ENOMEM;
	}
	for (; made < count && !st; made++)
		st = DNN(state, cudnnBackendCreateDescriptor, ABI_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
			 &configuration[made]);
	if (!st && count)
		st = DNN(state, cudnnBackendGetAttribute, list, ABI_CUDNN_ATTR_ENGINEHEUR_RESULTS,
			 ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &count, configuration);
	if (!st)
		st = try_list(state, convolution, configuration, count);
	for (int64_t i = 0; i < made; i++)
		if (configuration[i])
			dnn->cudnnBackendDestroyDescriptor(configuration[i]);
	if (list)
		dnn->cudnnBackendDestroyDescriptor(list);
	host_arena_release(state->host, mark);
	return st;
}

enum tarn_status convolution_compile(struct cuda_state *state, const struct graph *graph, uint32_t op,
				     struct kernel *kernel)
{
	struct convolution *convolution = HOST_NEW(state->host, struct convolution);
	if (!convolution)
		return TARN_ENOMEM;
	kernel->convolution = convolution;
	find_operands(convolution, &graph->op[op]);
	convolution->narrow = cuda_launch_stored(graph, op) != STORED_F32;
	struct maker maker = { .state = state, .convolution = convolution };
	void *operations = make_operation_graph(&maker, graph, op);
	enum tarn_status st = maker.status;
	if (!st)
		st = search_list(state, convolution, operations, ABI_CUDNN_HEUR_MODE_A);
	if (!st && !convolution->plan)
		st = search_list(state, convolution, operations, ABI_CUDNN_HEUR_MODE_FALLBACK);
	kernel->info.workspace_bytes = convolution->workspace_bytes;
	if (!st && !convolution->plan) {
		convolution_destroy(state, convolution);
		kernel->convolution = NULL;
	}
	return st;
}

enum tarn_status convolution_bind(struct cuda_state *state, struct bound_instr *instr)
{
	const struct convolution *convolution = instr->kernel->convolution;
	const int64_t uid[] = { UID_IMAGE, UID_WEIGHT, UID_RESULT };
	void *const address[] = { (void *)(uintptr_t)instr->address[convolution->image],
				  (void *)(uintptr_t)instr->address[convolution->weight],
				  (void *)(uintptr_t)instr->address[convolution->result] };
	void *workspace = (void *)(uintptr_t)instr->workspace;
	enum tarn_status st =
		DNN(state, cudnnBackendCreateDescriptor, ABI_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &instr->pack);
	if (!st)
		st = DNN(state, cudnnBackendSetAttribute, instr->pack, ABI_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
			 ABI_CUDNN_TYPE_VOID_PTR, 3, address);
	if (!st)
		st = DNN(state, cudnnBackendSetAttribute, instr->pack, ABI_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
			 ABI_CUDNN_TYPE_INT64, 3, uid);
	if (!st)
		st = DNN(state, cudnnBackendSetAttribute, instr->pack, ABI_CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
			 ABI_CUDNN_TYPE_VOID_PTR, 1, &workspace);
	return st ? st : DNN(state, cudnnBackendFinalize, instr->pack);
}

enum tarn_status convolution_run(struct cuda_state *state, const struct bound_instr *instr)
{
	return DNN(state, cudnnBackendExecute, state->dnn, instr->kernel->convolution->plan, instr->pack);
}

void convolution_destroy(struct cuda_state *state, struct convolution *convolution)
{
	if (!convolution)
		return;
	while (convolution->descriptors)
		state->libraries.dnn.cudnnBackendDestroyDescriptor(convolution->descriptor[--convolution->descriptors]);
}
