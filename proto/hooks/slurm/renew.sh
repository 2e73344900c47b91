#!/bin/sh
# Deletes the jobs that weft still has and Slurm no longer, as when weft did not answer their epilog; renews the ttl of every job that
# runs, and declares those that weft does not know, as when it did not answer their prolog. weft-renew.timer runs it on the controller
# every 15 minutes, which has to be less than WEFT_TTL_SECS. No job waits for it. One weft serves one cluster: names are numbers of jobs.
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
if [ -n "$known" ] && active=$(timeout 30 squeue --all --noheader --format=%A); then
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
# shellcheck disable=SC2016
timeout 30 squeue --all --noheader --states=RUNNING --format='%A %D %N' | while read -r job nodes hosts; do
    if [ "$nodes" = 1 ]; then
        continue
    fi
    timeout -k 0.1 10 weft --timeout 5 job renew "slurm-$job" --ttl "${WEFT_TTL_SECS:-86400}s" </dev/null >&2
    case $? in
    0) ;;
    # Refused: it does not know the job, which may have ended meanwhile.
    1)
        if [ -z "$(timeout 30 squeue --all --noheader --states=RUNNING --jobs="$job" --format=%A </dev/null)" ]; then
            continue
        fi
        SLURM_JOB_ID=$job SLURM_JOB_NUM_NODES=$nodes SLURM_JOB_NODELIST=$hosts \
            timeout -k 0.1 10 sh "$here/prolog.sh" --bounded </dev/null >&2
        ;;
    # Nobody answers: there is another time.
    *)
        echo "weft: no answer; jobs from slurm-$job on are not renewed" >&2
        break
        ;;
    esac
done
exit 0
