#!/bin/sh
# EpilogSlurmctld: says to weft that a job has ended. Exits 0 within a second whatever weft does, and says what came of it in one line
# on standard error and in syslog. Without it the job ends with its ttl.
#
# From the environment of slurmctld, or from /etc/default/weft:
#   WEFT_ADDRESS    replicas, as in 10.255.1.1:7401,10.255.1.2:7401

# All that can fail or hang.
bounded() {
    settings=${WEFT_SETTINGS:-/etc/default/weft}
    if [ -r "$settings" ]; then
        set -a
        # shellcheck source=/dev/null
        . "$settings"
        set +a
    fi
    if [ "${SLURM_JOB_NUM_NODES:-2}" = 1 ]; then
        echo "one node: weft was told nothing"
        return
    fi
    weft --timeout 1 job delete "slurm-${SLURM_JOB_ID-}"
}

tell() {
    timeout -s KILL 0.6 sh "$0" --bounded 2>&1
    case $? in
    124 | 137) echo "no answer within 0.6 s" ;;
    esac
}

if [ "${1-}" = --bounded ]; then
    bounded
    exit
fi
# Nothing that weft started and left behind is waited for.
said=$({ tell | timeout -s KILL 0.85 head -c 400 | tr '\n' ' '; } 2>/dev/null)
line="slurm-${SLURM_JOB_ID-}: ${said:-no answer in time}"
echo "weft: $line" >&2
timeout -s KILL 0.05 logger -t weft -- "$line" >/dev/null 2>&1
exit 0
