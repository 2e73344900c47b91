#!/bin/sh
# Two weftd in the virtual machine of run.sh, at 127.0.0.1 and 127.0.0.2, with a session that is signed with TCP-AO:
# it comes up, its keys roll over and it stays, a wrong key keeps it down.
set -eu
cd /tmp
for key in old new wrong; do
    echo "the $key secret" >$key.ao
    chmod 600 $key.ao
done

# An end with keys: which one, and its tcp_ao.
configure() {
    other=$((3 - $1))
    # One end dials: no collision, and each session is one OPEN.
    [ $1 = 1 ] && passive=false || passive=true
    cat >weft$1.toml <<TOML
[replica]
data_dir = "data$1"
[bgp]
asn = 65000
router_id = "10.0.0.$1"
listen = ["127.0.0.$1:179"]
[[bgp.peer_group]]
name = "keyed"
remote_asn = 65000
route_reflector_client = true
connect_retry_secs = 1
hold_secs = 9
[[bgp.peer]]
address = "127.0.0.$other"
peer_group = "keyed"
passive = $passive
tcp_ao = $2
[api]
listen = "127.0.0.1:740$1"
TOML
}

show() {
    weft --address 127.0.0.1:740$1 peer show 127.0.0.$((3 - $1)) 2>&1 || true
}

# Waits until what an end shows has these words.
until_shown() {
    for _ in $(seq 60); do
        show $1 | grep -q "$2" && return
        sleep 1
    done
    echo "NOT SHOWN BY $1: $2"
    show $1
    tail -20 log$1
    exit 1
}

reload() {
    configure $1 "$2"
    weft --address 127.0.0.1:740$1 config reload
}

# The session is up at both ends, and it is the one with this number.
same_session() {
    for end in 1 2; do
        until_shown $end Established
        show $end | grep -q "received .*open $1[,;]" || {
            echo "ANOTHER SESSION AT $end"
            show $end
            exit 1
        }
    done
}

old='{ id = 1, key_file = "old.ao" }'
new='{ id = 2, key_file = "new.ao", algorithm = "aes-128-cmac-96" }'
wrong='{ id = 1, key_file = "wrong.ao" }'

echo "-- a wrong key"
configure 1 "[$old]"
configure 2 "[$wrong]"
for end in 1 2; do
    weftd --config weft$end.toml >log$end 2>&1 &
done
sleep 8
until_shown 1 "authentication: *tcp-ao"
if show 1 | grep -q Established || show 2 | grep -q Established; then
    echo "A WRONG KEY CONNECTS"
    exit 1
fi

echo "-- the right key"
reload 2 "[$old]"
same_session 1
until_shown 1 "signs with 1, asks for 1"

echo "-- a rollover, step by step"
for keys in "[$old, $new]" "[$new, $old]"; do
    for end in 1 2; do
        reload $end "$keys"
    done
done
for end in 1 2; do
    until_shown $end "signs with 2, asks for 2"
done
for end in 1 2; do
    reload $end "[$new]"
done
sleep 15
for end in 1 2; do
    until_shown $end "signs with 2, asks for 2.* 0 dropped"
done
same_session 1
show 1 | grep -E "state|authentication|messages"

echo "-- another secret under the same id"
echo "yet another secret" >new.ao
for end in 1 2; do
    reload $end "[$new]"
done
same_session 2
show 1 | grep -E "state|authentication|messages"

echo "-- no keys"
for end in 1 2; do
    reload $end false
done
same_session 3
until_shown 1 "authentication: *none"
echo "-- the session did what it should"
