/*
 * cublaslt.c - entry points of the cuBLASLt double.
 */
#include "cublaslt.h"

#include "cublaslt_values.h"

#include <stdlib.h>

#define ALGORITHM_MAGIC 0x7461726E626C6173u
#define WORKSPACE_ALIGNMENT 256u /* as cuBLAS's manual asks of cublasLtMatmul() */

enum object_kind { OBJECT_HANDLE = 0x4C540001, OBJECT_PRODUCT, OBJECT_LAYOUT, OBJECT_PREFERENCE };

struct object {
	enum object_kind kind;
	union {
		struct {
			int compute_type, transpose_a, transpose_b;
		};
		struct sim_matrix matrix;
		struct {
			uint64_t workspace_bytes;
			uint32_t schemes;
			uint32_t alignment[4]; /* of a, b, c, d */
		};
	};
};

SIM_EXPORT int cublasLtCreate(void **handle);
SIM_EXPORT int cublasLtDestroy(void *handle);
SIM_EXPORT size_t cublasLtGetVersion(void);
SIM_EXPORT const char *cublasLtGetStatusName(int status);
SIM_EXPORT const char *cublasLtGetStatusString(int status);
SIM_EXPORT int cublasLtMatmulDescCreate(void **desc, int compute_type, int scale_type);
SIM_EXPORT int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes);
SIM_EXPORT int cublasLtMatmulDescDestroy(void *desc);
SIM_EXPORT int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
SIM_EXPORT int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes);
SIM_EXPORT int cublasLtMatrixLayoutDestroy(void *layout);
SIM_EXPORT int cublasLtMatmulPreferenceCreate(void **preference);
SIM_EXPORT int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes);
SIM_EXPORT int cublasLtMatmulPreferenceDestroy(void *preference);
SIM_EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
					      void *preference, int wanted, struct sim_heuristic *result, int *found);
SIM_EXPORT int cublasLtMatmulAlgoCheck(void *handle, void *desc, void *a, void *b, void *c, void *d,
				       const struct sim_algorithm *algorithm, struct sim_heuristic *result);
SIM_EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const struct sim_algorithm *algorithm, int attribute, void *value,
						    size_t bytes, size_t *written);
SIM_EXPORT int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,
			      void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
			      const struct sim_algorithm *algorithm, void *workspace, size_t workspace_bytes,
			      void *stream);

/* A planted fault has a code of the driver's or of this library's; what the driver reports is an execution failure. */
static int status_of(int code)
{
	return code < 20 ? code : SIM_CUBLAS_STATUS_EXECUTION_FAILED;
}

#define ENTER()                                         \
	do {                                            \
		int code_ = sim_library_call(__func__); \
		if (code_)                              \
			return status_of(code_);        \
	} while (0)

/* ---- Objects ---- */

static int make(void **out, enum object_kind kind, struct object **object)
{
	*object = calloc(1, sizeof **object);
	if (!*object)
		return SIM_CUBLAS_STATUS_ALLOC_FAILED;
	(*object)->kind = kind;
	sim_library_handles(1);
	*out = *object;
	return SIM_CUBLAS_STATUS_SUCCESS;
}

static struct object *as(void *handle, enum object_kind kind)
{
	struct object *object = handle;
	if (object && object->kind == kind)
		return object;
	sim_note("cublasLt: an object that is not of the kind that the call takes");
	return NULL;
}

static int destroy(void *handle, enum object_kind kind)
{
	struct object *object = as(handle, kind);
	if (!object)
		return SIM_CUBLAS_STATUS_INVALID_VALUE;
	object->kind = 0;
	free(object);
	sim_library_handles(-1);
	return SIM_CUBLAS_STATUS_SUCCESS;
}

int cublasLtCreate(void **handle)
{
	struct object *object;
	ENTER();
	if (!sim_has_context())
		return SIM_CUBLAS_STATUS_NOT_INITIALIZED;
	if (!sim_hidden("cublasLtCreate", (int64_t)sim_setting("cublaslt")))
		return SIM_CUBLAS_STATUS_ALLOC_FAILED;
	return make(handle, OBJECT_HANDLE, &object);
}

int cublasLtDestroy(void *handle)
{
	int status = destroy(handle, OBJECT_HANDLE);
	if (!status)
		sim_hidden("cublasLtDestroy", -(int64_t)sim_setting("cublaslt"));
	return status;
}

size_t cublasLtGetVersion(void)
{
	return 130100;
}

