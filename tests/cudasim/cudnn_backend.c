/*
 * cudnn_backend.c - entry points of the cuDNN double: descriptors, what finalizing checks, execution.
 */
#include "cudnn.h"

#include "cudnn_values.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_ATTRIBUTES 16u
#define MAX_ENGINES 64u

SIM_EXPORT int cudnnCreate(void **handle);
SIM_EXPORT int cudnnDestroy(void *handle);
SIM_EXPORT int cudnnSetStream(void *handle, void *stream);
SIM_EXPORT int cudnnGetStream(void *handle, void **stream);
SIM_EXPORT size_t cudnnGetVersion(void);
SIM_EXPORT const char *cudnnGetErrorString(int status);
SIM_EXPORT void cudnnGetLastErrorString(char *message, size_t bytes);
SIM_EXPORT int cudnnBackendCreateDescriptor(int type, void **descriptor);
SIM_EXPORT int cudnnBackendDestroyDescriptor(void *descriptor);
SIM_EXPORT int cudnnBackendFinalize(void *descriptor);
SIM_EXPORT int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count, const void *values);
SIM_EXPORT int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t wanted, int64_t *count,
					void *values);
SIM_EXPORT int cudnnBackendExecute(void *handle, void *plan, void *pack);

struct handle {
	uint32_t magic;
	void *stream;
	uint64_t hidden_bytes;
	bool loaded[512]; /* engines whose kernels have arrived on the device */
};

struct attribute {
	int name;
	int type;
	int64_t count;
	void *values;
};

struct descriptor {
	uint32_t magic;
	int type;
	bool finalized;
	uint32_t users; /* the program, and descriptors that name this one */
	struct attribute attribute[MAX_ATTRIBUTES];
	uint32_t attributes;
	/* What finalizing, or the library itself, filled in. */
	struct convolution convolution;
	struct engine engine;
	struct engine list[MAX_ENGINES];
	uint32_t engines;
	uint32_t capability; /* of a described device */
};

#define HANDLE_MAGIC 0x444E4E01u
#define DESCRIPTOR_MAGIC 0x444E4E02u

static int refuse(int status, const char *why)
{
	sim_note("cuDNN: %s", why);
	return status;
}

/* What the driver reports is an execution failure; a planted fault of the library's own passes as it is. */
static int status_of(int code)
{
	return code >= 1000 || code == 0 ? code : SIM_CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER;
}

#define ENTER()                                         \
	do {                                            \
		int code_ = sim_library_call(__func__); \
		if (code_)                              \
			return status_of(code_);        \
	} while (0)

/* ---- Handles and texts ---- */

int cudnnCreate(void **out)
{
	ENTER();
	if (!sim_has_context())
		return SIM_CUDNN_STATUS_NOT_INITIALIZED;
	if (!sim_hidden("cudnnCreate", (int64_t)sim_setting("cudnn")))
		return SIM_CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
	struct handle *handle = calloc(1, sizeof *handle);
	if (!handle)
		return SIM_CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
	handle->magic = HANDLE_MAGIC;
	handle->hidden_bytes = sim_setting("cudnn");
	sim_library_handles(1);
	*out = handle;
	return 0;
}

static struct handle *handle_of(void *given)
{
	struct handle *handle = given;
	return handle && handle->magic == HANDLE_MAGIC ? handle : NULL;
}

int cudnnDestroy(void *given)
{
	struct handle *handle = handle_of(given);
	if (!handle)
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM, "cudnnDestroy of something that is no handle");
	sim_hidden("cudnnDestroy", -(int64_t)handle->hidden_bytes);
	sim_library_handles(-1);
	handle->magic = 0;
	free(handle);
	return 0;
}

int cudnnSetStream(void *given, void *stream)
{
	ENTER();
	struct handle *handle = handle_of(given);
	if (!handle)
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM, "cudnnSetStream of something that is no handle");
	handle->stream = stream;
	return 0;
}

int cudnnGetStream(void *given, void **stream)
{
	ENTER();
	struct handle *handle = handle_of(given);
	if (!handle)
		return SIM_CUDNN_STATUS_BAD_PARAM;
	*stream = handle->stream;
	return 0;
}

size_t cudnnGetVersion(void)
{
	return 91900; /* of the fixtures */
}

