"""An error is an exception like any other."""

from __future__ import annotations

import contextlib
import copy
import pickle
import unittest
from collections.abc import Iterator

import grpc

from weft import RevisionCompacted, WeftError


@contextlib.contextmanager
def passed_on() -> Iterator[None]:
    yield


class Errors(unittest.TestCase):
    def test_it_leaves_a_context_manager_as_it_is(self) -> None:
        raised = WeftError(grpc.StatusCode.ABORTED, "changed", "ETAG_MISMATCH", {"name": "h1"})
        with self.assertRaises(WeftError) as caught, passed_on():
            raise raised
        self.assertIs(caught.exception, raised)
        self.assertEqual(str(raised), "ABORTED (ETAG_MISMATCH): changed")

    def test_it_is_copied_and_sent_to_other_processes(self) -> None:
        raised = RevisionCompacted(
            grpc.StatusCode.OUT_OF_RANGE, "forgotten", "REVISION_COMPACTED", {"oldest_revision": "80"}, {"f": "wrong"}
        )
        for other in (copy.copy(raised), pickle.loads(pickle.dumps(raised))):
            self.assertIsInstance(other, RevisionCompacted)
            self.assertEqual((other.code, str(other)), (raised.code, str(raised)))
            self.assertEqual((other.oldest_revision, other.fields), (80, {"f": "wrong"}))


if __name__ == "__main__":
    unittest.main()
