#!/bin/sh
# replica.sh N: addresses of replica N, and its routes over both spines.
set -e
n=$1
ip address add 10.255.1.$n/32 dev lo
ip address add 10.0.1.$((15 + 2 * n))/31 dev eth1
ip address add 10.0.2.$((15 + 2 * n))/31 dev eth2
ip route add 10.255.0.0/16 src 10.255.1.$n \
    nexthop via 10.0.1.$((14 + 2 * n)) nexthop via 10.0.2.$((14 + 2 * n))
