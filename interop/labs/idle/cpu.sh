#!/bin/sh
# cpu.sh SECONDS LIMIT: what weftd of this namespace takes of one CPU in so many seconds; fails above LIMIT hundredths of a per cent.
pid=$(for pid in $(ip netns pids "$(ip netns identify)"); do
    grep -qx weftd /proc/$pid/comm && echo $pid
done)
ticks() { awk '{print $14 + $15}' /proc/$pid/stat; }
before=$(ticks)
sleep $1
spent=$(($(ticks) - before))
# A tick is 10 ms.
share=$((spent * 100 / $1))
printf '%d.%02d %% of one CPU\n' $((share / 100)) $((share % 100))
[ $share -le $2 ]
