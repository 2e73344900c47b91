#!/usr/bin/env bash
# Runs the tables of gRIBI cases from Python's grpcio against a weft-agent, in a network namespace of its own. Needs root.
#   check.sh WEFT_AGENT
set -euo pipefail
agent=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
proto="$here/../../../../proto"
# shellcheck source=../../../../proto/python/venv.sh
. "$proto/python/venv.sh"
stubs=$(mktemp -d)
trap 'rm -rf "$stubs"' EXIT
python -m grpc_tools.protoc "-I$proto" "--python_out=$stubs" "--grpc_python_out=$stubs" "--mypy_out=$stubs" "--mypy_grpc_out=$stubs" \
  "$proto"/gribi/{gribi,gribi_aft,ywrapper}.proto
touch "$stubs/gribi/__init__.py"
cd "$here"
ruff check --config "$proto/python/pyproject.toml" table.py entries.py
MYPYPATH="$stubs" mypy --no-error-summary --cache-dir "$cache/mypy" --config-file= --strict table.py entries.py
PYTHONPATH="$stubs" unshare --net python table.py "$agent"
