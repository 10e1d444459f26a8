/*
 * The doubles of cuBLASLt and cuDNN: right results by another formula, bits that depend on the algorithm, engine lists
 * as they were recorded, and misuse that is refused and told.
 */
#include "support/cudasim_control.h"
#include "support/testing.h"

#include "cuda/cuda_abi.h"
#include "cudasim/cudasim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct cuda_calls cu;
static struct cublaslt_calls blas;
static struct cudnn_calls dnn;
static uint32_t (*sim_failures_of)(void);
static const char *(*sim_failure_of)(uint32_t index);
static void (*sim_freeze_of)(int frozen);
static const char *(*sim_leaks_of)(void);

static void *context, *blas_handle, *dnn_handle;

static void setup(void)
{
	void *library = cudasim_open("libcuda.so.1");
#define LOAD_CUDA(name, symbol, parameters) cudasim_find(library, symbol, &cu.name);
	CUDA_CALLS(LOAD_CUDA)
	cudasim_find(library, "sim_failures", &sim_failures_of);
	cudasim_find(library, "sim_failure", &sim_failure_of);
	cudasim_find(library, "sim_freeze", &sim_freeze_of);
	cudasim_find(library, "sim_leaks", &sim_leaks_of);
	library = cudasim_open("libcublasLt.so.13");
#define LOAD_BLAS(name, symbol, parameters) cudasim_find(library, symbol, &blas.name);
	CUBLASLT_CALLS(LOAD_BLAS)
	library = cudasim_open("libcudnn_graph.so.9");
#define LOAD_DNN(name, symbol, parameters) cudasim_find(library, symbol, &dnn.name);
	CUDNN_CALLS(LOAD_DNN)
}

#define ck_assert_zero(call)                                                              \
	do {                                                                              \
		int code_ = (call);                                                       \
		ck_assert_msg(code_ == 0, "%s: %d: %s", #call, code_, sim_failure_of(0)); \
	} while (0)

static void open_device(void)
{
	setup();
	ck_assert_zero(cu.cuInit(0));
	ck_assert_zero(cu.cuDevicePrimaryCtxRetain(&context, 0));
	ck_assert_zero(cu.cuCtxSetCurrent(context));
	ck_assert_zero(blas.cublasLtCreate(&blas_handle));
	ck_assert_zero(dnn.cudnnCreate(&dnn_handle));
}

static uint64_t upload(const void *data, size_t bytes)
{
	uint64_t address;
	ck_assert_zero(cu.cuMemAlloc(&address, bytes));
	if (data) {
		ck_assert_zero(cu.cuMemcpyHtoDAsync(address, data, bytes, NULL));
		ck_assert_zero(cu.cuCtxSynchronize());
	}
	return address;
}

static void download(void *data, uint64_t address, size_t bytes)
{
	ck_assert_zero(cu.cuMemcpyDtoHAsync(data, address, bytes, NULL));
	ck_assert_zero(cu.cuCtxSynchronize());
}

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address; /* device addresses, which the libraries take as pointers */
}

/* ---- cuBLASLt ---- */

enum { ROWS = 24, COLUMNS = 20, INNER = 100 };

struct product {
	void *desc, *a, *b, *c, *preference;
	struct cublaslt_heuristic found[8];
	int count;
};

