"""What a watch has said so far, and what an answer adds to it. Knows no replica and no time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from google.protobuf.message import Message

from weft.v1 import fabric_pb2, peer_pb2, plan_pb2, route_pb2, watch_pb2

PlannedChange = watch_pb2.JobPlanChange | watch_pb2.LinkStatusChange
"""Of what the leader makes, whichever replica answers."""
Change = fabric_pb2.ResourceChange | watch_pb2.RouteChange | watch_pb2.PeerChange | PlannedChange

ResourceKey = tuple[int, str]
"""Kind and name."""
RouteKey = tuple[int, int, str | None, str]
"""Family, type, route distinguisher and key."""


class Known:
    """Resources, routes, peers, plans of jobs and statuses of links that were said to exist.

    A resource is held as it is, some hundred octets; a route as its key and a hash, some two hundred.
    """

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        """It began with what exists: what is not in it was not there."""
        self._resources: dict[ResourceKey, fabric_pb2.ResourceChange] = {}
        self._routes: dict[RouteKey, bytes] = {}
        self._peers: dict[str, tuple[int, bytes, peer_pb2.Peer]] = {}
        self._job_plans = Planned()
        self._link_statuses = Planned()
        self.begin()

    def begin(self) -> None:
        """Another stream begins: a snapshot that the one before did not finish is void."""
        self._listed: set[ResourceKey] = set()
        self._listed_routes: set[RouteKey] = set()
        self._parts_of_peers: list[watch_pb2.PeerChange] = []
        self._job_plans.begin()
        self._link_statuses.begin()

    def told(self, answer: watch_pb2.WatchResponse, after: int | None) -> Iterator[Change]:
        """What an answer says that was not said before. ``after``: everything up to this revision was."""
        for change in answer.changes:
            if answer.snapshot:
                self._listed.add((change.kind, change.name))
                yield from self._found(change)
            # Those of one revision come in one answer.
            elif after is None or change.revision > after:
                self._remember(change)
                yield change
        for route_change in answer.route_changes:
            if answer.snapshot:
                self._listed_routes.add(_route_key(route_change.route))
            yield from self._route(route_change)
        if answer.snapshot and answer.HasField("header"):
            yield from self._gone()
        yield from self._told_peers(answer)
        is_last = answer.HasField("header")
        yield from self._job_plans.told(list(answer.job_plan_changes), answer.job_plan_snapshot, is_last)
        yield from self._link_statuses.told(list(answer.link_status_changes), answer.link_status_snapshot, is_last)

    def _found(self, change: fabric_pb2.ResourceChange) -> Iterator[Change]:
        """A resource that exists."""
        before = self._resources.get((change.kind, change.name))
        if before is not None:
            if _content(before) == _content(change):
                return
            change.change_type = fabric_pb2.CHANGE_TYPE_UPDATED
        self._remember(change)
        yield change

    def _remember(self, change: fabric_pb2.ResourceChange) -> None:
        if not self.whole:
            # There will be nothing to compare it with.
            return
        key = (change.kind, change.name)
        if change.change_type == fabric_pb2.CHANGE_TYPE_DELETED:
            self._resources.pop(key, None)
        else:
            self._resources[key] = change

    def _route(self, change: watch_pb2.RouteChange) -> Iterator[Change]:
        """A route may come again as it is, after a snapshot or from another replica."""
        key = _route_key(change.route)
        before = self._routes.get(key)
        if change.change_type == fabric_pb2.CHANGE_TYPE_DELETED:
            if self._routes.pop(key, None) is not None or not self.whole:
                yield change
            return
        now = _hash(change.route)
        if now == before:
            return
        self._routes[key] = now
        if before is not None:
            change.change_type = fabric_pb2.CHANGE_TYPE_UPDATED
        elif self.whole:
            change.change_type = fabric_pb2.CHANGE_TYPE_CREATED
        yield change

    def _gone(self) -> Iterator[Change]:
        """What no part of a snapshot named. What is named by others was said first: it goes last."""
        for resource in [key for key in reversed(self._resources) if key not in self._listed]:
            gone = fabric_pb2.ResourceChange()
            gone.CopyFrom(self._resources.pop(resource))
            gone.change_type = fabric_pb2.CHANGE_TYPE_DELETED
            gone.ClearField("revision")
            yield gone
        for route in [key for key in self._routes if key not in self._listed_routes]:
            del self._routes[route]
            yield watch_pb2.RouteChange(change_type=fabric_pb2.CHANGE_TYPE_DELETED, route=_route(route))
        self.begin()

    def _told_peers(self, answer: watch_pb2.WatchResponse) -> Iterator[Change]:
        changes = self._parts_of_peers + list(answer.peer_changes)
        if not answer.HasField("header"):
            # The last part says who answers, and that it is the last.
            self._parts_of_peers = changes
            return
        self._parts_of_peers = []
        if answer.peer_snapshot:
            listed = {_peer_name(it.peer) for it in changes}
            for name in [name for name in self._peers if name not in listed]:
                _, _, peer = self._peers.pop(name)
                yield watch_pb2.PeerChange(change_type=fabric_pb2.CHANGE_TYPE_DELETED, peer=peer)
        for change in changes:
            name = _peer_name(change.peer)
            before = self._peers.get(name)
            if change.change_type == fabric_pb2.CHANGE_TYPE_DELETED:
                if self._peers.pop(name, None) is not None:
                    yield change
                continue
            replica = answer.header.replica_id
            now = _hash(_uncounted(change.peer))
            if before is not None:
                if before[:2] == (replica, now):
                    continue
                change.change_type = fabric_pb2.CHANGE_TYPE_UPDATED
            self._peers[name] = (replica, now, _called(change.peer))
            yield change


class Planned:
    """What the leader makes of one kind: each has a name, and an etag that stays while nothing of it changes."""

    def __init__(self) -> None:
        self._etags: dict[str, tuple[str, PlannedChange]] = {}
        """By name, with how one is said that went."""
        self.begin()

    def begin(self) -> None:
        """Another stream begins: parts that the one before did not finish are void."""
        self._parts: list[PlannedChange] = []

    def told(self, changes: Sequence[PlannedChange], snapshot: bool, is_last: bool) -> Iterator[PlannedChange]:
        """What changes, or all that there is, say that was not said before."""
        self._parts.extend(changes)
        if not is_last:
            return
        changes, self._parts = self._parts, []
        if snapshot:
            listed = {_planned(it)[0] for it in changes}
            for name in [name for name in self._etags if name not in listed]:
                yield self._etags.pop(name)[1]
        for change in changes:
            name, etag = _planned(change)
            if change.change_type == fabric_pb2.CHANGE_TYPE_DELETED:
                if self._etags.pop(name, None) is not None:
                    yield change
                continue
            before = self._etags.get(name)
            if before is not None:
                # A leader of an older release writes none.
                if etag and before[0] == etag:
                    continue
                change.change_type = fabric_pb2.CHANGE_TYPE_UPDATED
            else:
                change.change_type = fabric_pb2.CHANGE_TYPE_CREATED
                before = (etag, _went(change, name))
            self._etags[name] = (etag, before[1])
            yield change


def _planned(change: PlannedChange) -> tuple[str, str]:
    """Name and etag."""
    if isinstance(change, watch_pb2.JobPlanChange):
        return change.job_plan.job_name, change.job_plan.etag
    return change.link_status.link_name, change.link_status.etag


def _went(change: PlannedChange, name: str) -> PlannedChange:
    """The same when it went: its name alone."""
    deleted = fabric_pb2.CHANGE_TYPE_DELETED
    if isinstance(change, watch_pb2.JobPlanChange):
        return watch_pb2.JobPlanChange(change_type=deleted, job_plan=plan_pb2.JobPlan(job_name=name))
    return watch_pb2.LinkStatusChange(change_type=deleted, link_status=plan_pb2.LinkStatus(link_name=name))


def _content(change: fabric_pb2.ResourceChange) -> bytes:
    """The resource, without how it became so."""
    content = fabric_pb2.ResourceChange()
    content.CopyFrom(change)
    content.ClearField("revision")
    content.ClearField("change_type")
    return content.SerializeToString(deterministic=True)


def _route_key(route: route_pb2.Route) -> RouteKey:
    return (route.family, route.route_type, route.rd if route.HasField("rd") else None, route.key)


def _route(key: RouteKey) -> route_pb2.Route:
    """A route that went: without paths."""
    family, route_type, rd, text = key
    route = route_pb2.Route(rd=rd, key=text)
    # Numbers that are not listed are types too.
    route.family, route.route_type = family, route_type  # type: ignore[assignment]
    return route


def _peer_name(peer: peer_pb2.Peer) -> str:
    return peer.session.address if peer.HasField("session") else peer.router_id


def _called(peer: peer_pb2.Peer) -> peer_pb2.Peer:
    """A peer that went: its address and router id alone."""
    called = peer_pb2.Peer(router_id=peer.router_id if peer.HasField("router_id") else None)
    if peer.HasField("session"):
        called.session.address = peer.session.address
    return called


def _uncounted(peer: peer_pb2.Peer) -> peer_pb2.Peer:
    """A peer without what is counted, which changes all the time."""
    still = peer_pb2.Peer()
    still.CopyFrom(peer)
    still.ClearField("route_count")
    if still.HasField("session"):
        still.session.messages_received = still.session.messages_sent = 0
    return still


def _hash(message: Message) -> bytes:
    return hashlib.blake2b(message.SerializeToString(deterministic=True), digest_size=16).digest()
