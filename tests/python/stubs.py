"""Stubs of the contract as the original's clients generate them: from the .proto file, by grpcio-tools, at start."""

import importlib
import pathlib
import sys
import tempfile

from grpc_tools import protoc

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"


def load():
    """(messages, services) of gymgui.trainer."""
    out = tempfile.mkdtemp(prefix="mosaic-stubs-")
    include = pathlib.Path(protoc.__file__).parent / "_proto"
    # As the original has it: the file on its own, registered as trainer.proto.
    args = ["protoc", f"-I{PROTO / 'gymgui'}", f"-I{include}", f"--python_out={out}", f"--grpc_python_out={out}"]
    if protoc.main(args + [str(PROTO / "gymgui" / "trainer.proto")]) != 0:
        raise SystemExit("the stubs could not be generated")
    sys.path.insert(0, out)
    return importlib.import_module("trainer_pb2"), importlib.import_module("trainer_pb2_grpc")


# What the original's GUI and proxy open their channels with.
CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 30000),
    ("grpc.keepalive_timeout_ms", 10000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]
