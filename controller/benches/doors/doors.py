"""Attacks the API of a weftd with grpcio: doors.py silent|slow|streams|hanging HOST:PORT SECONDS."""

import socket
import sys
import time

import grpc

SERVICE = "/weft.v1."


def silent(address: str, until: float) -> str:
    """2,000 connections that send nothing."""
    host, port = address.rsplit(":", 1)
    held = []
    while time.monotonic() < until and len(held) < 2_000:
        try:
            held.append(socket.create_connection((host, int(port)), timeout=1))
        except OSError:
            time.sleep(0.1)
    time.sleep(max(0.0, until - time.monotonic()))
    return f"{len(held)} connections opened"


def calls(address: str, method: str, count: int, channels: int, until: float) -> str:
    """Begins calls whose answers nobody reads; their requests never come."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    opened = [grpc.insecure_channel(address, options) for _ in range(channels)]

    def never():
        time.sleep(max(0.0, until - time.monotonic()))
        yield from ()

    begun = []
    for number in range(count):
        if time.monotonic() >= until:
            break
        channel = opened[number % channels]
        if method.endswith("ApplyFabric"):
            begun.append(channel.stream_stream(SERVICE + method)(never()))
        else:
            begun.append(channel.unary_stream(SERVICE + method)(b""))
    time.sleep(max(0.0, until - time.monotonic()))
    refused = sum(call.done() for call in begun)
    for call in begun:
        call.cancel()
    return f"{len(begun)} calls, {refused} ended"


def main() -> None:
    name, address, seconds = sys.argv[1:]
    until = time.monotonic() + float(seconds)
    if name == "silent":
        print(silent(address, until))
    elif name == "slow":
        print(calls(address, "WatchService/Watch", 500, 100, until))
    elif name == "streams":
        print(calls(address, "RouteService/ExportMrt", 2_000, 1, until))
    elif name == "hanging":
        print(calls(address, "FabricService/ApplyFabric", 2, 1, until))
    else:
        sys.exit(f"no attack {name}")


main()
