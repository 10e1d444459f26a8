#!/usr/bin/env bash
# Text to tokens to a trained language model, as a user would do it; and what is refused.
. tests/support/testing.sh

tarn=$BUILD/tarn
for i in $(seq 40); do printf 'line %d of a text\n' "$i"; done >"$directory/a.txt"
printf 'the end\n' >"$directory/b.txt"
cat >"$directory/net.yaml" <<EOF
data: {type: tokens, train_inputs: train.tokens, test_inputs: test.tokens, context: 16, batch: 4}
model: {family: gpt, layers: 1, width: 16, heads: 2}
optimizer: {type: adamw, learning_rate: 1e-2}
train: {epochs: 8, threads: 1}
EOF

# The two files together are the texts, the second one a quarter.
splits() {
	"$tarn" tokens "$directory/a.txt" "$directory/b.txt" -o "$directory/train.tokens" --test "$directory/test.tokens" \
		--test-share 25
	cat "$directory/train.tokens" "$directory/test.tokens" | cmp - <(cat "$directory/a.txt" "$directory/b.txt")
	local all test
	all=$(cat "$directory/a.txt" "$directory/b.txt" | wc -c)
	test=$(wc -c <"$directory/test.tokens")
	[ $((test * 4)) -le "$all" ] && [ $((test * 4 + 4)) -gt "$all" ]
}

# The loss falls well below that of guessing among 256 bytes, ln 256 = 5.5, and the accuracy is one of tokens.
learns() {
	"$tarn" train "$directory/net.yaml" --json | tail -n 1 >"$directory/result.json"
	/usr/bin/python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
assert r["loss"] < 3, r
assert 0.1 < r["test_accuracy"] < 1, r' "$directory/result.json"
}

# 16-bit tokens as other programs write them: the same ids, the same losses.
reads_uint16() {
	local name
	for name in train test; do
		/usr/bin/python3 -c '
import sys
sys.stdout.buffer.write(b"".join(bytes([b, 0]) for b in open(sys.argv[1], "rb").read()))' "$directory/$name.tokens" \
			>"$directory/$name.u16"
	done
	"$tarn" train "$directory/net.yaml" --json data.token_type=uint16 data.classes=256 \
		"data.train_inputs=$directory/train.u16" "data.test_inputs=$directory/test.u16" | tail -n 1 >"$directory/wide.json"
	/usr/bin/python3 -c '
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
assert a["loss"] == b["loss"] and a["weights_hash"] == b["weights_hash"], (a, b)' "$directory/result.json" \
		"$directory/wide.json"
}

refuses() {
	fails_with 10 "tokens are too few for one sample" "$tarn" plan "$directory/net.yaml" data.context=4096
	fails_with 10 "token 0 is 108; allowed are 0 to 99" "$tarn" train "$directory/net.yaml" data.classes=100
	fails_with 2 "need data.classes, the size of the vocabulary" "$tarn" plan "$directory/net.yaml" data.token_type=uint16
	fails_with 2 "the loss is cross_entropy" "$tarn" plan "$directory/net.yaml" network.loss=mse
	fails_with 5 "no such file; data.train_inputs names it" "$tarn" plan "$directory/net.yaml" data.train_inputs=none
	head -c 33 "$directory/train.tokens" >"$directory/odd.u16"
	fails_with 6 "33 bytes are no whole number of uint16 tokens" "$tarn" plan "$directory/net.yaml" \
		data.token_type=uint16 data.classes=256 "data.train_inputs=$directory/odd.u16"
	fails_with 2 "-o FILE is missing" "$tarn" tokens "$directory/a.txt"
	fails_with 2 "no percentage between 0 and 100" "$tarn" tokens "$directory/a.txt" -o x --test y --test-share 100
	fails_with 5 "cannot open" "$tarn" tokens "$directory/none.txt" -o "$directory/x"
	[ ! -e "$directory/x" ]
}

expect "tarn tokens splits texts into bytes to train and to test on" splits
expect "a language model learns from them" learns
expect "16-bit tokens give the same run" reads_uint16
expect "what does not fit is refused with a sentence" refuses
finish
