#!/bin/busybox sh
# The first process of the virtual machine of run.sh: a loopback, the tests, and the power off.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
ip link set lo up
echo "kernel $(uname -r)"

failed=
say() {
    echo "== $*"
    "$@" || failed="$failed $1"
}
say tcp_ao --nocapture --test-threads 1
say md5 --test-threads 1
case $(cat /proc/cmdline) in
*weft=weftd*) say session ;;
esac
case $(cat /proc/cmdline) in
*+bird*) killall weftd; sleep 3; say with_bird ;;
esac
[ -z "$failed" ] && echo "ALL PASSED" || echo "FAILED:$failed"
poweroff -f
