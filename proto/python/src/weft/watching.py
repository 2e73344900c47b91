"""A watch that goes on at any replica: nothing is missed, and nothing comes twice."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import grpc

from weft.v1 import fabric_pb2, watch_pb2

if TYPE_CHECKING:
    from weft.client import Client

Key = tuple[int, str]


@dataclasses.dataclass(frozen=True)
class Event:
    """What became of one resource.

    ``change.revision`` is absent of what was found when the watch began, or began anew.
    """

    change: fabric_pb2.ResourceChange
    revision: int
    """Everything up to it was said once the next event, or the next answer, comes: what to go on after in another process."""


class Watch:
    """An iterator of events, without end.

    It begins with what exists, as CREATED, unless it goes on after a revision. When its replica dies or cuts it, it goes on at
    the next one. When no replica remembers that far back, it looks at what exists, and says how that differs from what it said
    before.
    """

    def __init__(self, client: Client, request: watch_pb2.WatchRequest, after_revision: int | None) -> None:
        self._client = client
        self._request = request
        self._known: dict[Key, fabric_pb2.ResourceChange] = {}
        self.revision = after_revision
        """Everything up to it was said; None: not yet everything that exists."""
        self._call: grpc.Call | None = None
        self._closed = False
        self._events = self._follow()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def close(self) -> None:
        """Ends it, from any thread."""
        self._closed = True
        if self._call is not None:
            self._call.cancel()

    def _follow(self) -> Iterator[Event]:
        from weft.client import WeftError

        pause, compacted = PAUSE, 0
        while not self._closed:
            try:
                for event in self._stream():
                    pause, compacted = PAUSE, 0
                    yield event
            except grpc.RpcError as error:
                if self._closed:
                    return
                known = WeftError.of(error)
                if known.reason == "REVISION_COMPACTED":
                    compacted += 1
                    # Another replica may remember; if none does, what exists is compared.
                    if compacted >= len(self._client.addresses):
                        self.revision, compacted = None, 0
                elif not (known.passing or known.reason == "WATCHER_TOO_SLOW"):
                    raise known from error
                self._client.next_replica()
            time.sleep(pause)
            pause = min(pause * 2, PAUSE_MAX)

    def _stream(self) -> Iterator[Event]:
        request = watch_pb2.WatchRequest()
        request.CopyFrom(self._request)
        if self.revision is not None:
            request.after_revision = self.revision
        request.progress_interval.FromMilliseconds(PROGRESS_MS)
        call = self._client.stubs().watch.Watch(request, wait_for_ready=False)
        self._call = call
        exists: dict[Key, fabric_pb2.ResourceChange] = {}
        for answer in call:
            if answer.snapshot:
                exists.update({(it.kind, it.name): it for it in answer.changes})
                if answer.HasField("header"):
                    yield from self._compare(exists, answer.header.revision)
                    exists = {}
                continue
            # Those of one revision come in one answer: none of them was said before.
            fresh = [it for it in answer.changes if self.revision is None or it.revision > self.revision]
            if answer.HasField("header"):
                self.revision = answer.header.revision
            for change in fresh:
                yield self._said(change)

    def _compare(self, exists: dict[Key, fabric_pb2.ResourceChange], revision: int) -> Iterator[Event]:
        """What exists, as it differs from what was said."""
        self.revision = revision
        for key, before in list(self._known.items()):
            if key not in exists:
                gone = fabric_pb2.ResourceChange()
                gone.CopyFrom(before)
                gone.change_type = fabric_pb2.CHANGE_TYPE_DELETED
                gone.ClearField("revision")
                yield self._said(gone)
        for key, change in exists.items():
            known = self._known.get(key)
            if known is None:
                yield self._said(change)
            elif _content(known) != _content(change):
                change.change_type = fabric_pb2.CHANGE_TYPE_UPDATED
                yield self._said(change)

    def _said(self, change: fabric_pb2.ResourceChange) -> Event:
        key = (change.kind, change.name)
        if change.change_type == fabric_pb2.CHANGE_TYPE_DELETED:
            self._known.pop(key, None)
        else:
            self._known[key] = change
        return Event(change, self.revision or 0)


def _content(change: fabric_pb2.ResourceChange) -> bytes:
    """The resource, without how it became so."""
    content = fabric_pb2.ResourceChange()
    content.CopyFrom(change)
    content.ClearField("revision")
    content.ClearField("change_type")
    return content.SerializeToString(deterministic=True)


PAUSE = 0.05
PAUSE_MAX = 1.0
PROGRESS_MS = 1_000
