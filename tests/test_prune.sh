#!/usr/bin/env bash
# `tarn prune`: importance from the Hessian, a snapshot that training goes on from, what is refused.
. tests/support/testing.sh

tarn=$BUILD/tarn
cat >"$directory/net.yaml" <<EOF
data: {type: synthetic, shape: [6, 6, 1], classes: 4, samples: 96, test_samples: 40, batch: 16}
layers: [flatten, dense: 24, tanh, dense: 4]
optimizer: {type: adam, learning_rate: 1e-2, masks: true}
hvp: {samples: 4}
train: {seed: 3, threads: 1, epochs: 4, snapshot: $directory/net.safetensors}
EOF

# zeros SNAPSHOT: how many weights of matrices are 0, and that their masks say the same.
zeros() {
	/usr/bin/python3 - "$1" <<-'END'
		import json, struct, sys
		data = open(sys.argv[1], "rb").read()
		n, = struct.unpack("<Q", data[:8])
		header = json.loads(data[8:8 + n])
		def values(name):
		    begin, end = header[name]["data_offsets"]
		    return struct.unpack("<%df" % ((end - begin) // 4), data[8 + n + begin:8 + n + end])
		zeros = 0
		for name in ("dense1/weight", "dense2/weight"):
		    mask = values("optimizer/" + name + "/mask")
		    assert all((w == 0) == (m == 0) for w, m in zip(values(name), mask)), name
		    zeros += sum(m == 0 for m in mask)
		print(zeros)
	END
}

pruned_stays_pruned() {
	"$tarn" train "$directory/net.yaml" >/dev/null
	"$tarn" prune "$directory/net.yaml" --weights "$directory/net.safetensors" --fraction 0.8 --json \
		-o "$directory/pruned.safetensors" | tee "$directory/prune.json"
	grep -q '"weights": 960, "pruned": 768' "$directory/prune.json"
	[ "$(zeros "$directory/pruned.safetensors")" = 768 ]
	"$tarn" train "$directory/net.yaml" --resume "$directory/pruned.safetensors" train.epochs=8 >/dev/null
	[ "$(zeros "$directory/net.safetensors")" = 768 ]
	"$tarn" prune "$directory/net.yaml" --weights "$directory/net.safetensors" --fraction 0.9 \
		-o "$directory/pruned.safetensors" | grep -q '^864 of 960 weights are 0 (90.0 %)$'
	[ "$(zeros "$directory/pruned.safetensors")" = 864 ]
}

refused() {
	local code
	for arguments in "" "--fraction 1" "--fraction x" "--fraction 0.5 --weights"; do
		code=0
		# shellcheck disable=SC2086
		"$tarn" prune "$directory/net.yaml" -o "$directory/x" --weights "$directory/net.safetensors" $arguments \
			2>"$directory/error" || code=$?
		[ $code = 2 ]
		[ ! -e "$directory/x" ]
	done
	code=0
	"$tarn" prune "$directory/net.yaml" -o "$directory/x" --weights "$directory/none" --fraction 0.5 \
		2>"$directory/error" || code=$?
	[ $code = 5 ]
}

expect "what is pruned stays pruned" pruned_stays_pruned
expect "bad arguments are refused" refused
finish
