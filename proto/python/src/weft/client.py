"""Calls at any replica of weft, made at several of them and again where that is safe."""

from __future__ import annotations

import copy
import queue
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar, overload

import grpc

from weft.applied import AppliedFabric
from weft.error import WeftError
from weft.event import Event, ResourceEvent
from weft.patience import Patience
from weft.v1 import (
    config_pb2_grpc,
    evpn_pb2_grpc,
    fabric_pb2,
    fabric_pb2_grpc,
    job_pb2_grpc,
    peer_pb2_grpc,
    plan_pb2_grpc,
    replica_pb2_grpc,
    route_pb2_grpc,
    simulation_pb2_grpc,
    watch_pb2,
    watch_pb2_grpc,
)
from weft.watching import Watch

Answer = TypeVar("Answer")


class Change(Protocol):
    """A request of a call that is made once for each ``request_id``."""

    request_id: str


Request = TypeVar("Request", bound=Change)


class Stubs:
    """Every service of one replica."""

    def __init__(self, address: str, channel: grpc.Channel) -> None:
        self.address = address
        """The replica that answers."""
        self.config = config_pb2_grpc.ConfigServiceStub(channel)
        self.evpn = evpn_pb2_grpc.EvpnServiceStub(channel)
        self.fabric = fabric_pb2_grpc.FabricServiceStub(channel)
        self.jobs = job_pb2_grpc.JobServiceStub(channel)
        self.peers = peer_pb2_grpc.PeerServiceStub(channel)
        self.plans = plan_pb2_grpc.PlanServiceStub(channel)
        self.replicas = replica_pb2_grpc.ReplicaServiceStub(channel)
        self.routes = route_pb2_grpc.RouteServiceStub(channel)
        self.simulations = simulation_pb2_grpc.SimulationServiceStub(channel)
        self.watch = watch_pb2_grpc.WatchServiceStub(channel)


