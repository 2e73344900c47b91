#!/usr/bin/python3
"""What each speaker was sent, compared with what the route's own speaker sent, octet by octet.

  octets.py CAPTURE --reflector ADDRESS... --cluster ID [--except ADDRESS:TYPE,...] [--without ADDRESS:CODE,...]

The capture is of every session from its OPEN on. tshark puts the connections together and cuts UPDATEs into attributes and
EVPN routes; nothing here knows what an attribute means. A route is due at every speaker but its own, from every reflector. A
speaker of which --except says so is not told of a type, and one of which --without says so of no route with an attribute: it
must not be. A copy has the attributes that its route came with, the same octets, but for what a reflector adds (ORIGINATOR_ID
and CLUSTER_LIST, RFC 4456 section 8) and what it leaves out (NEXT_HOP beside MP_REACH_NLRI, RFC 4760 section 3). Of an attribute
that the reflector does not know the Partial bit is set (RFC 4271 section 5).

The first line counts; what is wrong is named in the lines after it, and ends the program with 1.
"""
import argparse
import collections
import ipaddress
import json
import subprocess
import sys

NEXT_HOP, ORIGINATOR_ID, CLUSTER_LIST, MP_REACH, MP_UNREACH = 3, 9, 10, 14, 15
EXTENDED_LENGTH, PARTIAL = 0x10, 0x20
# Optional, transitive, and nothing that weft reads.
UNKNOWN = {36, 254}
UPDATE, NOTIFICATION, KEEPALIVE = "2", "3", "4"
# Cease, Connection Collision Resolution: of two connections one is closed, no session.
COLLISION = ("6", "7")
SHOWN = 20

Copy = collections.namedtuple("Copy", "nlri next_hop attributes")


