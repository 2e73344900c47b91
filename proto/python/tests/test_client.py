"""The client against a replica in this process that misbehaves."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from weft import Client, WeftError
from weft.v1 import fabric_pb2, fabric_pb2_grpc, header_pb2, watch_pb2, watch_pb2_grpc

Script = Callable[[watch_pb2.WatchRequest], Iterator[watch_pb2.WatchResponse]]


class Replica(fabric_pb2_grpc.FabricServiceServicer, watch_pb2_grpc.WatchServiceServicer):
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.created: list[fabric_pb2.CreateHostRequest] = []
        self.refusals: list[status_pb2.Status] = []
        self.streams: list[Script] = []
        self.asked: list[watch_pb2.WatchRequest] = []
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


class Refused(Exception):
    def __init__(self, status: status_pb2.Status) -> None:
        super().__init__(status.message)
        self.status = status


def refusal(code: int, reason: str = "", field: str = "") -> status_pb2.Status:
    status = status_pb2.Status(code=code, message="as told")
    if reason:
        detail = any_pb2.Any()
        detail.Pack(error_details_pb2.ErrorInfo(reason=reason, domain="weft", metadata={"name": "h1"}))
        status.details.append(detail)
    if field:
        detail = any_pb2.Any()
        bad = error_details_pb2.BadRequest()
        bad.field_violations.add(field=field, description="wrong")
        detail.Pack(bad)
        status.details.append(detail)
    return status


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


class Changes(unittest.TestCase):
    def setUp(self) -> None:
        self.replicas = [Replica(), Replica()]
        self.client = Client([it.address for it in self.replicas], timeout=5, patience=5)
        self.addCleanup(self.client.close)
        for replica in self.replicas:
            self.addCleanup(replica.server.stop, None)

    def create(self) -> fabric_pb2.CreateHostResponse:
        request = fabric_pb2.CreateHostRequest(resource=fabric_pb2.Host(name="h1"))
        return self.client.change(request, lambda it, change, timeout: it.fabric.CreateHost(change, timeout=timeout))

    def test_a_change_is_asked_for_again_with_the_same_id(self) -> None:
        self.replicas[0].refusals = [refusal(code_pb2.UNAVAILABLE, "OUTCOME_UNKNOWN")]
        self.create()
        ids = [it.request_id for replica in self.replicas for it in replica.created]
        self.assertEqual(len(ids), 2)
        self.assertEqual(len(set(ids)), 1)
        self.assertTrue(ids[0])

    def test_a_refusal_is_not_asked_for_again(self) -> None:
        self.replicas[0].refusals = [refusal(code_pb2.ALREADY_EXISTS, "ALREADY_EXISTS")]
        with self.assertRaises(WeftError) as caught:
            self.create()
        self.assertEqual(caught.exception.reason, "ALREADY_EXISTS")
        self.assertEqual(caught.exception.metadata, {"name": "h1"})
        self.assertEqual(len(self.replicas[1].created), 0)

    def test_every_field_at_fault_is_named(self) -> None:
        self.replicas[0].refusals = [refusal(code_pb2.INVALID_ARGUMENT, field="resource.name")]
        with self.assertRaises(WeftError) as caught:
            self.create()
        self.assertEqual(caught.exception.fields, {"resource.name": "wrong"})

    def test_a_dead_replica_is_passed_over(self) -> None:
        self.replicas[0].server.stop(None).wait()
        self.create()
        self.assertEqual(len(self.replicas[1].created), 1)

    def test_nobody_answers(self) -> None:
        client = Client(["127.0.0.1:1"], timeout=0.2, patience=0.3)
        with self.assertRaises(WeftError) as caught:
            client.change(
                fabric_pb2.CreateHostRequest(), lambda it, change, timeout: it.fabric.CreateHost(change, timeout=timeout)
            )
        self.assertTrue(caught.exception.passing)
        client.close()


class Watches(unittest.TestCase):
    def setUp(self) -> None:
        self.replica = Replica()
        self.addCleanup(self.replica.server.stop, None)
        self.client = Client([self.replica.address])
        self.addCleanup(self.client.close)

    def said(self, *streams: Script, after: int | None = None) -> list[str]:
        self.replica.streams = list(streams)
        said = []
        with self.assertRaises(WeftError) as caught:
            for event in self.client.watch(after_revision=after):
                kind = fabric_pb2.ChangeType.Name(event.change.change_type).removeprefix("CHANGE_TYPE_").lower()
                said.append(f"{event.change.name} {kind}")
        self.assertEqual(caught.exception.code, grpc.StatusCode.UNIMPLEMENTED)
        return said

    def test_it_goes_on_after_what_it_heard(self) -> None:
        said = self.said(
            lambda _: iter([answer(None, host("h1"), snapshot=True), answer(4, snapshot=True), answer(7, host("h2", 7))]),
            lambda _: iter([answer(9, host("h3", 9))]),
        )
        self.assertEqual(said, ["h1 created", "h2 created", "h3 created"])
        self.assertEqual([it.after_revision for it in self.replica.asked], [0, 7, 9])
        self.assertFalse(self.replica.asked[0].HasField("after_revision"))

    def test_what_comes_twice_is_said_once(self) -> None:
        said = self.said(
            lambda _: iter([answer(5, host("h1", 5))]),
            lambda _: iter([answer(6, host("h1", 5), host("h2", 6))]),
            after=4,
        )
        self.assertEqual(said, ["h1 created", "h2 created"])

    def test_a_snapshot_that_breaks_off_begins_again(self) -> None:
        said = self.said(
            lambda _: iter([answer(None, host("h1"), snapshot=True)]),
            lambda _: iter([answer(None, host("h1"), snapshot=True), answer(3, host("h2"), snapshot=True)]),
        )
        self.assertEqual(said, ["h1 created", "h2 created"])

    def test_a_forgotten_revision_is_made_up_for(self) -> None:
        def forgotten(_: watch_pb2.WatchRequest) -> Iterator[watch_pb2.WatchResponse]:
            raise Refused(refusal(code_pb2.OUT_OF_RANGE, "REVISION_COMPACTED"))
            yield

        said = self.said(
            lambda _: iter([answer(4, host("h1"), host("h2"), host("h3"), snapshot=True)]),
            forgotten,
            lambda _: iter([answer(90, host("h1"), host("h2", rack="a"), host("h4"), snapshot=True)]),
        )
        self.assertEqual(
            said, ["h1 created", "h2 created", "h3 created", "h3 deleted", "h2 updated", "h4 created"]
        )

    def test_a_wrong_request_ends_it(self) -> None:
        def wrong(_: watch_pb2.WatchRequest) -> Iterator[watch_pb2.WatchResponse]:
            raise Refused(refusal(code_pb2.INVALID_ARGUMENT, field="names"))
            yield

        self.replica.streams = [wrong]
        with self.assertRaises(WeftError) as caught:
            next(self.client.watch())
        self.assertEqual(caught.exception.fields, {"names": "wrong"})


if __name__ == "__main__":
    unittest.main()
