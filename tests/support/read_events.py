#!/usr/bin/env python3
"""Reads the event files of a run's folder and compares them with its metrics.jsonl.

read_events.py FOLDER                 with a parser of its own: framing, checksums (CRC-32C), protocol buffers
read_events.py --tensorboard FOLDER   with TensorBoard's reader
"""

import glob
import json
import math
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    data = open(path, "rb").read()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == masked(data[:8]), "checksum of a length"
        event = data[12 : 12 + length]
        assert len(event) == length, "a record is cut off"
        assert struct.unpack("<I", data[12 + length : 16 + length])[0] == masked(event), "checksum of an event"
        data = data[16 + length :]
        yield event


def varint(data):
    value = shift = 0
    for at, byte in enumerate(data):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, data[at + 1 :]
    raise AssertionError("a number without an end")


def fields(data):
    while data:
        key, data = varint(data)
        wire = key & 7
        if wire == 0:
            value, data = varint(data)
        elif wire == 2:
            length, data = varint(data)
            value, data = data[:length], data[length:]
        else:
            size = {1: 8, 5: 4}[wire]
            value, data = data[:size], data[size:]
        yield key >> 3, value


def read_own(folder):
    """{(step, tag): value}; what a restart says of later steps replaces what was there."""
    found = {}
    for path in sorted(glob.glob(folder + "/events.out.tfevents.*")):
        for number, record in enumerate(records(path)):
            event = dict(fields(record))
            assert struct.unpack("<d", event[1])[0] > 1e9, "the time of an event"
            if number == 0:
                assert event[3] == b"brain.Event:2"
            elif 7 in event:
                assert dict(fields(event[7])) == {1: 1}
                found = {key: value for key, value in found.items() if key[0] < event[2]}
            else:
                for field, value in fields(event[5]):
                    scalar = dict(fields(value))
                    assert field == 1 and (event[2], scalar[1].decode()) not in found
                    found[event[2], scalar[1].decode()] = struct.unpack("<f", scalar[2])[0]
    return found


def read_tensorboard(folder):
    from tensorboard.backend.event_processing import event_accumulator

    reader = event_accumulator.EventAccumulator(folder)
    reader.Reload()
    return {(e.step, tag): e.value for tag in reader.Tags()["scalars"] for e in reader.Scalars(tag)}


def main():
    assert crc32c(b"123456789") == 0xE3069283
    folder = sys.argv[-1]
    found = (read_tensorboard if "--tensorboard" in sys.argv else read_own)(folder)
    wanted = {}
    names = {"loss": "train/loss", "accuracy": "train/accuracy", "learning_rate": "train/learning_rate",
             "gradient_norm": "train/gradient_norm", "samples_per_s": "time/samples_per_s", "step_ms": "time/step_ms",
             "test_loss": "test/loss", "test_accuracy": "test/accuracy"}
    for line in map(json.loads, open(folder + "/metrics.jsonl")):
        for key, tag in names.items():
            if line.get(key) is not None:
                wanted[line["step"], tag] = line[key]
    assert found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
    for key, value in wanted.items():
        assert math.isclose(found[key], value, rel_tol=1e-6), (key, found[key], value)
    print(len(found), "values")


main()
