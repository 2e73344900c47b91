"""The answer of an ApplyFabric, as one value."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from weft.v1 import fabric_pb2


@dataclasses.dataclass(frozen=True)
class AppliedFabric:
    """The answer to a declaration. With ``validate_only``, nothing of it was done."""

    changes: list[fabric_pb2.ResourceChange]
    """Resources that differed. Empty too if ``applied_before`` is set."""
    would_delete: list[fabric_pb2.ResourceChange]
    """Resources that the declaration does not name and that stayed: ``prune=True`` deletes them."""
    changed_since_apply: list[fabric_pb2.ResourceChange]
    """Resources that other calls changed since the last ApplyFabric that changed something; empty if the declaration states a
    ``generation``."""
    changed_since_apply_truncated: bool
    """True if more resources may have changed than ``changed_since_apply`` has."""
    generation: int
    """Generation of the fabric after the declaration: the ``generation`` of the next one."""
    revision: int
    """A revision at or after the last change: a watch that begins after it has none of these changes."""
    applied_before: bool
    """True if an earlier try applied the declaration and its answer was lost, so that nobody can list the changes."""

    @classmethod
    def of(cls, parts: Iterable[fabric_pb2.ApplyFabricResponse]) -> AppliedFabric:
        """Adds the parts of an answer to each other; the last one has the generation and the revision."""
        changes: list[fabric_pb2.ResourceChange] = []
        would_delete: list[fabric_pb2.ResourceChange] = []
        changed_since_apply: list[fabric_pb2.ResourceChange] = []
        last = fabric_pb2.ApplyFabricResponse()
        for part in parts:
            changes.extend(part.changes)
            would_delete.extend(part.would_delete)
            changed_since_apply.extend(part.changed_since_apply)
            last = part
        return cls(
            changes=changes,
            would_delete=would_delete,
            changed_since_apply=changed_since_apply,
            changed_since_apply_truncated=last.changed_since_apply_truncated,
            generation=last.generation,
            revision=last.header.revision,
            applied_before=last.applied_before,
        )
