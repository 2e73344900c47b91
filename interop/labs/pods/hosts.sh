#!/bin/sh
# hosts.sh LEAF: the four NICs of leaf number LEAF, as addresses of one interface; it knows those of other leaves, so that no packet
# waits for ARP.
set -e
leaf=$1
ip link set eth1 address 00:00:5e:00:53:0$leaf mtu 8000
for nic in 1 2 3 4; do
    ip address add 192.0.2.$leaf$nic/24 dev eth1
    for other in 1 2 3 4; do
        [ $other = $leaf ] || ip neighbour add 192.0.2.$other$nic lladdr 00:00:5e:00:53:0$other dev eth1 nud permanent
    done
done
