#!/bin/sh
# vtep.sh LEAF: bridge and VXLAN device of VNI 100 of leaf number LEAF; its host port joins.
set -e
leaf=$1
# Bridge MACs differ from leaf to leaf: FRR drops routes that carry a MAC of its own. A host that only receives is
# not forgotten while the lab is up.
ip link add br100 address 02:00:00:00:01:0$leaf mtu 9000 type bridge ageing_time 360000
ip link add vxlan100 mtu 9000 type vxlan id 100 local 10.255.0.1$leaf dstport 4789 nolearning
ip link set vxlan100 master br100
bridge link set dev vxlan100 learning off neigh_suppress on
ip link set vxlan100 up
ip link set br100 up
ip link set eth5 mtu 9000 master br100
ip link set eth5 up
