#!/bin/sh
# spine.sh SPINE: addresses of spine number SPINE, and its routes to leaves and, at spine1, to replicas.
set -e
spine=$1
for leaf in $(seq 16); do
    ip address add 10.0.$spine.$((2 * leaf - 2))/31 dev eth$leaf
    ip route add 10.255.0.$leaf/32 via 10.0.$spine.$((2 * leaf - 1))
done
[ $spine = 1 ] || exit 0
for replica in 1 2 3; do
    ip address add 10.0.1.$((98 + 2 * replica))/31 dev eth$((16 + replica))
    ip route add 10.255.1.$replica/32 via 10.0.1.$((99 + 2 * replica))
done
