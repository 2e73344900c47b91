#!/bin/sh
# keys.sh: the keys that weft reads, each in a file that nobody else may read.
set -e
umask 077
printf 'first\n' >first.key
printf 'second\n' >second.key
cp first.key now.key