const char *cudnnGetErrorString(int status)
{
#define STATUS_NAME(name, value) { #name, value },
	static const struct {
		const char *name;
		int value;
	} table[] = { CUDNN_VALUES(STATUS_NAME) };
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].value == status && strncmp(table[i].name, "CUDNN_STATUS", 12) == 0)
			return table[i].name;
	return "unknown";
}

void cudnnGetLastErrorString(char *message, size_t bytes)
{
	if (bytes)
		snprintf(message, bytes, "the simulated cuDNN says its reasons on stderr");
}

/* ---- Descriptors: stores of attributes ---- */

static struct descriptor *descriptor_of(void *given)
{
	struct descriptor *descriptor = given;
	return descriptor && descriptor->magic == DESCRIPTOR_MAGIC ? descriptor : NULL;
}

int cudnnBackendCreateDescriptor(int type, void **out)
{
	ENTER();
	struct descriptor *descriptor = calloc(1, sizeof *descriptor);
	if (!descriptor)
		return SIM_CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
	descriptor->magic = DESCRIPTOR_MAGIC;
	descriptor->type = type;
	descriptor->users = 1;
	/* The library fills these two itself. */
	descriptor->finalized =
		type == SIM_CUDNN_BACKEND_ENGINE_DESCRIPTOR || type == SIM_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
	sim_library_handles(1);
	*out = descriptor;
	return 0;
}

static void release(struct descriptor *descriptor)
{
	if (--descriptor->users)
		return;
	for (uint32_t i = 0; i < descriptor->attributes; i++) {
		struct attribute *attribute = &descriptor->attribute[i];
		struct descriptor **named = attribute->values;
		for (int64_t k = 0; attribute->type == SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR && k < attribute->count; k++)
			release(named[k]);
		free(attribute->values);
	}
	descriptor->magic = 0;
	free(descriptor);
}

int cudnnBackendDestroyDescriptor(void *given)
{
	struct descriptor *descriptor = descriptor_of(given);
	if (!descriptor)
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM, "a descriptor is destroyed that is none, or twice");
	sim_library_handles(-1);
	release(descriptor);
	return 0;
}

static size_t element_bytes(int type)
{
	switch (type) {
	case SIM_CUDNN_TYPE_INT64:
		return sizeof(int64_t);
	case SIM_CUDNN_TYPE_HANDLE:
	case SIM_CUDNN_TYPE_VOID_PTR:
	case SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR:
		return sizeof(void *);
	case SIM_CUDNN_TYPE_CHAR:
		return 1;
	case SIM_CUDNN_TYPE_FLOAT:
	case SIM_CUDNN_TYPE_DATA_TYPE:
	case SIM_CUDNN_TYPE_CONVOLUTION_MODE:
	case SIM_CUDNN_TYPE_HEUR_MODE:
		return sizeof(int);
	default:
		return 0;
	}
}

/* Attributes of a descriptor are numbered from a hundred of its own; the type each of them has. */
static int type_of(int name)
{
	switch (name) {
	case SIM_CUDNN_ATTR_CONVOLUTION_COMP_TYPE:
	case SIM_CUDNN_ATTR_TENSOR_DATA_TYPE:
		return SIM_CUDNN_TYPE_DATA_TYPE;
	case SIM_CUDNN_ATTR_CONVOLUTION_CONV_MODE:
		return SIM_CUDNN_TYPE_CONVOLUTION_MODE;
	case SIM_CUDNN_ATTR_ENGINEHEUR_MODE:
		return SIM_CUDNN_TYPE_HEUR_MODE;
	case SIM_CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
	case SIM_CUDNN_ATTR_OPERATIONGRAPH_HANDLE:
		return SIM_CUDNN_TYPE_HANDLE;
	case SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA:
	case SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA:
	case SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA:
	case SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA:
	case SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA:
	case SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA:
		return SIM_CUDNN_TYPE_FLOAT;
	case SIM_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
	case SIM_CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
		return SIM_CUDNN_TYPE_VOID_PTR;
	case SIM_CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION:
		return SIM_CUDNN_TYPE_CHAR;
	case SIM_CUDNN_ATTR_CONVOLUTION_DILATIONS:
	case SIM_CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES:
	case SIM_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
	case SIM_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
	case SIM_CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS:
	case SIM_CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT:
	case SIM_CUDNN_ATTR_TENSOR_DIMENSIONS:
	case SIM_CUDNN_ATTR_TENSOR_STRIDES:
	case SIM_CUDNN_ATTR_TENSOR_UNIQUE_ID:
	case SIM_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
		return SIM_CUDNN_TYPE_INT64;
	default:
		return SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR;
	}
}

