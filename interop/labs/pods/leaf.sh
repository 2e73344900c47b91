#!/bin/sh
# leaf.sh SPINE SPINE: counts what the lab sends, packets of 1,000 octets and not what hosts say by themselves, at a leaf that has the
# first spine behind eth1 and the second one behind eth2: in a set named after the spine, by the last octet of the address inside VXLAN.
set -e
nft -f - <<END
# A packet mark of the lab's own, with weft and without: VXLAN asks the routing table for each packet that has one, and only then
# does Linux spread flows over FRR's next hops as a switch does.
table bridge lab {
    chain spread {
        type filter hook postrouting priority 300; policy accept;
        oifname "vxlan100" meta mark set meta mark or 0x1
    }
}
table ip lab {
    set $1 {
        typeof @th,392,8
        flags dynamic
        counter
    }
    set $2 {
        typeof @th,392,8
        flags dynamic
        counter
    }
    chain count {
        type filter hook postrouting priority 0; policy accept;
        oifname "eth1" udp dport 4789 udp length 1058 add @$1 { @th,392,8 }
        oifname "eth2" udp dport 4789 udp length 1058 add @$2 { @th,392,8 }
    }
}
END
