#!/bin/sh
# lead.sh N: at the node of a replica, stops whichever replica leads, as SIGSTOP does, until replica N leads, and lets the others go on.
set -e
here=$(ip netns identify $$)
each() { # SIGNAL REPLICA
    for pid in $(ip netns pids "${here%?}$2"); do
        if [ "$(cat /proc/$pid/comm)" = weftd ]; then kill -$1 $pid; fi
    done
}
leader() {
    curl --silent --max-time 2 http://10.255.1.$1:7401/v1/replicas | sed -n 's/.*"leader_id":\([0-9]*\).*/\1/p'
}
for attempt in 1 2 3 4 5 6 7 8 9 10 11 12; do
    now=$(leader $1)
    if [ "$now" = "$1" ]; then
        echo "replica $1 leads"
        exit 0
    fi
    if [ -n "$now" ]; then
        each STOP $now
        for tenth in 1 2 3 4 5 6 7 8 9 10; do
            sleep 0.5
            next=$(leader $1)
            if [ -n "$next" ] && [ "$next" != "$now" ]; then break; fi
        done
        each CONT $now
    fi
    sleep 0.5
done
exit 1
