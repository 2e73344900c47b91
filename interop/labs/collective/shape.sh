#!/bin/sh
# shape.sh INTERFACE...: each sends 50 Mb/s at most. The burst holds what the kernel sends in one go, which would otherwise be
# cut into frames one by one.
set -e
for interface; do
    tc qdisc add dev $interface root tbf rate 50mbit burst 128kb latency 100ms
done
