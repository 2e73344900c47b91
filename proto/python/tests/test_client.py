"""Changes and whole fabrics, at replicas that refuse and die."""

from __future__ import annotations

import socket
import threading
import time
import unittest
from collections.abc import Iterator

from google.rpc import code_pb2
from scripted import Refused, Replica, refusal

from weft import Client, WeftError
from weft.v1 import fabric_pb2

Parts = list[fabric_pb2.ApplyFabricRequest]
Answers = Iterator[fabric_pb2.ApplyFabricResponse]


class Changes(unittest.TestCase):
    def setUp(self) -> None:
        self.replicas = [Replica(), Replica(), Replica()]
        self.client = Client([it.address for it in self.replicas], timeout=5, patience=5)
        self.addCleanup(self.client.close)
        for replica in self.replicas:
            self.addCleanup(replica.server.stop, None)

    def create(self, request_id: str = "") -> fabric_pb2.CreateHostResponse:
        request = fabric_pb2.CreateHostRequest(resource=fabric_pb2.Host(name="h1"), request_id=request_id)
        return self.client.change(request, lambda it, change, timeout: it.fabric.CreateHost(change, timeout=timeout))

    def ids(self) -> list[str]:
        return [it.request_id for replica in self.replicas for it in replica.created]

    def test_a_change_is_asked_for_again_with_the_same_id(self) -> None:
        self.replicas[0].refusals = [refusal(code_pb2.UNAVAILABLE, "OUTCOME_UNKNOWN")]
        self.create()
        self.assertEqual(len(self.ids()), 2)
        self.assertEqual(len(set(self.ids())), 1)
        self.assertTrue(self.ids()[0])

    def test_a_request_that_is_used_again_is_another_change(self) -> None:
        request = fabric_pb2.CreateHostRequest(resource=fabric_pb2.Host(name="h1"))
        for _ in range(2):
            self.client.change(request, lambda it, change, timeout: it.fabric.CreateHost(change, timeout=timeout))
        self.assertEqual(request.request_id, "")
        self.assertEqual(len(set(self.ids())), 2)

    def test_an_id_of_the_caller_is_kept(self) -> None:
        self.create("6ab0e0ba-8f5e-4f7d-8f5f-2f2f3c1f5b0a")
        self.assertEqual(self.ids(), ["6ab0e0ba-8f5e-4f7d-8f5f-2f2f3c1f5b0a"])

    def test_a_change_that_nobody_answers_says_what_it_was_called(self) -> None:
        self.client.patience = 0.01
        for replica in self.replicas:
            replica.refusals = [refusal(code_pb2.UNAVAILABLE, "OUTCOME_UNKNOWN")]
        with self.assertRaises(WeftError) as caught:
            self.create()
        self.assertEqual([caught.exception.request_id] * 3, self.ids())
        self.assertTrue(caught.exception.request_id)

    def test_nobody_waits_for_a_replica_that_hangs(self) -> None:
        # A process that is stopped: the kernel takes connections for it.
        with socket.create_server(("127.0.0.1", 0)) as stopped:
            addresses = [f"127.0.0.1:{stopped.getsockname()[1]}", self.replicas[0].address]
            with Client(addresses, timeout=30, patience=30) as client:
                began = time.monotonic()
                for _ in range(3):
                    client.change(
                        fabric_pb2.CreateHostRequest(),
                        lambda it, change, timeout: it.fabric.CreateHost(change, timeout=timeout),
                    )
                # A tenth of a second, and some room for a machine that has much else to do.
                self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(len(set(self.ids())), 3)

    def test_a_refusal_is_not_asked_for_again(self) -> None:
        self.replicas[0].refusals = [refusal(code_pb2.ALREADY_EXISTS, "ALREADY_EXISTS", name="h1")]
        with self.assertRaises(WeftError) as caught:
            self.create()
        self.assertEqual(caught.exception.reason, "ALREADY_EXISTS")
        self.assertEqual(caught.exception.metadata, {"name": "h1"})
        self.assertEqual(len(self.ids()), 1)

    def test_every_field_at_fault_is_named(self) -> None:
        self.replicas[0].refusals = [refusal(code_pb2.INVALID_ARGUMENT, field="resource.name")]
        with self.assertRaises(WeftError) as caught:
            self.create()
        self.assertEqual(caught.exception.fields, {"resource.name": "wrong"})

    def test_a_dead_replica_is_passed_over(self) -> None:
        self.replicas[0].server.stop(None).wait()
        self.create()
        self.assertEqual(len(self.replicas[1].created), 1)

    def test_two_threads_pass_over_a_dead_replica_once(self) -> None:
        self.replicas[0].refusals = [refusal(code_pb2.UNAVAILABLE), refusal(code_pb2.UNAVAILABLE)]
        both = threading.Barrier(2)

        def create() -> None:
            first = True

            def ask(it: object, change: fabric_pb2.CreateHostRequest, timeout: float) -> fabric_pb2.CreateHostResponse:
                nonlocal first
                if first:
                    # Both have the services of the first replica before it fails.
                    first = False
                    both.wait()
                return it.fabric.CreateHost(change, timeout=timeout)  # type: ignore[attr-defined, no-any-return]

            self.client.change(fabric_pb2.CreateHostRequest(), ask)

        threads = [threading.Thread(target=create) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([len(it.created) for it in self.replicas], [2, 2, 0])

    def test_nobody_answers(self) -> None:
        client = Client(["127.0.0.1:1"], timeout=0.2, patience=0.3)
        with self.assertRaises(WeftError) as caught:
            client.change(
                fabric_pb2.CreateHostRequest(), lambda it, change, timeout: it.fabric.CreateHost(change, timeout=timeout)
            )
        self.assertTrue(caught.exception.passing)
        client.close()


class Fabrics(unittest.TestCase):
    """One replica, which is asked again after each refusal, as the next one would be."""

    def setUp(self) -> None:
        self.replica = Replica()
        self.addCleanup(self.replica.server.stop, None)
        self.client = Client([self.replica.address], timeout=5, patience=5)
        self.addCleanup(self.client.close)

    def refuses(self, code: int, reason: str = "", part: str = "", **metadata: str) -> None:
        """It refuses a declaration, before or after a part of an answer."""

        def apply(_: Parts) -> Answers:
            if part:
                yield self.says(part)
            raise Refused(refusal(code, reason, **metadata))

        self.replica.applies.append(apply)

    def answers(self, *names: str) -> None:
        self.replica.applies.append(lambda _: iter([self.says(name) for name in names]))

    def says(self, *names: str) -> fabric_pb2.ApplyFabricResponse:
        changes = [fabric_pb2.ResourceChange(kind=fabric_pb2.RESOURCE_KIND_HOST, name=name) for name in names]
        return fabric_pb2.ApplyFabricResponse(changes=changes)

    def apply(self, **options: bool | int) -> list[str]:
        hosts = [fabric_pb2.Host(name=name) for name in ("h1", "h2")]
        applied = self.client.apply_fabric("pod", hosts=hosts, **options)  # type: ignore[arg-type]
        return [it.name for it in applied.changes]

    def test_nothing_is_deleted_forced_or_renamed_unless_that_is_asked_for(self) -> None:
        self.answers("h1", "h2")
        self.assertEqual(self.apply(), ["h1", "h2"])
        first = self.replica.applied[0]
        self.assertEqual((first.prune, first.force, first.rename, first.validate_only), (False, False, False, False))
        self.assertFalse(first.HasField("generation"))
        self.answers()
        self.assertEqual(self.apply(prune=True, force=True, rename=True, validate_only=True, generation=7), [])
        first = self.replica.applied[1]
        self.assertEqual((first.prune, first.force, first.rename, first.validate_only), (True, True, True, True))
        self.assertEqual((first.generation, first.request_id), (7, ""))

    def test_a_declaration_is_asked_for_again_with_the_same_id(self) -> None:
        self.refuses(code_pb2.UNAVAILABLE, "OUTCOME_UNKNOWN", part="h1")
        self.refuses(code_pb2.ABORTED, "FABRIC_BUSY")
        self.answers("h2")
        # The part of the first answer does not count: its end was lost.
        self.assertEqual(self.apply(generation=7), ["h2"])
        self.assertEqual(len(self.replica.applied), 3)
        self.assertEqual(len({it.request_id for it in self.replica.applied}), 1)
        self.assertEqual([it.generation for it in self.replica.applied], [7, 7, 7])

    def test_the_answer_has_every_list_and_what_its_last_part_says(self) -> None:
        def host(name: str) -> fabric_pb2.ResourceChange:
            return fabric_pb2.ResourceChange(kind=fabric_pb2.RESOURCE_KIND_HOST, name=name)

        parts = [
            fabric_pb2.ApplyFabricResponse(changes=[host("h1")], would_delete=[host("h3")], changed_since_apply=[host("h5")]),
            fabric_pb2.ApplyFabricResponse(changes=[host("h2")], would_delete=[host("h4")], changed_since_apply=[host("h6")]),
            fabric_pb2.ApplyFabricResponse(generation=8, changed_since_apply_truncated=True),
        ]
        parts[2].header.revision = 9
        self.replica.applies.append(lambda _: iter(parts))
        applied = self.client.apply_fabric("pod", hosts=[fabric_pb2.Host(name="h1")])
        lists = (applied.changes, applied.would_delete, applied.changed_since_apply)
        self.assertEqual([[it.name for it in some] for some in lists], [["h1", "h2"], ["h3", "h4"], ["h5", "h6"]])
        self.assertEqual((applied.generation, applied.revision, applied.changed_since_apply_truncated), (8, 9, True))
        self.assertFalse(applied.applied_before)
        self.replica.applies.append(lambda _: iter([fabric_pb2.ApplyFabricResponse(applied_before=True)]))
        self.assertTrue(self.client.apply_fabric("pod", hosts=[fabric_pb2.Host(name="h1")]).applied_before)

    def test_a_refusal_is_not_asked_for_again(self) -> None:
        for code, reason, metadata in (
            (code_pb2.ABORTED, "GENERATION_MISMATCH", {"generation": "9"}),
            (code_pb2.FAILED_PRECONDITION, "LAST_PATH", {"leaves": "leaf1, leaf2", "jobs": "train1"}),
            (code_pb2.FAILED_PRECONDITION, "OTHER_FABRIC", {"declared": "other"}),
            (code_pb2.INVALID_ARGUMENT, "NOTHING_DECLARED", {}),
        ):
            self.refuses(code, reason, **metadata)
            with self.assertRaises(WeftError) as caught:
                self.apply()
            self.assertEqual((caught.exception.reason, caught.exception.metadata), (reason, metadata))
        self.assertEqual(len(self.replica.applied), 4)

    def test_a_declaration_that_nobody_answers_says_what_it_was_called(self) -> None:
        self.client.patience = 0.01
        self.refuses(code_pb2.UNAVAILABLE, "OUTCOME_UNKNOWN")
        with self.assertRaises(WeftError) as caught:
            self.apply()
        self.assertEqual(caught.exception.request_id, self.replica.applied[0].request_id)
        self.assertTrue(caught.exception.request_id)


if __name__ == "__main__":
    unittest.main()