int cudnnBackendSetAttribute(void *given, int name, int type, int64_t count, const void *values)
{
	ENTER();
	struct descriptor *descriptor = descriptor_of(given);
	if (!descriptor || !values || count < 1)
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "an attribute without descriptor or values");
	if (descriptor->finalized)
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM, "an attribute is set after its descriptor was finalized");
	if (type != type_of(name))
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
			      "an attribute has another type than it is given");
	if (descriptor->attributes == MAX_ATTRIBUTES)
		return refuse(SIM_CUDNN_STATUS_NOT_SUPPORTED, "more attributes than the double keeps");
	struct descriptor *const *named = values;
	for (int64_t i = 0; type == SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; i++)
		if (!descriptor_of(named[i]) || !named[i]->finalized)
			return refuse(SIM_CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
				      "an attribute names a descriptor that is not finalized");
	size_t bytes = (size_t)count * element_bytes(type);
	struct attribute attribute = { .name = name, .type = type, .count = count, .values = malloc(bytes) };
	if (!attribute.values)
		return SIM_CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
	memcpy(attribute.values, values, bytes);
	for (int64_t i = 0; type == SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR && i < count; i++)
		named[i]->users++;
	descriptor->attribute[descriptor->attributes++] = attribute;
	return 0;
}

/* The last value that was set, which must have so many elements (0: any number); NULL: it was not set. */
static const void *value_of(const struct descriptor *descriptor, int name, int64_t count)
{
	for (uint32_t i = descriptor->attributes; i-- > 0;)
		if (descriptor->attribute[i].name == name)
			return count && descriptor->attribute[i].count != count ? NULL
										: descriptor->attribute[i].values;
	return NULL;
}

static const struct descriptor *named_by(const struct descriptor *descriptor, int name, int type)
{
	struct descriptor *const *value = value_of(descriptor, name, 1);
	return value && (*value)->type == type ? *value : NULL;
}

static bool copy_value(const struct descriptor *descriptor, int name, int64_t count, void *target)
{
	const void *value = value_of(descriptor, name, count);
	if (value)
		memcpy(target, value, (size_t)count * element_bytes(type_of(name)));
	return value;
}

/* ---- What finalizing checks ---- */

static int finalize_tensor(struct descriptor *descriptor)
{
	struct convolution_tensor *tensor = &descriptor->convolution.x;
	int type;
	if (!copy_value(descriptor, SIM_CUDNN_ATTR_TENSOR_DATA_TYPE, 1, &type) ||
	    !copy_value(descriptor, SIM_CUDNN_ATTR_TENSOR_DIMENSIONS, 4, tensor->dim) ||
	    !copy_value(descriptor, SIM_CUDNN_ATTR_TENSOR_STRIDES, 4, tensor->stride) ||
	    !copy_value(descriptor, SIM_CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &tensor->uid) ||
	    !copy_value(descriptor, SIM_CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &tensor->alignment))
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM,
			      "a tensor without type, four dimensions and strides, id, alignment");
	for (int i = 0; i < 4; i++)
		if (tensor->dim[i] < 1 || tensor->stride[i] < 1)
			return refuse(SIM_CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "a dimension or stride below 1");
	tensor->type = type == SIM_CUDNN_DATA_FLOAT  ? NUMBER_F32
		       : type == SIM_CUDNN_DATA_HALF ? NUMBER_F16
						     : NUMBER_BF16;
	return type == SIM_CUDNN_DATA_FLOAT || type == SIM_CUDNN_DATA_HALF || type == SIM_CUDNN_DATA_BFLOAT16
		       ? 0
		       : SIM_CUDNN_STATUS_NOT_SUPPORTED;
}

