"""Calls at any replica of weft, made again at the next one where that is safe."""

from __future__ import annotations

import dataclasses
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from weft.v1 import (
    config_pb2_grpc,
    evpn_pb2_grpc,
    fabric_pb2,
    fabric_pb2_grpc,
    peer_pb2_grpc,
    plan_pb2_grpc,
    replica_pb2_grpc,
    route_pb2_grpc,
    watch_pb2,
    watch_pb2_grpc,
)
from weft.watching import Watch

Answer = TypeVar("Answer")


class Change(Protocol):
    """A request of a call that is made once for each ``request_id``."""

    request_id: str


Request = TypeVar("Request", bound=Change)


@dataclasses.dataclass(frozen=True)
class WeftError(Exception):
    """A call was refused, or nobody answered.

    ``reason`` is one of those that the service documents ("ETAG_MISMATCH"); empty: the request is wrong, and ``fields`` says
    where, or no replica answered.
    """

    code: grpc.StatusCode
    message: str
    reason: str = ""
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.code.name}{reason}: {self.message}"

    @property
    def passing(self) -> bool:
        """The same call may be answered later, or by another replica."""
        return self.code in PASSING or self.reason in PASSING_REASONS

    @staticmethod
    def of(error: grpc.RpcError) -> WeftError:
        """What a refusal of gRPC says."""
        if not isinstance(error, grpc.Call):
            return WeftError(grpc.StatusCode.UNKNOWN, str(error))
        reason, metadata, fields = "", {}, {}
        status = rpc_status.from_call(error)
        for detail in status.details if status is not None else ():
            info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
            if detail.Unpack(info):
                reason, metadata = info.reason, dict(info.metadata)
            elif detail.Unpack(bad):
                fields = {it.field: it.description for it in bad.field_violations}
        return WeftError(error.code(), error.details() or "", reason, metadata, fields)


PASSING = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
PASSING_REASONS = {"FABRIC_BUSY", "TOO_MANY_APPLIES"}


