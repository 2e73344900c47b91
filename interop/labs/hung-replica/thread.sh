#!/bin/sh
# thread.sh stop|go PROGRAM THREAD: stops one thread of a program of this node, and lets it go on. A signal stops a whole process. The
# freezer of cgroups (version 2, Linux 5.2) stops what is in a cgroup, and in a threaded one that is a thread. No debugger is attached.
# The current folder keeps what `go` puts back.
set -e
here=$(readlink /proc/self/ns/net)
for process in /proc/[0-9]*; do
    [ "$(cat "$process/comm" 2>/dev/null)" = "$2" ] || continue
    [ "$(readlink "$process/ns/net")" = "$here" ] || continue
    pid=${process#/proc/}
done
for task in "/proc/${pid:?there is no $2 here}"/task/*; do
    [ "$(cat "$task/comm")" = "$3" ] || continue
    thread=${task##*/}
done
: "${thread:?$2 has no thread $3}"

groups=$(mktemp -d)
mount -t cgroup2 none "$groups"
trap 'umount "$groups"; rmdir "$groups"' EXIT
own=$groups/weft-lab-$pid
case $1 in
stop)
    sed -n 's/^0:://p' "/proc/$pid/cgroup" >cgroup
    mkdir "$own" "$own/stopped"
    echo "$pid" >"$own/cgroup.procs"
    echo threaded >"$own/stopped/cgroup.type"
    echo "$thread" >"$own/stopped/cgroup.threads"
    echo 1 >"$own/stopped/cgroup.freeze"
    ;;
go)
    echo 0 >"$own/stopped/cgroup.freeze"
    echo "$thread" >"$own/cgroup.threads"
    rmdir "$own/stopped"
    echo "$pid" >"$groups$(cat cgroup)/cgroup.procs"
    rmdir "$own"
    ;;
esac
