#!/bin/sh
# measure.sh AGENT COMMAND...: runs a command, such as weft or a hook, with weft from where the program AGENT is, and the addresses of
# all replicas. Prints its exit code, the milliseconds that it took, and the first line that it said.
programs=$(dirname "$(command -v "$1")")
shift
PATH=$programs:$(dirname "$0")/bin:$PATH
WEFT_ADDRESS=10.255.1.1:7401,10.255.1.2:7401,10.255.1.3:7401
# The settings of this machine are not those of the lab.
WEFT_SETTINGS=/nonexistent
export PATH WEFT_ADDRESS WEFT_SETTINGS

began=$(date +%s%N)
said=$("$@" 2>&1 </dev/null)
code=$?
ended=$(date +%s%N)
line=$(printf '%s' "$said" | head -n 1 | tr '"\\\t' "'/ ")
printf '{"code": %s, "ms": %s, "said": "%s"}\n' "$code" $(((ended - began) / 1000000)) "$line"
