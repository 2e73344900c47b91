"""What a watch says: one change each, and what to go on after."""

from __future__ import annotations

import dataclasses

from weft.v1 import fabric_pb2, watch_pb2


@dataclasses.dataclass(frozen=True)
class ResourceEvent:
    """What became of one declared resource.

    ``change.revision`` is absent of what was found when the watch began, or began anew.
    """

    change: fabric_pb2.ResourceChange
    revision: int | None
    """What to go on after, in another process too, once this event is dealt with. Changes come several in an answer: until
    its last one this is the revision before it, and who goes on after that hears the whole answer again. None: not yet
    everything that exists was said, and there is nothing to go on after."""


@dataclasses.dataclass(frozen=True)
class RouteEvent:
    """What became of the best path of one route."""

    change: watch_pb2.RouteChange
    revision: int | None
    """As in ResourceEvent."""


@dataclasses.dataclass(frozen=True)
class PeerEvent:
    """What became of one peer, as one replica knows it."""

    change: watch_pb2.PeerChange
    revision: int | None
    """As in ResourceEvent. What exists of peers is said at the beginning of a watch that goes on after a revision too."""
    replica_id: int
    """The replica that knows it. When that dies, the next one says what it knows: peers whose session is another one there
    are updated."""


@dataclasses.dataclass(frozen=True)
class JobPlanEvent:
    """What became of the plan of one job, as the leader has it."""

    change: watch_pb2.JobPlanChange
    revision: int | None
    """As in ResourceEvent. What plans there are is said at the beginning of a watch that goes on after a revision too."""


@dataclasses.dataclass(frozen=True)
class LinkStatusEvent:
    """What became of what the leader sees of one link. Bits per second alone are no change."""

    change: watch_pb2.LinkStatusChange
    revision: int | None
    """As in JobPlanEvent."""


Event = ResourceEvent | RouteEvent | PeerEvent | JobPlanEvent | LinkStatusEvent
