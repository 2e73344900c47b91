# FRR as a leaf: bridges and VXLAN devices, symmetric routing, with neighbors in both families.
version="FRR $(/usr/lib/frr/bgpd --version | sed -n 's/^bgpd version //p') (Debian)"
node speaker 192.0.2.1
leaf() { ip -n "$run-speaker" "$@"; }
for vni in 100 200; do
    leaf link add br$vni address 02:00:00:00:00:0${vni%00} type bridge
    leaf link add vxlan$vni type vxlan id $vni local 192.0.2.1 dstport 4789 nolearning
    leaf link set vxlan$vni master br$vni
    leaf link set vxlan$vni up
    leaf link set br$vni up
    leaf link add host$vni address 02:00:00:00:01:0${vni%00} type veth peer name port$vni
    leaf link set host$vni up
done
leaf link set port100 master br100 up
leaf link set port200 master br200 up
leaf address add 198.51.100.1/24 dev br200
leaf address add 2001:db8:2::1/64 dev br200 nodad
frr speaker /dev/stdin zebra -s 90000000 -- bgpd <<'END'
frr defaults datacenter
hostname speaker
vni 200
!
router bgp 65000
 bgp router-id 192.0.2.1
 neighbor 192.0.2.2 remote-as 65000
 neighbor 192.0.2.4 remote-as 64511
 neighbor 192.0.2.4 disable-connected-check
 neighbor 192.0.2.5 remote-as 65000
 !
 address-family ipv4 unicast
  redistribute connected
 exit-address-family
 address-family ipv6 unicast
  redistribute connected
 exit-address-family
 address-family l2vpn evpn
  neighbor 192.0.2.2 activate
  neighbor 192.0.2.4 activate
  neighbor 192.0.2.5 activate
  advertise-all-vni
  advertise ipv4 unicast
  advertise ipv6 unicast
  advertise-svi-ip
  vni 100
   rd 65536:100
   route-target both 65536:100
  exit-vni
 exit-address-family
exit
END
for address in 192.0.2.2 192.0.2.5; do heard $address 04; done
within speaker bridge fdb add 00:00:5e:00:53:aa dev port100 master static sticky
within speaker bridge fdb add 00:00:5e:00:53:77 dev port100 master static
leaf neigh add 198.51.100.7 lladdr 00:00:5e:00:53:77 dev br100 nud permanent
leaf neigh add 2001:db8:2::7 lladdr 00:00:5e:00:53:77 dev br100 nud permanent
sleep 4
refresh 192.0.2.2
sleep 2
within speaker bridge fdb del 00:00:5e:00:53:77 dev port100 master
leaf neigh del 198.51.100.7 dev br100
sleep 3
leaf link set vxlan100 down
sleep 2
vty speaker 'configure terminal' 'router bgp 65000' 'bgp shutdown message all of it'
for address in 192.0.2.2 192.0.2.5; do heard $address 03; done
