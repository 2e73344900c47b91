#!/bin/bash
# Makes the vectors whose author is not us: starts a speaker in a network namespace, lets it talk to
# peer.py in another one, and has tshark say what each message means.
#
#   interop/vectors/capture.sh [SPEAKER...]      root; speakers: the files in `speakers`, all if none is named
#
# Needs of Debian: iproute2, python3, tshark and the packages of the speakers (frr, gobgpd, exabgp, bird2).
# Writes bgp/tests/vectors/captures/SPEAKER.txt; what it started is gone when it ends.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
vectors=$root/bgp/tests/vectors/captures
run=vectors$$
work=$(mktemp -d)
pids=()

# node NAME ADDRESS...: a namespace on the common bridge, with these addresses of 192.0.2.0/24.
node() {
    local name=$1 address
    shift
    ip netns add "$run-$name"
    ip -n "$run-$name" link set lo up
    ip -n "$run-hub" link add "$name" type veth peer name eth0 netns "$run-$name"
    ip -n "$run-hub" link set "$name" master hub up
    for address; do ip -n "$run-$name" address add "$address/24" dev eth0; done
    ip -n "$run-$name" -6 address add "2001:db8::${1##*.}/64" dev eth0 nodad
    ip -n "$run-$name" link set eth0 up
}

# within NODE COMMAND...: runs it there, and waits.
within() {
    local name=$1
    shift
    ip netns exec "$run-$name" "$@"
}

# start NODE COMMAND...: runs it there until the end; the host is called like the node.
start() {
    local name=$1
    shift
    ip netns exec "$run-$name" unshare --uts bash -c 'hostname "$0"; exec "$@"' "$name" "$@" >>"$work/$name.log" 2>&1 &
    pids+=($!)
}

# frr NODE CONFIGURATION DAEMON [OPTION...] [-- DAEMON [OPTION...]]...: FRR in a path space of its own.
frr() {
    local space=$run-$1 configuration=$2 node=$1 daemon options
    shift 2
    install -d -m 755 -o frr -g frr "/etc/frr/$space" "/run/frr/$space"
    echo 'service integrated-vtysh-config' >"/etc/frr/$space/vtysh.conf"
    cat "$configuration" >"/etc/frr/$space/frr.conf"
    while (($#)); do
        daemon=$1 options=()
        shift
        while (($#)) && [[ $1 != -- ]]; do options+=("$1") && shift; done
        (($#)) && shift
        start "$node" "/usr/lib/frr/$daemon" -N "$space" "${options[@]}"
        until [[ -S /run/frr/$space/$daemon.vty ]]; do sleep 0.05; done
    done
    within "$node" vtysh -N "$space" -b >>"$work/$node.log"
}

# vty NODE COMMAND...: tells FRR.
vty() {
    local name=$1 arguments=() line
    shift
    for line; do arguments+=(-c "$line"); done
    within "$name" vtysh -N "$run-$name" "${arguments[@]}" >>"$work/$name.log"
}

# say ADDRESS HEX: the peer with this address sends a message with this type and body.
say() {
    printf '%s ffffffffffffffffffffffffffffffff%04x%s\n' "$1" $((18 + ${#2} / 2)) "$2" >"$work/control"
}

# heard ADDRESS TYPE [COUNT]: waits until the peer with this address has heard that many messages of a type.
heard() {
    local deadline=$((SECONDS + 60))
    until (($(grep -c "^$1 [^ ]* f\{32\}....$2" "$work/record" || true) >= ${3:-1})); do
        if ((SECONDS > deadline)); then
            echo "peer $1 heard no message of type $2" >&2
            exit 1
        fi
        sleep 0.1
    done
}

# refresh ADDRESS: the peer asks for all of the four families again.
refresh() {
    local family
    for family in 00010001 00020001 00190046 00010084; do say "$1" "05$family"; done
}

clean() {
    local pid space
    for pid in "${pids[@]:-}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    ip netns list | cut -d' ' -f1 | { grep "^$run-" || true; } | while read -r space; do
        rm -rf "/etc/frr/$space" "/run/frr/$space"
        ip netns delete "$space"
    done
    rm -rf "$work"
    pids=()
}

capture() {
    local speaker=$1
    ip netns add "$run-hub"
    ip -n "$run-hub" link add hub type bridge
    ip -n "$run-hub" link set hub up
    mkfifo "$work/control"
    : >"$work/record"
    node peer 192.0.2.2 192.0.2.4 192.0.2.5
    start peer python3 "$here/peer.py" "$work/record" "$work/control"
    # Says `version`, starts the speaker, makes it talk.
    source "$here/speakers/$speaker.sh"
    python3 "$here/write.py" "$work" "$speaker" "$version" >"$vectors/$speaker.txt"
    clean
    echo "$vectors/$speaker.txt: $(grep -c '^message' "$vectors/$speaker.txt") messages"
}

failed() {
    tail -n 20 "$work"/*.log | cut -c1-300 >&2
    cut -d' ' -f1,3 "$work/record" | sed 's/ f\{32\}....\(..\).*/ heard \1/' | sort | uniq -c >&2
}

trap '(($? == 0)) || failed; clean' EXIT
mkdir -p "$vectors"
if (($# == 0)); then
    set -- $(cd "$here/speakers" && ls ./*.sh | sed 's|^\./||; s|\.sh$||')
fi
for speaker; do
    work=$(mktemp -d)
    capture "$speaker"
done
