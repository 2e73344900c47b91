#!/bin/sh
# lead.sh N: at the node of a replica, says that replica N leads; if another one does, stops that, as SIGSTOP does, until somebody else leads, and
# lets it go on. Who comes next is chance: ask again.
here=$(ip netns identify $$)
each() { # SIGNAL REPLICA
    for pid in $(ip netns pids "${here%?}$2"); do
        if [ "$(cat /proc/$pid/comm)" = weftd ]; then kill -$1 $pid; fi
    done
}
leader() {
    curl --silent --max-time 2 http://10.255.1.$1:7401/v1/replicas | sed -n 's/.*"leader_id":\([0-9]*\).*/\1/p'
}
now=$(leader $1)
if [ "$now" = "$1" ]; then
    echo "replica $1 leads"
    exit 0
fi
if [ -z "$now" ]; then
    echo "nobody leads"
    exit 1
fi
# Whoever ends this script: nobody stays stopped.
trap 'each CONT $now' EXIT
trap 'exit 1' TERM INT
each STOP $now
for half_second in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.5
    next=$(leader $1)
    if [ -n "$next" ] && [ "$next" != "$now" ]; then break; fi
done
echo "replica ${next:-none} leads, and not replica $1"
exit 1
