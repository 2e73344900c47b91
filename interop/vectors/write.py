#!/usr/bin/env python3
"""Turns what peer.py recorded into vectors: octets, and what tshark says that they mean.

    write.py WORK SPEAKER VERSION

tshark decodes; this only puts its fields into the words of bgp/tests/vectors/captures/README.md. Where a
field has no value of its own, the octets under it are printed. It shares no code with what it checks.
"""

import socket
import struct
import subprocess
import sys
import xml.etree.ElementTree as xml

HEADERS = 40
ATTRIBUTE = "bgp.update.path_attribute."
PREFIXES = (
    "bgp.nlri_prefix",
    "bgp.withdrawn_prefix",
    "bgp.mp_reach_nlri_ipv6_prefix",
    "bgp.mp_unreach_nlri_ipv6_prefix",
    "bgp.mp_reach_nlri_ipv4_prefix",
    "bgp.mp_unreach_nlri_ipv4_prefix",
    "bgp.evpn.nlri",
)
CEASE = "bgp.notify.minor_error"


def packets(path, messages):
    """Each message as one TCP segment: IPv4 from 192.0.2.1 port 40000 to 192.0.2.2 port 179."""
    sequence = 1
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 101))
        for number, octets in enumerate(messages):
            tcp = struct.pack(">HHIIBBHHH", 40000, 179, sequence, 1, 0x50, 0x18, 0xFFFF, 0, 0) + octets
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), number & 0xFFFF, 0x4000, 64, 6, 0)
            ip = head + socket.inet_aton("192.0.2.1") + socket.inet_aton("192.0.2.2") + tcp
            out.write(struct.pack("<IIII", number, 0, len(ip), len(ip)) + ip)
            sequence += len(octets)


