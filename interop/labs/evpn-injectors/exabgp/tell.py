#!/bin/sh
# What ExaBGP tells its helper program goes to ExaBGP's own log. Our standard output stays open: ExaBGP
# takes a closed one for a dead helper.
cat >&2