const char *cublasLtGetStatusName(int status)
{
#define STATUS_NAME(name, value) { #name, value },
	static const struct {
		const char *name;
		int value;
	} table[] = { CUBLASLT_VALUES(STATUS_NAME) };
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].value == status && strncmp(table[i].name, "CUBLAS_STATUS", 13) == 0)
			return table[i].name;
	return "unknown";
}

const char *cublasLtGetStatusString(int status)
{
	return cublasLtGetStatusName(status);
}

int cublasLtMatmulDescCreate(void **desc, int compute_type, int scale_type)
{
	struct object *object;
	ENTER();
	if (scale_type != SIM_CUDA_R_32F ||
	    (compute_type != SIM_CUBLAS_COMPUTE_32F && compute_type != SIM_CUBLAS_COMPUTE_32F_FAST_TF32))
		return SIM_CUBLAS_STATUS_NOT_SUPPORTED;
	int status = make(desc, OBJECT_PRODUCT, &object);
	if (!status)
		object->compute_type = compute_type;
	return status;
}

int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes)
{
	ENTER();
	struct object *object = as(desc, OBJECT_PRODUCT);
	int number;
	if (!object || bytes != sizeof number)
		return SIM_CUBLAS_STATUS_INVALID_VALUE;
	memcpy(&number, value, sizeof number);
	if (attribute == SIM_CUBLASLT_MATMUL_DESC_TRANSA)
		object->transpose_a = number;
	else if (attribute == SIM_CUBLASLT_MATMUL_DESC_TRANSB)
		object->transpose_b = number;
	else if (attribute != SIM_CUBLASLT_MATMUL_DESC_POINTER_MODE || number != 0)
		return SIM_CUBLAS_STATUS_NOT_SUPPORTED;
	return number == SIM_CUBLAS_OP_N || number == SIM_CUBLAS_OP_T ? SIM_CUBLAS_STATUS_SUCCESS
								      : SIM_CUBLAS_STATUS_INVALID_VALUE;
}

int cublasLtMatmulDescDestroy(void *desc)
{
	return destroy(desc, OBJECT_PRODUCT);
}

int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
	struct object *object;
	ENTER();
	if (type != SIM_CUDA_R_32F && type != SIM_CUDA_R_16F && type != SIM_CUDA_R_16BF)
		return SIM_CUBLAS_STATUS_NOT_SUPPORTED;
	if (leading < (int64_t)rows || !rows || !columns)
		return SIM_CUBLAS_STATUS_INVALID_VALUE;
	int status = make(layout, OBJECT_LAYOUT, &object);
	if (!status)
		object->matrix = (struct sim_matrix){ .type = type == SIM_CUDA_R_32F   ? NUMBER_F32
							      : type == SIM_CUDA_R_16F ? NUMBER_F16
										       : NUMBER_BF16,
						      .rows = rows,
						      .columns = columns,
						      .leading = leading,
						      .batch = 1 };
	return status;
}

int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes)
{
	ENTER();
	struct object *object = as(layout, OBJECT_LAYOUT);
	if (!object)
		return SIM_CUBLAS_STATUS_INVALID_VALUE;
	struct sim_matrix *matrix = &object->matrix;
	if (attribute == SIM_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == sizeof matrix->batch)
		memcpy(&matrix->batch, value, bytes);
	else if (attribute == SIM_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == sizeof matrix->batch_stride)
		memcpy(&matrix->batch_stride, value, bytes);
	else if (attribute == SIM_CUBLASLT_MATRIX_LAYOUT_LD && bytes == sizeof matrix->leading)
		memcpy(&matrix->leading, value, bytes);
	else
		return SIM_CUBLAS_STATUS_NOT_SUPPORTED;
	return SIM_CUBLAS_STATUS_SUCCESS;
}

int cublasLtMatrixLayoutDestroy(void *layout)
{
	return destroy(layout, OBJECT_LAYOUT);
}

int cublasLtMatmulPreferenceCreate(void **preference)
{
	struct object *object;
	ENTER();
	int status = make(preference, OBJECT_PREFERENCE, &object);
	if (!status)
		object->schemes = SIM_CUBLASLT_REDUCTION_SCHEME_MASK;
	for (int i = 0; i < 4 && !status; i++)
		object->alignment[i] = 256;
	return status;
}

