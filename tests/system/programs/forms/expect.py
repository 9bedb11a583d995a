"""For programs that write what a library writes, without the library: its event files, and what mosaic is to have of the run."""
import json
import os
import struct
import time


def _crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _masked(data):
    crc = _crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def _field(number, data):
    return _varint(number << 3 | 2) + _varint(len(data)) + data


class EventFile:
    """TensorBoard's event file with scalars; values must be float32."""

    def __init__(self, directory):
        os.makedirs(directory, exist_ok=True)
        name = "events.out.tfevents.%d.%s.%d.0" % (time.time(), os.uname().nodename, os.getpid())
        self.file = open(directory + "/" + name, "ab")
        self._write(_field(3, b"brain.Event:2"))

    def scalar(self, tag, value, step):
        summary = _field(1, _field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))
        self._write(b"\x10" + _varint(step) + _field(5, summary))

    def _write(self, event):
        event = b"\x09" + struct.pack("<d", time.time()) + event
        length = struct.pack("<Q", len(event))
        self.file.write(length + _masked(length) + event + _masked(event))
        self.file.flush()


class Expected:
    """Series by name: [step, value]. Of the run itself, or of a run within it."""

    def __init__(self):
        self.runs = {}
        self.parameters = {}

    def point(self, name, step, value, within=""):
        self.runs.setdefault(within, {}).setdefault(name, []).append([step, value])

    def write(self):
        """Beside the working directory, which mosaic observes."""
        with open(os.environ["EXPECTED"], "w") as file:
            json.dump({"runs": self.runs, "parameters": self.parameters}, file)


def value(step, of=7):
    """A float32 with a short decimal form that depends on the step."""
    return (step * 37 % 64) / 8 + of


def pause():
    time.sleep(0.05)
