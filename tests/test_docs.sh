#!/usr/bin/env bash
# What the documents show works: the README's network, the example program, the generated reference, the links.
. tests/support/testing.sh

tarn=$BUILD/tarn

reference_is_current() {
	tools/generate_docs.sh "$tarn" >"$directory/config.md"
	diff docs/config.md "$directory/config.md"
}

readme_network() {
	sed -n '/^```yaml$/,/^```$/p' README.md | sed '/^```/d' >"$directory/mine.yaml"
	grep -q '^layers:' "$directory/mine.yaml"
	local data=data.type=synthetic
	# On a machine without the data set the same network is planned for synthetic images.
	if [ -d /usr/share/datasets/fashion-mnist ]; then
		"$tarn" plan "$directory/mine.yaml"
		"$tarn" plan "$directory/mine.yaml" memory.budget=2MiB
	else
		sed -i '/^  directory:/d; /^  mean:/d; /^  std:/d' "$directory/mine.yaml"
		"$tarn" plan "$directory/mine.yaml" $data 'data.shape=[28,28,1]'
	fi
}

example_program() {
	# The library's own dependencies come from pkg-config, as they would for an installed one.
	make -s install PREFIX="$directory/usr" BUILD="$BUILD" SAN="$SAN" >/dev/null
	export PKG_CONFIG_PATH=$directory/usr/lib/pkgconfig
	# shellcheck disable=SC2046
	$CC -std=c11 -Wall -Wextra -Werror docs/example.c $(pkg-config --cflags --libs tarn) -o "$directory/example"
	LD_LIBRARY_PATH=$directory/usr/lib "$directory/example" | tee "$directory/example.out"
	grep -q 'test accuracy' "$directory/example.out"
}

# A second-order optimizer on the public interface: its last loss is far below what it began with.
hessian_free_program() {
	export PKG_CONFIG_PATH=$directory/usr/lib/pkgconfig
	# shellcheck disable=SC2046
	$CC -std=c11 -Wall -Wextra -Werror docs/hessian_free.c $(pkg-config --cflags --libs tarn) -lm -o "$directory/free"
	LD_LIBRARY_PATH=$directory/usr/lib "$directory/free" | tee "$directory/free.out"
	awk '/weights, loss/ { first = $4 } /^iteration/ { last = $4 + 0 } END { exit !(last > 0 && last < first / 1000) }' \
		"$directory/free.out"
}

links() {
	local file link missing=0
	for file in README.md docs/*.md; do
		while read -r link; do
			[ -e "$(dirname "$file")/$link" ] || { echo "$file: $link is missing"; missing=1; }
		done < <(grep -oE '\]\([^)#:]+\)' "$file" | sed 's/^](//; s/)$//')
	done
	return $missing
}

expect "docs/config.md is what the schema says (make docs)" reference_is_current
expect "the README's network plans" readme_network
if [ -n "$SAN" ]; then
	skip "the example programs" "a sanitized library needs the sanitizer's own link flags"
else
	expect "the example program trains" example_program
	expect "the Hessian-free optimizer minimises" hessian_free_program
fi
expect "links lead somewhere" links
finish
