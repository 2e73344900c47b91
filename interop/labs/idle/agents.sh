#!/bin/sh
# agents.sh COUNT PROGRAM: so many agents where fabric.sh says that they are, all on one switch; they end with it.
pids=
trap 'kill $pids' TERM INT
n=0
while [ $n -lt $1 ]; do
    $2 --listen 127.0.0.1:$((20000 + n)) --prefix 10.255.0.0/16 --keep-hash-policy > agent$n.log 2>&1 &
    pids="$pids $!"
    n=$((n + 1))
done
wait
