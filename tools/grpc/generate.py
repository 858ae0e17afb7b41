"""Generates the Python code of the kubelet's gRPC APIs beside their protos.

Run it after a change of a proto or of the pinned ``grpcio-tools``; a unit test compares its output with
what is checked in. A proto is named by its path below ``src``, so the generated imports are the package's own.
"""

import sys
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

SOURCE_ROOT = Path(__file__).resolve().parents[2] / "src"
PROTOS = ("gpuloom/node/api/deviceplugin.proto", "gpuloom/node/api/podresources.proto")
GENERATED = tuple(
    proto.removesuffix(".proto") + suffix for proto in PROTOS for suffix in ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
)


def generate(target: Path) -> None:
    """Write :data:`GENERATED` below `target`, a folder laid out like ``src``.

    Raises SystemExit with protoc's exit code when a proto is not accepted; protoc has said why on stderr.
    """
    code = protoc.main(
        [
            "protoc",
            f"--proto_path={SOURCE_ROOT}",
            f"--proto_path={files('grpc_tools') / '_proto'}",
            f"--python_out={target}",
            f"--pyi_out={target}",
            f"--grpc_python_out={target}",
            *PROTOS,
        ]
    )
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE_ROOT)
