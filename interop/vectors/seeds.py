#!/usr/bin/env python3
"""Seeds for the fuzz targets from the captured vectors: interop/vectors/seeds.py

Writes tests/fuzz/corpus/TARGET/SPEAKER-NUMBER, one file per message that is unlike the others. What the
first octets of an input mean, each target says on top.
"""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAPTURES = ROOT / "bgp/tests/vectors/captures"
CORPUS = ROOT / "tests/fuzz/corpus"
MARKER = 16


def messages(path):
    """(context words, octets) of each message."""
    context, digits = None, ""
    for line in path.read_text(encoding="ascii").splitlines() + ["message"]:
        if line.startswith("message"):
            if context is not None:
                yield context, bytes.fromhex(digits)
            context, digits = line.split()[1:], ""
        elif line.startswith("  "):
            digits += line.strip()


def shape(octets):
    """Messages with the same attributes in the same order teach a fuzzer the same."""
    if octets[18] != 2:
        return octets[18], len(octets)
    withdrawn = int.from_bytes(octets[19:21], "big")
    at = 21 + withdrawn
    end = at + 2 + int.from_bytes(octets[at : at + 2], "big")
    at += 2
    codes = []
    while at < end:
        extended = octets[at] & 0x10
        length = int.from_bytes(octets[at + 2 : at + 4], "big") if extended else octets[at + 2]
        start = at + (4 if extended else 3)
        value = octets[start : start + length]
        # Of the routes, family and type.
        codes.append((octets[at + 1], value[:3] + value[9:10] if octets[at + 1] in (14, 15) else b""))
        at = start + length
    return 2, bool(withdrawn), len(octets) > end, tuple(codes)


def families(octets):
    """(code, NLRI) of MP_REACH_NLRI and MP_UNREACH_NLRI by family."""
    at = 23 + int.from_bytes(octets[19:21], "big")
    while at + 3 < len(octets):
        extended = octets[at] & 0x10
        length = int.from_bytes(octets[at + 2 : at + 4], "big") if extended else octets[at + 2]
        start = at + (4 if extended else 3)
        value = octets[start : start + length]
        if octets[at + 1] == 14:
            yield value[:3], value[5 + value[3] :]
        elif octets[at + 1] == 15:
            yield value[:3], value[3:]
        at = start + length


def seeds(context, octets):
    """(target, input) for one message."""
    four, ibgp = "four-octet-as" in context, "ibgp" in context
    paths = any(word.startswith("add-path") for word in context)
    kind, body = octets[18], octets[19:]
    yield "bgp_message", bytes([four | ibgp << 1 | 4 | ("add-path=1/1" in context) << 3]) + octets
    if kind == 1:
        yield "bgp_open", b"\x3f" + body
        yield "bgp_session", b"\x01\x00\x01\x0b\x00" + bytes([min(len(body), 255)]) + body[:255] + b"\x0a\x0a"
    if kind == 2 and len(body) > 4:
        yield "bgp_clean", bytes([four | ibgp << 1 | paths << 2, 4]) + body
        opening = bytes.fromhex("04fbf0005ac00002020e020c01040019004641040000fbf0")
        yield (
            "bgp_session",
            b"\x00\x00\x01\x0b\x00" + bytes([len(opening)]) + opening + b"\x0a\x0b\x01" + bytes([min(len(body), 255)]) + body[:255],
        )
        for family, nlri in families(octets):
            if family == b"\0\x01\x84" and nlri:
                yield "bgp_route_target", nlri
            if family in (b"\0\x01\x01", b"\0\x02\x01") and nlri:
                yield "bgp_unicast", bytes([paths | (family[1] == 2) << 1]) + nlri
    if kind in (3, 5):
        yield "bgp_session", b"\x00\x00\x01\x0b" + bytes([kind - 1, min(len(body), 255)]) + body[:255]


def main():
    seen = set()
    for path in sorted(CAPTURES.glob("*.txt")):
        for number, (context, octets) in enumerate(messages(path)):
            key = (tuple(context), shape(octets))
            if key in seen:
                continue
            seen.add(key)
            for count, (target, content) in enumerate(seeds(context, octets)):
                folder = CORPUS / target
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{path.stem}-{number}-{count}").write_bytes(content)
    # RFC 4684 §4 and RFC 7606 §5.3: what no speaker here sends.
    by_hand = {
        "default": "00",
        "as-only": "200000fbf0",
        "half": "400000fbf00002fbf0",
        "exact": "600000fbf00002fbf000000064",
        "between": "450000fbf00002fbf000",
        "too-short": "10fbf0",
        "too-long": "610000fbf00002fbf00000006400",
        "all": "00200000fbf0400000fbf00002fbf0600000fbf00002fbf000000064",
    }
    folder = CORPUS / "bgp_route_target"
    folder.mkdir(parents=True, exist_ok=True)
    for name, digits in by_hand.items():
        (folder / name).write_bytes(bytes.fromhex(digits))


main()
