#!/bin/bash
# The build remakes what it must and nothing else, keeps its promises about names and libraries, and its scripts say what
# went wrong. Works on a copy of the sources, with the smallest configuration: the null driver, no planner.
# shellcheck disable=SC2317 # functions are called by expect
. tests/support/testing.sh

unset MAKEFLAGS MFLAGS SAN BUILD KCONFIG_CONFIG
copy=$directory/copy
mkdir "$copy"
cp -r Makefile Kconfig configs runtime drivers models tools "$copy"
mkdir "$copy/tests"
cp -r tests/support "$copy/tests"
cat >"$copy/small_config" <<'END'
# CONFIG_DRIVER_CPU is not set
# CONFIG_DRIVER_CUDA is not set
# CONFIG_PLANNER is not set
# CONFIG_LOCKDOWN is not set
END

# In the copy, without optimisation, because only the build is looked at.
build() {
	make -C "$copy" -j2 CC="$CC" CFLAGS="${flags--O0}" KCONFIG_CONFIG=.config "$@"
}
up_to_date() {
	build -q || { echo "make -q says that something is to be done:"; build -n; return 1; }
}
# Names of the sources that a build compiles, one a line.
compiled() {
	build "$@" >"$directory/build.log" 2>&1 || { cat "$directory/build.log" >&2; echo "the build failed"; }
	sed -n 's/^  CC  *//p' "$directory/build.log" | sort
}

first_build() {
	cp "$copy/small_config" "$copy/.config"
	build
	test -e "$copy/build/libtarn.a"
	test -e "$copy/build/libtarn.so.0"
}
expect "a parallel build from nothing works" first_build
expect "a second make has nothing to do" up_to_date

header_dependents() {
	local header=runtime/base/bytes.h
	(cd "$copy/build/obj" && grep -rlE "(^| )$header" --include='*.d' . | sed 's|^\./||; s|\.d$|.c|' | sort) \
		>"$directory/expected"
	test -s "$directory/expected"
	sleep 0.01
	touch "$copy/$header"
	compiled >"$directory/compiled"
	diff "$directory/expected" "$directory/compiled"
	test "$(wc -l <"$directory/compiled")" -lt "$(find "$copy/build/obj" -name '*.o' | wc -l)"
	up_to_date
}
expect "a touched header rebuilds its dependents only" header_dependents

new_flags() {
	local objects
	objects=$(find "$copy/build/obj" -name '*.o' | wc -l)
	flags='-O0 -DOTHER'
	test "$(compiled | wc -l)" -eq "$objects"
	up_to_date
	flags=-O0
	test "$(compiled | wc -l)" -eq "$objects"
	up_to_date
}
expect "other CFLAGS rebuild every object, the same ones none" new_flags

new_link_flags() {
	test "$(compiled LDFLAGS=-Wl,-z,now | wc -l)" -eq 0
	readelf -d "$copy/build/libtarn.so.0" | grep -q NOW
}
expect "other LDFLAGS only link again" new_link_flags

same_config() {
	build
	sleep 0.01
	touch "$copy/.config" "$copy/Kconfig"
	test "$(compiled | wc -l)" -eq 0
	up_to_date
}
expect "a touched .config with the same content rebuilds nothing" same_config

new_config() {
	sed -i 's/^CONFIG_MAX_NAME_LENGTH=.*//' "$copy/.config"
	echo CONFIG_MAX_NAME_LENGTH=200 >>"$copy/.config"
	test "$(compiled | wc -l)" -eq "$(find "$copy/build/obj" -name '*.o' | wc -l)"
	grep -q 'CONFIG_MAX_NAME_LENGTH 200' "$copy/build/include/autoconf.h"
	up_to_date
}
expect "a changed symbol reaches the objects" new_config

lost_source() {
	echo 'int passing_guest; int passing_guest = 1;' >"$copy/runtime/base/guest.c"
	test "$(compiled)" = runtime/base/guest.c
	rm "$copy/runtime/base/guest.c"
	test "$(compiled | wc -l)" -eq 0
	! nm "$copy/build/libtarn.a" | grep passing_guest
}
expect "a source that came and went leaves the libraries" lost_source

