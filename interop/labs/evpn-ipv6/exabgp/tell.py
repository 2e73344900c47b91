#!/usr/bin/python3
"""What ExaBGP tells its helper program goes to ExaBGP's own log. Our standard output stays open: ExaBGP takes a
closed one for a dead helper. In Python, as ExaBGP is: its release of Debian need not have a shell."""

import sys

for line in sys.stdin:
    sys.stderr.write(line)
    sys.stderr.flush()
