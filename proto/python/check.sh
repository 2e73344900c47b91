#!/usr/bin/env bash
# Builds the wheel, checks its types and its form, runs its tests, and its story against a weftd.
#   check.sh WEFTD [--kills N]
set -euo pipefail
weftd=$(realpath "$1")
shift
cd "$(dirname "$0")"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/weft"
venv="$cache/python"
if ! [ -x "$venv/bin/ruff" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check \
    'build>=1.3' 'grpcio>=1.74' 'grpcio-tools>=1.74' 'grpcio-status>=1.74' 'mypy>=1.17' 'mypy-protobuf>=3.6' 'ruff>=0.12' \
    'types-protobuf' 'types-grpcio' 'types-grpcio-status' 'googleapis-common-protos>=1.70' 'setuptools>=77'
fi
export PATH="$venv/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
python setup.py generate
ruff check src tests examples setup.py
mypy --no-error-summary --cache-dir "$cache/mypy"
(cd examples && MYPYPATH=../src mypy --no-error-summary --cache-dir "$cache/mypy" --config-file ../pyproject.toml story.py lab.py)
wheel=$(mktemp -d)
trap 'rm -rf "$wheel"' EXIT
python -m build --quiet --wheel --no-isolation --outdir "$wheel" .
pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheel"/*.whl
# What was installed, not what lies here.
cd "$wheel"
WEFTD="$weftd" python -m unittest discover --start-directory "$OLDPWD/tests"
python "$OLDPWD/examples/story.py" "$weftd" "$@"
