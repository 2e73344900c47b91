"""Three replicas of weftd on this machine, to be killed. What a program does with them is in story.py."""

from __future__ import annotations

import contextlib
import pathlib
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator

from weft import Client
from weft.v1 import replica_pb2


class Replica:
    """One weftd, with a file and a directory of its own."""

    def __init__(self, weftd: str, directory: pathlib.Path, number: int, ports: list[tuple[int, int, int]]) -> None:
        self.api, _, bgp = ports[number - 1]
        members = "".join(
            f'[[replicas]]\nid = {at}\naddress = "127.0.0.1:{member[1]}"\n' for at, member in enumerate(ports, 1)
        )
        self.file = directory / f"{number}.toml"
        self.file.write_text(
            f'[replica]\nid = {number}\ndata_dir = "{directory}/{number}"\n{members}'
            f'[bgp]\nasn = 64496\nrouter_id = "192.0.2.{number}"\ncluster_id = "192.0.2.9"\n'
            f'listen = ["127.0.0.1:{bgp}"]\n[api]\nlisten = "127.0.0.1:{self.api}"\n'
        )
        self.weftd = weftd
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.api}"

    def start(self) -> None:
        with open(self.file.with_suffix(".log"), "ab") as log:
            self.process = subprocess.Popen([self.weftd, "--config", str(self.file)], stdout=log, stderr=log)

    def kill(self) -> None:
        """As a power cut would: it says goodbye to nobody."""
        self.process.kill()
        self.process.wait()


class Lab:
    """Three replicas."""

    def __init__(self, weftd: str, directory: pathlib.Path) -> None:
        ports = free_ports(9)
        places = [(ports[at], ports[at + 3], ports[at + 6]) for at in range(3)]
        self.replicas = [Replica(weftd, directory, number, places) for number in (1, 2, 3)]
        self.addresses = [it.address for it in self.replicas]

    def leader(self, client: Client) -> Replica:
        """The replica that leads, once one does."""
        due = time.monotonic() + 30
        request = replica_pb2.ListReplicasRequest()
        while time.monotonic() < due:
            answer = client.read(lambda it, timeout: it.replicas.ListReplicas(request, timeout=timeout))
            if answer.header.HasField("leader_id"):
                found = self.replicas[answer.header.leader_id - 1]
                if found.process.poll() is None:
                    return found
            time.sleep(0.05)
        raise TimeoutError("nobody leads")


@contextlib.contextmanager
def lab(weftd: str) -> Iterator[Lab]:
    """Three replicas, until the end of the block."""
    with tempfile.TemporaryDirectory() as directory:
        made = Lab(weftd, pathlib.Path(directory))
        try:
            yield made
        finally:
            for replica in made.replicas:
                replica.kill()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens to, and that the kernel gives to no outgoing connection.

    The others may be taken while a replica is dead, and it could not listen again.
    """
    found: list[int] = []
    for port in random.sample(range(PORT_MIN, PORT_MAX), PORT_MAX - PORT_MIN):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} ports are free")


PORT_MIN = 10_000
# Linux takes outgoing ones from here on: net.ipv4.ip_local_port_range.
PORT_MAX = 32_768
