#!/bin/bash
# The committed PTX text of the CUDA kernels is what their sources say.
# shellcheck disable=SC2317 # functions are called by expect
. tests/support/testing.sh

for storage in f32 bf16 f16; do
text=drivers/cuda/kernels/tarn_kernels_$storage.ptx
recorded() {
	sed -n "s|^// $1: ||p" $text
}

sources_match() {
	[ "$(recorded sources)" = "$(tools/make_ptx.sh --sources)" ] ||
		{ echo "the kernels' sources have changed since $text was made; make ptx makes it anew"; return 1; }
}
expect "$storage: the text was made from these sources" sources_match

for_every_gpu() {
	grep -q '^\.version 6\.3$' "$text"
	grep -q '^\.target sm_75$' "$text"
}
expect "$storage: it is for compute capability 7.5 and later, and drivers since CUDA 10" for_every_gpu

# Products and sums are contracted only where fmaf is written: without .rn the assembler would be free to do it.
no_contraction() {
	! grep -nE '^\s*(@!?%p[0-9]+\s+)?(add|sub|mul|mad|fma)\.(ftz\.)?f(32|64)' "$text"
}
expect "$storage: no arithmetic may be contracted" no_contraction

same_text() {
	tools/make_ptx.sh "$directory/kernels.ptx" $storage
	cmp "$directory/kernels.ptx" "$text"
}
compiler=$(tools/make_ptx.sh --compiler 2>/dev/null || true)
if [ "$compiler" = "$(recorded compiler)" ]; then
	expect "$storage: $compiler makes the same text, without stack frames and spills" same_text
else
	skip "the compiler makes the same text" "$(recorded compiler) made it, here is ${compiler:-no nvcc}"
fi
done

finish
