#!/bin/sh
# vtep.sh LEAF ADDRESS VNI [PORT...]: a bridge and a VXLAN device of leaf number LEAF; its ports join them.
set -e
leaf=$1 address=$2 vni=$3
shift 3
# Bridge MACs differ from leaf to leaf: FRR drops routes that carry a MAC of its own.
ip link add br$vni address 02:00:00:00:0$((vni / 100)):0$leaf mtu 9000 type bridge
ip link add vxlan$vni mtu 9000 type vxlan id $vni local $address dstport 4789 nolearning
ip link set vxlan$vni master br$vni
bridge link set dev vxlan$vni learning off neigh_suppress on
ip link set vxlan$vni up
ip link set br$vni up
for port; do
    ip link set $port mtu 9000 master br$vni
    ip link set $port up
done
