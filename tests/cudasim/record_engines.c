/*
 * record_engines.c - asks the real cuDNN, without a device, which engines it has for each convolution, and writes what
 * it says as a fixture for the double.
 *
 *   record_engines DEVICE.json CONVOLUTIONS.txt >fixtures/engines_NAME.txt
 *
 * DEVICE.json: properties as cuDNN writes them, in one object; nested objects are left out. Exit code 77 with a line
 * on stderr where cuDNN is not installed. "Deviceless ahead-of-time compilation", cuDNN 9.8 and later.
 */
#include "cudnn_values.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ENGINES 64
#define SKIPPED 77

static struct {
	int (*create)(int type, void **descriptor);
	int (*destroy)(void *descriptor);
	int (*finalize)(void *descriptor);
	int (*set)(void *descriptor, int name, int type, int64_t count, const void *values);
	int (*get)(void *descriptor, int name, int type, int64_t wanted, int64_t *count, void *values);
	size_t (*version)(void);
} cudnn;

struct shape {
	int64_t n, h, w, c, k, kernel, padding, stride;
};

enum pass { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, PASSES };
static const char *const pass_name[PASSES] = { "forward", "data", "filter" };

static void check(int status, const char *what)
{
	if (status) {
		fprintf(stderr, "record_engines: %s: status %d\n", what, status);
		exit(EXIT_FAILURE);
	}
}

static void load(void *library, const char *name, void *target)
{
	void *address = dlsym(library, name);
	if (!address) {
		fprintf(stderr, "record_engines: skipped: this cuDNN has no %s\n", name);
		exit(SKIPPED);
	}
	memcpy(target, &address, sizeof address);
}

static void open_cudnn(void)
{
	const char *path = getenv("TARN_LIBCUDNN");
	void *library = dlopen(path && *path ? path : "libcudnn_graph.so.9", RTLD_NOW);
	if (!library) {
		fprintf(stderr, "record_engines: skipped: cuDNN is not installed (%s)\n", dlerror());
		exit(SKIPPED);
	}
	load(library, "cudnnBackendCreateDescriptor", &cudnn.create);
	load(library, "cudnnBackendDestroyDescriptor", &cudnn.destroy);
	load(library, "cudnnBackendFinalize", &cudnn.finalize);
	load(library, "cudnnBackendSetAttribute", &cudnn.set);
	load(library, "cudnnBackendGetAttribute", &cudnn.get);
	load(library, "cudnnGetVersion", &cudnn.version);
}

static void *make(int type)
{
	void *descriptor = NULL;
	check(cudnn.create(type, &descriptor), "cudnnBackendCreateDescriptor");
	return descriptor;
}

static void set(void *descriptor, int name, int type, int64_t count, const void *values)
{
	check(cudnn.set(descriptor, name, type, count, values), "cudnnBackendSetAttribute");
}

/* The file without what lies in inner objects: cuDNN refuses keys that it does not know. */
static char *read_device(const char *path)
{
	static char text[1 << 16], flat[1 << 16];
	FILE *f = fopen(path, "rb");
	size_t bytes = f ? fread(text, 1, sizeof text - 1, f) : 0, n = 0;
	if (f)
		fclose(f);
	if (!bytes) {
		fprintf(stderr, "record_engines: %s: cannot be read\n", path);
		exit(EXIT_FAILURE);
	}
	int depth = 0;
	for (const char *c = text; *c; c++) {
		if (*c == '{' && depth++ == 1) { /* back over the key and the comma before it */
			while (n && flat[n - 1] != ',')
				n--;
			n -= n > 0;
		}
		if (depth == 1)
			flat[n++] = *c;
		if (*c == '}' && depth-- == 1 && flat[n - 1] != '}')
			flat[n++] = '}';
	}
	flat[n] = '\0';
	return flat;
}

