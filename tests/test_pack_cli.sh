#!/usr/bin/env bash
# `tarn pack`: its line of JSON, its table, its exit codes, and errors that name file and line.
. tests/support/testing.sh

tarn=$BUILD/tarn
printf 'id,lower,upper,size\na,0,2,128\nb,1,4,256\nc,3,5,128\nd,0,5,0\n' >"$directory/three.csv"

# code EXPECTED COMMAND...: the command ends with this exit code.
code() {
	local expected=$1 got=0
	shift
	"$@" >"$directory/out" 2>"$directory/error" || got=$?
	[ "$got" = "$expected" ] || { echo "exit code $got, not $expected: $*"; cat "$directory/error"; return 1; }
}

# says TEXT: standard error of the last command has it.
says() {
	grep -qF -- "$1" "$directory/error" || { echo "no \"$1\" in:"; cat "$directory/error"; return 1; }
}

has() {
	/usr/bin/python3 -c 'import json, sys
assert json.load(open(sys.argv[1]))[sys.argv[2]] == json.loads(sys.argv[3]), open(sys.argv[1]).read()' "$directory/out" "$1" "$2"
}

fits() {
	code 0 "$tarn" pack "$directory/three.csv" --json -o "$directory/packed.csv"
	has height 384 && has lower_bound 384 && has optimal true && has status '"ok"'
	grep -q '^{.*"pack_ms": [0-9.e-]*[,}]' "$directory/out"
	[ "$(wc -l <"$directory/packed.csv")" = 5 ]
	head -n 1 "$directory/packed.csv" | grep -qx 'id,lower,upper,size,offset'
	code 0 "$tarn" pack "$directory/three.csv" --capacity 384
	code 0 "$tarn" pack "$directory/three.csv" --capacity 1KiB --timeout 5
}

# SIGXFSZ ignored, a write above the limit is an error like a full disk.
failed_write() {
	echo old >"$directory/kept.csv"
	{ echo id,lower,upper,size; seq -f '%g,0,1,1' 200; } >"$directory/long.csv"
	code 5 bash -c 'trap "" XFSZ; ulimit -f 1; exec "$0" pack "$1" -o "$2"' "$tarn" "$directory/long.csv" \
		"$directory/kept.csv"
	says 'write failed: File too large'
	[ "$(cat "$directory/kept.csv")" = old ]
	mkfifo "$directory/fifo"
	code 5 "$tarn" pack "$directory/three.csv" -o "$directory/fifo"
	says 'is a FIFO, not a regular file'
	[ -p "$directory/fifo" ]
}

overfull() {
	code 3 "$tarn" pack "$directory/three.csv" --capacity 383 -o "$directory/none.csv"
	has status '"infeasible"'
	says '2 buffers of 384 bytes are live together at time 1, 1 more than the capacity of 383: b (256), a (128)'
	[ ! -e "$directory/none.csv" ]
}

# Live sums of 10 at every time, and no packing below 11.
proved() {
	cat >"$directory/gap.csv" <<-EOF
	id,lower,upper,size
	$(awk 'BEGIN { split("5,7,2 0,2,3 9,10,1 8,10,2 6,7,7 0,2,4 4,9,1 0,3,4 2,7,1 2,6,1 5,10,1 4,7,1 7,10,11 2,4,3 3,6,6 5,10,1 0,5,5 4,8,1 2,3,2 5,8,1", b, " "); for (i = 1; i in b; i++) print i "," b[i] }')
	EOF
	code 0 "$tarn" pack "$directory/gap.csv"
	has height 17 && has optimal true && has load 16
	code 3 "$tarn" pack "$directory/gap.csv" --capacity 16
	says 'proved that no packing fits the capacity of 16 bytes; the best height found is'
}

same_in_any_order() {
	"$tarn" pack "$directory/gap.csv" -o "$directory/one.csv"
	{ head -n 1 "$directory/gap.csv"; tail -n +2 "$directory/gap.csv" | sort -t, -k4,4n -k1,1r; } >"$directory/sorted.csv"
	"$tarn" pack "$directory/sorted.csv" -o "$directory/other.csv"
	diff <(sort "$directory/one.csv") <(sort "$directory/other.csv")
}

