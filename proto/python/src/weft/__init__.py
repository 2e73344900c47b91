"""Client of weft: typed calls at any replica, retries that are safe, and a watch that goes on.

The messages are those of the contract: ``weft.v1.fabric_pb2`` and its neighbours.
"""

from weft.applied import AppliedFabric
from weft.client import Client, Stubs
from weft.error import RevisionCompacted, WeftError
from weft.event import Event, JobPlanEvent, LinkStatusEvent, PeerEvent, ResourceEvent, RouteEvent
from weft.watching import Watch

__all__ = [
    "AppliedFabric",
    "Client",
    "Event",
    "JobPlanEvent",
    "LinkStatusEvent",
    "PeerEvent",
    "ResourceEvent",
    "RevisionCompacted",
    "RouteEvent",
    "Stubs",
    "Watch",
    "WeftError",
]