class Stubs:
    """Every service of one replica."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.config = config_pb2_grpc.ConfigServiceStub(channel)
        self.evpn = evpn_pb2_grpc.EvpnServiceStub(channel)
        self.fabric = fabric_pb2_grpc.FabricServiceStub(channel)
        self.peers = peer_pb2_grpc.PeerServiceStub(channel)
        self.plans = plan_pb2_grpc.PlanServiceStub(channel)
        self.replicas = replica_pb2_grpc.ReplicaServiceStub(channel)
        self.routes = route_pb2_grpc.RouteServiceStub(channel)
        self.watch = watch_pb2_grpc.WatchServiceStub(channel)


class Client:
    """Any replica takes any call: the next one is asked when one does not answer.

    ``timeout`` holds for each try, ``patience`` for a call with all its tries; both in seconds. It may be used by several
    threads.
    """

    def __init__(self, addresses: Sequence[str], timeout: float = 5.0, patience: float = 30.0) -> None:
        if not addresses:
            raise ValueError("no address is given")
        self.addresses = list(addresses)
        self.timeout = timeout
        self.patience = patience
        self._lock = threading.Lock()
        self._at = 0
        self._replicas: dict[str, tuple[grpc.Channel, Stubs]] = {}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every connection."""
        with self._lock:
            for channel, _ in self._replicas.values():
                channel.close()
            self._replicas.clear()

    def stubs(self) -> Stubs:
        """The services of the replica that is asked now, for calls that are made once only."""
        with self._lock:
            address = self.addresses[self._at]
            if address not in self._replicas:
                channel = grpc.insecure_channel(address, options=OPTIONS)
                self._replicas[address] = (channel, Stubs(channel))
            return self._replicas[address][1]

    def next_replica(self) -> None:
        """Goes on with the next address."""
        with self._lock:
            self._at = (self._at + 1) % len(self.addresses)

    def read(self, ask: Callable[[Stubs, float], Answer]) -> Answer:
        """Makes a call that changes nothing, again if need be. ``ask`` gets the services and the timeout."""
        return self._retried(lambda: ask(self.stubs(), self.timeout))

    def change(self, request: Request, ask: Callable[[Stubs, Request, float], Answer]) -> Answer:
        """Makes a change once, however often it has to be asked for: with a ``request_id`` of its own unless it has one."""
        if not request.request_id:
            request.request_id = str(uuid.uuid4())
        return self._retried(lambda: ask(self.stubs(), request, self.timeout))

    def apply_fabric(
        self,
        display_name: str,
        switches: Iterable[fabric_pb2.Switch] = (),
        hosts: Iterable[fabric_pb2.Host] = (),
        links: Iterable[fabric_pb2.Link] = (),
        host_ports: Iterable[fabric_pb2.HostPort] = (),
        *,
        validate_only: bool = False,
        generation: int | None = None,
    ) -> list[fabric_pb2.ResourceChange]:
        """Makes the declared fabric this one, and says what differed.

        It is asked for again if a replica dies: what was written already does not differ any more, and is in the answer too.
        With a ``generation`` it is asked for once only.
        """
        parts = list(_parts(display_name, list(switches), list(hosts), list(links), list(host_ports)))
        parts[0].validate_only = validate_only
        if generation is not None:
            parts[0].generation = generation
        changed: dict[tuple[int, str], fabric_pb2.ResourceChange] = {}

        def ask() -> None:
            for answer in self.stubs().fabric.ApplyFabric(iter(parts), timeout=APPLY_TIMEOUT):
                for change in answer.changes:
                    changed.setdefault((change.kind, change.name), change)

        if generation is None:
            self._retried(ask)
        else:
            try:
                ask()
            except grpc.RpcError as error:
                raise WeftError.of(error) from error
        return list(changed.values())

    def watch(
        self,
        kinds: Iterable[fabric_pb2.ResourceKind.ValueType] = (),
        names: Iterable[str] = (),
        after_revision: int | None = None,
    ) -> Watch:
        """Follows declared resources; see :class:`Watch`."""
        request = watch_pb2.WatchRequest(kinds=kinds, names=names)
        return Watch(self, request, after_revision)

    def _retried(self, ask: Callable[[], Answer]) -> Answer:
        due = time.monotonic() + self.patience
        pause = PAUSE
        while True:
            try:
                return ask()
            except grpc.RpcError as error:
                known = WeftError.of(error)
                if not known.passing or time.monotonic() + pause > due:
                    raise known from error
                if known.code in PASSING:
                    self.next_replica()
            time.sleep(pause)
            pause = min(pause * 2, PAUSE_MAX)


def _parts(
    display_name: str,
    switches: list[fabric_pb2.Switch],
    hosts: list[fabric_pb2.Host],
    links: list[fabric_pb2.Link],
    host_ports: list[fabric_pb2.HostPort],
) -> Iterator[fabric_pb2.ApplyFabricRequest]:
    """A declaration in parts that are short enough."""
    yield fabric_pb2.ApplyFabricRequest(display_name=display_name)
    for at in range(0, len(switches), PART):
        yield fabric_pb2.ApplyFabricRequest(switches=switches[at : at + PART])
    for at in range(0, len(hosts), PART):
        yield fabric_pb2.ApplyFabricRequest(hosts=hosts[at : at + PART])
    for at in range(0, len(links), PART):
        yield fabric_pb2.ApplyFabricRequest(links=links[at : at + PART])
    for at in range(0, len(host_ports), PART):
        yield fabric_pb2.ApplyFabricRequest(host_ports=host_ports[at : at + PART])


# Resources in a part of a declaration: some hundred octets each, of 4 MiB.
PART = 2_000
# Seconds for a fabric of 131,072 links.
APPLY_TIMEOUT = 120.0
PAUSE = 0.05
PAUSE_MAX = 1.0
OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    # A replica that comes back is asked soon.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.keepalive_time_ms", 20_000),
]
