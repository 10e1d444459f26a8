#!/bin/bash
# Compiles the CUDA kernels to the PTX text that is committed and built into the program.
#
#   tools/make_ptx.sh [FILE f32|bf16|f16]    writes drivers/cuda/kernels/tarn_kernels_*.ptx, or FILE; large tensors are
#                                            stored in that type
#   tools/make_ptx.sh --sources              prints the checksum of the sources
#   tools/make_ptx.sh --compiler             prints what compiles them here
#
# The first lines of the text say from which sources and with which compiler it was made; tests/test_cuda_ptx.sh compares
# them. NVCC and PTXAS name the tools of the CUDA toolkit.
set -euo pipefail

kernels=drivers/cuda/kernels
PATH=$PATH:/usr/local/cuda/bin
NVCC=${NVCC:-nvcc} PTXAS=${PTXAS:-ptxas}

sources_sum() {
	(cd $kernels && LC_ALL=C && sha256sum ./*.cu ./*.h) | sha256sum | cut -d' ' -f1
}

compiler_line() {
	"$NVCC" --version | sed -n 's/^Cuda compilation tools, /nvcc /p'
}

# What no kernel may have: the simulator of the tests and the memory ledger rely on it.
check() {
	local text=$1 architecture report
	if grep -nE '^\s*(@!?%p[0-9]+\s+)?(call|brx|vprintf|atom|red)\b|\.local|\.func|\.extern \.[^s]' "$text" >&2; then
		echo "$text: an instruction outside the portable subset" >&2
		return 1
	fi
	for architecture in sm_75 sm_80 sm_90 sm_120; do
		report=$("$PTXAS" -arch=$architecture -v "$text" -o /dev/null 2>&1)
		if grep 'stack frame' <<<"$report" | grep -v '0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads' >&2; then
			echo "$text: a kernel has a stack frame or spills registers on $architecture" >&2
			return 1
		fi
		[ "$(grep -c '0 bytes stack frame' <<<"$report")" -eq "$(grep -c '\.entry' "$text")" ]
	done
}

# nvcc states the newest version of the language, which only the newest driver takes. The kernels need 6.3, the first with
# compute capability 7.5, as the assembler confirms; one hint about unread bytes of vectors is newer, and left out.
lower_version() {
	sed -e '/\.pragma "used_bytes_mask /d' -e 's/^\.version .*/.version 6.3/'
}

# nvcc puts a hash of the folder's path into the names of what is local to the file, and the text must not depend on it.
compile() {
	local target=$1 storage=$2
	text=$(mktemp "$target.XXXXXX")
	trap 'rm -f "$text"' EXIT
	{
		echo "// Made by \`make ptx\` from $kernels/*.cu and *.h."
		echo "// sources: $(sources_sum)"
		echo "// compiler: $(compiler_line)"
		"$NVCC" -std=c++17 -arch=compute_75 -fmad=false -DKERNEL_STORAGE="$storage" -ptx $kernels/kernels.cu -o - |
			lower_version | sed 's/_INTERNAL_[0-9a-f]\{8\}_/_INTERNAL_/g'
	} >"$text"
	check "$text"
	chmod 644 "$text"
	mv "$text" "$target"
	trap - EXIT
}

case ${1:-} in
--sources) sources_sum ;;
--compiler) compiler_line ;;
"") for storage in f32 bf16 f16; do compile "$kernels/tarn_kernels_$storage.ptx" $storage; done ;;
*) compile "$1" "$2" ;;
esac
