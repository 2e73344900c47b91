#!/usr/bin/env bash
# rank.sh [RANK RANKS]: a rank of a ring over all NICs, by default that of a step of Slurm; it sends a hundred packets of 1,000 octets to the
# next, to the port of RoCEv2, each from a socket of its own: the kernel hashes each otherwise, as it does queue pairs.
rank=${1:-$SLURM_PROCID} ranks=${2:-$SLURM_NTASKS}
next=$(((rank + 1) % ranks + 1))
for ((packet = 0; packet < 100; packet++)); do
    printf %01000d 0 >/dev/udp/192.0.2.$next/4791
done