int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes)
{
	ENTER();
	struct object *object = as(preference, OBJECT_PREFERENCE);
	if (!object)
		return SIM_CUBLAS_STATUS_INVALID_VALUE;
	int which = attribute - SIM_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
	if (attribute == SIM_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == sizeof object->workspace_bytes)
		memcpy(&object->workspace_bytes, value, bytes);
	else if (attribute == SIM_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == sizeof object->schemes)
		memcpy(&object->schemes, value, bytes);
	else if (which >= 0 && which < 4 && bytes == sizeof *object->alignment)
		memcpy(&object->alignment[which], value, bytes);
	else
		return SIM_CUBLAS_STATUS_NOT_SUPPORTED;
	return SIM_CUBLAS_STATUS_SUCCESS;
}

int cublasLtMatmulPreferenceDestroy(void *preference)
{
	return destroy(preference, OBJECT_PREFERENCE);
}

/* ---- Products ---- */

static bool describe(void *desc, void *a, void *b, void *c, void *d, struct sim_product *product)
{
	struct object *object = as(desc, OBJECT_PRODUCT), *layout[4];
	void *const given[4] = { a, b, c, d };
	for (int i = 0; i < 4; i++)
		if (!(layout[i] = as(given[i], OBJECT_LAYOUT)))
			return false;
	if (!object)
		return false;
	*product = (struct sim_product){ .a = layout[0]->matrix,
					 .b = layout[1]->matrix,
					 .c = layout[2]->matrix,
					 .d = layout[3]->matrix,
					 .transpose_a = object->transpose_a == SIM_CUBLAS_OP_T,
					 .transpose_b = object->transpose_b == SIM_CUBLAS_OP_T,
					 .tf32 = object->compute_type == SIM_CUBLAS_COMPUTE_32F_FAST_TF32 };
	product->m = product->d.rows;
	product->n = product->d.columns;
	product->k = product->transpose_a ? product->a.rows : product->a.columns;
	uint64_t m = product->transpose_a ? product->a.columns : product->a.rows;
	uint64_t n = product->transpose_b ? product->b.rows : product->b.columns;
	uint64_t k = product->transpose_b ? product->b.columns : product->b.rows;
	return m == product->m && n == product->n && k == product->k && product->c.rows == m &&
	       product->c.columns == n && product->a.batch == product->d.batch &&
	       product->b.batch == product->d.batch && product->a.type == product->b.type;
}

static uint32_t scheme_of(enum sim_algorithm_id algorithm)
{
	return algorithm == ALGORITHM_ANY_ORDER ? SIM_CUBLASLT_REDUCTION_SCHEME_INPLACE
	       : algorithm == ALGORITHM_SPLIT2 || algorithm == ALGORITHM_SPLIT4
		       ? SIM_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
		       : SIM_CUBLASLT_REDUCTION_SCHEME_NONE;
}

static void fill_result(const struct sim_product *product, enum sim_algorithm_id id, struct sim_heuristic *result)
{
	*result = (struct sim_heuristic){ .workspace_bytes = product_workspace(product, id), .waves = 1 };
	result->algorithm.data[0] = ALGORITHM_MAGIC;
	result->algorithm.data[1] = id;
	result->algorithm.data[2] = product->m;
	result->algorithm.data[3] = product->n;
	result->algorithm.data[4] = product->k;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
				   int wanted, struct sim_heuristic *result, int *found)
{
	/* Best first: long sums are split. */
	static const enum sim_algorithm_id order[2][ALGORITHMS] = {
		{ ALGORITHM_STRIDED, ALGORITHM_PLAIN, ALGORITHM_SPLIT2, ALGORITHM_SPLIT4, ALGORITHM_ANY_ORDER },
		{ ALGORITHM_ANY_ORDER, ALGORITHM_SPLIT4, ALGORITHM_SPLIT2, ALGORITHM_STRIDED, ALGORITHM_PLAIN },
	};
	struct sim_product product;
	ENTER();
	struct object *limits = as(preference, OBJECT_PREFERENCE);
	*found = 0;
	if (!as(handle, OBJECT_HANDLE) || !limits || wanted < 1 || !describe(desc, a, b, c, d, &product))
		return SIM_CUBLAS_STATUS_INVALID_VALUE;
	for (int i = 0; i < ALGORITHMS && *found < wanted; i++) {
		enum sim_algorithm_id id = order[product.k >= 48][i];
		if ((scheme_of(id) & limits->schemes) == scheme_of(id) &&
		    product_workspace(&product, id) <= limits->workspace_bytes)
			fill_result(&product, id, &result[(*found)++]);
	}
	return *found ? SIM_CUBLAS_STATUS_SUCCESS : SIM_CUBLAS_STATUS_NOT_SUPPORTED;
}

