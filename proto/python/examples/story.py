"""Declares a fabric, follows it, changes it, kills the leader, asks again, goes on, and sees what becomes of a job.

    python examples/story.py path/to/weftd [--kills N]

Read it from `story` downwards: what a program says to weft is there, in six steps. Three replicas of weftd run on this machine
meanwhile (lab.py). It prints what was missed and what came twice, and ends with 1 if anything did.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter

from lab import Lab, lab

from weft import Client, Event, JobPlanEvent, LinkStatusEvent, ResourceEvent
from weft.v1 import fabric_pb2, job_pb2, plan_pb2, watch_pb2


def story(lab: Lab, kills: int) -> int:
    # Any replica takes any call. The client asks the next one when one does not answer.
    with Client(lab.addresses) as client:
        # 1. Declare. A fabric is switches and the links between them: here two leaves and two spines. Applying it creates
        #    and updates what is named, and says what differed. The second time nothing does.
        switches, links = fabric()
        ports = host_ports()
        applied = client.apply_fabric("story", switches, links=links, host_ports=ports)
        print(f"declared: {len(applied.changes)} resources")
        assert not client.apply_fabric("story", switches, links=links, host_ports=ports).changes

        # 2. Watch. What exists comes first, then every change, without end: a thread of its own listens.
        follower = Follower(lab.addresses)
        follower.start()

        # 3. Change. One link goes down: `update_mask` names the field that is meant, the others stay as they are.
        answer = set_link(client, fabric_pb2.ADMIN_STATE_DOWN)
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

        # 6. See. What the leader makes of all that is followed in the same way: which links plans use, and the plans of jobs.
        #    Nobody agrees on it, so each stream begins with what there is, and no revision is needed.
        seen = see(lab, client)
        print(f"seen across the death of a leader: {', '.join(seen)}")

        if follower.fault is not None:
            print(f"the watch ended: {follower.fault}", file=sys.stderr)
        return int(missed != 0 or twice != 0 or heard != "last" or len(seen) != SEEN or follower.fault is not None)


def see(lab: Lab, client: Client) -> list[str]:
    """Follows a link and a job while both change and the leader dies, and says what it saw."""
    wanted = watch_pb2.LinkStatusFilter(names=[LINK])
    seen: list[str] = []
    with (
        Client(lab.addresses) as other,
        other.watch(link_statuses=wanted, job_plans=watch_pb2.JobPlanFilter()) as watch,
    ):
        # What never comes ends the watch.
        patience = threading.Timer(60, watch.close)
        patience.start()

        def until(said: str) -> None:
            for event in watch:
                if said == words(event):
                    seen.append(said)
                    return

        until("the link is DOWN")
        create = job_pb2.CreateJobRequest(resource=job())
        client.change(create, lambda it, request, timeout: it.jobs.CreateJob(request, timeout=timeout))
        until("train1 is PINNED")
        dying = lab.leader(client)
        dying.kill()
        set_link(client, fabric_pb2.ADMIN_STATE_UP)
        until("the link is UP")
        delete = job_pb2.DeleteJobRequest(name="train1")
        client.change(delete, lambda it, request, timeout: it.jobs.DeleteJob(request, timeout=timeout))
        until("train1 is gone")
        dying.start()
        patience.cancel()
    return seen


def words(event: Event) -> str:
    """What an event says, in short."""
    match event:
        case LinkStatusEvent():
            state = plan_pb2.LinkState.Name(event.change.link_status.state)
            return f"the link is {state.removeprefix('LINK_STATE_')}"
        case JobPlanEvent(change=change) if change.change_type == fabric_pb2.CHANGE_TYPE_DELETED:
            return f"{change.job_plan.job_name} is gone"
        case JobPlanEvent(change=change):
            state = plan_pb2.JobPlanState.Name(change.job_plan.state)
            return f"{change.job_plan.job_name} is {state.removeprefix('JOB_PLAN_STATE_')}"
        case _:
            return ""


def set_link(client: Client, state: fabric_pb2.AdminState.ValueType) -> fabric_pb2.UpdateLinkResponse:
    """Sets the link up or down, and nothing else of it."""
    update = fabric_pb2.UpdateLinkRequest(resource=fabric_pb2.Link(name=LINK, admin_state=state))
    update.update_mask.paths.append("admin_state")
    return client.change(update, lambda it, request, timeout: it.fabric.UpdateLink(request, timeout=timeout))


def job() -> job_pb2.Job:
    """A NIC of each leaf sends to one of the other."""
    one, other = (job_pb2.Nic(host_port_name=name) for name in PORTS)
    flows = [
        job_pb2.JobFlow(source=source, destination=destination, octets=1)
        for source, destination in ((one, other), (other, one))
    ]
    return job_pb2.Job(name="train1", flows=flows)


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


def host_ports() -> list[fabric_pb2.HostPort]:
    """A NIC behind each leaf."""
    return [
        fabric_pb2.HostPort(
            switch_name=f"leaf{leaf}",
            interface_name="eth9",
            capacity_bps=400_000_000_000,
            addresses=[f"192.168.0.{leaf}"],
        )
        for leaf in (1, 2)
    ]


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


LINK = "leaf1:eth1--spine1:eth1"
PORTS = ["leaf1:eth9", "leaf2:eth9"]
SEEN = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weftd", help="the program")
    parser.add_argument("--kills", type=int, default=3, help="how many leaders die")
    arguments = parser.parse_args()
    with lab(arguments.weftd) as made:
        return story(made, arguments.kills)


if __name__ == "__main__":
    sys.exit(main())