/* c (ROWS x COLUMNS) = a' b, all stored by columns; the algorithms that a limit and a mask of schemes leave. */
static struct product make_product(size_t limit, uint32_t schemes)
{
	struct product p = { .count = 0 };
	int transpose = ABI_CUBLAS_OP_T;
	ck_assert_zero(blas.cublasLtMatmulDescCreate(&p.desc, ABI_CUBLAS_COMPUTE_32F, ABI_CUDA_R_32F));
	ck_assert_zero(blas.cublasLtMatmulDescSetAttribute(p.desc, ABI_CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
							   sizeof transpose));
	ck_assert_zero(blas.cublasLtMatrixLayoutCreate(&p.a, ABI_CUDA_R_32F, INNER, ROWS, INNER));
	ck_assert_zero(blas.cublasLtMatrixLayoutCreate(&p.b, ABI_CUDA_R_32F, INNER, COLUMNS, INNER));
	ck_assert_zero(blas.cublasLtMatrixLayoutCreate(&p.c, ABI_CUDA_R_32F, ROWS, COLUMNS, ROWS));
	ck_assert_zero(blas.cublasLtMatmulPreferenceCreate(&p.preference));
	ck_assert_zero(blas.cublasLtMatmulPreferenceSetAttribute(
		p.preference, ABI_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit));
	ck_assert_zero(blas.cublasLtMatmulPreferenceSetAttribute(
		p.preference, ABI_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes));
	ck_assert_zero(blas.cublasLtMatmulAlgoGetHeuristic(blas_handle, p.desc, p.a, p.b, p.c, p.c, p.preference, 8,
							   p.found, &p.count));
	return p;
}

static void free_product(struct product *p)
{
	ck_assert_zero(blas.cublasLtMatmulDescDestroy(p->desc));
	ck_assert_zero(blas.cublasLtMatrixLayoutDestroy(p->a));
	ck_assert_zero(blas.cublasLtMatrixLayoutDestroy(p->b));
	ck_assert_zero(blas.cublasLtMatrixLayoutDestroy(p->c));
	ck_assert_zero(blas.cublasLtMatmulPreferenceDestroy(p->preference));
}

static int run_product(const struct product *p, const struct cublaslt_heuristic *found, uint64_t a, uint64_t b,
		       uint64_t c, uint64_t workspace, size_t bytes)
{
	const float one = 1, zero = 0;
	return blas.cublasLtMatmul(blas_handle, p->desc, &one, pointer(a), p->a, pointer(b), p->b, &zero, pointer(c),
				   p->c, pointer(c), p->c, found ? &found->algorithm : NULL, pointer(workspace), bytes,
				   NULL);
}

static float matrix_a[INNER * ROWS], matrix_b[INNER * COLUMNS];

static void fill_matrices(void)
{
	struct testing_random random = { 31 };
	for (int i = 0; i < INNER * ROWS; i++)
		matrix_a[i] = testing_float(&random);
	for (int i = 0; i < INNER * COLUMNS; i++)
		matrix_b[i] = testing_float(&random);
}

START_TEST(products_are_right_and_algorithms_differ)
{
	static float c[8][ROWS * COLUMNS];
	fill_matrices();
	struct product p = make_product(1 << 20, 7);
	ck_assert_int_ge(p.count, 4);
	uint64_t a = upload(matrix_a, sizeof matrix_a), b = upload(matrix_b, sizeof matrix_b);
	uint64_t out = upload(NULL, sizeof c[0]), workspace = upload(NULL, 1 << 20);
	int equal = 0;
	for (int k = 0; k < p.count; k++) {
		ck_assert_zero(run_product(&p, &p.found[k], a, b, out, workspace, p.found[k].workspace_bytes));
		download(c[k], out, sizeof c[k]);
		for (int j = 0; j < COLUMNS; j++)
			for (int i = 0; i < ROWS; i++) {
				double sum = 0;
				for (int l = 0; l < INNER; l++)
					sum += (double)matrix_a[i * INNER + l] * (double)matrix_b[j * INNER + l];
				ck_assert_msg(fabs((double)c[k][j * ROWS + i] - sum) < 1e-4, "algorithm %d, %d %d", k,
					      i, j);
			}
		for (int other = 0; other < k; other++)
			equal += memcmp(c[k], c[other], sizeof c[k]) == 0;
	}
	ck_assert_int_eq(equal, 0);
	ck_assert_uint_eq(sim_failures_of(), 0);
	free_product(&p);
}
END_TEST

