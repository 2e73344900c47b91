#!/bin/sh
# host.sh HOST: address of host number HOST of its VNI; it knows the others there, so that no packet waits for ARP. Both VNIs
# have the same addresses, and the same MACs. What one connection found out about the path is not kept for the next, which may
# take another.
set -e
host=$1
ip link set eth1 address 00:00:5e:00:53:0$host mtu 8000
sysctl -qw net.ipv4.tcp_no_metrics_save=1
ip address add 192.0.2.$host/24 dev eth1
for other in 1 2 3 4 5 6 7 8; do
    [ $other = $host ] || ip neighbour add 192.0.2.$other lladdr 00:00:5e:00:53:0$other dev eth1 nud permanent
done
