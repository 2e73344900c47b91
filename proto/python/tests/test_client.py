"""Changes and whole fabrics, at replicas that refuse and die."""

from __future__ import annotations

import threading
import unittest
from collections.abc import Iterator

from google.rpc import code_pb2
from scripted import Refused, Replica, refusal

from weft import Client, FabricChanged, WeftError
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
        self.replicas[0].refusals = [refusal(code_pb2.UNAVAILABLE, "OUTCOME_UNKNOWN")]
        with self.assertRaises(WeftError) as caught:
            self.create()
        self.assertEqual([caught.exception.request_id], self.ids())
        self.assertTrue(caught.exception.request_id)

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
        self.replica.generation = 7
        self.addCleanup(self.replica.server.stop, None)
        self.client = Client([self.replica.address], timeout=5, patience=5)
        self.addCleanup(self.client.close)

    def dies(self, generation: int, applying: bool = False, written: str = "", reason: str = "") -> None:
        """It dies, and then the fabric is of this generation."""

        def apply(_: Parts) -> Answers:
            self.replica.generation, self.replica.applying = generation, applying
            if written:
                yield self.says(written)
            raise Refused(refusal(code_pb2.UNAVAILABLE, reason))

        self.replica.applies.append(apply)

    def refuses(self, reason: str, generation: int, applying: bool = False) -> None:
        def apply(_: Parts) -> Answers:
            self.replica.generation, self.replica.applying = generation, applying
            raise Refused(refusal(code_pb2.ABORTED, reason, generation=str(generation)))
            yield

        self.replica.applies.append(apply)

    def answers(self, *names: str) -> None:
        self.replica.applies.append(lambda _: iter([self.says(*names)]))

    def says(self, *names: str) -> fabric_pb2.ApplyFabricResponse:
        changes = [fabric_pb2.ResourceChange(kind=fabric_pb2.RESOURCE_KIND_HOST, name=name) for name in names]
        return fabric_pb2.ApplyFabricResponse(changes=changes)

    def apply(self, generation: int | None = None, validate_only: bool = False) -> list[str]:
        hosts = [fabric_pb2.Host(name=name) for name in ("h1", "h2")]
        changes = self.client.apply_fabric("pod", hosts=hosts, generation=generation, validate_only=validate_only)
        return [it.name for it in changes]

    def asked(self) -> list[int | None]:
        """The generations that the fabric had to have."""
        return [it.generation if it.HasField("generation") else None for it in self.replica.applied]

    def test_an_unchanged_fabric_is_applied_again_only_if_it_stays_so(self) -> None:
        self.dies(7)
        self.answers("h1", "h2")
        self.assertEqual(self.apply(), ["h1", "h2"])
        self.assertEqual(self.asked(), [None, 7])

    def test_a_fabric_that_was_written_does_not_differ(self) -> None:
        self.dies(8, written="h1")
        self.answers()
        self.assertEqual(self.apply(), ["h1"])
        self.assertEqual(self.asked(), [None, 7])

    def test_what_others_did_meanwhile_stays(self) -> None:
        # It was written, and then somebody changed it.
        self.dies(9)
        self.refuses("GENERATION_MISMATCH", 9)
        with self.assertRaises(FabricChanged) as caught:
            self.apply()
        self.assertEqual(self.asked(), [None, 7])
        self.assertEqual(caught.exception.metadata, {"generation": "9"})

    def test_what_was_written_under_its_id_is_done(self) -> None:
        self.dies(9, written="h1")
        self.refuses("REQUEST_ID_REUSED", 9)
        self.assertEqual(self.apply(), ["h1"])
        ids = {it.request_id for it in self.replica.applied}
        self.assertEqual(len(ids), 1)
        self.assertNotIn("", ids)

    def test_what_is_written_in_part_is_made_whole(self) -> None:
        self.dies(8, applying=True, written="h1")
        self.answers("h2")
        self.assertEqual(self.apply(), ["h1", "h2"])
        self.assertEqual(self.asked(), [None, 8])

    def test_an_incomplete_fabric_is_made_whole(self) -> None:
        self.dies(8, applying=True, reason="FABRIC_INCOMPLETE")
        self.answers("h2")
        self.assertEqual(self.apply(), ["h2"])
        self.assertEqual(self.asked(), [None, 8])

    def test_a_fabric_that_others_are_writing_is_left_to_them(self) -> None:
        self.dies(8, applying=True)
        self.refuses("GENERATION_MISMATCH", 9, applying=True)
        self.refuses("GENERATION_MISMATCH", 10)
        self.refuses("GENERATION_MISMATCH", 10)
        with self.assertRaises(FabricChanged):
            self.apply()
        self.assertEqual(self.asked(), [None, 8, 9, 7])

    def test_a_connection_that_died_alone_is_waited_for(self) -> None:
        # The replica lives, and goes on writing.
        self.dies(8, applying=True)
        self.refuses("GENERATION_MISMATCH", 9)
        self.answers()
        self.assertEqual(self.apply(), [])
        self.assertEqual(self.asked(), [None, 8, 7])

    def test_a_busy_fabric_is_applied_again_whatever_it_is(self) -> None:
        self.refuses("FABRIC_BUSY", 9)
        self.answers("h1", "h2")
        self.assertEqual(self.apply(), ["h1", "h2"])
        self.assertEqual(self.asked(), [None, None])

    def test_a_generation_of_the_caller_holds_for_every_try(self) -> None:
        self.dies(7)
        self.answers("h1")
        self.assertEqual(self.apply(generation=7), ["h1"])
        self.assertEqual(self.asked(), [7, 7])

    def test_another_generation_than_the_callers_is_refused(self) -> None:
        self.refuses("GENERATION_MISMATCH", 9)
        with self.assertRaises(WeftError) as caught:
            self.apply(generation=7)
        self.assertNotIsInstance(caught.exception, FabricChanged)
        self.assertEqual(caught.exception.reason, "GENERATION_MISMATCH")

    def test_a_check_changes_nothing_and_is_asked_for_again(self) -> None:
        self.dies(9)
        self.answers("h1")
        self.assertEqual(self.apply(validate_only=True), ["h1"])
        self.assertEqual(self.asked(), [None, None])


if __name__ == "__main__":
    unittest.main()
