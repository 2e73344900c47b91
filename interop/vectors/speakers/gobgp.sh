# GoBGP with routes from its command line and route targets from VRFs.
version="GoBGP $(gobgpd --version | sed 's/^gobgpd version //') (Debian)"
node speaker 192.0.2.1
families() {
    local family
    for family in ipv4-unicast ipv6-unicast l2vpn-evpn rtc; do
        cat <<END
[[neighbors.afi-safis]]
config.afi-safi-name = "$family"
mp-graceful-restart.config.enabled = true
long-lived-graceful-restart.config.enabled = true
long-lived-graceful-restart.config.restart-time = 3600
add-paths.config.receive = true
add-paths.config.send-max = 4
END
    done
}
neighbor() {
    cat <<END
[[neighbors]]
config.neighbor-address = "$1"
config.peer-as = $2
config.peer-type = "$3"
timers.config.connect-retry = 1
graceful-restart.config.enabled = true
graceful-restart.config.restart-time = 120
graceful-restart.config.notification-enabled = true
graceful-restart.config.long-lived-enabled = true
$(families)
END
}
cat >"$work/speaker.toml" <<END
[global.config]
as = 65000
router-id = "192.0.2.1"
port = -1
$(neighbor 192.0.2.2 65000 internal)
$(neighbor 192.0.2.4 64511 external)
$(neighbor 192.0.2.5 65000 internal)
END
start speaker gobgpd -t toml -f "$work/speaker.toml" -l error --pprof-disable
for address in 192.0.2.2 192.0.2.4 192.0.2.5; do heard $address 04; done
red() { within speaker gobgp vrf add red rd 65000:1 rt both 65000:1 import 65536:7 192.0.2.1:9; }
red
sleep 1
within speaker gobgp vrf del red
sleep 1
red
# Without a wish for every route target, GoBGP keeps its EVPN routes to itself; with it, `vrf del` ends it.
say 192.0.2.2 020000001b4001010040020040050400000064800e0a00018404c00002020000
say 192.0.2.4 020000001a4001010040020602010000fbff800e0a00018404c00002040000
source "$here/gobgp-routes.sh"
gobgp_routes speaker 192.0.2.1
sleep 3
for address in 192.0.2.2 192.0.2.4; do refresh $address; done
sleep 2
gobgp_withdraw speaker 192.0.2.1
within speaker gobgp neighbor 192.0.2.2 softresetin >>"$work/speaker.log"
within speaker gobgp neighbor 192.0.2.4 softresetin -a evpn >>"$work/speaker.log"
sleep 3
within speaker gobgp neighbor 192.0.2.2 disable --reason 'maintenance, back at 04:00' >>"$work/speaker.log"
within speaker gobgp neighbor 192.0.2.4 reset --reason 'new limits' >>"$work/speaker.log"
within speaker gobgp neighbor 192.0.2.5 disable >>"$work/speaker.log"
for address in 192.0.2.2 192.0.2.4 192.0.2.5; do heard $address 03; done