class Client:
    """Any replica takes any call: if one has not answered after a tenth of a second, the next one is asked as well.

    ``timeout`` holds for each try, ``patience`` for a call with all its tries; both in seconds. It may be used by several
    threads. A call runs in threads of its own, so that nobody waits for a replica that hangs.
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
        return self._stubs(address)

    def _stubs(self, address: str) -> Stubs:
        with self._lock:
            if address not in self._replicas:
                channel = grpc.insecure_channel(address, options=OPTIONS)
                self._replicas[address] = (channel, Stubs(address, channel))
            return self._replicas[address][1]

    def next_replica(self, failed: str) -> None:
        """Goes on with the address after the one that failed, unless somebody else has done so already."""
        with self._lock:
            if self.addresses[self._at] == failed:
                self._at = (self._at + 1) % len(self.addresses)

    def read(self, ask: Callable[[Stubs, float], Answer]) -> Answer:
        """Makes a call that changes nothing, at several replicas if need be. ``ask`` gets the services and the timeout."""
        return self._retried(lambda: self._raced(lambda stubs: ask(stubs, self.timeout)))

    def change(self, request: Request, ask: Callable[[Stubs, Request, float], Answer]) -> Answer:
        """Makes a change once, however often it has to be asked for: with a ``request_id`` of its own unless it has one.

        ``ask`` gets the services, a copy of the request with the id, and the timeout; it may run in two threads at once. The
        replicas remember the ids of the last 100,000 changes of the fabric, and of the last 10,000 changes of jobs and calls that
        change nothing: a request that comes again later than that is a change of its own. If nobody answers in time, the change
        may be made or not, and the error has its ``request_id``: asked for again with it, it is made once.
        """
        asked = copy.deepcopy(request)
        if not asked.request_id:
            asked.request_id = str(uuid.uuid4())
        try:
            return self._retried(lambda: self._raced(lambda stubs: ask(stubs, asked, self.timeout)))
        except WeftError as error:
            error.request_id = asked.request_id
            raise

    def apply_fabric(
        self,
        display_name: str,
        switches: Iterable[fabric_pb2.Switch] = (),
        hosts: Iterable[fabric_pb2.Host] = (),
        links: Iterable[fabric_pb2.Link] = (),
        host_ports: Iterable[fabric_pb2.HostPort] = (),
        *,
        prune: bool = False,
        force: bool = False,
        rename: bool = False,
        validate_only: bool = False,
        generation: int | None = None,
    ) -> AppliedFabric:
        """Declares these resources, as a whole or not at all, and returns what differed and what stayed.

        Resources that are not named stay, unless ``prune`` is set. The state of a declared switch or link stays where its
        ``admin_state`` is ``ADMIN_STATE_UNSPECIFIED``. Two leaves keep a path to each other, unless ``force`` is set. A fabric
        of another name is not touched, unless ``rename`` is set. With a ``generation``, that of GetFabric, nothing changes if
        others changed the fabric since. Each of these ends with a :class:`WeftError` and its ``reason``.

        If a replica dies meanwhile, the next one is asked with the same ``request_id``: the declaration is applied once, and an
        answer that was lost is not repeated: its ``changes`` are empty, and ``applied_before`` is set. ``patience`` begins anew
        with every part of an answer.
        """
        parts = list(_parts(display_name, list(switches), list(hosts), list(links), list(host_ports)))
        first = parts[0]
        first.prune, first.force, first.rename, first.validate_only = prune, force, rename, validate_only
        if not validate_only:
            first.request_id = str(uuid.uuid4())
        if generation is not None:
            first.generation = generation
        patience = Patience(self.patience)

        def answers(stubs: Stubs) -> Iterator[fabric_pb2.ApplyFabricResponse]:
            for answer in stubs.fabric.ApplyFabric(iter(parts), timeout=APPLY_TIMEOUT):
                patience.renew()
                yield answer

        try:
            return self._retried(lambda: self._asked(lambda stubs: AppliedFabric.of(answers(stubs))), patience)
        except WeftError as error:
            error.request_id = first.request_id
            raise

    @overload
    def watch(
        self,
        kinds: Iterable[fabric_pb2.ResourceKind.ValueType] = (),
        names: Iterable[str] = (),
        after_revision: int | None = None,
    ) -> Watch[ResourceEvent]: ...

    @overload
    def watch(
        self,
        kinds: Iterable[fabric_pb2.ResourceKind.ValueType] = (),
        names: Iterable[str] = (),
        after_revision: int | None = None,
        *,
        routes: watch_pb2.RouteFilter | None = None,
        peers: watch_pb2.PeerFilter | None = None,
        job_plans: watch_pb2.JobPlanFilter | None = None,
        link_statuses: watch_pb2.LinkStatusFilter | None = None,
    ) -> Watch[Event]: ...

    def watch(
        self,
        kinds: Iterable[fabric_pb2.ResourceKind.ValueType] = (),
        names: Iterable[str] = (),
        after_revision: int | None = None,
        *,
        routes: watch_pb2.RouteFilter | None = None,
        peers: watch_pb2.PeerFilter | None = None,
        job_plans: watch_pb2.JobPlanFilter | None = None,
        link_statuses: watch_pb2.LinkStatusFilter | None = None,
    ) -> Watch[ResourceEvent] | Watch[Event]:
        """Follows declared resources of these kinds and names, and routes, peers, plans of jobs and statuses of links that pass;
        see :class:`Watch`.

        Without ``kinds``: all of them, or none if anything else is asked for.
        """
        kinds, names = list(kinds), list(names)
        if not kinds and not names and (job_plans is not None or link_statuses is not None):
            # A replica of an older release would stream all that is declared: nothing has this name.
            names = [""]
        request = watch_pb2.WatchRequest(
            kinds=kinds, names=names, routes=routes, peers=peers, job_plans=job_plans, link_statuses=link_statuses
        )
        return Watch[Event](self, request, after_revision)

    def _retried(self, call: Callable[[], Answer], patience: Patience | None = None) -> Answer:
        patience = patience or Patience(self.patience)
        while True:
            try:
                return call()
            except grpc.RpcError as error:
                known = WeftError.of(error)
                if not known.passing or not patience.wait():
                    raise known from error

    def _asked(self, ask: Callable[[Stubs], Answer]) -> Answer:
        """Asks one replica, which is left if it does not answer."""
        stubs = self.stubs()
        try:
            return ask(stubs)
        except grpc.RpcError as error:
            if WeftError.of(error).passing:
                self.next_replica(stubs.address)
            raise

    def _raced(self, ask: Callable[[Stubs], Answer]) -> Answer:
        """Asks a replica, and every further one a moment after the one before, or as soon as that has failed.

        The first answer counts, also if it is a refusal; its replica is asked first from then on.
        """
        outcomes: queue.SimpleQueue[tuple[str, list[Answer], BaseException | None]] = queue.SimpleQueue()

        def run(stubs: Stubs) -> None:
            try:
                outcomes.put((stubs.address, [ask(stubs)], None))
            except BaseException as error:
                outcomes.put((stubs.address, [], error))

        with self._lock:
            waiting = self.addresses[self._at :] + self.addresses[: self._at]
        running = 0
        while True:
            if waiting:
                stubs = self._stubs(waiting.pop(0))
                threading.Thread(target=run, args=(stubs,), daemon=True).start()
                running += 1
            try:
                address, answer, error = outcomes.get(timeout=NEXT_AFTER if waiting else None)
            except queue.Empty:
                continue
            running -= 1
            passing = isinstance(error, grpc.RpcError) and WeftError.of(error).passing
            if error is not None and passing and (waiting or running):
                continue
            if not passing:
                with self._lock:
                    self._at = self.addresses.index(address)
            if error is not None:
                raise error
            return answer[0]


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
# Seconds until the next replica is asked as well.
NEXT_AFTER = 0.1
# Seconds for a fabric of 131,072 links.
APPLY_TIMEOUT = 120.0
OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    # A replica that comes back is asked soon.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # One that hangs, or vanished without a word, is left by a watch after three seconds: it sends nothing itself.
    ("grpc.keepalive_time_ms", 1_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    # What gRPC waits for in truth: https://github.com/grpc/grpc/pull/39239.
    ("grpc.http2.ping_timeout_ms", 2_000),
    ("grpc.http2.max_pings_without_data", 0),
]
