# The environment of every check that speaks to weft from Python: sourced, it makes it where it is missing or has other packages than
# requirements.txt, and names it in `cache` and PATH.
# shellcheck shell=bash
cache="${XDG_CACHE_HOME:-$HOME/.cache}/weft"
venv="$cache/python"
requirements="$(dirname "${BASH_SOURCE[0]}")/requirements.txt"
if ! cmp --silent "$requirements" "$venv/requirements.txt"; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes --requirement "$requirements"
  cp "$requirements" "$venv/requirements.txt"
fi
export PATH="$venv/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
