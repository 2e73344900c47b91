#!/usr/bin/env bash
# Builds the wheel, checks its types and its form, runs its tests, and its story against a weftd.
#   check.sh WEFTD [--kills N]
set -euo pipefail
weftd=$(realpath "$1")
shift
cd "$(dirname "$0")"
. ./venv.sh
python setup.py generate
ruff check src tests examples setup.py
mypy --no-error-summary --cache-dir "$cache/mypy"
(cd examples && MYPYPATH=../src mypy --no-error-summary --cache-dir "$cache/mypy" --config-file ../pyproject.toml story.py lab.py)
wheel=$(mktemp -d) clean=$(mktemp -d)
trap 'rm -rf "$wheel" "$clean"' EXIT
# From a clean tree, as pip has it: stubs that lie here would hide that a wheel lacks its own.
git -C .. ls-files -z --cached --others --exclude-standard . |
  tar --create --directory .. --null --files-from - --ignore-failed-read | tar --extract --directory "$clean"
python -m build --quiet --wheel --no-isolation --outdir "$wheel" "$clean/python"
pip install --quiet --disable-pip-version-check --force-reinstall --no-deps "$wheel"/*.whl
# What was installed, not what lies here.
cd "$wheel"
WEFTD="$weftd" python -m unittest discover --start-directory "$OLDPWD/tests"
python "$OLDPWD/examples/story.py" "$weftd" "$@"
