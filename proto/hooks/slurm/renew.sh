#!/bin/sh
# Renews the ttl of every job that runs, and declares those that weft does not know, as when it did not answer their prolog. Run it on
# the controller every WEFT_TTL_SECS / 4 or so: weft-renew.timer does, every 6 hours. No job waits for it.
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
# shellcheck disable=SC2016
timeout 30 squeue --noheader --states=RUNNING --format='%A %D %N' | while read -r job nodes hosts; do
    if [ "$nodes" = 1 ]; then
        continue
    fi
    timeout -k 0.1 10 weft --timeout 5 job renew "slurm-$job" --ttl "${WEFT_TTL_SECS:-86400}s" </dev/null >&2
    case $? in
    0) ;;
    # Refused: it does not know the job.
    1)
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
