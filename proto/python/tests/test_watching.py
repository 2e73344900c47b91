"""Watches, at replicas that die, forget and repeat themselves."""

from __future__ import annotations

import socket
import threading
import unittest
from unittest import mock

import grpc
from google.rpc import code_pb2
from scripted import Refused, Replica, Stream, answer, compacted, full, host, refusal, stream

from weft import (
    Client,
    Event,
    JobPlanEvent,
    LinkStatusEvent,
    PeerEvent,
    ResourceEvent,
    RevisionCompacted,
    RouteEvent,
    Watch,
    WeftError,
)
from weft.client import OPTIONS
from weft.v1 import fabric_pb2, header_pb2, peer_pb2, plan_pb2, read_pb2, route_pb2, watch_pb2


def word(event: Event) -> str:
    """What an event says, in two or three words."""
    kind = fabric_pb2.ChangeType.Name(event.change.change_type).removeprefix("CHANGE_TYPE_").lower()
    if isinstance(event, ResourceEvent):
        return f"{event.change.name} {kind}"
    if isinstance(event, RouteEvent):
        return f"{event.change.route.key} {kind}"
    if isinstance(event, JobPlanEvent):
        return f"{event.change.job_plan.job_name} {kind} {event.change.job_plan.etag}".rstrip()
    if isinstance(event, LinkStatusEvent):
        return f"{event.change.link_status.link_name} {kind} {event.change.link_status.etag}".rstrip()
    return f"{event.change.peer.session.address} {kind} {event.replica_id}"


def route(key: str, change: fabric_pb2.ChangeType.ValueType, next_hop: str = "") -> watch_pb2.RouteChange:
    paths = [route_pb2.Path(next_hop=next_hop)] if next_hop else []
    family = read_pb2.ADDRESS_FAMILY_L2VPN_EVPN
    return watch_pb2.RouteChange(change_type=change, route=route_pb2.Route(family=family, key=key, paths=paths))


def peer(address: str, change: fabric_pb2.ChangeType.ValueType, asn: int = 64496, count: int = 0) -> watch_pb2.PeerChange:
    session = peer_pb2.PeerSession(address=address, messages_sent=count)
    return watch_pb2.PeerChange(change_type=change, peer=peer_pb2.Peer(asn=asn, session=session, route_count=count))


def plan(name: str, change: fabric_pb2.ChangeType.ValueType, etag: str = "") -> watch_pb2.JobPlanChange:
    return watch_pb2.JobPlanChange(change_type=change, job_plan=plan_pb2.JobPlan(job_name=name, etag=etag))


def link(name: str, change: fabric_pb2.ChangeType.ValueType, etag: str = "", bps: int = 0) -> watch_pb2.LinkStatusChange:
    status = plan_pb2.LinkStatus(link_name=name, etag=etag, a_to_b_bps=bps)
    return watch_pb2.LinkStatusChange(change_type=change, link_status=status)


CREATED = fabric_pb2.CHANGE_TYPE_CREATED
UPDATED = fabric_pb2.CHANGE_TYPE_UPDATED
DELETED = fabric_pb2.CHANGE_TYPE_DELETED


