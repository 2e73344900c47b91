#!/bin/sh
# Deletes the jobs that weft still has and Slurm no longer runs, as when weft did not answer their epilog. Renews the ttl of every job that runs,
# with the hosts on which it runs, which a requeue may have changed while weft did not answer. Then declares those that weft does not know, or
# still has on hosts of each other.
# weft-renew.timer runs it on the controller every 15 minutes, which has to be less than WEFT_TTL_SECS. No job waits for it. One weft
# serves one cluster: names are numbers of jobs.
#
# From the environment, or from /etc/default/weft: what prolog.sh has.

settings=${WEFT_SETTINGS:-/etc/default/weft}
if [ -r "$settings" ]; then
    set -a
    # shellcheck source=/dev/null
    . "$settings"
    set +a
fi
here=$(dirname "$0")
# What weft has is read first: a job that begins meanwhile is not taken for one that has ended.
known=$(timeout -k 0.1 10 weft --timeout 5 job list -o name </dev/null)
if [ -n "$known" ] && active=$(timeout 30 squeue --all --noheader --format='%A %T'); then
    # One that was requeued and waits has no hosts any more.
    active=$(echo "$active" | sed -e '/ PENDING$/d' -e '/ REQUEUE/d' -e '/ SPECIAL_EXIT$/d' -e 's/ .*//')
    active=" $(echo "$active" | tr '\n' ' ') "
    for name in $known; do
        job=${name#slurm-}
        case $name in
        slurm-*[!0-9]*) continue ;;
        slurm-*) ;;
        *) continue ;;
        esac
        case $active in
        *" $job "*) ;;
        *)
            timeout -k 0.1 10 weft --timeout 5 job delete "$name" </dev/null >&2
            # Nobody answers: there is another time.
            [ $? -le 1 ] || break
            ;;
        esac
    done
fi
running=$(timeout 30 squeue --all --noheader --states=RUNNING --format='%A %D %N')

# Gives a job its ttl and its hosts: renew JOB HOSTS.
renew() {
    members=$(SLURM_JOB_ID=$1 SLURM_JOB_NODELIST=$2 timeout -k 0.1 10 sh "$here/prolog.sh" --job </dev/null)
    set -- timeout -k 0.1 10 weft --timeout 5 job renew "slurm-$1" --ttl "${WEFT_TTL_SECS:-86400}s"
    if [ -n "$members" ]; then
        printf '%s\n' "$members" | "$@" --members - >&2
    else
        "$@" </dev/null >&2
    fi
}

# True if weft has a job with other hosts than these: elsewhere JOB HOSTS.
elsewhere() {
    wanted=$(SLURM_JOB_ID=$1 SLURM_JOB_NODELIST=$2 timeout -k 0.1 10 sh "$here/prolog.sh" --job </dev/null | sed -n 's/^host_names: //p')
    [ -n "$wanted" ] || return
    shown=$(timeout -k 0.1 10 weft --timeout 5 job show "slurm-$1" -o json </dev/null | tr -d ' \n')
    case $shown in
    *"\"host_names\":$wanted"*) return 1 ;;
    *'"host_names":['*) ;;
    *) return 1 ;;
    esac
}

unknown=" "
while read -r job nodes hosts; do
    if [ "${nodes:-1}" = 1 ]; then
        continue
    fi
    renew "$job" "$hosts"
    case $? in
    0) ;;
    # Refused: weft does not know the job, or another one still has its hosts.
    1) unknown="$unknown$job " ;;
    # Nobody answers: there is another time.
    *)
        echo "weft: no answer; jobs from slurm-$job on are not renewed" >&2
        exit 0
        ;;
    esac
done <<END
$running
END
# Jobs that swapped hosts wait for each other: those that weft has elsewhere are deleted, and declared below.
while read -r job nodes hosts; do
    case $unknown in
    *" ${job:--} "*) ;;
    *) continue ;;
    esac
    if elsewhere "$job" "$hosts"; then
        timeout -k 0.1 10 weft --timeout 5 job delete "slurm-$job" </dev/null >&2
    fi
done <<END
$running
END
# After all others have moved to their hosts.
while read -r job nodes hosts; do
    case $unknown in
    *" ${job:--} "*) ;;
    *) continue ;;
    esac
    # The job may have ended meanwhile.
    found=$(timeout 30 squeue --all --noheader --states=RUNNING --jobs="$job" --format=%A </dev/null)
    case " $(echo "$found" | tr '\n' ' ') " in
    *" $job "*) ;;
    *) continue ;;
    esac
    SLURM_JOB_ID=$job SLURM_JOB_NUM_NODES=$nodes SLURM_JOB_NODELIST=$hosts \
        timeout -k 0.1 10 sh "$here/prolog.sh" --bounded </dev/null >&2
done <<END
$running
END
exit 0
