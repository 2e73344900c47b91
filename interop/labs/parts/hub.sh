#!/bin/sh
# hub.sh: every link of this node is a port of one bridge.
set -e
ip link add br0 mtu 9500 type bridge
for port in /sys/class/net/eth*; do
    ip link set "${port##*/}" master br0
done
ip link set br0 up
