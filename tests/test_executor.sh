#!/usr/bin/env bash
# The library without planner and YAML trains from a plan file and samples in memory, and says how small it is.
. tests/support/testing.sh

cat >"$directory/net.yaml" <<EOF
name: board
memory: {budget: 256 KiB}
data: {type: memory, shape: [12, 12, 1], classes: 4, batch: 16, samples: 256, test_samples: 64}
layers: [{conv2d: {channels: 8, kernel: 3, padding: same}}, batch_norm, relu, {max_pool: 2}, flatten, {dense: 4}]
optimizer: {type: adamw, learning_rate: 1e-2}
train: {epochs: 5, threads: 1}
EOF

plans_without_samples() {
	"$BUILD/tarn" plan "$directory/net.yaml" -o "$directory/net.plan"
	fails_with 2 "needs samples from the program" "$BUILD/tarn" train "$directory/net.yaml" data.samples=0
	fails_with 10 "handed over no training samples" "$BUILD/tarn" train "$directory/net.yaml"
}

# What a program links: neither libyaml nor anything of the planner or of the networks' builders.
trains_without_planner() {
	local built=$directory/exec sanitize=${SAN:+-fsanitize=$SAN} prefix=$directory/installed
	local settings=(BUILD="$built" KCONFIG_CONFIG="$built/.config" SAN="$SAN" CC="$CC")
	make --silent exec_defconfig "${settings[@]}"
	make --silent install PREFIX="$prefix" "${settings[@]}"
	export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
	# shellcheck disable=SC2046,SC2086 # lists of flags
	$CC -Wall -Wextra -Werror $sanitize docs/example_executor.c -o "$directory/example" -L"$prefix/lib" \
		$(pkg-config --static --cflags --libs tarn)
	! ldd "$directory/example" | grep libyaml || return 1
	LD_LIBRARY_PATH=$prefix/lib "$directory/example" "$directory/net.plan" | grep '80 steps, test accuracy 100.0 %'
	! nm "$built/libtarn.o" | grep -E ' (planner_run|network_build|config_load)$' || return 1
}

expect "a plan for samples of a program is made without them" plans_without_samples
if [ -n "${TARN_TEST_SLOW:-}" ]; then
	expect "the example for executors trains without planner and YAML" trains_without_planner
else
	skip "the example for executors trains without planner and YAML" "it builds a library of its own; make check-slow"
fi
finish
