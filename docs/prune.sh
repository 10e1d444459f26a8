#!/bin/sh
# Trains configs/pruned.yaml, then prunes it to a fifth in three rounds with an epoch after each. Run it from the
# repository's root; key=value arguments go to every command.
set -e
tarn=${TARN:-build/tarn}
net=configs/pruned.yaml
weights=runs/pruned.safetensors

$tarn train $net "$@"
epochs=3
for fraction in 0.5 0.7 0.8; do
	epochs=$((epochs + 1))
	$tarn prune $net --weights $weights --fraction $fraction -o runs/fewer.safetensors "$@"
	$tarn eval $net --weights runs/fewer.safetensors "$@"
	$tarn train $net --resume runs/fewer.safetensors train.epochs=$epochs "$@"
done
