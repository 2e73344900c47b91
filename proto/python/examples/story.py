"""Declares a fabric, follows it, changes it, kills the leader, asks again, and goes on: three replicas of weftd on this machine.

    python examples/story.py path/to/weftd [--kills N]

It prints what was missed and what came twice, and ends with 1 if anything did.
"""

from __future__ import annotations

import argparse
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

from weft import Client, Event
from weft.v1 import fabric_pb2, replica_pb2


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
        log = open(self.file.with_suffix(".log"), "ab")  # noqa: SIM115
        self.process = subprocess.Popen([self.weftd, "--config", str(self.file)], stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Follower(threading.Thread):
    """Follows links and hosts, and remembers what became of each."""

    def __init__(self, addresses: list[str]) -> None:
        super().__init__(daemon=True)
        self.client = Client(addresses)
        self.watch = self.client.watch()
        self.events: list[Event] = []
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            for event in self.watch:
                self.events.append(event)
        except BaseException as fault:
            self.fault = fault

    def wait(self, wanted: int) -> None:
        """Until so many changes of hosts were heard."""
        due = time.monotonic() + 60
        while time.monotonic() < due:
            if sum(it.change.kind == fabric_pb2.RESOURCE_KIND_HOST for it in list(self.events)) >= wanted:
                return
            time.sleep(0.01)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [it.getsockname()[1] for it in sockets]
    for it in sockets:
        it.close()
    return ports


def declare(client: Client) -> None:
    """Two leaves and two spines."""
    leaves = [
        fabric_pb2.Switch(name=f"leaf{n}", role=fabric_pb2.SWITCH_ROLE_LEAF, vtep_address=f"10.255.0.{n}")
        for n in (1, 2)
    ]
    spines = [fabric_pb2.Switch(name=f"spine{n}", role=fabric_pb2.SWITCH_ROLE_SPINE) for n in (1, 2)]
    links = [
        fabric_pb2.Link(
            a=fabric_pb2.LinkEnd(switch_name=f"leaf{leaf}", interface_name=f"eth{spine}", address=f"10.0.{leaf}{spine}.1"),
            b=fabric_pb2.LinkEnd(switch_name=f"spine{spine}", interface_name=f"eth{leaf}", address=f"10.0.{leaf}{spine}.2"),
            capacity_bps=400_000_000_000,
        )
        for leaf in (1, 2)
        for spine in (1, 2)
    ]
    changes = client.apply_fabric("story", [*leaves, *spines], links=links)
    print(f"declared: {len(changes)} resources")
    assert client.apply_fabric("story", [*leaves, *spines], links=links) == [], "the same again differs"


def leader(client: Client, replicas: list[Replica]) -> Replica:
    """The replica that leads, once one does."""
    due = time.monotonic() + 30
    while time.monotonic() < due:
        answer = client.read(lambda it, timeout: it.replicas.ListReplicas(replica_pb2.ListReplicasRequest(), timeout=timeout))
        if answer.header.HasField("leader_id"):
            found = replicas[answer.header.leader_id - 1]
            if found.process.poll() is None:
                return found
        client.next_replica()
        time.sleep(0.05)
    raise TimeoutError("nobody leads")


def story(weftd: str, kills: int) -> int:
    with tempfile.TemporaryDirectory() as directory:
        ports = free_ports(9)
        places = [(ports[at], ports[at + 3], ports[at + 6]) for at in range(3)]
        replicas = [Replica(weftd, pathlib.Path(directory), number, places) for number in (1, 2, 3)]
        try:
            return follow(replicas, kills)
        finally:
            for replica in replicas:
                replica.kill()


def follow(replicas: list[Replica], kills: int) -> int:
    addresses = [it.address for it in replicas]
    with Client(addresses) as client:
        leader(client, replicas)
        declare(client)
        follower = Follower(addresses)
        follower.start()
        made = 0
        began = time.monotonic()
        for kill in range(kills):
            for step in range(5):
                request = fabric_pb2.CreateHostRequest(resource=fabric_pb2.Host(name=f"host{kill}-{step}"))
                if step == 2:
                    # The leader dies in the midst of a change, which is asked for again.
                    dying = leader(client, replicas)
                    threading.Timer(0.002, dying.kill).start()
                client.change(request, lambda it, change, timeout: it.fabric.CreateHost(change, timeout=timeout))
                made += 1
            time.sleep(0.02)
            dying.kill()
            dying.start()
        follower.wait(made)
        follower.watch.close()
        took = time.monotonic() - began
        heard = Counter(it.change.name for it in follower.events if it.change.kind == fabric_pb2.RESOURCE_KIND_HOST)
        missed = made - len(heard)
        twice = sum(count - 1 for count in heard.values())
        print(
            f"{kills} leaders killed, {made} changes made in {took:.1f} s: "
            f"{len(heard)} heard, {missed} missed, {twice} heard twice"
        )
        if follower.fault is not None:
            print(f"the watch ended: {follower.fault}", file=sys.stderr)
        return int(missed != 0 or twice != 0 or follower.fault is not None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weftd", help="the program")
    parser.add_argument("--kills", type=int, default=3, help="how many leaders die")
    arguments = parser.parse_args()
    return story(arguments.weftd, arguments.kills)


if __name__ == "__main__":
    sys.exit(main())
