# FRR as a route reflector and as a neighbor of another AS, without zebra. Routes come from GoBGP.
version="FRR $(/usr/lib/frr/bgpd --version | sed -n 's/^bgpd version //p') (Debian)"
node speaker 192.0.2.1
node other 192.0.2.3
cat >"$work/other.toml" <<END
[global.config]
as = 65000
router-id = "192.0.2.3"
port = -1
local-address-list = ["192.0.2.3"]
[[neighbors]]
[neighbors.config]
neighbor-address = "192.0.2.1"
peer-as = 65000
[[neighbors.afi-safis]]
config.afi-safi-name = "ipv4-unicast"
[[neighbors.afi-safis]]
config.afi-safi-name = "ipv6-unicast"
[[neighbors.afi-safis]]
config.afi-safi-name = "l2vpn-evpn"
END
frr speaker /dev/stdin bgpd -n -Z <<END
frr defaults datacenter
hostname reflector
domainname example.net
!
route-map own permit 10
 match ip address prefix-list own
 set community 65535:6 65535:0 64511:100
 set large-community 65536:1:2 4294967295:0:4294967295
 set extcommunity rt 64511:1 192.0.2.1:2 65536:3
 set extcommunity soo 64511:9
 set extcommunity bandwidth 10000
 set metric 50
exit
route-map own permit 20
exit
ip prefix-list own permit 198.51.100.0/24
!
router bgp 65000
 bgp router-id 192.0.2.1
 bgp cluster-id 192.0.2.1
 no bgp network import-check
 bgp graceful-restart
 bgp graceful-restart preserve-fw-state
 bgp long-lived-graceful-restart stale-time 3600
 neighbor 192.0.2.2 remote-as 65000
 neighbor 192.0.2.2 capability extended-nexthop
 neighbor 192.0.2.3 remote-as 65000
 neighbor 192.0.2.3 passive
 neighbor 192.0.2.4 remote-as 64511
 neighbor 192.0.2.4 disable-connected-check
 neighbor 192.0.2.4 local-role provider
 neighbor 192.0.2.4 capability extended-nexthop
 neighbor 192.0.2.5 remote-as 65000
 !
 address-family ipv4 unicast
  network 198.51.100.0/24 route-map own
  network 203.0.113.0/25
  network 0.0.0.0/0
  aggregate-address 203.0.113.0/24
$(for n in 2 4 5; do printf '  neighbor 192.0.2.%d activate\n  neighbor 192.0.2.%d addpath-tx-all-paths\n' $n $n; done)
  neighbor 192.0.2.2 route-reflector-client
  neighbor 192.0.2.3 activate
  neighbor 192.0.2.3 route-reflector-client
  neighbor 192.0.2.5 route-reflector-client
 exit-address-family
 address-family ipv6 unicast
  network 2001:db8:1::/48
  network ::/0
$(for n in 2 4 5; do printf '  neighbor 192.0.2.%d activate\n  neighbor 192.0.2.%d addpath-tx-all-paths\n' $n $n; done)
  neighbor 192.0.2.2 route-reflector-client
  neighbor 192.0.2.3 activate
 exit-address-family
 address-family l2vpn evpn
$(for n in 2 4 5; do printf '  neighbor 192.0.2.%d activate\n' $n; done)
  neighbor 192.0.2.2 route-reflector-client
  neighbor 192.0.2.3 activate
  neighbor 192.0.2.3 route-reflector-client
  neighbor 192.0.2.5 route-reflector-client
 exit-address-family
exit
END
start other gobgpd -t toml -f "$work/other.toml" -l error --pprof-disable
for address in 192.0.2.2 192.0.2.4 192.0.2.5; do heard $address 04; done
until within other gobgp neighbor | grep -q Establ; do sleep 0.2; done
source "$here/gobgp-routes.sh"
# FRR 8.4 ends the session of a peer with an IPv6 VTEP: 3/9.
gobgp_routes other 192.0.2.3 "multicast 2001"
sleep 3
for address in 192.0.2.2 192.0.2.4; do refresh $address; done
heard 192.0.2.2 05 2
sleep 2
gobgp_withdraw other 192.0.2.3 "multicast 2001"
vty speaker 'clear bgp ipv4 unicast 192.0.2.2 soft in' 'clear bgp l2vpn evpn 192.0.2.4 soft in'
sleep 3
vty speaker 'configure terminal' 'router bgp 65000' 'neighbor 192.0.2.2 shutdown message maintenance, back at 04:00' \
    'neighbor 192.0.2.5 shutdown' 'no neighbor 192.0.2.4'
for address in 192.0.2.2 192.0.2.4 192.0.2.5; do heard $address 03; done
