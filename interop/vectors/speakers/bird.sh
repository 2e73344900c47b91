# BIRD as a neighbor of its own AS and of another.
version="BIRD $(bird --version 2>&1 | sed 's/^BIRD version //') (Debian)"
node speaker 192.0.2.1
cat >"$work/bird.conf" <<'END'
router id 192.0.2.1;
hostname "speaker";
log stderr all;
protocol device {}
protocol static four {
    ipv4;
    route 198.51.100.0/24 blackhole {
        bgp_community.add((65535, 6));
        bgp_community.add((65535, 0));
        bgp_large_community.add((65536, 1, 2));
        bgp_large_community.add((4294967295, 0, 4294967295));
        bgp_ext_community.add((rt, 65000, 1));
        bgp_ext_community.add((ro, 192.0.2.1, 2));
        bgp_ext_community.add((generic, 0x4004fde8, 0x4e9502f9));
        bgp_med = 7;
    };
    route 203.0.113.0/25 blackhole { bgp_origin = ORIGIN_EGP; bgp_local_pref = 200; bgp_path.prepend(65536); bgp_path.prepend(64496); };
    route 0.0.0.0/0 blackhole;
}
protocol static six {
    ipv6;
    route 2001:db8:1::/48 blackhole { bgp_community.add((65535, 65281)); };
    route ::/0 blackhole;
}
template bgp any {
    local 192.0.2.1 as 65000;
    hold time 90;
    connect delay time 1;
    graceful restart on;
    long lived graceful restart on;
    long lived stale time 3600;
    enable extended messages on;
    advertise hostname on;
    multihop;
    ipv4 { export where source = RTS_STATIC; import all; next hop self; add paths on; extended next hop on; };
    ipv6 { export where source = RTS_STATIC; import all; next hop address 2001:db8::1; add paths on; };
}
protocol bgp inside from any { neighbor 192.0.2.2 as 65000; }
protocol bgp outside from any { neighbor 192.0.2.4 as 64511; local role provider; }
protocol bgp narrow from any {
    neighbor 192.0.2.5 as 65000;
    enable as4 off;
    capabilities on;
}
END
start speaker bird -f -c "$work/bird.conf" -s "$work/bird.ctl"
for address in 192.0.2.2 192.0.2.4 192.0.2.5; do heard $address 04; done
sleep 2
for address in 192.0.2.2 192.0.2.4; do refresh $address; done
within speaker birdc -s "$work/bird.ctl" reload in inside >>"$work/speaker.log"
sleep 2
within speaker birdc -s "$work/bird.ctl" disable four >>"$work/speaker.log"
sleep 1
within speaker birdc -s "$work/bird.ctl" disable inside '"maintenance, back at 04:00"' >>"$work/speaker.log"
within speaker birdc -s "$work/bird.ctl" restart outside >>"$work/speaker.log"
within speaker birdc -s "$work/bird.ctl" down >>"$work/speaker.log"
for address in 192.0.2.2 192.0.2.4 192.0.2.5; do heard $address 03; done
