#!/usr/bin/python3
"""The messages that a helper program of ExaBGP has to keep, from ExaBGP's log: those of sessions that are up."""
import json
import sys

held = {}
with open(sys.argv[1], errors="replace") as log:
    for line in log:
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        neighbor = event.get("neighbor", {})
        peer = neighbor.get("address", {}).get("peer")
        if neighbor.get("state") == "down":
            held.pop(peer, None)
        elif "message" in neighbor and isinstance(neighbor["message"].get("body"), str):
            held.setdefault(peer, []).append(neighbor["message"]["body"])
for peer, bodies in held.items():
    for body in bodies:
        print(peer, body)
