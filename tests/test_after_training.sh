#!/usr/bin/env bash
# What one does with a trained network: classes of the test set, predictions for files, text and images drawn from it,
# weights for others and back, and a new head on it. Without training steps in the plan, all of it takes less memory.
. tests/support/testing.sh

tarn=$BUILD/tarn
cat >"$directory/net.yaml" <<EOF
data: {type: npy, train_inputs: x.npy, train_labels: y.npy, test_inputs: x.npy, test_labels: y.npy, classes: 3, batch: 8,
  mean: [0.2], std: [0.4]}
layers: [{conv2d: {name: conv, channels: 4, kernel: 3}}, {batch_norm: {name: norm}}, relu, flatten,
  {dense: {name: head, features: 3}}]
optimizer: {type: adamw, learning_rate: 2e-2}
train: {epochs: 12, threads: 1, snapshot: $directory/net.safetensors}
EOF
cat >"$directory/text.yaml" <<EOF
data: {type: synthetic, context: 16, classes: 128, batch: 8, samples: 64, test_samples: 20}
model: {family: gpt, layers: 1, width: 16, heads: 2}
optimizer: {type: adamw, learning_rate: 1e-2}
train: {epochs: 1, threads: 1, snapshot: $directory/text.safetensors}
EOF
cat >"$directory/pixelcnn.yaml" <<EOF
data: {type: synthetic, shape: [8, 8, 1], classes: 256, pixel_labels: true, batch: 4, samples: 8, test_samples: 0}
model: {family: pixelcnn, layers: 1, width: 8}
train: {epochs: 1, threads: 1, snapshot: $directory/pixelcnn.safetensors}
EOF
cat >"$directory/pixelcnnpp.yaml" <<EOF
data: {type: npy, train_inputs: rgb.npy, test_inputs: "", batch: 4, mean: [0.5], std: [0.5]}
network: {loss: logistic_mixture}
model: {family: pixelcnnpp, levels: 2, filters: 4, mixtures: 2}
train: {epochs: 1, threads: 1, snapshot: $directory/pixelcnnpp.safetensors}
EOF

# 20 images of 6x6: bright at the left, at the right, or nowhere, so that the last batch is short; 8 colourful ones.
/usr/bin/python3 - "$directory" <<'EOF'
import struct, sys
def npy(name, shape, data):
    head = ("{'descr': '|u1', 'fortran_order': False, 'shape': %s, }" % (shape,)).encode()
    head += b" " * (117 - len(head)) + b"\n"
    open(sys.argv[1] + "/" + name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data)
images = []
for i in range(20):
    images.append(bytes((200 if (i % 3 == 0 and c < 3) or (i % 3 == 1 and c >= 3) else 10) + (i * 7 + r + c) % 9
                        for r in range(6) for c in range(6)))
npy("x.npy", (20, 6, 6), b"".join(images))
npy("y.npy", (20,), bytes(i % 3 for i in range(20)))
npy("rgb.npy", (8, 8, 8, 3), bytes(i * 37 % 256 for i in range(8 * 8 * 8 * 3)))
for i in range(3):
    open(sys.argv[1] + "/%d.pgm" % i, "wb").write(b"P5 6 6 255\n" + images[i])
EOF
printf 'P5 2 2 255\nabcd' >"$directory/wide.pgm"

net=("$directory/net.yaml" --weights "$directory/net.safetensors")

field() {
	/usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"
}

# Accuracy is the diagonal of the confusion matrix, which counts every test sample; the plan holds no gradients.
classes() {
	"$tarn" train "$directory/net.yaml" --json | tail -n 1 >"$directory/train.json"
	"$tarn" eval "${net[@]}" --json >"$directory/eval.json"
	/usr/bin/python3 - "$directory" <<'EOF'
import json, sys
train, test = (json.load(open(sys.argv[1] + f"/{name}.json")) for name in ("train", "eval"))
table = test["confusion"]
assert test["test_accuracy"] == train["test_accuracy"] and test["test_loss"] == train["test_loss"], test
assert [sum(row) for row in table] == [7, 7, 6], table
assert abs(sum(table[i][i] for i in range(3)) / 20 - test["test_accuracy"]) < 1e-7, table
assert all(abs(test["class_accuracy"][i] - table[i][i] / sum(table[i])) < 1e-5 for i in range(3)), test
assert test["arena_bytes"] < train["arena_bytes"], (test["arena_bytes"], train["arena_bytes"])
EOF
	"$tarn" eval "${net[@]}" | grep -q 'taken for'
}

