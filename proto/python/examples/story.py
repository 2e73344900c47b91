"""Declares a fabric, follows it, changes it, kills the leader, asks again, and goes on.

    python examples/story.py path/to/weftd [--kills N]

Read it from `story` downwards: what a program says to weft is there, in five steps. Three replicas of weftd run on this machine
meanwhile (lab.py). It prints what was missed and what came twice, and ends with 1 if anything did.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter

from lab import Lab, lab

from weft import Client, ResourceEvent
from weft.v1 import fabric_pb2


def story(lab: Lab, kills: int) -> int:
    # Any replica takes any call. The client asks the next one when one does not answer.
    with Client(lab.addresses) as client:
        # 1. Declare. A fabric is switches and the links between them: here two leaves and two spines. Applying it makes the
        #    declared fabric this one, and says what differed. The second time nothing does.
        switches, links = fabric()
        changes = client.apply_fabric("story", switches, links=links)
        print(f"declared: {len(changes)} resources")
        assert client.apply_fabric("story", switches, links=links) == []

        # 2. Watch. What exists comes first, then every change, without end: a thread of its own listens.
        follower = Follower(lab.addresses)
        follower.start()

        # 3. Change. One link goes down: `update_mask` names the field that is meant, the others stay as they are.
        down = fabric_pb2.UpdateLinkRequest(
            resource=fabric_pb2.Link(name="leaf1:eth1--spine1:eth1", admin_state=fabric_pb2.ADMIN_STATE_DOWN)
        )
        down.update_mask.paths.append("admin_state")
        answer = client.change(down, lambda it, request, timeout: it.fabric.UpdateLink(request, timeout=timeout))
        print(f"changed: {answer.resource.name} is {fabric_pb2.AdminState.Name(answer.resource.admin_state)}")

        # 4. Kill the leader, in the midst of a change, again and again. The client asks another replica, with the same
        #    request_id: however often the change is asked for, it is made once.
        began, made = time.monotonic(), 0
        for kill in range(kills):
            for step in range(5):
                host = fabric_pb2.CreateHostRequest(resource=fabric_pb2.Host(name=f"host{kill}-{step}"))
                if step == 2:
                    dying = lab.leader(client)
                    threading.Timer(0.002, dying.kill).start()
                client.change(host, lambda it, request, timeout: it.fabric.CreateHost(request, timeout=timeout))
                made += 1
            time.sleep(0.02)
            dying.kill()
            dying.start()
        missed, twice = follower.audit(made)
        took = time.monotonic() - began
        print(f"{kills} leaders killed, {made} changes made in {took:.1f} s: {missed} missed, {twice} heard twice")

        # 5. Go on. A revision means the same at every replica. Another process that has only the last one that was heard goes on
        #    behind it, at whatever replica it finds.
        revision = follower.stop()
        last = fabric_pb2.CreateHostRequest(resource=fabric_pb2.Host(name="last"))
        client.change(last, lambda it, request, timeout: it.fabric.CreateHost(request, timeout=timeout))
        with Client(list(reversed(lab.addresses))) as other, other.watch(after_revision=revision) as watch:
            heard = next(watch).change.name
        print(f"gone on elsewhere after revision {revision}: heard {heard!r}")

        if follower.fault is not None:
            print(f"the watch ended: {follower.fault}", file=sys.stderr)
        return int(missed != 0 or twice != 0 or heard != "last" or follower.fault is not None)


def fabric() -> tuple[list[fabric_pb2.Switch], list[fabric_pb2.Link]]:
    """Two leaves and two spines, each leaf with a link of 400 Gbit/s to each spine.

    A link has no name here: weft calls it "leaf1:eth1--spine1:eth1", after its ends.
    """
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
    return [*leaves, *spines], links


class Follower(threading.Thread):
    """Follows the fabric, and remembers what it heard."""

    def __init__(self, addresses: list[str]) -> None:
        super().__init__(daemon=True)
        self.client = Client(addresses)
        self.watch = self.client.watch()
        self.events: list[ResourceEvent] = []
        self.fault: Exception | None = None

    def run(self) -> None:
        try:
            # It goes on at another replica by itself: the loop does not notice that leaders die.
            for event in self.watch:
                self.events.append(event)
        except Exception as fault:
            self.fault = fault

    def audit(self, made: int) -> tuple[int, int]:
        """How many of so many new hosts were missed, once there was time to hear of them, and how many came twice."""
        due = time.monotonic() + 60
        while True:
            hosts = [it.change.name for it in list(self.events) if it.change.kind == fabric_pb2.RESOURCE_KIND_HOST]
            heard = Counter(hosts)
            if len(heard) >= made or time.monotonic() > due or not self.is_alive():
                return made - len(heard), len(hosts) - len(heard)
            time.sleep(0.01)

    def stop(self) -> int | None:
        """Ends it; the revision to go on after, as its last event has it."""
        self.watch.close()
        self.join()
        self.client.close()
        return self.events[-1].revision


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weftd", help="the program")
    parser.add_argument("--kills", type=int, default=3, help="how many leaders die")
    arguments = parser.parse_args()
    with lab(arguments.weftd) as made:
        return story(made, arguments.kills)


if __name__ == "__main__":
    sys.exit(main())