public_names() {
	nm --extern-only --defined-only "$copy/build/libtarn.a" | awk 'NF == 3 { print $3 }' | sort >"$directory/static"
	nm --dynamic --defined-only "$copy/build/libtarn.so.0" | awk 'NF == 3 { print $3 }' | sort >"$directory/shared"
	test -s "$directory/static"
	! grep -v '^tarn_' "$directory/static" "$directory/shared" || return 1
	diff "$directory/static" "$directory/shared"
}
expect "both libraries export the same names, all of them tarn_*" public_names

shared_name() {
	readelf -d "$copy/build/libtarn.so.0" | grep -q 'SONAME.*\[libtarn.so.0\]'
}
expect "the shared library has its soname" shared_name

needs_no_planner() {
	! readelf -d "$copy/build/libtarn.so.0" | grep -E 'NEEDED.*(yaml|dnnl|gomp)'
}
expect "a build without planner and CPU driver needs neither libyaml nor oneDNN" needs_no_planner

default_config() {
	rm -rf "$copy/.config" "$copy/default"
	test -z "$(build --silent BUILD=default default/include/autoconf.h)"
	grep -q '^CONFIG_DRIVER_CPU=y' "$copy/.config"
	for symbol in DRIVER_CPU DRIVER_NULL PLANNER YAML LOCKDOWN; do
		grep -q "define CONFIG_$symbol 1" "$copy/default/include/autoconf.h"
	done
}
expect "without .config the CPU configuration is taken in silence" default_config

side_by_side() {
	make -C "$copy" --silent exec_defconfig BUILD=one KCONFIG_CONFIG=one/.config
	make -C "$copy" --silent debug_defconfig BUILD=two KCONFIG_CONFIG=two/.config
	make -C "$copy" --silent BUILD=one KCONFIG_CONFIG=one/.config one/include/autoconf.h
	make -C "$copy" --silent BUILD=two KCONFIG_CONFIG=two/.config two/include/autoconf.h
	! grep -q PLANNER "$copy/one/include/autoconf.h" || return 1
	grep -q 'CONFIG_POISON 1' "$copy/two/include/autoconf.h"
}
expect "two configurations live side by side" side_by_side

saved_config() {
	cp "$copy/small_config" "$copy/.config"
	build --silent savedefconfig
	diff <(sort "$copy/small_config") <(sort "$copy/build/defconfig")
}
expect "savedefconfig gives back what was chosen" saved_config

expect "an unknown defconfig is refused with those there are" \
	fails_with 2 "there is: cpu_defconfig" make -C "$copy" gpu_defconfig

without_driver() {
	printf '# CONFIG_DRIVER_%s is not set\n' CPU CUDA NULL >"$copy/none"
	fails_with 2 "has no driver" make -C "$copy" BUILD=none.build KCONFIG_CONFIG=none
}
expect "a configuration without a driver is refused" without_driver

without_kconfiglib() {
	fails_with 2 python3-kconfiglib make -C "$copy" BUILD=nolib KCONFIG_CONFIG=nolib.config PYTHON=/bin/false
}
expect "a missing kconfiglib is named with its package" without_kconfiglib

order_of_goals() {
	mkdir "$copy/build-x"
	make -C "$copy" --silent -j4 clean all BUILD=build CC="$CC" CFLAGS=-O0
	test -e "$copy/build/libtarn.a"
	make -C "$copy" --silent distclean
	for path in build build-x .config; do
		test ! -e "$copy/$path"
	done
}
cp "$copy/small_config" "$copy/.config"
expect "clean before all cleans first; distclean leaves no build" order_of_goals

tests_need_a_planner() {
	cp "$copy/small_config" "$copy/.config"
	fails_with 2 "leaves the planner out" build run-check
}
expect "make check without the planner says why it cannot" tests_need_a_planner

