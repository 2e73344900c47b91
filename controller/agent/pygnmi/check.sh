#!/usr/bin/env bash
# Reads a weft-agent with pygnmi, a gNMI client of other authors, in a network namespace of its own; grpcio programs it. Needs root.
#   check.sh WEFT-AGENT
set -euo pipefail
agent=$(realpath "$1")
cd "$(dirname "$0")"
proto=../../../proto
venv="${XDG_CACHE_HOME:-$HOME/.cache}/weft/pygnmi"
if ! cmp --silent requirements.txt "$venv/requirements.txt"; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes --requirement requirements.txt
  cp requirements.txt "$venv/requirements.txt"
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
