"""Writes event files in every way that programs have, and prints what TensorBoard's EventAccumulator reads of them.

event_files.py WRITER DIR: one JSON object on standard output, floats as the hexadecimal of their 64 bits.
"""
import json
import os
import struct
import sys

import numpy as np


def bits(value):
    return struct.pack(">d", float(value)).hex()


def write_tensorboardx(directory):
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(directory)
    rng = np.random.default_rng(7)
    for step in range(200):
        writer.add_scalar("losses/value_loss", float(rng.normal()), step * 128)
        writer.add_scalar("charts/SPS", int(rng.integers(1, 10**6)), step * 128)
    for step, value in enumerate([float("nan"), float("inf"), -float("inf"), -0.0, 1e-45, 3.4028234e38, 1 / 3]):
        writer.add_scalar("odd", value, step)
    writer.add_scalar("big step", 1.0, 2**40)
    writer.add_scalar("späße/ünïcode", 2.5, 3, walltime=1234567890.123456)
    writer.add_text("hyperparameters", "|param|value|\n|-|-|\n|lr|0.00025|\n|env_id|CartPole-v1|\n|anneal|True|\n|clip|None|\n|expr|a|b|")
    writer.add_text("note", "two\nlines")
    writer.add_histogram("weights", np.array([-1.0, 0.0, 0.5, 2.0, 2.0]), 4)
    writer.add_image("frame", np.zeros((3, 4, 6), dtype=np.uint8), 5)
    writer.add_hparams({"lr": 0.1, "bs": 3, "name": "x", "flag": True}, {"hparam/accuracy": 0.5}, name="h")
    writer.close()


def write_tensors(directory):
    """As TensorFlow 2 does: tensors, the plugin named with the first value of a tag only."""
    from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
    from tensorboard.plugins.audio import metadata as audio
    from tensorboard.plugins.histogram import metadata as histogram
    from tensorboard.plugins.image import metadata as image
    from tensorboard.plugins.scalar import metadata as scalar
    from tensorboard.plugins.text import metadata as text
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util import tensor_util

    writer = EventFileWriter(directory)
    seen = set()

    def add(tag, tensor, metadata, step):
        value = summary_pb2.Summary.Value(tag=tag, tensor=tensor)
        if tag not in seen:
            value.metadata.CopyFrom(metadata)
            seen.add(tag)
        writer.add_event(event_pb2.Event(wall_time=1700000000.5 + step, step=step, summary=summary_pb2.Summary(value=[value])))

    def of(name, content=False):
        dtype = np.dtype(name)
        def make(number):
            array = np.array(number, dtype=dtype)
            proto = tensor_util.make_tensor_proto(array)
            if content:
                proto = tensor_pb2.TensorProto(dtype=proto.dtype, tensor_shape=proto.tensor_shape, tensor_content=array.tobytes())
            return proto
        return make

    def bfloat16(number):
        raw = struct.unpack("<I", struct.pack("<f", number))[0] >> 16
        return tensor_pb2.TensorProto(dtype=types_pb2.DT_BFLOAT16, half_val=[raw])

    makers = {"bfloat16": bfloat16}
    for name in ["float32", "float64", "float16", "int32", "int64", "uint8", "int8", "int16", "uint16", "bool"]:
        makers[name] = of(name)
        makers[name + " content"] = of(name, True)
    for name, make in makers.items():
        for step, number in enumerate([0, 1, 0.1, 100, 1 / 3, -3]):
            if number < 0 and name.startswith(("uint", "bool")):
                continue
            add("t/" + name, make(number), scalar.create_summary_metadata("", ""), step)
    # One element in a vector.
    add("t/vector", tensor_util.make_tensor_proto([2.5]), scalar.create_summary_metadata("", ""), 1)
    for step in range(2):
        add("text", tensor_util.make_tensor_proto("hello %d" % step), text.create_summary_metadata("", ""), step)
        add("hist", tensor_util.make_tensor_proto([[0.0, 0.5, 3.0], [0.5, 1.0, 4.0]]), histogram.create_summary_metadata("", ""), step)
        add("pictures", tensor_util.make_tensor_proto([b"6", b"4", b"\x89PNG\r\n\x1a\n", b"GIF89a"]), image.create_summary_metadata("", ""), step)
        add("sound", tensor_util.make_tensor_proto([[b"RIFF    WAVEfmt ", b""]]), audio.create_summary_metadata("", "", encoding=audio.Encoding.Value("WAV")), step)
    writer.close()


def read(directory):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.compat.proto import types_pb2
    from tensorboard.util import tensor_util

    everything = {k: 0 for k in ["compressedHistograms", "images", "audio", "scalars", "histograms", "tensors", "graph"]}
    result = {}
    for path, _, names in sorted(os.walk(directory)):
        for name in sorted(names):
            events = EventAccumulator(os.path.join(path, name), everything, purge_orphaned_data=False)
            events.Reload()
            tags = events.Tags()
            scalars = [[t, e.step, bits(e.wall_time), bits(e.value)] for t in tags["scalars"] for e in events.Scalars(t)]
            texts, tensors = [], []
            for tag in tags["tensors"]:
                plugin = events.SummaryMetadata(tag).plugin_data.plugin_name
                for e in events.Tensors(tag):
                    if e.tensor_proto.dtype == types_pb2.DT_BFLOAT16:  # NumPy has no such type: its bits are a float32's upper half
                        array = np.array(struct.unpack("<f", struct.pack("<I", e.tensor_proto.half_val[0] << 16))[0])
                    else:
                        array = tensor_util.make_ndarray(e.tensor_proto)
                    if plugin == "scalars":
                        scalars.append([tag, e.step, bits(e.wall_time), bits(array.item())])
                    elif plugin == "text":
                        texts.append([tag, e.step, bits(e.wall_time), "\n".join(b.decode() for b in array.ravel())])
                    else:
                        tensors.append([tag, e.step, plugin])
            histograms = [
                [t, e.step, *[bits(v) for v in (e.histogram_value.min, e.histogram_value.max, e.histogram_value.num, e.histogram_value.sum, e.histogram_value.sum_squares)]]
                for t in tags["histograms"]
                for e in events.Histograms(t)
            ]
            images = [[t, e.step, e.width, e.height, e.encoded_image_string.hex()] for t in tags["images"] for e in events.Images(t)]
            result[os.path.join(path, name)] = {"scalars": scalars, "texts": texts, "tensors": tensors, "histograms": histograms, "images": images}
    return result


if __name__ == "__main__":
    {"tensorboardX": write_tensorboardx, "tensors": write_tensors}[sys.argv[1]](sys.argv[2])
    json.dump(read(sys.argv[2]), sys.stdout)
