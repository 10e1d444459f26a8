#!/bin/bash
# An installed tree is usable through pkg-config, shared and static, and uninstalling leaves nothing behind.
# shellcheck disable=SC2317 # functions are called by expect
. tests/support/testing.sh

prefix=$directory/tarn
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
sanitize=${SAN:+-fsanitize=$SAN}

cat >"$directory/user.c" <<'END'
#include <stdio.h>
#include <tarn.h>

int main(void)
{
	struct tarn_options options = { .config_text = "no such key: 1\n" };
	struct tarn_session *session = NULL;
	enum tarn_status status = tarn_open(&options, &session);
	printf("%s\n", tarn_version());
	return status == TARN_OK || !*tarn_error();
}
END

installs() {
	make --silent install PREFIX="$prefix"
	for file in include/tarn.h include/tarn_status.h lib/libtarn.a lib/libtarn.so lib/libtarn.so.0 \
		lib/pkgconfig/tarn.pc bin/tarn; do
		test -e "$prefix/$file" || { echo "$file is missing"; return 1; }
	done
}
expect "make install puts every file under PREFIX" installs

links_shared() {
	# shellcheck disable=SC2046,SC2086 # lists of flags
	$CC $sanitize -o "$directory/shared" "$directory/user.c" $(pkg-config --cflags --libs tarn)
	LD_LIBRARY_PATH=$prefix/lib ldd "$directory/shared" | grep -q "libtarn.so.0 => $prefix/lib/libtarn.so.0"
	test "$(LD_LIBRARY_PATH=$prefix/lib "$directory/shared")" = "$(pkg-config --modversion tarn)"
}
expect "a program links with the shared library" links_shared

links_static() {
	mkdir "$directory/only-static"
	cp "$prefix/lib/libtarn.a" "$directory/only-static"
	# shellcheck disable=SC2046,SC2086
	$CC $sanitize -o "$directory/static" "$directory/user.c" -L"$directory/only-static" \
		$(pkg-config --static --cflags --libs tarn)
	! ldd "$directory/static" | grep libtarn || return 1
	test "$("$directory/static")" = "$(pkg-config --modversion tarn)"
}
expect "a program links with the static library" links_static

example_builds() {
	# shellcheck disable=SC2046,SC2086
	$CC -Wall -Wextra -Werror $sanitize -o "$directory/example" docs/example.c $(pkg-config --cflags --libs tarn)
}
expect "the documented example builds against the installed tree" example_builds

header_is_strict() {
	printf '#include <tarn.h>\nint main(void) { return 0; }\n' >"$directory/header.c"
	# shellcheck disable=SC2046
	$CC -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags tarn) "$directory/header.c"
}
expect "the public header is strict C11 and needs nothing else" header_is_strict

header_is_cxx() {
	printf '#include <tarn.h>\nint main() { return tarn_version() == nullptr; }\n' >"$directory/header.cc"
	# shellcheck disable=SC2046
	g++ -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags tarn) "$directory/header.cc"
}
if command -v g++ >/dev/null; then
	expect "the public header is C++ too" header_is_cxx
else
	skip "the public header is C++ too" "g++ is not installed"
fi

stages() {
	make --silent install DESTDIR="$directory/stage" PREFIX=/usr
	test -e "$directory/stage/usr/lib/libtarn.so.0"
	grep -q '^prefix=/usr$' "$directory/stage/usr/lib/pkgconfig/tarn.pc"
}
expect "DESTDIR moves the files and leaves no trace in them" stages

uninstalls() {
	make --silent uninstall PREFIX="$prefix"
	test -z "$(find "$prefix" ! -type d)"
}
expect "make uninstall removes every file" uninstalls

finish
