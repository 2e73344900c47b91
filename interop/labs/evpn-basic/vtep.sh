#!/bin/sh
# vtep.sh LEAF LOOPBACK VNI: bridges and VXLAN devices of leaf number LEAF; its host port joins VNI.
set -e
leaf=$1 loopback=$2 host_vni=$3
for vni in 100 200; do
    # Bridge MACs differ from leaf to leaf: FRR drops routes that carry a MAC of its own.
    ip link add br$vni address 02:00:00:00:0$((vni / 100)):0$leaf mtu 9000 type bridge
    ip link add vxlan$vni mtu 9000 type vxlan id $vni local $loopback dstport 4789 nolearning
    ip link set vxlan$vni master br$vni
    bridge link set dev vxlan$vni learning off neigh_suppress on
    ip link set vxlan$vni up
    ip link set br$vni up
done
ip link set eth3 mtu 9000 master br$host_vni
ip link set eth3 up
