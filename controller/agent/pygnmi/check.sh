#!/usr/bin/env bash
# Reads a weft-agent with pygnmi, a gNMI client of other authors, in a network namespace of its own; grpcio programs it. Needs root.
#   check.sh WEFT-AGENT
set -euo pipefail
agent=$(realpath "$1")
cd "$(dirname "$0")"
proto=../../../proto
venv="${XDG_CACHE_HOME:-$HOME/.cache}/weft/pygnmi"
if ! [[ -x "$venv/bin/ruff" && -x "$venv/bin/python-grpc-tools-protoc" ]]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check 'pygnmi==0.8.15' 'grpcio-tools>=1.74' 'ruff>=0.12'
fi
export PATH="$venv/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
ruff check --quiet --line-length 130 --select E,F,I,B,UP,SIM,RUF .
stubs=$(mktemp -d)
trap 'rm -rf "$stubs"' EXIT
python -m grpc_tools.protoc "-I$proto" "--python_out=$stubs" "--grpc_python_out=$stubs" "$proto"/gribi/{gribi,gribi_aft,ywrapper}.proto
namespace="weft-pygnmi-$$"
trap 'rm -rf "$stubs"; ip netns delete "$namespace"' EXIT
ip netns add "$namespace"
# It gives the namespace a sysfs of its own, where the speeds of ports are.
PYTHONPATH="$stubs:../tests/gribi" ip netns exec "$namespace" python3 read.py "$agent"
