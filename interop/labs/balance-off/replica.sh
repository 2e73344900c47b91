#!/bin/sh
# replica.sh REPLICA: addresses of replica number REPLICA, and its route to everything.
set -e
replica=$1
ip address add 10.255.1.$replica/32 dev lo
ip address add 10.0.1.$((99 + 2 * replica))/31 dev eth1
ip route add 10.255.0.0/16 via 10.0.1.$((98 + 2 * replica)) src 10.255.1.$replica
