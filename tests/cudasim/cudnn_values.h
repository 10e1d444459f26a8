/*
 * cudnn_values.h - the numbers of cuDNN's backend interface that its double and the recorder of engine lists know;
 * cudnn_check.c compares them with the toolkit's headers.
 */
#ifndef CUDASIM_CUDNN_VALUES_H
#define CUDASIM_CUDNN_VALUES_H

/* X(name, value) */
#define CUDNN_VALUES(X)                                                       \
	X(CUDNN_STATUS_SUCCESS, 0)                                            \
	X(CUDNN_STATUS_NOT_INITIALIZED, 1001)                                 \
	X(CUDNN_STATUS_BAD_PARAM, 2000)                                       \
	X(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, 2002)                          \
	X(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, 2003)                    \
	X(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, 2004)                         \
	X(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, 2006)                     \
	X(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, 2008)                        \
	X(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, 2009)                    \
	X(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, 2010)                        \
	X(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, 2012)                       \
	X(CUDNN_STATUS_NOT_SUPPORTED, 3000)                                   \
	X(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, 3002)                             \
	X(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, 4003)           \
	X(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, 4004)         \
	X(CUDNN_STATUS_EXECUTION_FAILED, 5000)                                \
	X(CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER, 5001)                    \
	X(CUDNN_DATA_FLOAT, 0)                                                \
	X(CUDNN_DATA_HALF, 2)                                                 \
	X(CUDNN_DATA_BFLOAT16, 9)                                             \
	X(CUDNN_CROSS_CORRELATION, 1)                                         \
	X(CUDNN_HEUR_MODE_FALLBACK, 2)                                        \
	X(CUDNN_HEUR_MODE_A, 3)                                               \
	X(CUDNN_TYPE_HANDLE, 0)                                               \
	X(CUDNN_TYPE_DATA_TYPE, 1)                                            \
	X(CUDNN_TYPE_INT64, 3)                                                \
	X(CUDNN_TYPE_FLOAT, 4)                                                \
	X(CUDNN_TYPE_VOID_PTR, 6)                                             \
	X(CUDNN_TYPE_CONVOLUTION_MODE, 7)                                     \
	X(CUDNN_TYPE_HEUR_MODE, 8)                                            \
	X(CUDNN_TYPE_NUMERICAL_NOTE, 11)                                      \
	X(CUDNN_TYPE_BACKEND_DESCRIPTOR, 15)                                  \
	X(CUDNN_TYPE_BEHAVIOR_NOTE, 19)                                       \
	X(CUDNN_TYPE_CHAR, 24)                                                \
	X(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 1)                            \
	X(CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2)                                 \
	X(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3)                              \
	X(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                             \
	X(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                         \
	X(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10)         \
	X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11) \
	X(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12)   \
	X(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                        \
	X(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                          \
	X(CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17)                                \
	X(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, 38)                            \
	X(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 100)                              \
	X(CUDNN_ATTR_CONVOLUTION_CONV_MODE, 101)                              \
	X(CUDNN_ATTR_CONVOLUTION_DILATIONS, 102)                              \
	X(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 103)                         \
	X(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 104)                          \
	X(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 105)                           \
	X(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 106)                           \
	X(CUDNN_ATTR_ENGINEHEUR_MODE, 200)                                    \
	X(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                         \
	X(CUDNN_ATTR_ENGINEHEUR_RESULTS, 202)                                 \
	X(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, 204)                              \
	X(CUDNN_ATTR_ENGINECFG_ENGINE, 300)                                   \
	X(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400)                              \
	X(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)                       \
	X(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)                      \
	X(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, 407)                          \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700)                \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701)                 \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702)            \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703)                    \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704)                    \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705)                    \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706)               \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 707)                \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708)           \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, 709)                   \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, 710)                  \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 711)                  \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712)             \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713)              \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714)         \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, 715)                \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, 716)                 \
	X(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 717)                \
	X(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800)                              \
	X(CUDNN_ATTR_OPERATIONGRAPH_OPS, 801)                                 \
	X(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900)                              \
	X(CUDNN_ATTR_TENSOR_DATA_TYPE, 901)                                   \
	X(CUDNN_ATTR_TENSOR_DIMENSIONS, 902)                                  \
	X(CUDNN_ATTR_TENSOR_STRIDES, 903)                                     \
	X(CUDNN_ATTR_TENSOR_UNIQUE_ID, 906)                                   \
	X(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                           \
	X(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                        \
	X(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003)                            \
	X(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1301)                               \
	X(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303)                             \
	X(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, 1305)                              \
	X(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 2702)                    \
	X(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0)                                \
	X(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 4)                           \
	X(CUDNN_NUMERICAL_NOTE_TYPE_COUNT, 10)                                \
	X(CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, 5)

#define CUDNN_VALUE_ENUMERATOR(name, value) SIM_##name = (value),
enum cudnn_value { CUDNN_VALUES(CUDNN_VALUE_ENUMERATOR) };

#endif