help_is_complete() {
	make --silent help >"$directory/help"
	for target in $(sed -n 's/^\.PHONY: //p' Makefile | tr ' ' '\n' | grep -E '^[a-z-]+$') cpu_defconfig exec_defconfig \
		debug_defconfig menuconfig oldconfig savedefconfig check check-slow golden train fuzz clean distclean \
		uninstall check-format format; do
		case $target in tests | run-* | one-by-one) continue ;; esac
		grep -qE -- "(^  |; )$target " "$directory/help" || { echo "make help is silent about $target"; return 1; }
	done
}
expect "make help names every target" help_is_complete

# ---- tools/run_tests.sh ----
script() {
	mkdir -p "$directory/suite"
	printf '#!/bin/bash\n%s\n' "$2" >"$directory/suite/test_$1.sh"
	chmod +x "$directory/suite/test_$1.sh"
}
script good 'echo "skipped: third: no such device"; echo "tests: 2 passed, 0 failed, 1 skipped"'
script bad 'echo "what went wrong"; echo "tests: 1 passed, 2 failed, 0 skipped"; exit 1'
script crash 'kill -SEGV $$'
script silent 'exit 0'
script liar 'echo "tests: 1 passed, 0 failed, 0 skipped"; exit 3'
run() {
	BUILD=$directory/suite-build TESTS=${1:-} tools/run_tests.sh "$directory"/suite/test_*.sh
}
sums_up() {
	local status=0
	run >"$directory/sum" || status=$?
	cat "$directory/sum"
	test "$status" -eq 1
	test "$(tail -n 1 "$directory/sum")" = "4 passed, 5 failed, 1 skipped"
	grep -q 'skipped: third: no such device' "$directory/sum"
	grep -q 'what went wrong' "$directory/sum"
	grep -q 'crash.*killed by signal 11' "$directory/sum"
	grep -q 'silent.*ended without its last line' "$directory/sum"
	grep -q 'liar.*exit status 3' "$directory/sum"
}
expect "failures, crashes and silent ends are counted and named" sums_up

runs_a_part() {
	run 'go* nothing' >"$directory/sum"
	test "$(tail -n 1 "$directory/sum")" = "2 passed, 0 failed, 1 skipped"
	fails_with 1 "there is:" run absent
}
expect "TESTS chooses by pattern, and an unknown name is an error" runs_a_part

# ---- tools/install_dependencies.sh, in a world where only what we say exists ----
world=$directory/world
mkdir "$world"
for program in bash env mktemp cat rm; do
	ln -s "$(command -v $program)" "$world/$program"
done
# One package is missing unless INSTALLED says otherwise.
cat >"$world/dpkg-query" <<'END'
#!/bin/bash
if [ "${*: -1}" = libyaml-dev ] && [ -z "${INSTALLED:-}" ]; then exit 1; fi
echo -n installed
END
printf '#!/bin/bash\necho 1000\n' >"$world/id"
chmod +x "$world/dpkg-query" "$world/id"

all_there() {
	test -z "$(env -i PATH="$world" INSTALLED=1 "$BASH" tools/install_dependencies.sh 2>&1)"
}
expect "with every package there the installer does nothing, without root" all_there
expect "without root and sudo it says what to do" \
	fails_with 1 "apt-get install --no-install-recommends libyaml-dev" env -i PATH="$world" "$BASH" tools/install_dependencies.sh

with_sudo() {
	printf '#!/bin/bash\necho "$*" >>%q\n' "$directory/sudo.log" >"$world/sudo"
	chmod +x "$world/sudo"
	env -i PATH="$world" "$BASH" tools/install_dependencies.sh >"$directory/out"
	cat "$directory/out" "$directory/sudo.log"
	grep -q "needs root" "$directory/out"
	grep -q "apt-get install .*libyaml-dev$" "$directory/sudo.log"
}
expect "without root but with sudo it says why and installs only what is missing" with_sudo

finish
