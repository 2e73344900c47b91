#!/bin/sh
# leaf.sh LEAF: bridges and VXLAN devices of both VNIs of leaf number LEAF; its host ports join.
set -e
leaf=$1
# Bridge MACs differ from leaf to leaf: FRR drops routes that carry a MAC of its own. A host that only receives is
# not forgotten while the lab is up.
for vni in 100 200; do
    ip link add br$vni address 02:00:00:00:0${vni%00}:0$leaf mtu 9000 type bridge ageing_time 360000
    ip link add vxlan$vni mtu 9000 type vxlan id $vni local 10.255.0.1$leaf dstport 4789 nolearning
    ip link set vxlan$vni master br$vni
    bridge link set dev vxlan$vni learning off neigh_suppress on
    ip link set vxlan$vni up
    ip link set br$vni up
done
for port in 5 6 7 8; do
    [ $port -le 6 ] && vni=100 || vni=200
    ip link set eth$port mtu 9000 master br$vni
    ip link set eth$port up
done