static void *describe_device(const char *json)
{
	void *device = make(SIM_CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
	set(device, SIM_CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, SIM_CUDNN_TYPE_CHAR, (int64_t)strlen(json) + 1,
	    json);
	check(cudnn.finalize(device), "the description of the device");
	return device;
}

/* channels_last: N H W C, else N C H W, for weights O H W I and O I H W. */
static void *tensor(int64_t uid, const int64_t dim[4], int channels_last)
{
	const int type = SIM_CUDNN_DATA_FLOAT;
	const int64_t alignment = 16;
	const int64_t first[4] = { dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1 };
	const int64_t last[4] = { dim[1] * dim[2] * dim[3], 1, dim[1] * dim[3], dim[1] };
	void *made = make(SIM_CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	set(made, SIM_CUDNN_ATTR_TENSOR_DATA_TYPE, SIM_CUDNN_TYPE_DATA_TYPE, 1, &type);
	set(made, SIM_CUDNN_ATTR_TENSOR_DIMENSIONS, SIM_CUDNN_TYPE_INT64, 4, dim);
	set(made, SIM_CUDNN_ATTR_TENSOR_STRIDES, SIM_CUDNN_TYPE_INT64, 4, channels_last ? last : first);
	set(made, SIM_CUDNN_ATTR_TENSOR_UNIQUE_ID, SIM_CUDNN_TYPE_INT64, 1, &uid);
	set(made, SIM_CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, SIM_CUDNN_TYPE_INT64, 1, &alignment);
	check(cudnn.finalize(made), "a tensor");
	return made;
}

static void *window(const struct shape *s)
{
	const int type = SIM_CUDNN_DATA_FLOAT, mode = SIM_CUDNN_CROSS_CORRELATION;
	const int64_t axes = 2, padding[2] = { s->padding, s->padding }, stride[2] = { s->stride, s->stride };
	const int64_t dilation[2] = { 1, 1 };
	void *made = make(SIM_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	set(made, SIM_CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, SIM_CUDNN_TYPE_INT64, 1, &axes);
	set(made, SIM_CUDNN_ATTR_CONVOLUTION_COMP_TYPE, SIM_CUDNN_TYPE_DATA_TYPE, 1, &type);
	set(made, SIM_CUDNN_ATTR_CONVOLUTION_CONV_MODE, SIM_CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
	set(made, SIM_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, SIM_CUDNN_TYPE_INT64, 2, padding);
	set(made, SIM_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, SIM_CUDNN_TYPE_INT64, 2, padding);
	set(made, SIM_CUDNN_ATTR_CONVOLUTION_DILATIONS, SIM_CUDNN_TYPE_INT64, 2, dilation);
	set(made, SIM_CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, SIM_CUDNN_TYPE_INT64, 2, stride);
	check(cudnn.finalize(made), "a convolution");
	return made;
}

static void *operation_graph(const struct shape *s, enum pass pass, int weights_channels_last)
{
	static const int names[PASSES][7] = {
		{ SIM_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
		{ SIM_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
		{ SIM_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
		  SIM_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
	};
	int64_t height = (s->h + 2 * s->padding - s->kernel) / s->stride + 1;
	int64_t width = (s->w + 2 * s->padding - s->kernel) / s->stride + 1;
	void *operand[4] = { tensor('x', (const int64_t[]){ s->n, s->c, s->h, s->w }, 1),
			     tensor('w', (const int64_t[]){ s->k, s->c, s->kernel, s->kernel }, weights_channels_last),
			     tensor('y', (const int64_t[]){ s->n, s->k, height, width }, 1), window(s) };
	const float one = 1, zero = 0;
	const int *name = names[pass];
	void *operation = make(name[0]);
	for (int i = 0; i < 4; i++)
		set(operation, name[1 + i], SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operand[i]);
	set(operation, name[5], SIM_CUDNN_TYPE_FLOAT, 1, &one);
	set(operation, name[6], SIM_CUDNN_TYPE_FLOAT, 1, &zero);
	check(cudnn.finalize(operation), "an operation");
	void *graph = make(SIM_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	set(graph, SIM_CUDNN_ATTR_OPERATIONGRAPH_OPS, SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
	check(cudnn.finalize(graph), "a graph");
	return graph; /* the process ends before memory does */
}

static uint32_t notes(void *engine, int name, int type, int64_t most)
{
	int note[16];
	int64_t count = 0;
	uint32_t bits = 0;
	if (cudnn.get(engine, name, type, most, &count, note) == 0)
		for (int64_t i = 0; i < count; i++)
			bits |= 1u << note[i];
	return bits;
}

/* One line an engine: number, workspace, bits of numerical and of behaviour notes. Equal lines are written once. */
static void write_engine(void *configuration, void *device)
{
	static char last[128];
	void *engine = make(SIM_CUDNN_BACKEND_ENGINE_DESCRIPTOR);
	void *plan = make(SIM_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
	int64_t count = 0, index = -1, workspace = -1;
	check(cudnn.get(configuration, SIM_CUDNN_ATTR_ENGINECFG_ENGINE, SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
			&engine),
	      "an engine");
	check(cudnn.get(engine, SIM_CUDNN_ATTR_ENGINE_GLOBAL_INDEX, SIM_CUDNN_TYPE_INT64, 1, &count, &index),
	      "an engine");
	set(plan, SIM_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration);
	set(plan, SIM_CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
	if (cudnn.finalize(plan) == 0) {
		char line[128];
		cudnn.get(plan, SIM_CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, SIM_CUDNN_TYPE_INT64, 1, &count,
			  &workspace);
		snprintf(line, sizeof line, "engine %lld %lld %#x %#x\n", (long long)index, (long long)workspace,
			 notes(engine, SIM_CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, SIM_CUDNN_TYPE_NUMERICAL_NOTE,
			       SIM_CUDNN_NUMERICAL_NOTE_TYPE_COUNT),
			 notes(engine, SIM_CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, SIM_CUDNN_TYPE_BEHAVIOR_NOTE,
			       SIM_CUDNN_BEHAVIOR_NOTE_TYPE_COUNT));
		if (strcmp(line, last) != 0)
			fputs(line, stdout);
		memcpy(last, line, sizeof last);
	}
	cudnn.destroy(plan);
	cudnn.destroy(engine);
}

static void write_list(void *graph, void *device, int mode)
{
	void *list = make(SIM_CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), *configuration[MAX_ENGINES];
	int64_t count = 0;
	set(list, SIM_CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
	set(list, SIM_CUDNN_ATTR_ENGINEHEUR_MODE, SIM_CUDNN_TYPE_HEUR_MODE, 1, &mode);
	set(list, SIM_CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
	printf("list %s\n", mode == SIM_CUDNN_HEUR_MODE_A ? "a" : "fallback");
	if (cudnn.finalize(list) != 0) /* no engine at all */
		return;
	for (int i = 0; i < MAX_ENGINES; i++)
		configuration[i] = make(SIM_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	check(cudnn.get(list, SIM_CUDNN_ATTR_ENGINEHEUR_RESULTS, SIM_CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_ENGINES, &count,
			configuration),
	      "a list of engines");
	for (int64_t i = 0; i < count; i++)
		write_engine(configuration[i], device);
	for (int i = 0; i < MAX_ENGINES; i++)
		cudnn.destroy(configuration[i]);
	cudnn.destroy(list);
}

static void write_shape(const struct shape *s, void *device)
{
	for (int pass = 0; pass < PASSES; pass++)
		for (int channels_last = 0; channels_last < 2; channels_last++) {
			void *graph = operation_graph(s, (enum pass)pass, channels_last);
			printf("convolution %s weights %s n %lld h %lld w %lld c %lld k %lld kernel %lld padding %lld "
			       "stride %lld\n",
			       pass_name[pass], channels_last ? "ohwi" : "oihw", (long long)s->n, (long long)s->h,
			       (long long)s->w, (long long)s->c, (long long)s->k, (long long)s->kernel,
			       (long long)s->padding, (long long)s->stride);
			write_list(graph, device, SIM_CUDNN_HEUR_MODE_A);
			write_list(graph, device, SIM_CUDNN_HEUR_MODE_FALLBACK);
		}
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: record_engines DEVICE.json CONVOLUTIONS.txt\n");
		return EXIT_FAILURE;
	}
	FILE *shapes = fopen(argv[2], "r");
	if (!shapes) {
		fprintf(stderr, "record_engines: %s: cannot be read\n", argv[2]);
		return EXIT_FAILURE;
	}
	open_cudnn();
	const char *json = read_device(argv[1]), *name = strstr(json, "\"deviceName\"");
	void *device = describe_device(json);
	printf("# Engines of cuDNN %zu for one device, float32, activations N H W C; made by record_engines.\n",
	       cudnn.version());
	printf("# engine: number, bytes of workspace, bits of the numerical notes, bits of the behaviour notes\n");
	name = name ? strchr(strchr(name, ':'), '"') : NULL;
	printf("device %.*s\n", name ? (int)strcspn(name + 1, "\"") : 0, name ? name + 1 : "");
	char line[256];
	while (fgets(line, sizeof line, shapes)) {
		struct shape s;
		long long v[8];
		if (line[0] == '#' || sscanf(line, "%lld %lld %lld %lld %lld %lld %lld %lld", &v[0], &v[1], &v[2],
					     &v[3], &v[4], &v[5], &v[6], &v[7]) != 8)
			continue;
		s = (struct shape){ v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7] };
		write_shape(&s, device);
	}
	fclose(shapes);
	return EXIT_SUCCESS;
}