class Message:
    """One message as tshark sees it."""

    def __init__(self, octets, tree):
        self.octets, self.tree = octets, tree

    def under(self, field):
        start = int(field.get("pos")) - HEADERS
        return self.octets[start : start + int(field.get("size"))].hex()

    def first(self, name, tree=None):
        for field in (self.tree if tree is None else tree).iter("field"):
            if field.get("name") == name:
                return field.get("show")
        return None

    def all(self, name, tree=None):
        return [one for one in (self.tree if tree is None else tree).iter("field") if one.get("name") == name]

    def shows(self, name, tree=None):
        return [field.get("show") for field in self.all(name, tree)]

    def complaint(self):
        text = [field.get("show") for field in self.all("_ws.expert.message")]
        groups = self.shows("_ws.expert.group")
        return next((said for said, group in zip(text, groups) if group == "117440512"), None)

    def guess(self, context):
        """tshark guesses from the octets whether there are path identifiers; sometimes it guesses wrong."""
        for field in self.all("bgp.update.path_attribute") + [self.tree]:
            of = lambda name: self.shows(f"{ATTRIBUTE}mp_{name}", field)
            family = (of("reach_nlri.afi") + of("unreach_nlri.afi"), of("reach_nlri.safi") + of("unreach_nlri.safi"))
            pair = "/".join(one[0] for one in family if one) if field is not self.tree else "1/1"
            if field is self.tree:
                lists = self.all("bgp.update.nlri") + self.all("bgp.update.withdrawn_routes")
                routes = [one for part in lists for one in part.iter("field") if (one.get("name") or "") in PREFIXES]
                seen = any(self.all("bgp.nlri_path_id", part) for part in lists)
            else:
                routes = [one for one in field.iter("field") if (one.get("name") or "") in PREFIXES]
                seen = bool(self.all("bgp.nlri_path_id", field))
            if routes and seen != (f"add-path={pair}" in context):
                return f"{pair} with path identifiers: {'yes' if seen else 'no'}"
        return None

    def lines(self):
        kind = int(self.first("bgp.type"))
        yield f"type {kind}"
        yield from {1: self.open, 2: self.update, 3: self.notification, 4: tuple, 5: self.refresh}[kind]()

    def open(self):
        of = lambda name: self.first(f"bgp.open.{name}")
        yield f"open version {of('version')} as {of('myas')} hold {of('holdtime')} id {of('identifier')}"
        for capability in self.all("bgp.cap"):
            yield " ".join(["capability", self.first("bgp.cap.type", capability)] + self.capability(capability))

    def capability(self, tree):
        of = lambda name: self.shows(f"bgp.cap.{name}", tree)
        pairs = lambda kind: [f"{afi}/{safi}" for afi, safi in zip(of(f"{kind}.afi"), of(f"{kind}.safi"))]
        octet = lambda name: [self.under(field) for field in self.all(f"bgp.cap.{name}", tree)]
        words = pairs("mp") + of("4as")
        words += [f"{pair}={mode}" for pair, mode in zip(pairs("ap"), of("ap.sendreceive"))]
        words += [f"{pair}={afi}" for pair, afi in zip(pairs("enh"), of("enh.nhafi"))]
        words += octet("gr.timers")
        words += [f"{pair}={flag}" for pair, flag in zip(pairs("gr"), octet("gr.flag"))]
        words += octet("orf.fqdn.hostname") + octet("orf.fqdn.domain_name")
        return [word for word in words if word]

    def notification(self):
        code = self.first("bgp.notify.major_error")
        minor = [field for field in self.tree.iter("field") if (field.get("name") or "").startswith(CEASE)]
        subcode = int(self.under(minor[0]), 16) if minor else self.octets[20]
        said = self.shows("bgp.notify.communication")
        yield " ".join(["notification", f"{code}/{subcode}"] + said)

    def refresh(self):
        of = lambda name: self.first(f"bgp.route_refresh.{name}")
        yield f"route-refresh {of('afi')}/{of('safi')} {of('subtype')}"

    def update(self):
        for field in self.all("bgp.update.withdrawn_routes"):
            for prefix in self.prefixes(field, "bgp.prefix_length", "bgp.withdrawn_prefix"):
                yield f"withdraw 1/1{prefix}"
        for field in self.all("bgp.update.nlri"):
            for prefix in self.prefixes(field, "bgp.prefix_length", "bgp.nlri_prefix"):
                yield f"announce 1/1{prefix}"
        for attribute in self.all("bgp.update.path_attribute"):
            yield from self.attribute(attribute)

    def attribute(self, tree):
        of = lambda name: self.shows(ATTRIBUTE + name, tree)
        code = int(of("type_code")[0])
        single = {1: "origin", 3: "next_hop", 4: "multi_exit_disc", 5: "local_pref", 9: "originator_id"}
        if code in single:
            yield f"attribute {code} {of(single[code])[0]}"
        elif code == 2:
            segments = self.all(ATTRIBUTE + "as_path_segment", tree)
            words = [f"{self.first(ATTRIBUTE + 'as_path_segment.type', one)}:{self.path(one)}" for one in segments]
            yield " ".join(["attribute 2"] + words)
        elif code == 7:
            yield f"attribute 7 {of('aggregator_as')[0]} {of('aggregator_origin')[0]}"
        elif code == 8:
            names = ("community", "community_wellknown")
            fields = [field for field in tree.iter("field") if field.get("name") in [ATTRIBUTE + name for name in names]]
            known = [field for field in fields if field.get("size") == "4"]
            yield " ".join(["attribute 8"] + [self.under(field) for field in known])
        elif code == 10:
            yield " ".join(["attribute 10"] + self.shows("bgp.path_attribute.cluster_id", tree))
        elif code == 16:
            yield " ".join(["attribute 16"] + [self.under(one) for one in self.all("bgp.ext_community", tree)])
        elif code == 22:
            yield f"attribute 22 type {of('pmsi.tunnel.type')[0]} to {' '.join(of('pmsi.ingress_rep_ip'))}".rstrip()
        elif code == 32:
            numbers = [self.shows(f"bgp.large_communities.{name}", tree) for name in ("ga", "ldp1", "ldp2")]
            yield " ".join(["attribute 32"] + [":".join(one) for one in zip(*numbers)])
        elif code in (14, 15):
            yield from self.multiprotocol(tree, "mp_reach_nlri" if code == 14 else "mp_unreach_nlri")
        else:
            yield f"attribute {code}"

    def path(self, segment):
        names = [ATTRIBUTE + "as_path_segment." + name for name in ("as2", "as4")]
        return ",".join(field.get("show") for field in segment.iter("field") if field.get("name") in names)

    def multiprotocol(self, tree, name):
        of = lambda last: self.shows(f"{ATTRIBUTE}{name}.{last}", tree)
        family = f"{of('afi')[0]}/{of('safi')[0]}"
        verb = "announce" if name == "mp_reach_nlri" else "withdraw"
        hops = [field for field in self.all(f"{ATTRIBUTE}{name}.next_hop", tree)]
        for hop in hops:
            shown = [field.get("show") for field in hop.iter("field") if field is not hop]
            yield f"next-hop {family} {' '.join(one for one in shown if one)}"
        if verb == "withdraw":
            yield f"unreach {family}"
        for field in self.all(f"{ATTRIBUTE}{name}", tree):
            if family == "25/70":
                routes = self.evpn(field)
            elif family == "1/132":
                routes = self.targets(field)
            else:
                length = "bgp.mp_reach_nlri_prefix_length" if verb == "announce" else "bgp.mp_unreach_nlri_prefix_length"
                routes = self.prefixes(field, length, None)
            for route in routes:
                yield f"{verb} {family}{route}"

    def prefixes(self, tree, length, address):
        """A prefix is named by the line that holds its fields."""
        for field in tree:
            said = (field.get("show") or "") + " " + (field.get("showname") or "")
            inner = {one.get("name"): one for one in field.iter("field")}
            prefix = next((one for name, one in inner.items() if name and name.endswith("_prefix")), None)
            if prefix is None:
                continue
            identifier = f" id {self.first('bgp.nlri_path_id', field)}" if "bgp.nlri_path_id" in inner else ""
            yield f"{identifier} {prefix.get('show')}/{said.split('/')[1].split()[0]}"

    def evpn(self, tree):
        identifier = ""
        for field in tree:
            if field.get("name") == "bgp.nlri_path_id":
                identifier = f" id {field.get('show')}"
            elif field.get("name") == "bgp.evpn.nlri":
                yield identifier + self.route(field)
                identifier = ""

    def route(self, tree):
        of = lambda name: self.shows(f"bgp.evpn.nlri.{name}", tree)
        kind = int(of("rt")[0])
        words = f" type {kind} rd {of('rd')[0].replace(':', '')}"
        if kind not in (1, 2, 3, 4, 5):
            return words
        for name, label in (("esi", "esi"), ("etag", "tag"), ("mac_addr", "mac"), ("prefix_len", "length")):
            words += "".join(f" {label} {value}" for value in of(name))
        words += "".join(f" ip {value}" for value in of("ip.addr") + of("ipv6.addr"))
        words += "".join(f" gateway {value}" for value in of("ipv4.gtw_addr") + of("ipv6.gtw_addr"))
        labels = self.all("bgp.evpn.nlri.mpls_ls1", tree) + self.all("bgp.evpn.nlri.mpls_ls2", tree)
        labels += self.all("bgp.evpn.nlri.vni", tree) + self.all(ATTRIBUTE + "mpls_label", tree)
        return words + "".join(f" label {self.under(field)}" for field in labels)

    def targets(self, tree):
        for field in tree:
            yield f" {self.under(field)}"


