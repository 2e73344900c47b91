"""Writes the messages and stubs of weft.v1 before the wheel is built."""

import pathlib
import subprocess
import sys

from setuptools import setup

HERE = pathlib.Path(__file__).parent.resolve()
PROTOS = HERE.parent
OUT = HERE / "src"


def generate() -> None:
    files = sorted((PROTOS / "weft" / "v1").glob("*.proto"))
    files += sorted((PROTOS / "weft" / "agent" / "v1").glob("*.proto"))
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{PROTOS}",
            f"--python_out={OUT}",
            f"--grpc_python_out={OUT}",
            f"--mypy_out={OUT}",
            f"--mypy_grpc_out={OUT}",
            *map(str, files),
        ],
        check=True,
    )
    for package in ("v1", "agent", "agent/v1"):
        (OUT / "weft" / package / "__init__.py").touch()


# Before setuptools looks for packages: those of the stubs are there only now.
generate()
if sys.argv[1:] != ["generate"]:
    setup()
