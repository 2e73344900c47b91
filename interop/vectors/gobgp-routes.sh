# Routes that GoBGP's command line can make: gobgp_routes NODE ADDRESS [WITHOUT], gobgp_withdraw the same.
evpn_routes() {
    local address=$1
    cat <<END
a-d esi LACP 00:00:5e:00:53:01 100 etag 0 label 100 rd $address:100 rt 65000:100 encap vxlan
a-d esi LACP 00:00:5e:00:53:01 100 etag 4294967295 label 0 rd $address:1 rt 65000:100 esi-label 400
a-d esi ARBITRARY 11:22:33:44:55:66:77:88:99 etag 10 label 100 rd $address:100 rt 65000:100 encap vxlan
macadv 00:00:5e:00:53:21 192.0.2.21 etag 10 label 100 rd 65000:100 rt 65000:100 encap vxlan
macadv 00:00:5e:00:53:22 2001:db8::22 esi ARBITRARY 11:22:33:44:55:66:77:88:99 etag 0 label 100,200 rd $address:100 rt 65000:100 rt 65000:200 encap vxlan router-mac 00:00:5e:00:53:99
macadv 00:00:5e:00:53:23 0.0.0.0 etag 0 label 100 rd 65536:100 rt 65000:100 encap vxlan
macadv 00:00:5e:00:53:fe 192.0.2.254 etag 0 label 100 rd $address:100 rt 65000:100 default-gateway
multicast $address etag 0 rd $address:100 rt 65000:100 encap vxlan pmsi ingress-repl 100 $address
multicast 2001:db8::3 etag 0 rd $address:101 rt 65000:101 encap vxlan
esi $address esi LACP 00:00:5e:00:53:01 100 rd $address:1 encap vxlan
esi $address esi AS 65000 7 rd $address:1 encap vxlan
prefix 198.51.100.0/25 etag 0 label 200 rd $address:200 rt 65000:200 encap vxlan router-mac 00:00:5e:00:53:99
prefix 203.0.113.128/25 gw 192.0.2.9 etag 5 label 200 rd $address:200 rt 65000:200 encap vxlan
prefix 2001:db8:2::/48 gw 2001:db8::9 etag 0 label 200 rd $address:200 rt 65000:200 encap vxlan
prefix 0.0.0.0/0 esi ARBITRARY 11:22:33:44:55:66:77:88:99 etag 0 label 200 rd $address:200 rt 65000:200 encap vxlan
END
}

unicast_routes() {
    cat <<END
ipv4 198.51.100.128/25 community llgr-stale,65535:0,no-export large-community 65536:1:2,4294967295:0:4294967295 med 7
ipv4 198.51.100.7/32 aspath 64496,65536,64497 aggregator 65537:192.0.2.99 origin egp community no-llgr
ipv4 192.0.2.64/26 identifier 7 local-pref 200 aigp metric 12
ipv6 2001:db8:3::/48 community planned-shut large-community 65536:9:9
ipv6 2001:db8:3::1/128 aspath 64496,4200000000 med 9
END
}

# gobgp_tell NODE VERB ADDRESS [WITHOUT]: all of them, but for those that match.
gobgp_tell() {
    local node=$1 verb=$2 address=$3 without=${4:-^$} family route
    evpn_routes "$address" | grep -v -- "$without" | while read -r route; do
        within "$node" gobgp global rib "$verb" -a evpn $route >>"$work/$node.log"
    done
    unicast_routes | while read -r family route; do
        [[ $verb == add ]] || route=${route%% *}
        within "$node" gobgp global rib "$verb" -a "$family" $route >>"$work/$node.log"
    done
}

gobgp_routes() { gobgp_tell "$1" add "$2" "${3:-}"; }
gobgp_withdraw() { gobgp_tell "$1" del "$2" "${3:-}"; }