def vectors(record):
    """(context, octets, tree) of each message that differs from those before it."""
    sessions = {}
    with open(record, encoding="ascii") as lines:
        for line in lines:
            address, context, octets = line.split()
            sessions.setdefault(address, []).append((context, bytes.fromhex(octets)))
    seen = set()
    for address, messages in sorted(sessions.items()):
        path = f"{record}-{address}.pcap"
        packets(path, [octets for _, octets in messages])
        pdml = subprocess.run(["tshark", "-n", "-r", path, "-T", "pdml"], check=True, capture_output=True).stdout
        found = xml.fromstring(pdml).findall("packet")
        for (context, octets), packet in zip(messages, found, strict=True):
            tree = packet.findall("proto[@name='bgp']")
            if (context, octets) not in seen and len(tree) == 1:
                seen.add((context, octets))
                yield context, octets, tree[0]


def main(work, speaker, version):
    tshark = subprocess.run(["tshark", "--version"], check=True, capture_output=True, text=True).stdout
    print(f"# author: {version}")
    print(f"# command: interop/vectors/capture.sh {speaker}")
    print(f"# decoder: {tshark.split()[0] + ' ' + tshark.split()[2]}")
    found = sorted(vectors(f"{work}/record"), key=lambda one: (one[0] != "-", one[0], one[1][18], one[1]))
    for context, octets, tree in found:
        message = Message(octets, tree)
        print(f"\nmessage {context.replace(',', ' ')}")
        digits = octets.hex()
        for at in range(0, len(digits), 96):
            print(f"  {digits[at : at + 96]}")
        complaint = message.complaint() or message.guess(context)
        if complaint:
            print(f"tshark cannot: {complaint}")
            continue
        for line in message.lines():
            print(line)


main(*sys.argv[1:])
