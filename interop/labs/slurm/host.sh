#!/bin/sh
# host.sh HOST: host number HOST has a NIC at a leaf, and an interface in the management network.
set -e
host=$1
ip link set eth1 address 00:00:5e:00:53:0$host mtu 8000
ip address add 192.0.2.$host/24 dev eth1
ip address add 172.31.0.$host/24 dev eth2
for other in 1 2 3 4; do
    [ $other = $host ] || ip neighbour add 192.0.2.$other lladdr 00:00:5e:00:53:0$other dev eth1 nud permanent
done