static bool fits(const struct sim_algorithm *algorithm, const struct sim_product *product)
{
	return algorithm && algorithm->data[0] == ALGORITHM_MAGIC && algorithm->data[1] < ALGORITHMS &&
	       algorithm->data[2] == product->m && algorithm->data[3] == product->n && algorithm->data[4] == product->k;
}

int cublasLtMatmulAlgoCheck(void *handle, void *desc, void *a, void *b, void *c, void *d,
			    const struct sim_algorithm *algorithm, struct sim_heuristic *result)
{
	struct sim_product product;
	ENTER();
	if (!as(handle, OBJECT_HANDLE) || !describe(desc, a, b, c, d, &product) || !fits(algorithm, &product))
		return SIM_CUBLAS_STATUS_INVALID_VALUE;
	fill_result(&product, (enum sim_algorithm_id)algorithm->data[1], result);
	return SIM_CUBLAS_STATUS_SUCCESS;
}

int cublasLtMatmulAlgoConfigGetAttribute(const struct sim_algorithm *algorithm, int attribute, void *value,
					 size_t bytes, size_t *written)
{
	static const uint32_t splits[ALGORITHMS] = { 1, 2, 4, 1, 4 };
	ENTER();
	enum sim_algorithm_id id = (enum sim_algorithm_id)algorithm->data[1];
	uint32_t number = attribute == SIM_CUBLASLT_ALGO_CONFIG_SPLITK_NUM         ? splits[id]
			  : attribute == SIM_CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME ? scheme_of(id)
										   : (uint32_t)id;
	if (bytes < sizeof number || attribute < 0 || attribute > SIM_CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)
		return SIM_CUBLAS_STATUS_INVALID_VALUE;
	memcpy(value, &number, sizeof number);
	if (written)
		*written = sizeof number;
	return SIM_CUBLAS_STATUS_SUCCESS;
}

static uint64_t matrix_bytes(const struct sim_matrix *matrix)
{
	uint64_t elements = (matrix->columns - 1) * (uint64_t)matrix->leading + matrix->rows +
			    (uint64_t)(matrix->batch - 1) * (uint64_t)matrix->batch_stride;
	return elements * number_bytes(matrix->type);
}

static struct sim_operand operand_of(const void *address, const struct sim_matrix *matrix, unsigned use)
{
	return (struct sim_operand){ .address = (uint64_t)(uintptr_t)address,
				     .bytes = matrix_bytes(matrix),
				     .use = use };
}

static int refuse(const char *why)
{
	sim_note("cublasLtMatmul: %s", why);
	return SIM_CUBLAS_STATUS_INVALID_VALUE;
}

int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,
		   void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
		   const struct sim_algorithm *algorithm, void *workspace, size_t workspace_bytes, void *stream)
{
	struct sim_product product;
	ENTER();
	if (!as(handle, OBJECT_HANDLE) || !describe(desc, a_layout, b_layout, c_layout, d_layout, &product))
		return refuse("handle, descriptor and layouts do not make a product");
	if (!algorithm)
		return refuse("no algorithm: the library would choose one by itself");
	if (!fits(algorithm, &product))
		return refuse("the algorithm was made for another product");
	product.algorithm = (uint32_t)algorithm->data[1];
	uint64_t needed = product_workspace(&product, (enum sim_algorithm_id)product.algorithm);
	if (workspace_bytes < needed)
		return refuse("the workspace is smaller than the algorithm needs");
	if (needed && (uintptr_t)workspace % WORKSPACE_ALIGNMENT)
		return refuse("the workspace is not aligned at 256 bytes");
	if (((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) % 16)
		return refuse("a matrix is not aligned at 16 bytes");
	memcpy(&product.alpha, alpha, sizeof product.alpha);
	memcpy(&product.beta, beta, sizeof product.beta);
	product.in_place = c == d;
	product.workspace_bytes = needed;
	bool reads_c = product.beta != 0;
	const struct sim_operand operand[] = {
		operand_of(a, &product.a, SIM_READ),
		operand_of(b, &product.b, SIM_READ),
		operand_of(d, &product.d, reads_c && product.in_place ? SIM_READ | SIM_WRITE : SIM_WRITE),
		{ .address = (uint64_t)(uintptr_t)workspace, .bytes = needed, .use = SIM_WORKSPACE },
		operand_of(c, &product.c, SIM_READ)
	};
	uint32_t operands = reads_c && !product.in_place ? 5 : 4;
	return status_of(
		sim_enqueue_host(stream, "cublasLtMatmul", product_run, &product, sizeof product, operand, operands));
}
