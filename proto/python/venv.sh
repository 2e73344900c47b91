# The environment of every check that speaks to weft from Python: sourced, it makes it where it is missing, and names it in `cache` and PATH.
# shellcheck shell=bash
cache="${XDG_CACHE_HOME:-$HOME/.cache}/weft"
venv="$cache/python"
if ! [ -x "$venv/bin/ruff" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check \
    'build>=1.3' 'grpcio>=1.74' 'grpcio-tools>=1.74' 'grpcio-status>=1.74' 'mypy>=1.17' 'mypy-protobuf>=3.6' 'ruff>=0.12' \
    'types-protobuf' 'types-grpcio' 'types-grpcio-status' 'googleapis-common-protos>=1.70' 'setuptools>=77'
fi
export PATH="$venv/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
