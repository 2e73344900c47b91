#!/bin/sh
# A weftd at 127.0.0.1 and a BIRD at 127.0.0.3 in the virtual machine of run.sh, with a session that is signed with
# TCP-AO: the keys of both algorithms, and a rollover from one to the other. BIRD is a tree under /bird.
set -eu
cd /tmp
echo "the old secret" >old.ao
echo "the new secret" >new.ao
chmod 600 old.ao new.ao
mount -o bind /proc /bird/proc
mount -o bind /dev /bird/dev

# What weftd has for all under a prefix.
configure() {
    cat >weft.toml <<TOML
[bgp]
asn = 65000
router_id = "10.0.0.1"
listen = ["127.0.0.1:179"]
[[bgp.peer_group]]
name = "bird"
remote_asn = 65000
families = ["ipv4-unicast"]
tcp_ao = $1
[[bgp.listen_range]]
prefix = "127.0.0.0/24"
peer_group = "bird"
TOML
}

# BIRD's keys: what is said of each.
keys() {
    cat >/bird/tmp/bird.conf <<CONF
log "/tmp/bird.log" all;
router id 10.0.0.3;
protocol device {}
protocol static { ipv4; route 192.0.2.0/24 blackhole; }
protocol bgp weft {
    local 127.0.0.3 as 65000;
    neighbor 127.0.0.1 as 65000;
    multihop;
    strict bind on;
    connect retry time 1;
    connect delay time 1;
    authentication ao;
    keys { $1 };
    ipv4 { import all; export all; };
}
CONF
}

until_shown() {
    for _ in $(seq 60); do
        weft peer show 127.0.0.3 2>&1 | grep -q "$1" && return
        sleep 1
    done
    echo "NOT SHOWN: $1"
    weft peer show 127.0.0.3 || true
    tail -20 log
    tail -20 /bird/tmp/bird.log
    exit 1
}

# BIRD takes its file again, and weftd its own.
reload() {
    keys "$1"
    chroot /bird /usr/sbin/birdc -s /tmp/bird.ctl configure | tail -1
    configure "$2"
    weft config reload
}

old='key { id 1; secret "the old secret"; algorithm hmac sha1;'
new='key { id 2; secret "the new secret"; algorithm cmac aes128;'
our_old='{ id = 1, key_file = "old.ao" }'
our_new='{ id = 2, key_file = "new.ao", algorithm = "aes-128-cmac-96" }'

echo "-- $(chroot /bird /usr/sbin/bird --version 2>&1)"
configure "[$our_old]"
weftd --config weft.toml >log 2>&1 &
keys "$old };"
chroot /bird /usr/sbin/bird -c /tmp/bird.conf -s /tmp/bird.ctl -P /tmp/bird.pid
until_shown Established
until_shown "signs with 1, asks for 1"

echo "-- a rollover, step by step"
reload "$old preferred; }; $new };" "[$our_old, $our_new]"
sleep 2
reload "$new preferred; }; $old };" "[$our_new, $our_old]"
until_shown "signs with 2, asks for 2"
reload "$new };" "[$our_new]"
until_shown "signs with 2, asks for 2.* 0 dropped"
sleep 2
until_shown Established
weft peer show 127.0.0.3 | grep -E "state|authentication|messages"
weft peer show 127.0.0.3 | grep -q "received .*open 1[,;]" || {
    echo "ANOTHER SESSION"
    exit 1
}
chroot /bird /usr/sbin/birdc -s /tmp/bird.ctl show protocols all weft | grep -E "BGP state|uthentic|AO|[Kk]ey|Routes:"
echo "-- the session with BIRD did what it should"
