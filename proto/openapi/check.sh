#!/usr/bin/env bash
# Checks what a weftd says of itself in OpenAPI, and that it keeps to it whatever it is asked. README.md says how.
#   check.sh WEFTD [SECONDS]
set -euo pipefail
weftd=$(realpath "$1")
seconds=${2:-60}
if ! [[ $seconds =~ ^[0-9]+$ ]] || ((seconds < 10)); then
  echo "usage: check.sh WEFTD [SECONDS], at least 10" >&2
  exit 2
fi
here=$(realpath "$(dirname "$0")")
venv="${XDG_CACHE_HOME:-$HOME/.cache}/weft/openapi"
if ! cmp --silent "$here/requirements.txt" "$venv/requirements.txt"; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --require-hashes --requirement "$here/requirements.txt"
  cp "$here/requirements.txt" "$venv/requirements.txt"
fi
# Below 32768: the kernel gives the others to outgoing connections.
read -r port bgp < <(python3 - <<'PYTHON'
import random
import socket

def free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True

ports = filter(free, random.sample(range(10_000, 32_768), 1_000))
print(next(ports), next(ports))
PYTHON
)
directory=$(mktemp -d)
cat > "$directory/weftd.toml" <<TOML
[replica]
data_dir = "$directory/data"
[bgp]
asn = 64496
listen = ["127.0.0.1:$bgp"]
[[bgp.peer_group]]
name = "leaves"
remote_asn = 64496
route_reflector_client = true
families = ["l2vpn-evpn"]
passive = true
[[bgp.peer]]
address = "192.0.2.1"
peer_group = "leaves"
[api]
listen = "127.0.0.1:$port"
TOML
"$weftd" --config "$directory/weftd.toml" > "$directory/weftd.log" 2>&1 &
process=$!
again=
trap 'kill $again $process 2> /dev/null || true; wait $again $process 2> /dev/null || true; rm -rf "$directory"' EXIT
url="http://127.0.0.1:$port"
for _ in $(seq 100); do
  if curl --silent --fail --output /dev/null "$url/readyz"; then break; fi
  sleep 0.1
done
curl --silent --fail --output "$directory/openapi.json" "$url/openapi.json"
"$venv/bin/openapi-spec-validator" "$directory/openapi.json"
cd "$directory"

apply() {
  curl --silent --max-time 10 --output "$directory/applied.json" --write-out '%{http_code}\n' --json "@$here/fabric.json" \
    "$url/v1/fabric:apply"
}

# What is excluded, and why, stands in README.md.
# One worker: Python 3.11's parser counts the depth of all threads together, and refuses its own source now and then.
ask() {
  local config=$1
  shift
  "$venv/bin/schemathesis" --config-file "$config" run "$url/openapi.json" "$@" \
    --exclude-checks positive_data_acceptance --max-examples 1000000 --workers 1 --no-color
}

applied=$(apply)
if [ "$applied" != 200 ]; then
  cat "$directory/applied.json"
  echo "the fabric is refused: $applied"
  exit 1
fi
status=0
# Each call by itself, of a fabric that comes back: schemathesis applies others, and deletes what it finds.
while sleep 1; do apply > "$directory/applied.log" || true; done &
again=$!
ask "$here/schemathesis.toml" --max-time $((seconds / 2)) --phases examples,coverage,fuzzing || status=$?
kill $again && wait $again 2> /dev/null || true
again=
# One call after the other: what was created is there, and what was deleted is not. Nobody else changes anything.
ask /dev/null --max-time $((seconds - seconds / 2)) --phases stateful --exclude-path /v1/watch || status=$?
if ! kill -0 $process; then
  tail -n 20 "$directory/weftd.log"
  echo "weftd ended"
  exit 1
fi
if grep -i panicked "$directory/weftd.log"; then exit 1; fi
exit $status
