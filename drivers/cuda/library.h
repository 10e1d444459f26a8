/*
 * library.h - the four libraries of the CUDA driver, opened at run time.
 *
 *   libcuda.so.1             TARN_LIBCUDA       needed: the device itself
 *   libcublasLt.so.13, .12   TARN_LIBCUBLASLT   optional: without it matrix products run in own kernels
 *   libcudnn_graph.so.9      TARN_LIBCUDNN      optional: without it convolutions do
 *   libnvidia-ml.so.1        TARN_LIBNVML       optional: without it builds with debug checks cannot tell what another
 *                                              process allocates from what this one does
 *
 * The environment variable, where it is set and not empty, is the only path tried. A library that lacks a call that is
 * used here counts as not found, and the note names the call.
 */
#ifndef TARN_CUDA_LIBRARY_H
#define TARN_CUDA_LIBRARY_H

#include "base/status.h"
#include "cuda/cuda_abi.h"

#include <stdbool.h>

enum library { LIBRARY_CUDA, LIBRARY_CUBLASLT, LIBRARY_CUDNN, LIBRARY_NVML, LIBRARIES };

struct libraries {
	struct cuda_calls cu;
	struct cublaslt_calls blas;
	struct cudnn_calls dnn;
	struct nvml_calls nvml;
	void *handle[LIBRARIES];     /* NULL: not found */
	uint64_t version[LIBRARIES]; /* as the library counts; 0: unknown */
	char note[LIBRARIES][256];   /* the path that was opened, or why none was */
};

/* Which libraries there are to try; "libcuda.so.1". */
const char *library_name(enum library library);
const char *library_variable(enum library library);

/* Opens what can be opened; never fails. Handles stay NULL for what is missing. */
void library_open(struct libraries *libraries);
void library_close(struct libraries *libraries);

/* TARN_EUNSUPPORTED with a sentence when libcuda is missing. */
enum tarn_status library_check(const struct libraries *libraries);

#endif
