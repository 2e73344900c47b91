#!/bin/sh
# PrologSlurmctld: declares a job to weft. Exits 0 within a second whatever weft does, and says what came of it in one line on
# standard error and in syslog: the job starts as it would without weft. If no replica answers, as while they elect a leader, a process
# that nobody waits for tries again for six seconds. After that renew.sh declares the job.
#
# From the environment of slurmctld, or from /etc/default/weft:
#   WEFT_ADDRESS    replicas, as in 10.255.1.1:7401,10.255.1.2:7401; or WEFT_CONTEXT and WEFT_CONFIG, for no HOME is handed to this script
#   WEFT_TTL_SECS   when the job counts as ended if neither epilog.sh nor renew.sh says anything; 86400
#   WEFT_PRIORITY   flows of jobs with a higher one are placed first, 0 to 1000; 0
#   WEFT_COLLECTIVE what its ranks do together; COLLECTIVE_ALL_REDUCE
#   WEFT_OCTETS     octets of the buffer of a rank; 1073741824
#   SLURM_CONF      where slurm.conf is, if not where Slurm looks by itself: it is not handed to this script

settings() {
    settings=${WEFT_SETTINGS:-/etc/default/weft}
    if [ -r "$settings" ]; then
        set -a
        # shellcheck source=/dev/null
        . "$settings"
        set +a
    fi
}

# The job as a file for weft.
job() {
    hosts=$(scontrol show hostnames "${SLURM_JOB_NODELIST-}" | sed 's/.*/"&"/' | paste -sd, -)
    if [ -z "$hosts" ]; then
        echo "no host names: ${SLURM_JOB_NODELIST-}" >&2
        return 1
    fi
    cat <<END
name: slurm-${SLURM_JOB_ID-}
ttl: ${WEFT_TTL_SECS:-86400}s
priority: ${WEFT_PRIORITY:-0}
host_names: [$hosts]
groups:
- {name: all, collective: ${WEFT_COLLECTIVE:-COLLECTIVE_ALL_REDUCE}, octets: ${WEFT_OCTETS:-1073741824}}
END
}

# All that can fail or hang.
bounded() {
    settings
    if [ "${SLURM_JOB_NUM_NODES:-2}" = 1 ]; then
        echo "one node: no spine carries anything"
        return
    fi
    job=$(job) || return
    weft --timeout 1 job apply - <<END
$job
END
}

# False if the job neither starts nor runs any more. Where Slurm does not answer, it may.
runs() {
    found=$(timeout -s KILL 2 squeue --all --noheader --states=CONFIGURING,RUNNING --jobs="${SLURM_JOB_ID-}" --format=%A) || return 0
    # An array's master is asked for with its tasks.
    case " $(echo "$found" | tr '\n' ' ') " in
    *" ${SLURM_JOB_ID-} "*) ;;
    *) return 1 ;;
    esac
}

# Until weft answers, or the job has ended. No try ends after six seconds: none begins after four, and each has two. A job that was
# declared too late is deleted.
again() {
    settings
    end=$(($(date +%s) + 4))
    while runs && [ "$(date +%s)" -lt "$end" ]; do
        timeout -s KILL 2 sh "$0" --bounded
        code=$?
        case $code in
        2 | 124 | 137) sleep 0.3 ;;
        *)
            timeout -s KILL 0.05 logger -t weft -- "slurm-${SLURM_JOB_ID-}: tried again: exit code $code" >/dev/null 2>&1
            runs || timeout -s KILL 2 sh "$(dirname "$0")/epilog.sh" --bounded
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
--job)
    job
    exit
    ;;
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
