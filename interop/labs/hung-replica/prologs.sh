#!/bin/sh
# prologs.sh N AGENT PROLOG: runs the prolog of N jobs, one after the other, and deletes each job. Prints how many prologs declared
# their job themselves, and the milliseconds of the slowest one. AGENT is as in measure.sh.
declared=0 slowest=0
for job in $(seq 1001 $((1000 + $1))); do
    line=$(sh "$(dirname "$0")/measure.sh" "$2" \
        env SLURM_JOB_ID="$job" SLURM_JOB_NODELIST=h1,h2 SLURM_JOB_NUM_NODES=2 sh "$3")
    case $line in
    '{"code": 0,'*"job slurm-$job created"*) declared=$((declared + 1)) ;;
    *) echo "$line" >&2 ;;
    esac
    ms=${line#*'"ms": '}
    ms=${ms%%,*}
    [ "$ms" -le "$slowest" ] || slowest=$ms
    sh "$(dirname "$0")/measure.sh" "$2" weft job delete "slurm-$job" >/dev/null
done
printf '{"declared": %s, "slowest_ms": %s}\n' "$declared" "$slowest"
