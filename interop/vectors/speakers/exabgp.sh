# ExaBGP with routes from its configuration. It has no table, so it says what it is told.
version="ExaBGP $(exabgp --version | sed -n 's/^ExaBGP : //p') (Debian)"
node speaker 192.0.2.1
neighbor() {
    cat <<END
neighbor $1 {
    router-id 192.0.2.1;
    local-address 192.0.2.1;
    local-as 65000;
    peer-as $2;
    host-name speaker;
    domain-name example.net;
    hold-time 90;
    capability {
        asn4 $3;
        add-path $4;
        extended-message $3;
        graceful-restart 120;
        nexthop $3;
        route-refresh enable;
    }
    family { ipv4 unicast; ipv6 unicast; l2vpn vpls; }
    nexthop { ipv4 unicast ipv6; }
    static {
        route 198.51.100.0/24 next-hop 192.0.2.1 community [ 65535:6 65535:0 64511:100 ] large-community [ 65536:1:2 4294967295:0:4294967295 ];
        route 198.51.100.0/25 next-hop 192.0.2.1 extended-community [ target:65000:1 origin:192.0.2.1:2 target:65536L:3 ] med 7 local-preference 200;
        route 198.51.100.7/32 next-hop 192.0.2.9 origin egp as-path [ 64496 65536 [ 64497 64498 ] ] atomic-aggregate aggregator ( 65537:192.0.2.99 );
        route 203.0.113.0/24 next-hop 192.0.2.1 extended-community [ bandwidth:65000:1250000000 0x0004fde84e9502f9 0x030c000000000008 ];
        route 203.0.113.128/25 next-hop 192.0.2.1 originator-id 192.0.2.77 cluster-list [ 192.0.2.78 192.0.2.79 ] aigp 12;
        route 203.0.113.64/26 next-hop 192.0.2.1 attribute [ 0x63 0xc0 0x00112233 ];
        route 203.0.113.32/27 next-hop 192.0.2.1 path-information 192.0.2.5;
        route 192.0.2.128/25 next-hop 2001:db8::1;
        route 2001:db8:1::/48 next-hop 2001:db8::1 community [ no-export ];
        route ::/0 next-hop 2001:db8::1 as-path [ 65000 65000 4200000000 ];
        route 0.0.0.0/0 next-hop 192.0.2.1 withdraw;
    }
}
END
}
{
    neighbor 192.0.2.2 65000 enable send/receive
    neighbor 192.0.2.4 64511 enable send/receive
    neighbor 192.0.2.5 65000 disable disable
} >"$work/exabgp.conf"
start speaker env exabgp.daemon.user=root exabgp.daemon.drop=false exabgp.api.cli=false exabgp.log.destination=stdout \
    exabgp "$work/exabgp.conf"
for address in 192.0.2.2 192.0.2.4 192.0.2.5; do heard $address 04; done
for address in 192.0.2.2 192.0.2.4; do
    say $address 0500010001
    say $address 0500020001
done
sleep 2
# A path attribute list that is longer than the message.
for address in 192.0.2.2 192.0.2.4 192.0.2.5; do say $address 020000ffff; done
for address in 192.0.2.2 192.0.2.4 192.0.2.5; do heard $address 03; done
