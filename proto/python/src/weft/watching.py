"""A watch that goes on at any replica: nothing is missed, and nothing comes twice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import grpc

from weft.error import RevisionCompacted, WeftError
from weft.event import Event, JobPlanEvent, LinkStatusEvent, PeerEvent, ResourceEvent, RouteEvent
from weft.known import Change, Known
from weft.patience import Patience
from weft.v1 import fabric_pb2, watch_pb2

if TYPE_CHECKING:
    from weft.client import Client, Stubs

Said = TypeVar("Said", bound=Event)


class Watch(Generic[Said]):
    """An iterator of events, without end.

    It begins with what exists, as CREATED, unless it goes on after a revision. When its replica dies or cuts it, it goes on at
    the next one. When no replica remembers that far back, it looks at what exists, and says how that differs from what it said
    before: what changed as UPDATED or CREATED, then what is gone as DELETED. A watch that was begun with a revision cannot know
    what is gone: it ends with :class:`RevisionCompacted`.
    """

    def __init__(self, client: Client, request: watch_pb2.WatchRequest, after_revision: int | None) -> None:
        self._client = client
        self._request = request
        self._known = Known(whole=after_revision is None)
        self.revision = after_revision
        """Everything up to it was said and taken: it moves when the event after an answer's last one is asked for. None: not
        yet everything that exists."""
        self._call: grpc.Call | None = None
        self._closed = False
        self._patience = Patience(math.inf)
        # Since the last answer: replicas that cannot go on, and those that were silent then.
        self._tried: set[str] = set()
        self._events = self._follow()

    def __iter__(self) -> Iterator[Said]:
        return self

    def __next__(self) -> Said:
        return cast(Said, next(self._events))

    def __enter__(self) -> Watch[Said]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it, from any thread, after the answer that is being read."""
        self._closed = True
        if self._call is not None:
            self._call.cancel()

    def _follow(self) -> Iterator[Event]:
        while not self._closed:
            stubs = self._client.stubs()
            try:
                yield from self._stream(stubs)
            except grpc.RpcError as error:
                if self._closed:
                    return
                self._bear(WeftError.of(error), stubs.address)
                self._client.next_replica(stubs.address)
            self._patience.wait()

    def _bear(self, fault: WeftError, address: str) -> None:
        """Raises a fault that no other replica helps against."""
        alone = fault.reason in ALONE
        if alone or self._tried:
            self._tried.add(address)
        if alone and self._tried.issuperset(self._client.addresses):
            if not isinstance(fault, RevisionCompacted) or not self._known.whole:
                raise fault
            # Nobody remembers: what exists is compared with what was said.
            self.revision = None
            self._tried.clear()
        elif not (alone or fault.passing or fault.reason == "WATCHER_TOO_SLOW"):
            raise fault

    def _stream(self, stubs: Stubs) -> Iterator[Event]:
        request = watch_pb2.WatchRequest()
        request.CopyFrom(self._request)
        if self.revision is not None:
            request.after_revision = self.revision
        request.progress_interval.FromMilliseconds(PROGRESS_MS)
        call = stubs.watch.Watch(request, wait_for_ready=False)
        self._call = call
        if self._closed:
            call.cancel()
        self._known.begin()
        # The last change is held until it is known whether an answer is complete with it.
        held: tuple[Change, int] | None = None
        fault: grpc.RpcError | None = None
        try:
            for answer in call:
                self._patience.renew()
                self._tried.clear()
                for change in self._known.told(answer, self.revision):
                    if held is not None:
                        yield _event(held, self.revision)
                    held = (change, answer.header.replica_id)
                if answer.HasField("header"):
                    if held is not None:
                        last, held = held, None
                        yield _event(last, answer.header.revision)
                    # Who stops at an event goes on after what came before its answer.
                    self.revision = answer.header.revision
        except grpc.RpcError as error:
            fault = error
        if held is not None:
            yield _event(held, self.revision)
        if fault is not None:
            raise fault


def _event(held: tuple[Change, int], revision: int | None) -> Event:
    change, replica_id = held
    if isinstance(change, fabric_pb2.ResourceChange):
        return ResourceEvent(change, revision)
    if isinstance(change, watch_pb2.RouteChange):
        return RouteEvent(change, revision)
    if isinstance(change, watch_pb2.JobPlanChange):
        return JobPlanEvent(change, revision)
    if isinstance(change, watch_pb2.LinkStatusChange):
        return LinkStatusEvent(change, revision)
    return PeerEvent(change, revision, replica_id)


# What one replica says of itself, and another one may not.
ALONE = {"REVISION_COMPACTED", "TOO_MANY_WATCHERS"}
PROGRESS_MS = 1_000
