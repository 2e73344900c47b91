"""A replica in this process that misbehaves as it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from weft.v1 import fabric_pb2, fabric_pb2_grpc, header_pb2, watch_pb2, watch_pb2_grpc

Stream = Callable[[watch_pb2.WatchRequest], Iterator[watch_pb2.WatchResponse]]
Apply = Callable[[list[fabric_pb2.ApplyFabricRequest]], Iterator[fabric_pb2.ApplyFabricResponse]]


class Refused(Exception):
    """How an answer ends."""

    def __init__(self, status: status_pb2.Status) -> None:
        super().__init__(status.message)
        self.status = status


class Replica(fabric_pb2_grpc.FabricServiceServicer, watch_pb2_grpc.WatchServiceServicer):
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.created: list[fabric_pb2.CreateHostRequest] = []
        self.refusals: list[status_pb2.Status] = []
        self.streams: list[Stream] = []
        self.asked: list[watch_pb2.WatchRequest] = []
        self.applies: list[Apply] = []
        self.applied: list[fabric_pb2.ApplyFabricRequest] = []
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        fabric_pb2_grpc.add_FabricServiceServicer_to_server(self, self.server)
        watch_pb2_grpc.add_WatchServiceServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def CreateHost(self, request: fabric_pb2.CreateHostRequest, context: grpc.ServicerContext) -> fabric_pb2.CreateHostResponse:
        self.created.append(request)
        if self.refusals:
            context.abort_with_status(rpc_status.to_status(self.refusals.pop(0)))
        return fabric_pb2.CreateHostResponse(resource=request.resource)

    def ApplyFabric(
        self, request_iterator: Iterator[fabric_pb2.ApplyFabricRequest], context: grpc.ServicerContext
    ) -> Iterator[fabric_pb2.ApplyFabricResponse]:
        parts = list(request_iterator)
        self.applied.append(parts[0])
        if not self.applies:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "the script is over")
        try:
            yield from self.applies.pop(0)(parts)
        except Refused as refused:
            context.abort_with_status(rpc_status.to_status(refused.status))

    def Watch(
        self, request: watch_pb2.WatchRequest, context: grpc.ServicerContext
    ) -> Iterator[watch_pb2.WatchResponse]:
        self.asked.append(request)
        if not self.streams:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "the script is over")
        try:
            yield from self.streams.pop(0)(request)
        except Refused as refused:
            context.abort_with_status(rpc_status.to_status(refused.status))
        context.abort(grpc.StatusCode.UNAVAILABLE, "it dies")


def refusal(code: int, reason: str = "", field: str = "", **metadata: str) -> status_pb2.Status:
    status = status_pb2.Status(code=code, message="as told")
    if reason:
        detail = any_pb2.Any()
        detail.Pack(error_details_pb2.ErrorInfo(reason=reason, domain="weft", metadata=metadata))
        status.details.append(detail)
    if field:
        detail = any_pb2.Any()
        bad = error_details_pb2.BadRequest()
        bad.field_violations.add(field=field, description="wrong")
        detail.Pack(bad)
        status.details.append(detail)
    return status


def compacted(_: watch_pb2.WatchRequest) -> Iterator[watch_pb2.WatchResponse]:
    """A stream after a revision that is forgotten."""
    raise Refused(refusal(code_pb2.OUT_OF_RANGE, "REVISION_COMPACTED", oldest_revision="80"))
    yield


def full(_: watch_pb2.WatchRequest) -> Iterator[watch_pb2.WatchResponse]:
    """A stream of a replica that has no place for one."""
    raise Refused(refusal(code_pb2.RESOURCE_EXHAUSTED, "TOO_MANY_WATCHERS"))
    yield


def stream(*answers: watch_pb2.WatchResponse) -> Stream:
    """A stream of these answers, after which the replica dies."""
    return lambda _: iter(answers)


def host(name: str, revision: int | None = None, **labels: str) -> fabric_pb2.ResourceChange:
    return fabric_pb2.ResourceChange(
        kind=fabric_pb2.RESOURCE_KIND_HOST,
        name=name,
        change_type=fabric_pb2.CHANGE_TYPE_CREATED,
        revision=revision,
        host_resource=fabric_pb2.Host(name=name, labels=labels),
    )


def answer(revision: int | None, *changes: fabric_pb2.ResourceChange, snapshot: bool = False) -> watch_pb2.WatchResponse:
    header = None if revision is None else header_pb2.ResponseHeader(revision=revision)
    return watch_pb2.WatchResponse(header=header, changes=changes, snapshot=snapshot)
