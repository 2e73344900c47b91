#!/bin/sh
# leaf.sh LEAF: addresses of leaf number LEAF, a VXLAN device, and two ways to every other VTEP.
set -e
leaf=$1
ip address add 10.255.0.$leaf/32 dev lo
for spine in 1 2; do
    ip address add 10.0.$spine.$((2 * leaf - 1))/31 dev eth$spine
done
for other in $(seq 16); do
    [ $other = $leaf ] || ip route add 10.255.0.$other/32 src 10.255.0.$leaf \
        nexthop via 10.0.1.$((2 * leaf - 2)) nexthop via 10.0.2.$((2 * leaf - 2))
done
ip route add 10.255.1.0/24 via 10.0.1.$((2 * leaf - 2)) src 10.255.0.$leaf
ip link add br100 type bridge
ip link add vxlan100 type vxlan id 100 local 10.255.0.$leaf dstport 4789 nolearning
ip link set vxlan100 master br100
ip link set vxlan100 up
ip link set br100 up
