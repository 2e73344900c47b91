#!/bin/sh
# EpilogSlurmctld: says to weft that a job has ended. Exits 0 within a second whatever weft does, and says what came of it in one line
# on standard error and in syslog. If no replica answers, a process that nobody waits for tries again for six seconds. Without any of it
# renew.sh deletes the job, or it ends with its ttl.
#
# From the environment of slurmctld, or from /etc/default/weft:
#   WEFT_ADDRESS    replicas, as in 10.255.1.1:7401,10.255.1.2:7401

settings() {
    settings=${WEFT_SETTINGS:-/etc/default/weft}
    if [ -r "$settings" ]; then
        set -a
        # shellcheck source=/dev/null
        . "$settings"
        set +a
    fi
}

# All that can fail or hang.
bounded() {
    settings
    if [ "${SLURM_JOB_NUM_NODES:-2}" = 1 ]; then
        echo "one node: weft was told nothing"
        return
    fi
    weft --timeout 1 job delete "slurm-${SLURM_JOB_ID-}"
}

# True if the job was requeued, and starts or runs again. Where Slurm does not answer, it was not.
runs() {
    found=$(timeout -s KILL 2 squeue --all --noheader --states=CONFIGURING,RUNNING --jobs="${SLURM_JOB_ID-}" --format=%A) || return 1
    # An array's master is asked for with its tasks.
    case " $(echo "$found" | tr '\n' ' ') " in
    *" ${SLURM_JOB_ID-} "*) ;;
    *) return 1 ;;
    esac
}

# Until weft answers, or the job was declared anew. No try ends after six seconds: none begins after four, and each has two.
again() {
    settings
    end=$(($(date +%s) + 4))
    while ! runs && [ "$(date +%s)" -lt "$end" ]; do
        timeout -s KILL 2 sh "$0" --bounded
        code=$?
        case $code in
        2 | 124 | 137) sleep 0.3 ;;
        *)
            timeout -s KILL 0.05 logger -t weft -- "slurm-${SLURM_JOB_ID-}: tried again: exit code $code" >/dev/null 2>&1
            return
            ;;
        esac
    done
}

# The process holds nothing that slurmctld waits for, and is in no process group that slurmctld ends.
later() {
    echo "trying again in the background"
    setsid timeout -s KILL 12 sh "$0" --again </dev/null >/dev/null 2>&1 &
}

tell() {
    timeout -s KILL 0.6 sh "$0" --bounded 2>&1
    case $? in
    2) later ;;
    124 | 137)
        echo "no answer within 0.6 s"
        later
        ;;
    esac
}

case ${1-} in
--bounded)
    bounded
    exit
    ;;
--again)
    again
    exit
    ;;
esac
# Nothing that weft started and left behind is waited for.
said=$({ tell | timeout -s KILL 0.85 head -c 400 | tr '\n' ' '; } 2>/dev/null)
line="slurm-${SLURM_JOB_ID-}: ${said:-no answer in time}"
echo "weft: $line" >&2
timeout -s KILL 0.05 logger -t weft -- "$line" >/dev/null 2>&1
exit 0
