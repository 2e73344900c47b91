#!/bin/sh
# patch.sh crossed|straight: a patch panel. Its ports 1 and 2 go to leaf2:eth1 and eth2, 3 and 4 to spine1:eth2 and spine2:eth2.
# Each cable is a bridge that passes LLDP on (bit 14), which bridges keep to themselves otherwise.
set -e
case $1 in
straight) first='eth1 eth3' second='eth2 eth4' ;;
crossed) first='eth1 eth4' second='eth2 eth3' ;;
*) exit 2 ;;
esac
is_new=yes
for cable in cable1 cable2; do
    ip link show $cable >/dev/null 2>&1 && is_new=no && continue
    ip link add $cable mtu 9500 type bridge stp_state 0 forward_delay 0 mcast_snooping 0
    ip link set $cable type bridge group_fwd_mask 16384
    ip link set $cable addrgenmode none up
done
# Who is unplugged loses its carrier.
for port in eth1 eth2 eth3 eth4; do
    ip link set $port down
    ip link set $port addrgenmode none
done
# A hand is not quicker. In less than a second lldpd does not see that there was no carrier, and keeps the old neighbour until
# that expires, beside the new one.
[ $is_new = yes ] || sleep 2
for port in $first; do ip link set $port master cable1 up; done
for port in $second; do ip link set $port master cable2 up; done
