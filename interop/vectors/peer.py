#!/usr/bin/env python3
"""The other end of a session: a BGP speaker that offers everything, announces nothing of its own, and
writes down each message that it hears. It knows no attribute and no route.

    peer.py RECORD CONTROL

The address that was dialed decides what it offers; see OFFERS. Each line of RECORD is a message: which
address, what was negotiated, octets. A line `ADDRESS HEX` in the pipe CONTROL is sent as a message.
"""

import os
import select
import socket
import struct
import sys
import time

MARKER = b"\xff" * 16
IPV4, IPV6, EVPN, RTC = (1, 1), (2, 1), (25, 70), (1, 132)
FAMILIES = (IPV4, IPV6, EVPN, RTC)
HOLD_SECS = 90
# The shortest hold time that a speaker here asks for is 9 s.
KEEPALIVE_SECS = 2


def capability(code, value=b""):
    return bytes([code, len(value)]) + value


def family(pair, reserved=0):
    return struct.pack(">HBB", pair[0], reserved, pair[1])


def afi_safi(pair):
    return struct.pack(">HB", *pair)


def rich(asn):
    """All that a speaker may want to see before it sends its own."""
    return b"".join(
        [capability(1, family(pair)) for pair in FAMILIES]
        + [
            capability(2),
            capability(5, struct.pack(">HHH", 1, 1, 2)),
            capability(6),
            capability(64, struct.pack(">H", 0x8000 | 120) + b"".join(afi_safi(pair) + b"\x80" for pair in FAMILIES)),
            capability(65, struct.pack(">I", asn)),
            capability(69, b"".join(afi_safi(pair) + b"\x03" for pair in FAMILIES[:3])),
            capability(70),
            capability(71, b"".join(afi_safi(pair) + b"\x80\x00\x0e\x10" for pair in FAMILIES)),
            capability(73, b"\x04peer\x0bexample.net"),
            capability(75, b"\x0arecorder 1"),
        ]
    )


def plain(_asn):
    """Four families and nothing else: AS numbers of two octets, no path identifiers."""
    return b"".join(capability(1, family(pair)) for pair in FAMILIES[:3])


# What is offered to who dials this address: AS, capabilities.
OFFERS = {
    "192.0.2.2": (65000, rich),
    "192.0.2.4": (64511, lambda asn: rich(asn) + capability(9, b"\x03")),
    "192.0.2.5": (65000, plain),
}


def message(kind, body=b""):
    return MARKER + struct.pack(">HB", 19 + len(body), kind) + body


def open_message(address):
    asn, capabilities = OFFERS[address]
    value = capabilities(asn)
    parameters = bytes([2, len(value)]) + value
    head = struct.pack(">BHH", 4, asn, HOLD_SECS) + socket.inet_aton(address)
    return message(1, head + bytes([len(parameters)]) + parameters)


def capabilities_of(octets):
    """(code, value) of each capability in an OPEN."""
    at = 29
    while at < len(octets):
        length = octets[at + 1]
        end, at = at + 2 + length, at + 2
        while at < end:
            yield octets[at], octets[at + 2 : at + 2 + octets[at + 1]]
            at += 2 + octets[at + 1]


class Connection:
    def __init__(self, stream, record):
        self.stream, self.record = stream, record
        self.address = stream.getsockname()[0]
        self.buffer, self.context = b"", []
        self.due = time.monotonic() + KEEPALIVE_SECS
        self.send(open_message(self.address))

    def send(self, octets):
        try:
            self.stream.sendall(octets)
        except OSError:
            pass  # The end of the connection is seen when it is read.

    def read(self):
        """False at the end of the connection."""
        try:
            octets = self.stream.recv(65536)
        except OSError:
            return False
        self.buffer += octets
        while len(self.buffer) >= 19:
            length = int.from_bytes(self.buffer[16:18], "big")
            if len(self.buffer) < length:
                break
            self.take(self.buffer[:length])
            self.buffer = self.buffer[length:]
        return bool(octets)

    def take(self, octets):
        if octets[18] == 1:
            self.negotiate(octets)
            self.send(message(4))
        print(self.address, ",".join(self.context) or "-", octets.hex(), file=self.record, flush=True)

    def negotiate(self, octets):
        asn, offers = OFFERS[self.address]
        mine = dict(capabilities_of(open_message(self.address)))
        theirs = list(capabilities_of(octets))
        asns = [int.from_bytes(value, "big") for code, value in theirs if code == 65]
        asns += [int.from_bytes(octets[20:22], "big")]
        self.context = ["ibgp"] if asns[0] == asn else []
        if 65 in mine and any(code == 65 for code, _ in theirs):
            self.context.append("four-octet-as")
        if 6 in mine and any(code == 6 for code, _ in theirs):
            self.context.append("extended-message")
        for value in (value for code, value in theirs if code == 69 and 69 in mine):
            for at in range(0, len(value), 4):
                afi, safi, mode = struct.unpack(">HBB", value[at : at + 4])
                if mode & 2 and (afi, safi) in FAMILIES:
                    self.context.append(f"add-path={afi}/{safi}")


def main(record, control):
    listener = socket.create_server(("", 179), backlog=8)
    pipe = os.open(control, os.O_RDWR)
    connections = []
    with open(record, "a", encoding="ascii") as out:
        while True:
            ready, _, _ = select.select([listener, pipe] + [one.stream for one in connections], [], [], 1)
            if listener in ready:
                stream, _ = listener.accept()
                if stream.getsockname()[0] in OFFERS:
                    connections.append(Connection(stream, out))
                else:
                    stream.close()
            for one in list(connections):
                if one.stream in ready and not one.read():
                    one.stream.close()
                    connections.remove(one)
                elif time.monotonic() > one.due:
                    one.send(message(4))
                    one.due = time.monotonic() + KEEPALIVE_SECS
            if pipe in ready:
                for line in os.read(pipe, 65536).decode().split("\n"):
                    command(line, connections)


def command(line, connections):
    if not line:
        return
    address, octets = line.split()
    for one in connections:
        if one.address == address:
            one.send(bytes.fromhex(octets))


main(sys.argv[1], sys.argv[2])
