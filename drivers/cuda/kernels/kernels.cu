/* kernels.cu - all kernels as one translation unit: nvcc makes one PTX text of it, which is one module on the device.
 */
#include "pointwise.cu"
#include "update.cu"
#include "totals.cu"
#include "columns.cu"
#include "rows.cu"
#include "pool.cu"
#include "sequence.cu"
#include "move.cu"
#include "product.cu"
#include "attention.cu"
#include "image.cu"
#include "mixture.cu"