static int finalize_window(struct descriptor *descriptor)
{
	struct convolution *convolution = &descriptor->convolution;
	int64_t axes, after[2];
	int type, mode;
	if (!copy_value(descriptor, SIM_CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &axes) || axes != 2 ||
	    !copy_value(descriptor, SIM_CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 1, &type) ||
	    !copy_value(descriptor, SIM_CUDNN_ATTR_CONVOLUTION_CONV_MODE, 1, &mode) ||
	    !copy_value(descriptor, SIM_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2, convolution->padding) ||
	    !copy_value(descriptor, SIM_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2, after) ||
	    !copy_value(descriptor, SIM_CUDNN_ATTR_CONVOLUTION_DILATIONS, 2, convolution->dilation) ||
	    !copy_value(descriptor, SIM_CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2, convolution->stride))
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM, "a convolution whose attributes are not all set");
	return type == SIM_CUDNN_DATA_FLOAT && mode == SIM_CUDNN_CROSS_CORRELATION ? 0 : SIM_CUDNN_STATUS_NOT_SUPPORTED;
}

struct pass_names {
	int type, x, w, y, window, alpha, beta;
};

static const struct pass_names pass_names[] = {
	[PASS_FORWARD] = { SIM_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
			   SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
			   SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
			   SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
			   SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
			   SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
			   SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
	[PASS_DATA] = { SIM_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
			SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
			SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
			SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
			SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
			SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
			SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
	[PASS_FILTER] = { SIM_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
			  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
			  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
			  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
			  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
			  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
			  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
};

static bool shapes_agree(const struct convolution *v, const int64_t after[2])
{
	int64_t groups = v->x.dim[1] / v->w.dim[1]; /* of channels; cuDNN takes their number from the shapes */
	bool agree = v->x.dim[0] == v->y.dim[0] && v->x.dim[1] % v->w.dim[1] == 0 && groups &&
		     v->w.dim[0] % groups == 0 && v->y.dim[1] == v->w.dim[0] && v->x.uid != v->w.uid &&
		     v->w.uid != v->y.uid && v->x.uid != v->y.uid;
	for (int axis = 0; axis < 2; axis++) {
		int64_t span = v->x.dim[2 + axis] + v->padding[axis] + after[axis] -
			       (v->w.dim[2 + axis] - 1) * v->dilation[axis] - 1;
		agree = agree && v->y.dim[2 + axis] == span / v->stride[axis] + 1;
	}
	return agree;
}

static int finalize_operation(struct descriptor *descriptor, enum convolution_pass pass)
{
	const struct pass_names *name = &pass_names[pass];
	const struct descriptor *x = named_by(descriptor, name->x, SIM_CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	const struct descriptor *w = named_by(descriptor, name->w, SIM_CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	const struct descriptor *y = named_by(descriptor, name->y, SIM_CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	const struct descriptor *window = named_by(descriptor, name->window, SIM_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	struct convolution *convolution = &descriptor->convolution;
	float alpha, beta;
	if (!x || !w || !y || !window || !copy_value(descriptor, name->alpha, 1, &alpha) ||
	    !copy_value(descriptor, name->beta, 1, &beta))
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM, "an operation whose attributes are not all set");
	*convolution = window->convolution;
	convolution->pass = pass;
	convolution->x = x->convolution.x;
	convolution->w = w->convolution.x;
	convolution->y = y->convolution.x;
	convolution->alpha = alpha;
	convolution->beta = beta;
	if (!shapes_agree(convolution, value_of(window, SIM_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2)))
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
			      "the shapes of an operation do not agree, or ids repeat");
	return 0;
}

static int finalize_graph(struct descriptor *descriptor)
{
	struct descriptor *const *operation = value_of(descriptor, SIM_CUDNN_ATTR_OPERATIONGRAPH_OPS, 1);
	if (!operation)
		return refuse(SIM_CUDNN_STATUS_NOT_SUPPORTED, "a graph of anything but one operation");
	descriptor->convolution = (*operation)->convolution;
	return 0;
}

/* The compute capability of the described device, else of the simulated one. */
static uint32_t capability_of(const struct descriptor *descriptor, int attribute)
{
	const struct descriptor *device = named_by(descriptor, attribute, SIM_CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
	return device ? device->capability : (uint32_t)(10 * sim_setting("major") + sim_setting("minor"));
}

static int finalize_device(struct descriptor *descriptor)
{
	const char *json = value_of(descriptor, SIM_CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 0);
	const char *version = json ? strstr(json, "\"deviceVer\"") : NULL;
	if (!version)
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM, "a device description without deviceVer");
	descriptor->capability = (uint32_t)strtoul(strchr(version, ':') + 1, NULL, 10) / 10;
	return 0;
}

static int finalize_list(struct descriptor *descriptor)
{
	const struct descriptor *graph = named_by(descriptor, SIM_CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
						  SIM_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	int mode;
	if (!graph || !copy_value(descriptor, SIM_CUDNN_ATTR_ENGINEHEUR_MODE, 1, &mode) ||
	    (mode != SIM_CUDNN_HEUR_MODE_A && mode != SIM_CUDNN_HEUR_MODE_FALLBACK))
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM, "a heuristic without graph or mode");
	descriptor->convolution = graph->convolution;
	descriptor->engines =
		engines_list(&graph->convolution, capability_of(descriptor, SIM_CUDNN_ATTR_ENGINEHEUR_DEVICEPROP),
			     mode == SIM_CUDNN_HEUR_MODE_FALLBACK, descriptor->list, MAX_ENGINES);
	return descriptor->engines ? 0 : SIM_CUDNN_STATUS_NOT_SUPPORTED;
}

static int finalize_plan(struct descriptor *descriptor)
{
	const struct descriptor *configuration = named_by(descriptor, SIM_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
							  SIM_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	if (!configuration || (!value_of(descriptor, SIM_CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 1) &&
			       !value_of(descriptor, SIM_CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, 1)))
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM, "a plan without engine, or without handle and device");
	descriptor->convolution = configuration->convolution;
	descriptor->convolution.engine = configuration->engine;
	return 0;
}

static int finalize_pack(const struct descriptor *descriptor)
{
	const int64_t *uid = value_of(descriptor, SIM_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 3);
	if (!uid || !value_of(descriptor, SIM_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 3) ||
	    !value_of(descriptor, SIM_CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1))
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM,
			      "a variant pack without three ids, three pointers, a workspace");
	if (uid[0] == uid[1] || uid[1] == uid[2] || uid[0] == uid[2])
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "a variant pack with an id twice");
	return 0;
}

static int finalize(struct descriptor *descriptor)
{
	switch (descriptor->type) {
	case SIM_CUDNN_BACKEND_TENSOR_DESCRIPTOR:
		return finalize_tensor(descriptor);
	case SIM_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
		return finalize_window(descriptor);
	case SIM_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
		return finalize_operation(descriptor, PASS_FORWARD);
	case SIM_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
		return finalize_operation(descriptor, PASS_DATA);
	case SIM_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
		return finalize_operation(descriptor, PASS_FILTER);
	case SIM_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
		return finalize_graph(descriptor);
	case SIM_CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
		return finalize_device(descriptor);
	case SIM_CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
		return finalize_list(descriptor);
	case SIM_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
		return finalize_plan(descriptor);
	case SIM_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
		return finalize_pack(descriptor);
	default:
		return refuse(SIM_CUDNN_STATUS_NOT_SUPPORTED, "a kind of descriptor that the double does not know");
	}
}

int cudnnBackendFinalize(void *given)
{
	ENTER();
	struct descriptor *descriptor = descriptor_of(given);
	if (!descriptor || descriptor->finalized)
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM, "something that is no descriptor, or is final, is finalized");
	int status = finalize(descriptor);
	descriptor->finalized = status == 0;
	return status;
}

/* ---- Answers ---- */

static int answer_engines(const struct descriptor *list, int64_t wanted, int64_t *count, struct descriptor **target)
{
	*count = list->engines;
	for (int64_t i = 0; i < wanted && i < list->engines; i++) {
		struct descriptor *configuration = descriptor_of(target[i]);
		if (!configuration || configuration->type != SIM_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
			return refuse(SIM_CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
				      "engines are asked into something else");
		configuration->convolution = list->convolution;
		configuration->engine = list->list[i];
	}
	return 0;
}

static int answer_notes(uint32_t bits, int64_t wanted, int64_t *count, int *note)
{
	*count = 0;
	for (int i = 0; i < 32; i++)
		if (bits >> i & 1 && (*count)++ < wanted)
			note[*count - 1] = i;
	return 0;
}

static int answer_number(int64_t number, int64_t wanted, int64_t *count, int64_t *value)
{
	*count = 1;
	if (wanted > 0)
		*value = number;
	return 0;
}

int cudnnBackendGetAttribute(void *given, int name, int type, int64_t wanted, int64_t *count, void *values)
{
	(void)type;
	ENTER();
	struct descriptor *descriptor = descriptor_of(given);
	int64_t ignored;
	count = count ? count : &ignored;
	if (!descriptor || !descriptor->finalized)
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor is asked before it is finalized");
	switch (name) {
	case SIM_CUDNN_ATTR_ENGINEHEUR_RESULTS:
		return answer_engines(descriptor, wanted, count, values);
	case SIM_CUDNN_ATTR_ENGINECFG_ENGINE: {
		struct descriptor *const *target = values;
		struct descriptor *engine = wanted == 1 ? descriptor_of(*target) : NULL;
		if (!engine || engine->type != SIM_CUDNN_BACKEND_ENGINE_DESCRIPTOR)
			return refuse(SIM_CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
				      "an engine is asked into something else");
		engine->engine = descriptor->engine;
		*count = 1;
		return 0;
	}
	case SIM_CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
		return answer_number(descriptor->engine.index, wanted, count, values);
	case SIM_CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
		return answer_notes(descriptor->engine.numerical_notes, wanted, count, values);
	case SIM_CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
		return answer_notes(descriptor->engine.behavior_notes, wanted, count, values);
	case SIM_CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
		return answer_number(descriptor->convolution.engine.workspace_bytes, wanted, count, values);
	default:
		return refuse(SIM_CUDNN_STATUS_NOT_SUPPORTED, "an attribute is asked that the double does not know");
	}
}

/* ---- Execution ---- */

static int64_t tensor_bytes(const struct convolution_tensor *tensor)
{
	int64_t last = 0;
	for (int i = 0; i < 4; i++)
		last += (tensor->dim[i] - 1) * tensor->stride[i];
	return (last + 1) * number_bytes(tensor->type);
}

static bool find_operand(const struct descriptor *pack, const struct convolution_tensor *tensor, unsigned use,
			 struct sim_operand *operand)
{
	const int64_t *uid = value_of(pack, SIM_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 3);
	void *const *pointer = value_of(pack, SIM_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 3);
	for (int i = 0; i < 3; i++)
		if (uid[i] == tensor->uid) {
			*operand = (struct sim_operand){ .address = (uint64_t)(uintptr_t)pointer[i],
							 .bytes = (uint64_t)tensor_bytes(tensor),
							 .use = use };
			return operand->address % (uint64_t)tensor->alignment == 0;
		}
	return false;
}

/* Kernels of an engine arrive on the device when it first runs. */
static bool load_engine(struct handle *handle, const struct engine *engine)
{
	bool *loaded = &handle->loaded[engine->index % 512];
	char who[48];
	if (*loaded)
		return true;
	snprintf(who, sizeof who, "cuDNN's engine %lld", (long long)engine->index);
	if (!sim_hidden(who, (int64_t)sim_setting("plan")))
		return false;
	handle->hidden_bytes += sim_setting("plan");
	*loaded = true;
	return true;
}

int cudnnBackendExecute(void *given, void *given_plan, void *given_pack)
{
	ENTER();
	struct handle *handle = handle_of(given);
	const struct descriptor *plan = descriptor_of(given_plan), *pack = descriptor_of(given_pack);
	if (!handle || !plan || !pack || !plan->finalized || !pack->finalized ||
	    plan->type != SIM_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
	    pack->type != SIM_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
			      "execution without handle, plan and variant pack");
	const struct convolution *v = &plan->convolution;
	unsigned result = v->beta != 0 ? SIM_READ | SIM_WRITE : SIM_WRITE;
	struct sim_operand operand[4];
	void *const *workspace = value_of(pack, SIM_CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1);
	if (!find_operand(pack, &v->x, v->pass == PASS_DATA ? result : SIM_READ, &operand[0]) ||
	    !find_operand(pack, &v->w, v->pass == PASS_FILTER ? result : SIM_READ, &operand[1]) ||
	    !find_operand(pack, &v->y, v->pass == PASS_FORWARD ? result : SIM_READ, &operand[2]))
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
			      "a variant pack lacks an id of the plan, or a pointer is not aligned as its tensor says");
	operand[3] = (struct sim_operand){ .address = (uint64_t)(uintptr_t)*workspace,
					   .bytes = (uint64_t)v->engine.workspace_bytes,
					   .use = SIM_WORKSPACE };
	if (operand[3].bytes && (!operand[3].address || operand[3].address % 16))
		return refuse(SIM_CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "the workspace is missing or misaligned");
	if (!load_engine(handle, &v->engine))
		return SIM_CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
	return status_of(
		sim_enqueue_host(handle->stream, "cudnnBackendExecute", convolution_run, v, sizeof *v, operand, 4));
}