def tshark(capture, *arguments):
    command = ["tshark", "-r", capture, "-Y", "bgp", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def several(value):
    """A member that stands for itself, or for a list of its kind."""
    return value if isinstance(value, list) else [value]


def raw(tree, name):
    """The octets of the members of this name: each is [octets, place, length, ...], or a list of such."""
    value = tree.get(name + "_raw", [])
    if value and isinstance(value[0], str):
        value = [value]
    return [bytes.fromhex(member[0]) for member in value]


def members(tree, name):
    """The trees of this name at any depth."""
    if isinstance(tree, list):
        for one in tree:
            yield from members(one, name)
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if key == name:
                yield from several(value)
            else:
                yield from members(value, name)


def key(nlri):
    """What of a route says which one it is. RFC 7432 section 7, RFC 9136 section 3.1."""
    if nlri[0] == 1:
        return nlri[:24]
    if nlri[0] == 2:
        return nlri[:1] + nlri[2:10] + nlri[20:32] + nlri[32:32 + nlri[31] // 8]
    if nlri[0] == 5:
        return nlri[:1] + nlri[2:10] + nlri[20:25] + nlri[25:29 if nlri[1] == 34 else 41]
    return nlri


def attribute(octets):
    flags, code = octets[0], octets[1]
    value = octets[4:] if flags & EXTENDED_LENGTH else octets[3:]
    return code, (flags & ~EXTENDED_LENGTH, value)


def updates(capture):
    """(from, to, EVPN routes withdrawn, EVPN routes announced, next hop, attributes) in the order of the wire."""
    arguments = ("-T", "jsonraw", "-J", "ip bgp", "--no-duplicate-keys")
    for packet in json.loads(tshark(capture, *arguments)):
        layers = packet["_source"]["layers"]
        source, to = (str(ipaddress.ip_address(raw(layers["ip"], name)[0])) for name in ("ip.src", "ip.dst"))
        for message in several(layers["bgp"]):
            if raw(message, "bgp.type") != [b"\x02"]:
                continue
            attributes = {}
            for tree in members(message, "bgp.update.path_attributes"):
                attributes.update(attribute(octets) for octets in raw(tree, "bgp.update.path_attribute"))
            found = []
            for name in ("mp_unreach_nlri", "mp_reach_nlri"):
                trees = members(message, "bgp.update.path_attribute." + name)
                found.append([nlri for tree in trees for nlri in raw(tree, "bgp.evpn.nlri")])
            reach = attributes.pop(MP_REACH, (0, b"\0\0\0\0"))[1]
            attributes.pop(MP_UNREACH, None)
            yield source, to, *found, reach[4:4 + reach[3]], attributes


def sessions(capture):
    """Sessions between two addresses, and NOTIFICATIONs."""
    fields = ("tcp.stream", "ip.src", "ip.dst", "bgp.type", "bgp.notify.major_error", "bgp.notify.minor_error_cease")
    arguments = ["-T", "fields", *(word for field in fields for word in ("-e", field))]
    alive, notifications = collections.defaultdict(set), []
    for line in tshark(capture, *arguments).splitlines():
        stream, source, to, types, major, minor = (line.split("\t") + [""] * 6)[:6]
        if KEEPALIVE in types.split(","):
            alive[stream].add((source, to))
        if NOTIFICATION in types.split(",") and (major, minor) != COLLISION:
            notifications.append(f"NOTIFICATION {major} from {source} to {to}")
    # Established: both said KEEPALIVE.
    pairs = collections.Counter(frozenset(ends.copy().pop()) for ends in alive.values() if len(ends) == 2)
    return pairs, notifications


def differences(due, found, origin, cluster):
    """(kind, code) of each attribute that is not as it has to be."""
    expected = {code: value for code, value in due.attributes.items() if code != NEXT_HOP}
    for code in UNKNOWN & expected.keys():
        flags, value = expected[code]
        expected[code] = flags | PARTIAL, value
    expected[ORIGINATOR_ID] = 0x80, ipaddress.ip_address(origin).packed
    expected[CLUSTER_LIST] = 0x80, ipaddress.ip_address(cluster).packed
    for code in sorted(expected.keys() | found.attributes.keys()):
        if code not in found.attributes:
            yield "lost", code
        elif code not in expected:
            yield "added", code
        elif expected[code] != found.attributes[code]:
            yield "changed", code
    if due.next_hop != found.next_hop or due.nlri != found.nlri:
        yield "changed", MP_REACH


def by_address(words):
    numbers = collections.defaultdict(set)
    for address, listed in (word.split(":") for word in words):
        numbers[address] |= {int(number) for number in listed.split(",")}
    return numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture")
    parser.add_argument("--reflector", nargs="+", required=True)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--except", dest="untold", nargs="*", default=[])
    parser.add_argument("--without", nargs="*", default=[])
    wanted = parser.parse_args()
    untold, without = by_address(wanted.untold), by_address(wanted.without)

    pairs, wrong = sessions(wanted.capture)
    resets = len(wrong) + sum(count - 1 for count in pairs.values())
    wrong += [f"{' and '.join(sorted(ends))} had {count} sessions" for ends, count in pairs.items() if count > 1]
    # What each end was told last by the other.
    told = collections.defaultdict(dict)
    for source, to, withdrawn, announced, next_hop, attributes in updates(wanted.capture):
        for nlri in withdrawn:
            told[source, to].pop(key(nlri), None)
        for nlri in announced:
            told[source, to][key(nlri)] = Copy(nlri, next_hop, attributes)

    speakers = sorted({end for ends in pairs for end in ends} - set(wanted.reflector))
    count = collections.Counter()
    types = collections.Counter()
    for origin in speakers:
        said = [told[origin, reflector] for reflector in wanted.reflector]
        if any(one != said[0] for one in said):
            wrong.append(f"{origin} tells not every reflector the same")
        for route, due in said[0].items():
            types[route[0]] += 1
            for to in speakers:
                for reflector in wanted.reflector:
                    place = f"type {route[0]} of {origin} to {to} by {reflector}"
                    found = told[reflector, to].get(route)
                    if to == origin:
                        if found:
                            wrong.append(place + ": its own")
                        continue
                    if route[0] in untold[to] or without[to] & due.attributes.keys():
                        count["excepted"] += 1
                        if found:
                            wrong.append(place + ": told, though excepted")
                        continue
                    count["copies"] += 1
                    if not found:
                        count["lost routes"] += 1
                        wrong.append(place + ": lost")
                        continue
                    count["attributes"] += len(found.attributes)
                    for kind, code in differences(due, found, origin, wanted.cluster):
                        count[kind] += 1
                        wrong.append(f"{place}: attribute {code} {kind}")

    routes = ", ".join(f"{number} of type {route_type}" for route_type, number in sorted(types.items()))
    print(f"{resets} resets, {count['lost routes']} lost routes, {count['lost']} lost attributes: {len(speakers)} speakers, "
          f"{len(pairs)} sessions, {sum(types.values())} routes ({routes}), {count['copies']} copies and {count['excepted']} "
          f"excepted, {count['attributes']} attributes compared, {count['changed']} changed, "
          f"{count['added']} added")
    for line in wrong[:SHOWN]:
        print(line)
    if len(wrong) > SHOWN:
        print(f"and {len(wrong) - SHOWN} more")
    sys.exit(1 if wrong else 0)


main()
