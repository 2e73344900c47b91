#!/bin/sh
# Declares the pods of a job to weft, renews it, or says that it has ended:
#   hook.sh start|renew|stop
# Exits 0 within a second whatever weft and Kubernetes do, and says what came of it in one line on standard error. If no replica answers, a
# process that nobody waits for tries again for six seconds, unless another call is about the job meanwhile: the last one is remembered in a
# file of ${XDG_RUNTIME_DIR:-/tmp}. launch.sh, which has time, calls it with --bounded behind the verb: then it takes as long as they do, and
# its exit code says what came of it; and with --again: then it tries for six seconds.
#
#   WEFT_JOB        name of the job. REQUIRED
#   WEFT_SELECTOR   labels of its pods, as in job-name=train-42. REQUIRED to start
#   WEFT_NAMESPACE  namespace of the pods; that of kubectl's context
#   WEFT_NETWORKS   networks of its NICs by their names in the pods' network-status, in order of their rails, each with its VNI:
#                   "fabric/rail0=100 fabric/rail1=101". REQUIRED to start
#   WEFT_PODS       how many pods it has: it is not declared before all are there; unset: it has those that are there
#   WEFT_RANKS      ranks of a pod; as many as it has NICs
#   WEFT_ADDRESS    replicas, as in 10.255.1.1:7401,10.255.1.2:7401
#   WEFT_TTL_SECS   when the job counts as ended if nobody renews it; 3600
#   WEFT_PRIORITY   flows of jobs with a higher one are placed first, 0 to 1000; 0
#   WEFT_COLLECTIVE what its ranks do together; COLLECTIVE_ALL_REDUCE
#   WEFT_OCTETS     octets of the buffer of a rank; 1073741824

here=$(dirname "$0")
verb=${1-}
# The call, and where the last one about the job is remembered.
call="$verb ${3:-$$}"
mark=${XDG_RUNTIME_DIR:-/tmp}/weft-${WEFT_JOB-}

remember() {
    { echo "$call" >"$mark"; } 2>/dev/null
}

# True if no other call was about the job since, or nothing can be remembered.
owns() {
    last=$call
    if [ -f "$mark" ] && [ -w "$mark" ]; then
        read -r last <"$mark"
    fi
    [ "$last" = "$call" ]
}

# The pods as a job file for weft.
job() {
    # In a pod kubectl uses the service account only as long as no option is about its connection: none is given.
    pods=$(kubectl get pods ${WEFT_NAMESPACE:+--namespace "$WEFT_NAMESPACE"} \
        --selector "${WEFT_SELECTOR-}" --output json) || return
    printf '%s\n' "$pods" | python3 "$here/job.py"
}

# renew OPTION...
renew() {
    weft --timeout 1 job renew "${WEFT_JOB-}" --ttl "${WEFT_TTL_SECS:-3600}s" "$@"
}

# All that can fail or hang.
bounded() {
    case $verb in
    start)
        job=$(job) || return
        printf '%s\n' "$job" | weft --timeout 1 job apply -
        ;;
    renew)
        renew </dev/null || return
        # A pod that was replaced has other addresses. Until all are there, the job stays as it is.
        if [ -n "${WEFT_SELECTOR-}" ] && job=$(job); then
            printf '%s\n' "$job" | renew --members -
        fi
        ;;
    stop) weft --timeout 1 job delete "${WEFT_JOB-}" ;;
    *)
        echo "start, renew or stop is needed"
        return 1
        ;;
    esac
}

# Until weft answers, or another call is about the job. No try ends after six seconds: none begins after four, and each has two. What was
# declared after the job's stop is taken back.
again() {
    end=$(($(date +%s) + 4))
    code=2
    while owns && [ "$(date +%s)" -lt "$end" ]; do
        timeout -s KILL 2 sh "$0" "$verb" --once
        code=$?
        case $code in
        2 | 124 | 137) sleep 0.3 ;;
        *) break ;;
        esac
    done
    owns
    case $verb/$last in
    start/stop*) timeout -s KILL 2 sh "$0" stop --once ;;
    esac
    return "$code"
}

# The process holds nothing that the caller waits for, and is in no process group that the caller ends.
later() {
    echo "trying again in the background"
    setsid timeout -s KILL 12 sh "$0" "$verb" --again "$$" </dev/null >/dev/null 2>&1 &
}

tell() {
    timeout -s KILL 0.6 sh "$0" "$verb" --bounded "$$" 2>&1
    case $? in
    2) later ;;
    124 | 137)
        echo "no answer within 0.6 s"
        later
        ;;
    esac
}

case ${2-} in
--bounded)
    remember
    bounded
    exit
    ;;
--once)
    bounded
    exit
    ;;
--again)
    [ -n "${3-}" ] || remember
    again
    exit
    ;;
esac
# Nothing that weft started and left behind is waited for.
said=$({ tell | timeout -s KILL 0.85 head -c 400 | tr '\n' ' '; } 2>/dev/null)
echo "weft: ${WEFT_JOB-}: ${said:-no answer in time}" >&2
exit 0