class Watches(unittest.TestCase):
    def setUp(self) -> None:
        self.replica = Replica()
        self.addCleanup(self.replica.server.stop, None)
        self.client = Client([self.replica.address])
        self.addCleanup(self.client.close)

    def heard(self, *streams: Stream, after: int | None = None) -> list[Event]:
        """Events until the script is over."""
        self.replica.streams = list(streams)
        heard: list[Event] = []
        with self.assertRaises(WeftError) as caught:
            for event in self.client.watch(after_revision=after, routes=watch_pb2.RouteFilter()):
                heard.append(event)
        self.assertEqual(caught.exception.code, grpc.StatusCode.UNIMPLEMENTED)
        return heard

    def said(self, *streams: Stream, after: int | None = None) -> list[str]:
        return [word(it) for it in self.heard(*streams, after=after)]

    def test_it_goes_on_after_what_it_heard(self) -> None:
        said = self.said(
            stream(answer(None, host("h1"), snapshot=True), answer(4, snapshot=True), answer(7, host("h2", 7))),
            stream(answer(9, host("h3", 9))),
        )
        self.assertEqual(said, ["h1 created", "h2 created", "h3 created"])
        self.assertEqual([it.after_revision for it in self.replica.asked], [0, 7, 9])
        self.assertFalse(self.replica.asked[0].HasField("after_revision"))

    def test_what_comes_twice_is_said_once(self) -> None:
        said = self.said(
            stream(answer(5, host("h1", 5))),
            stream(answer(6, host("h1", 5), host("h2", 6))),
            after=4,
        )
        self.assertEqual(said, ["h1 created", "h2 created"])

    def test_a_snapshot_that_breaks_off_begins_again(self) -> None:
        said = self.said(
            stream(answer(None, host("h1"), host("h2"), snapshot=True)),
            stream(answer(None, host("h1"), snapshot=True), answer(3, host("h3"), snapshot=True)),
        )
        # h2 went meanwhile.
        self.assertEqual(said, ["h1 created", "h2 created", "h3 created", "h2 deleted"])

    def test_only_the_last_event_of_an_answer_is_gone_on_after(self) -> None:
        heard = self.heard(
            stream(
                answer(None, host("h1"), host("h2"), snapshot=True),
                answer(4, snapshot=True),
                answer(9, host("h3", 7), host("h4", 8), host("h5", 9)),
                answer(12, host("h6", 11)),
            )
        )
        revisions = [(word(it).split()[0], it.revision) for it in heard]
        self.assertEqual(revisions, [("h1", None), ("h2", 4), ("h3", 4), ("h4", 4), ("h5", 9), ("h6", 12)])

    def test_the_watch_itself_moves_when_an_answer_is_taken(self) -> None:
        self.replica.streams = [
            stream(answer(4, host("h1"), host("h2"), snapshot=True), answer(9, host("h3", 7), host("h4", 9))),
        ]
        watch = self.client.watch()
        moved = [(next(watch).change.name, watch.revision) for _ in range(4)]
        self.assertEqual(moved, [("h1", None), ("h2", None), ("h3", 4), ("h4", 4)])
        watch.close()
        with self.assertRaises(StopIteration):
            next(watch)
        self.assertEqual(watch.revision, 9)

    def test_who_stops_at_the_first_of_three_hears_the_others_elsewhere(self) -> None:
        three = [host("h1", 5), host("h2", 6), host("h3", 7)]
        self.replica.streams = [stream(answer(7, *three))]
        first = next(self.client.watch(after_revision=4))
        assert first.revision is not None

        def goes_on(request: watch_pb2.WatchRequest) -> list[watch_pb2.WatchResponse]:
            return [answer(7, *(it for it in three if it.revision > request.after_revision))]

        said = self.said(lambda request: iter(goes_on(request)), after=first.revision)
        self.assertEqual(said[-2:], ["h2 created", "h3 created"])

    def test_an_answer_that_comes_in_parts_is_gone_on_after_with_its_last_one(self) -> None:
        parts = [
            watch_pb2.WatchResponse(route_changes=[route("r1", CREATED, "192.0.2.1"), route("r2", CREATED, "192.0.2.1")]),
            watch_pb2.WatchResponse(
                header=header_pb2.ResponseHeader(revision=8),
                changes=[host("h1", 8)],
                route_changes=[route("r3", CREATED, "192.0.2.1")],
            ),
        ]
        heard = self.heard(stream(*parts), after=4)
        self.assertEqual([(word(it).split()[0], it.revision) for it in heard], [("r1", 4), ("r2", 4), ("h1", 4), ("r3", 8)])

    def test_a_part_without_the_rest_is_said_all_the_same(self) -> None:
        part = watch_pb2.WatchResponse(route_changes=[route("r1", CREATED, "192.0.2.1")])
        heard = self.heard(stream(part), after=4)
        self.assertEqual([(word(it), it.revision) for it in heard], [("r1 created", 4)])

    def test_a_forgotten_revision_is_made_up_for(self) -> None:
        heard = self.heard(
            stream(answer(4, host("h1"), host("h2"), host("h3"), snapshot=True)),
            compacted,
            stream(answer(90, host("h1"), host("h2", rack="a"), host("h4"), snapshot=True)),
        )
        words = [word(it) for it in heard]
        self.assertEqual(words, ["h1 created", "h2 created", "h3 created", "h2 updated", "h4 created", "h3 deleted"])
        self.assertEqual([it.revision for it in heard], [None, None, 4, None, None, 90])

    def test_a_forgotten_revision_of_the_caller_ends_it(self) -> None:
        # What exists is not what changed: h1 was there before, and of what went meanwhile nobody would hear.
        self.replica.streams = [compacted, stream(answer(90, host("h1"), snapshot=True))]
        with self.assertRaises(RevisionCompacted) as caught:
            next(self.client.watch(after_revision=4))
        self.assertEqual(caught.exception.oldest_revision, 80)

    def test_another_replica_may_remember(self) -> None:
        other = Replica()
        self.addCleanup(other.server.stop, None)
        self.client.addresses.append(other.address)
        self.replica.streams = [compacted]
        other.streams = [stream(answer(5, host("h1", 5)))]
        self.assertEqual(word(next(self.client.watch(after_revision=4))), "h1 created")

    def test_a_dead_replica_remembers_nothing(self) -> None:
        dead = Replica()
        dead.server.stop(None).wait()
        self.client.addresses.append(dead.address)
        self.replica.streams = [compacted] * 2
        with self.assertRaises(RevisionCompacted):
            next(self.client.watch(after_revision=4))

    def test_a_replica_without_a_place_is_passed_over(self) -> None:
        other = Replica()
        self.addCleanup(other.server.stop, None)
        self.client.addresses.append(other.address)
        self.replica.streams = [full, full]
        other.streams = [stream(answer(5, host("h1", 5))), full]
        watch = self.client.watch(after_revision=4)
        self.assertEqual(word(next(watch)), "h1 created")
        # And if nobody has one, it ends.
        with self.assertRaises(WeftError) as caught:
            next(watch)
        self.assertEqual(caught.exception.reason, "TOO_MANY_WATCHERS")

    def test_a_replica_that_hangs_is_left(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as hangs:

            def hang() -> None:
                connection, _ = hangs.accept()
                # Empty SETTINGS, RFC 9113 §6.5, and not another word.
                connection.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
                held.append(connection)

            held: list[socket.socket] = []
            threading.Thread(target=hang, daemon=True).start()
            self.replica.streams = [stream(answer(5, host("h1", 5)))]
            addresses = [f"127.0.0.1:{hangs.getsockname()[1]}", self.replica.address]
            soon = [it if it[0] != "grpc.keepalive_time_ms" else (it[0], 100) for it in OPTIONS]
            with mock.patch("weft.client.OPTIONS", soon), Client(addresses) as client:
                watch = client.watch(after_revision=4)
                late = threading.Timer(15, watch.close)
                late.start()
                self.assertEqual(word(next(watch)), "h1 created")
                late.cancel()
                watch.close()
            held[0].close()

    def test_a_wrong_request_ends_it(self) -> None:
        def wrong(_: watch_pb2.WatchRequest) -> list[watch_pb2.WatchResponse]:
            raise Refused(refusal(code_pb2.INVALID_ARGUMENT, field="names"))

        self.replica.streams = [lambda request: iter(wrong(request))]
        with self.assertRaises(WeftError) as caught:
            next(self.client.watch())
        self.assertEqual(caught.exception.fields, {"names": "wrong"})

    def test_it_asks_for_what_is_wanted(self) -> None:
        routes, peers = watch_pb2.RouteFilter(vni=100), watch_pb2.PeerFilter(names=["192.0.2.1"])
        self.replica.streams = [stream(answer(4, snapshot=True))]
        with self.assertRaises(WeftError):
            next(self.client.watch(routes=routes, peers=peers))
        self.assertEqual((self.replica.asked[0].routes, self.replica.asked[0].peers), (routes, peers))
        plans, links = watch_pb2.JobPlanFilter(names=["train1"]), watch_pb2.LinkStatusFilter()
        self.replica.streams = [stream(answer(4, snapshot=True))]
        with self.assertRaises(WeftError):
            next(self.client.watch(job_plans=plans, link_statuses=links))
        asked = self.replica.asked[-1]
        self.assertEqual((asked.job_plans, asked.HasField("link_statuses"), asked.HasField("peers")), (plans, True, False))

    def test_an_older_replica_is_asked_for_nothing_that_is_declared_beside_plans(self) -> None:
        hosts, plans = [fabric_pb2.RESOURCE_KIND_HOST], watch_pb2.JobPlanFilter()

        def names(watch: Watch[Event]) -> list[str]:
            self.replica.streams = [stream(answer(4, snapshot=True))]
            with self.assertRaises(WeftError):
                next(watch)
            return list(self.replica.asked[-1].names)

        self.assertEqual(names(self.client.watch(job_plans=plans)), [""])
        self.assertEqual(names(self.client.watch(link_statuses=watch_pb2.LinkStatusFilter())), [""])
        self.assertEqual(names(self.client.watch(hosts, job_plans=plans)), [])
        self.assertEqual(names(self.client.watch(names=["h1"], job_plans=plans)), ["h1"])
        self.assertEqual(names(self.client.watch(peers=watch_pb2.PeerFilter())), [])

    def test_a_route_that_comes_twice_is_said_once(self) -> None:
        def routes(revision: int, *changes: watch_pb2.RouteChange, snapshot: bool = False) -> watch_pb2.WatchResponse:
            header = header_pb2.ResponseHeader(revision=revision)
            return watch_pb2.WatchResponse(header=header, route_changes=changes, snapshot=snapshot)

        a, b = "192.0.2.1", "192.0.2.2"
        said = self.said(
            stream(
                routes(4, route("r1", CREATED, a), route("r2", CREATED, a), route("r3", CREATED, a), snapshot=True),
                # It was in the snapshot already.
                routes(5, route("r1", CREATED, a), route("r2", UPDATED, b)),
            ),
            compacted,
            stream(
                routes(90, route("r1", CREATED, a), route("r3", CREATED, b), snapshot=True),
                routes(91, route("r2", DELETED), route("r4", UPDATED, a)),
            ),
        )
        created = ["r1 created", "r2 created", "r3 created"]
        self.assertEqual(said, [*created, "r2 updated", "r3 updated", "r2 deleted", "r4 created"])

    def test_peers_are_what_the_answering_replica_knows(self) -> None:
        def peers(replica: int, revision: int, *changes: watch_pb2.PeerChange, snapshot: bool = False) -> watch_pb2.WatchResponse:
            header = header_pb2.ResponseHeader(replica_id=replica, revision=revision)
            return watch_pb2.WatchResponse(header=header, peer_changes=changes, peer_snapshot=snapshot)

        heard = self.heard(
            stream(
                peers(1, 4, peer("a", CREATED), peer("b", CREATED), snapshot=True),
                peers(1, 5, peer("b", UPDATED, asn=64497)),
            ),
            # The connection died, not the replica: counters alone are no change.
            stream(peers(1, 5, peer("a", CREATED, count=9), peer("b", CREATED, asn=64497, count=9), snapshot=True)),
            # A part that the next stream does not go on with.
            stream(watch_pb2.WatchResponse(peer_changes=[peer("d", CREATED)], peer_snapshot=True)),
            stream(
                watch_pb2.WatchResponse(peer_changes=[peer("b", CREATED, asn=64497)], peer_snapshot=True),
                peers(2, 6, peer("c", CREATED), snapshot=True),
                peers(2, 7, peer("c", DELETED), peer("x", DELETED)),
            ),
            after=3,
        )
        self.assertTrue(all(isinstance(it, PeerEvent) for it in heard))
        words = ["a created 1", "b created 1", "b updated 1", "a deleted 2", "b updated 2", "c created 2", "c deleted 2"]
        self.assertEqual([word(it) for it in heard], words)
        self.assertEqual([it.revision for it in heard], [3, 4, 5, 5, 5, 6, 7])

    def test_what_has_no_etag_is_said_whenever_it_comes(self) -> None:
        def planned(revision: int) -> watch_pb2.WatchResponse:
            header = header_pb2.ResponseHeader(revision=revision)
            return watch_pb2.WatchResponse(header=header, job_plan_changes=[plan("train1", CREATED)])

        self.assertEqual(self.said(stream(planned(4), planned(5))), ["train1 created", "train1 updated"])

    def test_plans_and_statuses_are_what_the_leader_has(self) -> None:
        def planned(
            replica: int,
            revision: int,
            plans: list[watch_pb2.JobPlanChange],
            links: list[watch_pb2.LinkStatusChange],
            snapshot: bool = False,
        ) -> watch_pb2.WatchResponse:
            header = header_pb2.ResponseHeader(replica_id=replica, revision=revision)
            return watch_pb2.WatchResponse(
                header=header,
                job_plan_changes=plans,
                job_plan_snapshot=snapshot,
                link_status_changes=links,
                link_status_snapshot=snapshot,
            )

        part = watch_pb2.WatchResponse(job_plan_changes=[plan("z", CREATED, "1")], job_plan_snapshot=True)
        heard = self.heard(
            stream(
                planned(1, 4, [plan("a", CREATED, "1"), plan("b", CREATED, "1")], [link("l", CREATED, "1")], snapshot=True),
                planned(1, 5, [plan("b", UPDATED, "2")], []),
            ),
            # A part that the next stream does not go on with.
            stream(part),
            # Another replica has the same of the same leader: it is not said again.
            stream(
                watch_pb2.WatchResponse(job_plan_changes=[plan("b", CREATED, "2")], job_plan_snapshot=True),
                planned(2, 6, [plan("c", CREATED, "1")], [link("l", CREATED, "1", bps=9)], snapshot=True),
                planned(2, 7, [plan("c", DELETED), plan("x", DELETED)], [link("l", UPDATED, "2")]),
            ),
            after=3,
        )
        self.assertTrue(all(isinstance(it, (JobPlanEvent, LinkStatusEvent)) for it in heard))
        first = ["a created 1", "b created 1", "l created 1", "b updated 2"]
        words = [*first, "a deleted", "c created 1", "c deleted", "l updated 2"]
        self.assertEqual([word(it) for it in heard], words)
        self.assertEqual([it.revision for it in heard], [3, 3, 4, 5, 5, 6, 6, 7])


if __name__ == "__main__":
    unittest.main()
