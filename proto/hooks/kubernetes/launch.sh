#!/bin/sh
# Runs a job's launcher, and tells weft of the job beside it:
#   launch.sh mpirun ... train.py
# The launcher starts at once, and its exit code is that of this script. weft is told as soon as all WEFT_PODS have their NICs, again before
# the ttl is over, and at the end. The environment is that of hook.sh, and
#   WEFT_RETRY_SECS between two attempts to declare the job; 5
#   WEFT_RENEW_SECS between two renewals; 900

hook=$(dirname "$0")/hook.sh

# Runs something so that a signal ends it, too.
run() {
    "$@" >&2 &
    wait "$!"
}

tell() {
    run timeout -s KILL 30 sh "$hook" "$1" --bounded
}

keep() {
    # timeout has a group of its own, once it runs. kubectl and weft may ignore all but KILL.
    trap 'kill -KILL "-$!" 2>/dev/null || kill -KILL "$!" "-$!" 2>/dev/null; exit' TERM
    until tell start; do
        run sleep "${WEFT_RETRY_SECS:-5}"
    done
    while run sleep "${WEFT_RENEW_SECS:-900}"; do
        tell renew || tell start
    done
}

keep </dev/null >/dev/null &
keeper=$!
# Without the redirection it would have no standard input.
"$@" <&0 &
launcher=$!
trap 'kill -TERM "$launcher" 2>/dev/null' TERM INT HUP
wait "$launcher"
code=$?
# A signal ends the wait, and not the launcher.
while kill -0 "$launcher" 2>/dev/null; do
    wait "$launcher"
    code=$?
done
kill "$keeper" 2>/dev/null
wait "$keeper" 2>/dev/null
said=$(sh "$hook" stop </dev/null 2>&1)
echo "$said" >&2
# What the hook leaves behind dies with the container: the tries are made here.
case $said in
*"trying again"* | *"no answer in time"*) timeout -s KILL 9 sh "$hook" stop --again </dev/null >/dev/null 2>&1 ;;
esac
exit "$code"
