#!/bin/bash
# The engines that cuDNN's double serves are those that the real cuDNN names, asked without a device.
# shellcheck disable=SC2317 # functions are called by expect
. tests/support/testing.sh

fixtures=tests/cudasim/fixtures
recorder=$BUILD/cudasim/record_engines

for device in h200 rtx3060ti; do
	fixture=$fixtures/engines_$device.txt
	status=0
	"$recorder" configs/devices/$device.json $fixtures/convolutions.txt >"$directory/$device" 2>"$directory/why" || status=$?
	if [ $status -eq 77 ]; then
		skip "engines of $device as recorded" "$(cat "$directory/why")"
	elif [ $status -eq 0 ] && [ "$(head -1 "$directory/$device")" != "$(head -1 "$fixture")" ]; then
		skip "engines of $device as recorded" "the record has \"$(head -1 "$fixture")\", here \"$(head -1 "$directory/$device")\""
	else
		expect "engines of $device as recorded (make engines records them anew)" cmp "$directory/$device" "$fixture"
	fi
done

finish
