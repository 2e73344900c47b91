#!/usr/bin/env bash
# rank.sh: a rank of a ring over all NICs; it sends a hundred packets of 1,000 octets to the next, to the port of RoCEv2, each from a socket
# of its own: the kernel hashes each otherwise, as it does queue pairs.
next=$(((SLURM_PROCID + 1) % SLURM_NTASKS + 1))
for ((packet = 0; packet < 100; packet++)); do
    printf %01000d 0 >/dev/udp/192.0.2.$next/4791
done
