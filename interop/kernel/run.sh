#!/bin/sh
# Runs what this machine's kernel cannot: the tests of TCP-AO, on a kernel that has it, in a virtual machine.
#
#   interop/kernel/run.sh VMLINUZ            the tests of weft-sys
#   interop/kernel/run.sh VMLINUZ weftd      and two weftd that hold a session with TCP-AO and change its keys
#
# With BIRD_ROOT=DIR also a session with BIRD 3: a tree that it can run in after chroot, such as Debian's bird3 and the
# packages that it depends on, each unpacked with `dpkg -x` into DIR, with lib and lib64 as links into usr.
#
# It needs qemu-system-x86_64, a static busybox, cargo, and VMLINUZ: a kernel for x86-64 with CONFIG_TCP_AO=y, Linux 6.7
# at least, with IPv6, a serial console and gzipped initramfs built in. Debian's 7.2 has it (package
# linux-binary-7.2.*-cloud-amd64 of trixie-backports: `apt-get download`, then `dpkg -x`, and it is
# usr/lib/modules/*/vmlinuz); the 6.12 of Debian 13 has not. Nothing is installed.
#
# Exit status 0: all that was asked for passed. 75: something that it needs is not here, nothing was tested.
set -eu

lacks() {
    echo "NOT TESTED: $1" >&2
    exit 75
}

[ $# -ge 1 ] || lacks "no kernel named; see the head of $0"
[ -r "$1" ] || lacks "no kernel $1"
kernel=$(realpath "$1")
what=${2:-sys}
for tool in qemu-system-x86_64 busybox ldd; do
    command -v "$tool" >/dev/null || lacks "no $tool"
done
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/etc"

# A program with the libraries that it loads, each where it is here.
put() {
    cp "$1" "$root/bin/$2"
    strip "$root/bin/$2" 2>/dev/null || true
    for library in $(ldd "$1" | grep -o '/[^ )]*'); do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
}

built() {
    cargo test --release -p weft-sys --test "$1" --no-run --message-format=json |
        grep -o '"executable":"[^"]*"' | tail -1 | cut -d '"' -f 4
}

cp "$(command -v busybox)" "$root/bin/busybox"
put "$(built tcp_ao)" tcp_ao
put "$(built md5)" md5
cp "$here/init.sh" "$root/init"
if [ "$what" = weftd ]; then
    cargo build --release -p weft-controller -p weft-cli
    target=${CARGO_TARGET_DIR:-target}
    put "$target/release/weftd" weftd
    put "$target/release/weft" weft
    cp "$here/session.sh" "$root/bin/session"
    if [ -n "${BIRD_ROOT:-}" ]; then
        cp -a "$BIRD_ROOT" "$root/bird"
        mkdir -p "$root/bird/tmp" "$root/bird/proc" "$root/bird/dev"
        cp "$here/bird.sh" "$root/bin/with_bird"
        what=weftd+bird
    fi
fi
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initramfs"

# Emulated: nested virtualization is not everywhere what it says. MACHINE="-accel kvm -cpu host" is faster.
machine=${MACHINE:--accel tcg -cpu max}
status=$work/status
# shellcheck disable=SC2086 # several words
timeout "${SECONDS_MAX:-300}" qemu-system-x86_64 $machine -m 1024 -smp 1 -nographic \
    -no-reboot -nic none -kernel "$kernel" -initrd "$work/initramfs" \
    -append "console=ttyS0 quiet panic=-1 weft=$what" | tr -d '\r' | tee "$status" || true

grep -q '^ALL PASSED$' "$status" || {
    echo "FAILED: see above" >&2
    exit 1
}
