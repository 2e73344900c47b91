#!/usr/bin/env bash
# send.sh NIC...: a hundred packets of 1,000 octets to each NIC of 192.0.2.0/24, to the port of RoCEv2, each from a socket of its own: the
# kernel hashes each otherwise, as it does queue pairs.
for nic; do
    for ((packet = 0; packet < 100; packet++)); do
        printf %01000d 0 >/dev/udp/192.0.2.$nic/4791
    done
done
