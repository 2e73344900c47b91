"""Client of weft: typed calls at any replica, retries that are safe, and a watch that goes on.

The messages are those of the contract: ``weft.v1.fabric_pb2`` and its neighbours.
"""

from weft.client import Client, Stubs, WeftError
from weft.watching import Event, Watch

__all__ = ["Client", "Event", "Stubs", "Watch", "WeftError"]