bad_input() {
	printf 'id,lower,size\n' >"$directory/bad.csv"
	code 2 "$tarn" pack "$directory/bad.csv" && says 'bad.csv:1: no column "upper"'
	printf 'size,id,upper,lower\n5,a,2,0\n6,b,2,2\n' >"$directory/bad.csv"
	code 2 "$tarn" pack "$directory/bad.csv" && says 'bad.csv:3: id b lives from 2 to 2'
	printf 'id,lower,upper,size\r\na,0,2,5\r\na,0,2,5\r\n' >"$directory/bad.csv"
	code 2 "$tarn" pack "$directory/bad.csv" && says 'bad.csv:3: id a again, first on line 2'
	printf 'id,lower,upper,size\na,0,2,-5\n' >"$directory/bad.csv"
	code 2 "$tarn" pack "$directory/bad.csv" && says 'bad.csv:2: size is "-5"'
	printf 'id,lower,upper,size\na,0,2\n' >"$directory/bad.csv"
	code 2 "$tarn" pack "$directory/bad.csv" && says 'bad.csv:2: 3 fields'
	: >"$directory/bad.csv"
	code 2 "$tarn" pack "$directory/bad.csv" && says 'bad.csv:1: the file is empty'
	code 5 "$tarn" pack "$directory/missing.csv"
	code 2 "$tarn" pack
	code 2 "$tarn" pack "$directory/three.csv" --speed
	code 2 "$tarn" pack "$directory/three.csv" --timeout -1
	code 5 "$tarn" pack "$directory/three.csv" -o "$directory/no/folder.csv"
	code 0 "$tarn" pack --help
}

pinned() {
	printf 'id,lower,upper,size,alignment,pinned\na,0,4,10,1,\nb,0,4,10,64,\nc,1,2,5,1,3\n' >"$directory/pinned.csv"
	code 0 "$tarn" pack "$directory/pinned.csv" -o "$directory/packed.csv"
	grep -qx 'c,1,2,5,3' "$directory/packed.csv" && grep -qx 'b,0,4,10,64' "$directory/packed.csv"
	has height 74 && has optimal true
	printf 'id,lower,upper,size,pinned\nz,0,4,10,1\nleft,0,4,10,\nright,1,2,5,3\n' >"$directory/pinned.csv"
	code 2 "$tarn" pack "$directory/pinned.csv" && says 'buffers z and right are pinned to the same bytes'
}

# Sizes that are no multiples of anything: the arena of an abstract schedule is packed to the byte, and timed.
schedule() {
	cat >"$directory/graph.json" <<-EOF
	{"nodes": [{"id": "x", "kind": "source", "time": 0, "bytes": 100, "inputs": []},
	           {"id": "a", "kind": "op", "time": 5, "bytes": 7, "inputs": ["x"]},
	           {"id": "b", "kind": "op", "time": 5, "bytes": 11, "workspace": 3, "inputs": ["a"]},
	           {"id": "c", "kind": "op", "time": 5, "bytes": 5, "inputs": ["a", "b"]}], "targets": ["c"]}
	EOF
	code 0 "$tarn" dag "$directory/graph.json" --budget 123 --json
	has peak_bytes 123 && has arena_bytes 123
	grep -q '"pack_ms":[0-9.]*}' "$directory/out"
	code 2 "$tarn" dag "$directory/graph.json" --sweep 3 --budget 123 && says 'no --budget beside it'
	code 2 "$tarn" dag "$directory/graph.json" --sweep 3 -o "$directory/s.txt" && says 'no -o beside it'
	[ ! -e "$directory/s.txt" ] && code 0 "$tarn" dag "$directory/graph.json" --sweep 3
	: >"$directory/nothing.json"
	code 2 "$tarn" dag "$directory/nothing.json" --budget 5 && says 'a graph nodes: and targets:'
}

# Far more than a search of all pairs could hold; the checker shares nothing with the packer.
many() {
	awk 'BEGIN { srand(1); print "id,lower,upper,size"
		for (i = 0; i < 50000; i++) {
			first = int(100000 * rand())
			print i "," first "," first + 1 + int(exp(8 * rand())) "," 64 * (1 + int(500 * rand())) } }' \
		>"$directory/many.csv"
	code 0 "$tarn" pack "$directory/many.csv" -o "$directory/packed.csv"
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tools/bench /usr/bin/python3 -c 'import json, sys, bench_pack
result = json.load(open(sys.argv[1]))
bench_pack.check(sys.argv[2], result["height"])
assert result["load"] <= result["lower_bound"] <= result["height"] < 1.2 * result["load"], result' \
		"$directory/out" "$directory/packed.csv"
}

expect "a packing, its height and its table" fits
expect "a failed write leaves what was there" failed_write
expect "an overfull time is named with its buffers" overfull
expect "a height above the load is proved" proved
expect "the order of lines does not matter" same_in_any_order
expect "pinned and aligned buffers" pinned
expect "the arena of an abstract schedule" schedule
expect "fifty thousand buffers" many
expect "errors name file and line" bad_input
finish