# Files of images and arrays give the same, also in other batches; probabilities sum to 1.
predictions() {
	"$tarn" predict "${net[@]}" "$directory/x.npy" >"$directory/x.json"
	"$tarn" predict "${net[@]}" "$directory/0.pgm" "$directory/1.pgm" "$directory/2.pgm" >"$directory/images.json"
	"$tarn" predict "${net[@]}" "$directory/x.npy" --csv data.batch=3 >"$directory/x.csv"
	/usr/bin/python3 - "$directory" <<'EOF'
import json, sys
x, images = ([json.loads(line) for line in open(sys.argv[1] + f"/{name}.json")] for name in ("x", "images"))
lines = open(sys.argv[1] + "/x.csv").read().splitlines()
right = sum(row["class"] == i % 3 for i, row in enumerate(x))
confusion = json.load(open(sys.argv[1] + "/eval.json"))["confusion"]
assert len(x) == 20 and right == sum(confusion[i][i] for i in range(3)), right
assert all(abs(sum(row["probabilities"]) - 1) < 1e-5 and row["probability"] == max(row["probabilities"]) for row in x)
assert all(abs(a - b) < 1e-5 for i in range(3) for a, b in zip(images[i]["probabilities"], x[i]["probabilities"]))
assert lines[0] == "input,index,class,p0,p1,p2" and len(lines) == 21
assert all(int(line.split(",")[2]) == row["class"] for line, row in zip(lines[1:], x))
EOF
}

predictions_refused() {
	fails_with 10 "the network reads 36" "$tarn" predict "${net[@]}" "$directory/wide.pgm"
	fails_with 2 "which weights" "$tarn" predict "$directory/net.yaml" "$directory/0.pgm"
	fails_with 2 "of which files" "$tarn" predict "${net[@]}"
	fails_with 5 "absent" "$tarn" predict "${net[@]}" "$directory/absent"
}

# The same seed gives the same text; where the likeliest token is always taken the seed does not matter.
text() {
	local sample=("$tarn" sample "$directory/text.yaml" --weights "$directory/text.safetensors" --prompt ab --length 40)
	"$tarn" train "$directory/text.yaml"
	"${sample[@]}" --seed 1 >"$directory/a"
	"${sample[@]}" --seed 1 >"$directory/b"
	"${sample[@]}" --seed 2 >"$directory/c"
	cmp "$directory/a" "$directory/b"
	! cmp -s "$directory/a" "$directory/c" || exit 1
	[ "$(wc -c <"$directory/a")" = 43 ] && [ "$(head -c 2 "$directory/a")" = ab ]
	"${sample[@]}" --temperature 0 --seed 1 >"$directory/a"
	"${sample[@]}" --top 1 --seed 2 >"$directory/b"
	cmp "$directory/a" "$directory/b"
	fails_with 2 "--temperature hot" "${sample[@]}" --temperature hot
	printf 'some text' >"$directory/some.txt"
	"$tarn" predict "$directory/text.yaml" --weights "$directory/text.safetensors" "$directory/some.txt" --csv \
		>"$directory/text.csv"
	[ "$(tail -n 1 "$directory/text.csv" | tr , '\n' | wc -l)" = 131 ]
}

# Two images of 8x8 with a line between them.
images() {
	local family
	for family in pixelcnn pixelcnnpp; do
		"$tarn" train "$directory/$family.yaml"
		"$tarn" sample "$directory/$family.yaml" --weights "$directory/$family.safetensors" --count 2 \
			-o "$directory/$family.pnm"
	done
	[ "$(head -n 2 "$directory/pixelcnn.pnm" | tr '\n' ' ')" = "P5 17 8 " ]
	[ "$(wc -c <"$directory/pixelcnn.pnm")" = $((12 + 17 * 8)) ]
	[ "$(head -n 2 "$directory/pixelcnnpp.pnm" | tr '\n' ' ')" = "P6 17 8 " ]
	[ "$(wc -c <"$directory/pixelcnnpp.pnm")" = $((12 + 17 * 8 * 3)) ]
	fails_with 2 "draws neither" "$tarn" sample "${net[@]}"
}

# Out with other names and in again: the same loss; a training goes on from the file with another head.
exchange() {
	local out=$directory/out.npz wider=$directory/wider.yaml
	"$tarn" export "$directory/net.safetensors" -o "$out" | grep -q 'with points'
	"$tarn" import "$out" --config "$directory/net.yaml" -o "$directory/back.safetensors"
	"$tarn" eval "$directory/net.yaml" --weights "$directory/back.safetensors" --json >"$directory/back.json"
	"$tarn" eval "$directory/net.yaml" --weights "$out" --json >"$directory/foreign.json"
	[ "$(field "$directory/back.json" test_loss)" = "$(field "$directory/eval.json" test_loss)" ]
	[ "$(field "$directory/foreign.json" test_loss)" = "$(field "$directory/eval.json" test_loss)" ]
	sed 's/features: 3/features: 4/' "$directory/net.yaml" >"$wider"
	fails_with 6 "head.weight (file 3x64, network 4x64)" "$tarn" train "$wider" data.classes=4 \
		"train.initialize=$out" train.snapshot=
	"$tarn" train "$wider" data.classes=4 "train.initialize=$out" train.snapshot= \
		'train.initialize_skip=["head*"]' 'network.freeze=["conv*", "norm/*"]' | grep 'not loaded  head/weight'
	fails_with 2 "which snapshot" "$tarn" export
	fails_with 2 "-o FILE" "$tarn" export "$directory/net.safetensors"
}

expect "eval counts classes, in a plan without training" classes
expect "predict reads arrays and images, and agrees with eval" predictions
expect "predict refuses other samples" predictions_refused
expect "sample writes text that its seed decides" text
expect "sample draws images" images
expect "weights go out and come back, and take a new head" exchange
finish
