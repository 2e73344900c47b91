#!/bin/sh
# ports.sh: all ports of a spine in one group, so that one request takes them down: `ip link set group 7 down`.
set -e
for port in 1 2 3 4 5 6 7; do
    ip link set eth$port group 7
done
