/* kernels_text.c - the PTX texts of all kernels, as zero-terminated strings in the program. */
#include "cuda/cuda_launch.h"

/* The path is relative to the top folder, where the Makefile compiles. */
#define TEXT(name, file)                                 \
	extern const char name[];                        \
	__asm__(".pushsection .rodata\n"                 \
		".global " #name "\n"                    \
		".hidden " #name "\n"                    \
		".type " #name ", @object\n" #name ":\n" \
		".incbin \"" file "\"\n"                 \
		".byte 0\n"                              \
		".size " #name ", . - " #name "\n"       \
		".popsection\n")

TEXT(cuda_kernels_f32, "drivers/cuda/kernels/tarn_kernels_f32.ptx");
TEXT(cuda_kernels_bf16, "drivers/cuda/kernels/tarn_kernels_bf16.ptx");
TEXT(cuda_kernels_f16, "drivers/cuda/kernels/tarn_kernels_f16.ptx");

const char *const cuda_kernels_text[STORED_KINDS] = {
	[STORED_F32] = cuda_kernels_f32,
	[STORED_BF16] = cuda_kernels_bf16,
	[STORED_F16] = cuda_kernels_f16,
};
