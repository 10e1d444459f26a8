/* kernels_text.c - the PTX text of all kernels, as a zero-terminated string in the program. */
#include "cuda/cuda_launch.h"

/* The path is relative to the top folder, where the Makefile compiles. */
__asm__(".pushsection .rodata\n"
	".global cuda_kernels_text\n"
	".hidden cuda_kernels_text\n"
	".type cuda_kernels_text, @object\n"
	"cuda_kernels_text:\n"
	".incbin \"drivers/cuda/kernels/tarn_kernels.ptx\"\n"
	".byte 0\n"
	".size cuda_kernels_text, . - cuda_kernels_text\n"
	".popsection\n");