START_TEST(limits_leave_fixed_orders)
{
	fill_matrices();
	struct product p = make_product(0, ABI_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
	for (int i = 0; i < p.count; i++)
		ck_assert_uint_eq(p.found[i].workspace_bytes, 0);
	free_product(&p);
	/* With INPLACE allowed the first choice adds in an order of its own each time. */
	p = make_product(1 << 20, 7);
	static float c[2][ROWS * COLUMNS];
	uint64_t a = upload(matrix_a, sizeof matrix_a), b = upload(matrix_b, sizeof matrix_b);
	uint64_t out = upload(NULL, sizeof c[0]), workspace = upload(NULL, 1 << 20);
	for (int i = 0; i < 2; i++) {
		ck_assert_zero(run_product(&p, &p.found[0], a, b, out, workspace, p.found[0].workspace_bytes));
		download(c[i], out, sizeof c[i]);
	}
	ck_assert(memcmp(c[0], c[1], sizeof c[0]) != 0);
	free_product(&p);
}
END_TEST

START_TEST(misuse_of_products_is_told)
{
	fill_matrices();
	struct product p = make_product(1 << 20, ABI_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
	const struct cublaslt_heuristic *split = &p.found[0];
	ck_assert_uint_gt(split->workspace_bytes, 0);
	uint64_t a = upload(matrix_a, sizeof matrix_a), b = upload(matrix_b, sizeof matrix_b);
	uint64_t out = upload(NULL, ROWS * COLUMNS * 4), workspace = upload(NULL, 1 << 20);
	size_t bytes = split->workspace_bytes;
	const struct {
		int code;
		const char *told;
	} table[] = {
		{ run_product(&p, NULL, a, b, out, workspace, bytes), "no algorithm" },
		{ run_product(&p, split, a, b, out, workspace, bytes - 1), "smaller than the algorithm needs" },
		{ run_product(&p, split, a, b, out, workspace + 64, bytes), "aligned at 256" },
		{ run_product(&p, split, a + 4, b, out, workspace, bytes), "aligned at 16" },
		{ run_product(&p, split, a, b, a, workspace, bytes), "overlaps" },
	};
	for (uint32_t i = 0; i < sizeof table / sizeof *table; i++) {
		ck_assert_int_ne(table[i].code, 0);
		ck_assert_msg(strstr(sim_failure_of(i), table[i].told) != NULL, "%s", sim_failure_of(i));
	}
	/* Operands that nobody wrote are found when the product is executed. */
	ck_assert_zero(run_product(&p, split, upload(NULL, sizeof matrix_a), b, out, workspace, bytes));
	ck_assert_int_eq(cu.cuCtxSynchronize(), 700);
	free_product(&p);
}
END_TEST

/* ---- cuDNN ---- */

struct window {
	int64_t n, h, w, c, k, kernel, padding, stride;
};

struct pass {
	int type, x, w, y, window, alpha, beta;
};
static const struct pass forward = { ABI_CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
				     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
				     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
				     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
				     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
				     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
				     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA };
static const struct pass backward_data = { ABI_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
					   ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
					   ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
					   ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
					   ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
					   ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
					   ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA };
static const struct pass backward_filter = { ABI_CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
					     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
					     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
					     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
					     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
					     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
					     ABI_CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA };

static void *made[64];
static int made_count;

static void *make(int type)
{
	void *descriptor;
	ck_assert_zero(dnn.cudnnBackendCreateDescriptor(type, &descriptor));
	made[made_count++] = descriptor;
	return descriptor;
}

static void set(void *descriptor, int name, int type, int64_t count, const void *values)
{
	ck_assert_zero(dnn.cudnnBackendSetAttribute(descriptor, name, type, count, values));
}

static void *tensor(int64_t uid, int64_t n, int64_t c, int64_t h, int64_t w)
{
	const int64_t dim[4] = { n, c, h, w }, stride[4] = { c * h * w, 1, w * c, c }, alignment = 16;
	const int type = ABI_CUDNN_DATA_FLOAT;
	void *t = make(ABI_CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	set(t, ABI_CUDNN_ATTR_TENSOR_DATA_TYPE, ABI_CUDNN_TYPE_DATA_TYPE, 1, &type);
	set(t, ABI_CUDNN_ATTR_TENSOR_DIMENSIONS, ABI_CUDNN_TYPE_INT64, 4, dim);
	set(t, ABI_CUDNN_ATTR_TENSOR_STRIDES, ABI_CUDNN_TYPE_INT64, 4, stride);
	set(t, ABI_CUDNN_ATTR_TENSOR_UNIQUE_ID, ABI_CUDNN_TYPE_INT64, 1, &uid);
	set(t, ABI_CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, ABI_CUDNN_TYPE_INT64, 1, &alignment);
	ck_assert_zero(dnn.cudnnBackendFinalize(t));
	return t;
}

static int64_t outputs(const struct window *s, int64_t inputs)
{
	return (inputs + 2 * s->padding - s->kernel) / s->stride + 1;
}

static void *make_graph(const struct window *s, const struct pass *pass)
{
	const int type = ABI_CUDNN_DATA_FLOAT, mode = ABI_CUDNN_CROSS_CORRELATION;
	const int64_t axes = 2, padding[2] = { s->padding, s->padding }, stride[2] = { s->stride, s->stride };
	const int64_t dilation[2] = { 1, 1 };
	const float one = 1, zero = 0;
	void *window = make(ABI_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	set(window, ABI_CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, ABI_CUDNN_TYPE_INT64, 1, &axes);
	set(window, ABI_CUDNN_ATTR_CONVOLUTION_COMP_TYPE, ABI_CUDNN_TYPE_DATA_TYPE, 1, &type);
	set(window, ABI_CUDNN_ATTR_CONVOLUTION_CONV_MODE, ABI_CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
	set(window, ABI_CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, ABI_CUDNN_TYPE_INT64, 2, padding);
	set(window, ABI_CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, ABI_CUDNN_TYPE_INT64, 2, padding);
	set(window, ABI_CUDNN_ATTR_CONVOLUTION_DILATIONS, ABI_CUDNN_TYPE_INT64, 2, dilation);
	set(window, ABI_CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, ABI_CUDNN_TYPE_INT64, 2, stride);
	ck_assert_zero(dnn.cudnnBackendFinalize(window));
	void *x = tensor('x', s->n, s->c, s->h, s->w), *w = tensor('w', s->k, s->c, s->kernel, s->kernel);
	void *y = tensor('y', s->n, s->k, outputs(s, s->h), outputs(s, s->w));
	void *operation = make(pass->type);
	set(operation, pass->x, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &x);
	set(operation, pass->w, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &w);
	set(operation, pass->y, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &y);
	set(operation, pass->window, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &window);
	set(operation, pass->alpha, ABI_CUDNN_TYPE_FLOAT, 1, &one);
	set(operation, pass->beta, ABI_CUDNN_TYPE_FLOAT, 1, &zero);
	ck_assert_zero(dnn.cudnnBackendFinalize(operation));
	void *graph = make(ABI_CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	set(graph, ABI_CUDNN_ATTR_OPERATIONGRAPH_OPS, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &operation);
	ck_assert_zero(dnn.cudnnBackendFinalize(graph));
	return graph;
}

#define MOST 8

/* The first engines of the list; for a described device where `device` is not NULL. How many the list has. */
static int64_t list_engines(void *graph, void *device, int mode, void **configuration)
{
	int64_t count = 0, filled;
	void *list = make(ABI_CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
	set(list, ABI_CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
	set(list, ABI_CUDNN_ATTR_ENGINEHEUR_MODE, ABI_CUDNN_TYPE_HEUR_MODE, 1, &mode);
	if (device)
		set(list, ABI_CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
	ck_assert_zero(dnn.cudnnBackendFinalize(list));
	ck_assert_zero(dnn.cudnnBackendGetAttribute(list, ABI_CUDNN_ATTR_ENGINEHEUR_RESULTS,
						    ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, NULL));
	for (int i = 0; i < MOST; i++)
		configuration[i] = make(ABI_CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
	ck_assert_zero(dnn.cudnnBackendGetAttribute(list, ABI_CUDNN_ATTR_ENGINEHEUR_RESULTS,
						    ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST, &filled, configuration));
	return count;
}

static int64_t engine_index(void *configuration)
{
	void *engine = make(ABI_CUDNN_BACKEND_ENGINE_DESCRIPTOR);
	int64_t count, index;
	ck_assert_zero(dnn.cudnnBackendGetAttribute(configuration, ABI_CUDNN_ATTR_ENGINECFG_ENGINE,
						    ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine));
	ck_assert_zero(dnn.cudnnBackendGetAttribute(engine, ABI_CUDNN_ATTR_ENGINE_GLOBAL_INDEX, ABI_CUDNN_TYPE_INT64, 1,
						    &count, &index));
	return index;
}

static void *make_plan(void *configuration, void *device, int64_t *workspace)
{
	int64_t count;
	void *plan = make(ABI_CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
	if (device)
		set(plan, ABI_CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
	else
		set(plan, ABI_CUDNN_ATTR_EXECUTION_PLAN_HANDLE, ABI_CUDNN_TYPE_HANDLE, 1, &dnn_handle);
	set(plan, ABI_CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, ABI_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration);
	ck_assert_zero(dnn.cudnnBackendFinalize(plan));
	ck_assert_zero(dnn.cudnnBackendGetAttribute(plan, ABI_CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
						    ABI_CUDNN_TYPE_INT64, 1, &count, workspace));
	return plan;
}

static void *make_pack(uint64_t x, uint64_t w, uint64_t y, uint64_t workspace)
{
	const int64_t uid[3] = { 'x', 'w', 'y' };
	void *const address[3] = { pointer(x), pointer(w), pointer(y) };
	void *scratch = pointer(workspace);
	void *pack = make(ABI_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	set(pack, ABI_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ABI_CUDNN_TYPE_INT64, 3, uid);
	set(pack, ABI_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, ABI_CUDNN_TYPE_VOID_PTR, 3, address);
	set(pack, ABI_CUDNN_ATTR_VARIANT_PACK_WORKSPACE, ABI_CUDNN_TYPE_VOID_PTR, 1, &scratch);
	ck_assert_zero(dnn.cudnnBackendFinalize(pack));
	return pack;
}

/* ResNet's second stage; the fixture has it. */
static const struct window recorded = { 2, 16, 16, 32, 64, 3, 1, 2 };

/*
 * A linear map, its transpose and its gradient agree: <y, conv(x, w)> = <conv_data(y, w), x> = <conv_filter(x, y), w>.
 */
START_TEST(the_three_passes_agree)
{
	enum { X = 2 * 16 * 16 * 32, W = 64 * 3 * 3 * 32, Y = 2 * 8 * 8 * 64 };
	static float x[X], w[W], y[Y], out[W > X ? W : X];
	struct testing_random random = { 41 };
	void *configuration[MOST];
	double product[3] = { 0 };
	for (int i = 0; i < X; i++)
		x[i] = testing_float(&random);
	for (int i = 0; i < W; i++)
		w[i] = testing_float(&random);
	for (int i = 0; i < Y; i++)
		y[i] = testing_float(&random);
	const struct pass *const pass[] = { &forward, &backward_data, &backward_filter };
	const int elements[] = { Y, X, W };
	const float *const other[] = { y, x, w };
	uint64_t scratch = upload(NULL, 32 << 20);
	for (int i = 0; i < 3; i++) {
		int64_t workspace;
		list_engines(make_graph(&recorded, pass[i]), NULL, ABI_CUDNN_HEUR_MODE_FALLBACK, configuration);
		void *plan = make_plan(configuration[0], NULL, &workspace);
		uint64_t at[3] = { upload(x, sizeof x), upload(w, sizeof w), upload(y, sizeof y) };
		uint64_t result = upload(NULL, sizeof out);
		at[i == 0 ? 2 : i - 1] = result;
		ck_assert_int_le(workspace, 32 << 20);
		ck_assert_zero(dnn.cudnnBackendExecute(dnn_handle, plan, make_pack(at[0], at[1], at[2], scratch)));
		download(out, result, (size_t)elements[i] * sizeof *out);
		for (int k = 0; k < elements[i]; k++)
			product[i] += (double)out[k] * (double)other[i][k];
	}
	ck_assert_msg(fabs(product[0] - product[1]) < 1e-3 && fabs(product[0] - product[2]) < 1e-3, "%g %g %g",
		      product[0], product[1], product[2]);
	ck_assert_uint_eq(sim_failures_of(), 0);
	while (made_count)
		ck_assert_zero(dnn.cudnnBackendDestroyDescriptor(made[--made_count]));
}
END_TEST

static void *describe(const char *json)
{
	void *device = make(ABI_CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
	set(device, ABI_CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, ABI_CUDNN_TYPE_CHAR, (int64_t)strlen(json) + 1,
	    json);
	ck_assert_zero(dnn.cudnnBackendFinalize(device));
	return device;
}

/* Planning needs neither a device nor a context; the lists are those of the device that is described. */
START_TEST(lists_are_the_recorded_ones)
{
	void *configuration[MOST];
	int64_t workspace;
	void *graph = make_graph(&recorded, &forward);
	void *h200 = describe("{\"deviceVer\": 900}"), *small = describe("{\"deviceVer\": 860}");
	int64_t large_count = list_engines(graph, h200, ABI_CUDNN_HEUR_MODE_A, configuration);
	int64_t first = engine_index(configuration[0]);
	make_plan(configuration[0], h200, &workspace);
	ck_assert_int_gt(large_count, MOST);
	ck_assert_int_gt(workspace, 0); /* on tensor cores, with a copy of the weights */
	int64_t small_count = list_engines(graph, small, ABI_CUDNN_HEUR_MODE_A, configuration);
	ck_assert(small_count != large_count || engine_index(configuration[0]) != first);
	/* What was not recorded gets a general list that ends with engine 0, which needs nothing. */
	const struct window odd = { 1, 9, 7, 3, 5, 3, 1, 1 };
	int64_t count = list_engines(make_graph(&odd, &forward), h200, ABI_CUDNN_HEUR_MODE_A, configuration);
	ck_assert_int_eq(engine_index(configuration[count - 1]), 0);
}
END_TEST

START_TEST(misuse_of_convolutions_is_told)
{
	static const float zeros[64 * 9 * 32]; /* the weights are the larger ones */
	void *configuration[MOST], *engine;
	int64_t workspace, dim[4] = { 1, 1, 1, 1 };
	uint64_t x = upload(zeros, 2 * 16 * 16 * 32 * 4), w = upload(zeros, sizeof zeros), y = upload(NULL, 1 << 20);
	list_engines(make_graph(&recorded, &forward), NULL, ABI_CUDNN_HEUR_MODE_A, configuration);
	void *plan = make_plan(configuration[0], NULL, &workspace);
	void *half = make(ABI_CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	set(half, ABI_CUDNN_ATTR_TENSOR_DIMENSIONS, ABI_CUDNN_TYPE_INT64, 4, dim);
	ck_assert_int_gt(workspace, 0);
	const struct {
		int code;
		const char *told;
	} table[] = {
		{ dnn.cudnnBackendFinalize(half), "a tensor without" },
		{ dnn.cudnnBackendSetAttribute(half, ABI_CUDNN_ATTR_TENSOR_DIMENSIONS, ABI_CUDNN_TYPE_FLOAT, 4, dim),
		  "another type" },
		{ dnn.cudnnBackendSetAttribute(plan, ABI_CUDNN_ATTR_EXECUTION_PLAN_HANDLE, ABI_CUDNN_TYPE_HANDLE, 1,
					       &engine),
		  "after its descriptor was finalized" },
		{ dnn.cudnnBackendExecute(dnn_handle, half, plan), "without handle, plan and variant pack" },
		{ dnn.cudnnBackendExecute(dnn_handle, plan, make_pack(x + 4, w, y, x)), "not aligned" },
		{ dnn.cudnnBackendExecute(dnn_handle, plan, make_pack(x, w, y, 0)), "workspace is missing" },
		{ dnn.cudnnBackendExecute(dnn_handle, plan, make_pack(x, w, x, y)), "overlaps" },
	};
	for (uint32_t i = 0; i < sizeof table / sizeof *table; i++) {
		ck_assert_msg(table[i].code != 0, "case %u passed", i);
		ck_assert_msg(strstr(sim_failure_of(i), table[i].told) != NULL, "case %u: %s", i, sim_failure_of(i));
	}
}
END_TEST

START_TEST(a_first_run_after_the_freeze_is_told)
{
	static const float zeros[64 * 9 * 32]; /* the weights are the larger ones */
	void *configuration[MOST];
	int64_t workspace;
	uint64_t x = upload(zeros, 2 * 16 * 16 * 32 * 4), w = upload(zeros, sizeof zeros), y = upload(NULL, 1 << 20);
	list_engines(make_graph(&recorded, &forward), NULL, ABI_CUDNN_HEUR_MODE_A, configuration);
	void *plan = make_plan(configuration[0], NULL, &workspace);
	sim_freeze_of(1);
	ck_assert_zero(dnn.cudnnBackendExecute(dnn_handle, plan, make_pack(x, w, y, upload(NULL, (size_t)workspace))));
	bool told = false;
	for (uint32_t i = 0; i < sim_failures_of(); i++)
		told = told || strstr(sim_failure_of(i), "cuDNN's engine");
	ck_assert(told);
}
END_TEST

START_TEST(everything_is_given_back)
{
	struct product p = make_product(0, 7);
	ck_assert(strstr(sim_leaks_of(), "7 handles and descriptors of libraries") != NULL);
	free_product(&p);
	ck_assert_zero(blas.cublasLtDestroy(blas_handle));
	ck_assert_zero(dnn.cudnnDestroy(dnn_handle));
	ck_assert_zero(cu.cuDevicePrimaryCtxRelease(0));
	ck_assert_str_eq(sim_leaks_of(), "");
	ck_assert_uint_eq(sim_failures_of(), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cudasim_libraries");
	TCase *tests = tcase_create("products");
	tcase_add_checked_fixture(tests, open_device, NULL);
	tcase_add_test(tests, products_are_right_and_algorithms_differ);
	tcase_add_test(tests, limits_leave_fixed_orders);
	tcase_add_test(tests, misuse_of_products_is_told);
	suite_add_tcase(suite, tests);
	tests = tcase_create("convolutions");
	tcase_add_checked_fixture(tests, open_device, NULL);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, the_three_passes_agree);
	tcase_add_test(tests, misuse_of_convolutions_is_told);
	tcase_add_test(tests, a_first_run_after_the_freeze_is_told);
	tcase_add_test(tests, everything_is_given_back);
	suite_add_tcase(suite, tests);
	tests = tcase_create("without a device");
	tcase_add_checked_fixture(tests, setup, NULL);
	tcase_add_test(tests, lists_are_the_recorded_ones);
	suite_add_tcase(suite, tests);
	return testing_run(suite);
}
