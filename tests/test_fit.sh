#!/usr/bin/env bash
# `tarn fit`: its answers are those of `tarn plan`, a byte or a value on either side.
. tests/support/testing.sh

tarn=$BUILD/tarn
gpt=(configs/gpt.yaml data.type=synthetic model.layers=1 data.context=32 memory.budget=8MiB train.threads=1)
resnet=(configs/peers/resnet20.yaml memory.recompute=auto data.batch=16 train.threads=1)

# value FILE EXPRESSION: of the JSON object `a` in the file.
value() {
	/usr/bin/python3 -c 'import json, sys; a = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"
}

smallest_budget() {
	"$tarn" fit "${gpt[@]}" --json >"$directory/fit.json"
	local least
	least=$(value "$directory/fit.json" "a['min_budget_bytes']")
	"$tarn" plan "${gpt[@]}" memory.budget="${least}B" --json >"$directory/plan.json"
	[ "$(value "$directory/plan.json" "a['overhead']")" = "$(value "$directory/fit.json" "a['min_budget_overhead']")" ]
	fails_with 3 "$least bytes" "$tarn" plan "${gpt[@]}" memory.budget="$((least - 1))B"
}

# The table has all values once, in order, and what it says of each is what a plan says.
largest_batch() {
	local largest
	largest=$(value "$directory/fit.json" "a['largest']")
	"$tarn" plan "${gpt[@]}" data.batch="$largest" --json >"$directory/plan.json"
	[ "$(value "$directory/plan.json" "a['overhead']")" = \
		"$(value "$directory/fit.json" "[t for t in a['tried'] if t['value'] == a['largest']][0]['overhead']")" ]
	fails_with 3 "too small" "$tarn" plan "${gpt[@]}" data.batch="$((largest + 1))"
	[ "$(value "$directory/fit.json" "[t['value'] for t in a['tried']] == sorted({t['value'] for t in a['tried']})")" = True ]
	[ "$(value "$directory/fit.json" "all(t['fits'] == (t['value'] <= a['largest']) for t in a['tried'])")" = True ]
	[ "$(value "$directory/fit.json" "a['monotone']")" = True ]
	"$tarn" fit "${gpt[@]}" | grep -q "the largest data.batch that fits is $largest\$"
}

# Depths that are not 6n + 2 are passed over.
largest_depth() {
	"$tarn" fit "${resnet[@]}" memory.budget=8MiB --vary model.depth --json >"$directory/depth.json"
	local depth
	depth=$(value "$directory/depth.json" "a['largest']")
	[ $((depth % 6)) = 2 ]
	"$tarn" plan "${resnet[@]}" memory.budget=8MiB model.depth="$depth" --json
	fails_with 3 "too small" "$tarn" plan "${resnet[@]}" memory.budget=8MiB model.depth=$((depth + 6))
}

described_device() {
	# Without cuDNN, whose answers depend on its version.
	TARN_LIBCUDNN=/does/not/exist "$tarn" fit "${resnet[@]}" --device configs/devices/rtx3060ti.json memory.budget=2GiB --json >"$directory/device.json"
	[ "$(value "$directory/device.json" "a['largest'] > 16 and a['fits']")" = True ]
}

nothing_fits() {
	"$tarn" fit "${gpt[@]}" memory.budget=1MiB >"$directory/none.txt"
	grep -q 'this run does not fit as it is' "$directory/none.txt"
	grep -q 'no value of data.batch fits: 1, the smallest tried, does not' "$directory/none.txt"
}

without_budget() {
	"$tarn" fit "${resnet[@]}" | grep 'give memory.budget=SIZE'
	fails_with 2 "give memory.budget=SIZE" "$tarn" fit "${resnet[@]}" --svg "$directory/x.svg"
	[ ! -e "$directory/x.svg" ]
}

bad_questions() {
	fails_with 2 "unknown key" "$tarn" fit "${gpt[@]}" --vary data.bitch
	fails_with 2 "--vary needs a value" "$tarn" fit "${gpt[@]}" --vary
	fails_with 5 "cannot" "$tarn" fit "$directory/absent.yaml"
}

picture() {
	"$tarn" fit "${gpt[@]}" --svg "$directory/fit.svg" >/dev/null
	/usr/bin/python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$directory/fit.svg"
	grep -q 'budget 8.00 MiB' "$directory/fit.svg"
}

expect "the smallest budget plans, and not a byte less" smallest_budget
expect "the largest batch plans, and the next does not" largest_batch
expect "a key with gaps" largest_depth
if "$tarn" info --json | grep -q '"cuda"'; then
	expect "a device that is not here" described_device
else
	skip "a device that is not here" "this build has no CUDA driver"
fi
expect "when nothing fits the table says so" nothing_fits
expect "without a budget there is no largest value" without_budget
expect "bad questions are answered in a sentence" bad_questions
expect "the picture is well-formed" picture
finish
