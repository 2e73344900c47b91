"""What a replica refuses, and that none answers, as exceptions."""

from __future__ import annotations

from collections.abc import Mapping

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status


class WeftError(Exception):
    """A call was refused, or nobody answered.

    ``reason`` is one of those that the service documents ("ETAG_MISMATCH"); empty: the request is wrong, and ``fields`` says
    where, or no replica answered.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        request_id: str = "",
    ) -> None:
        # All of them: an exception is copied, and sent to another process, by its arguments.
        super().__init__(code, message, reason, metadata, fields, request_id)
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata: Mapping[str, str] = dict(metadata or {})
        self.fields: Mapping[str, str] = dict(fields or {})
        self.request_id = request_id
        """Of a change: what it was called. Asked for again with this id, it is still made once only."""

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
        kind = NAMED.get(reason, WeftError)
        return kind(error.code(), error.details() or "", reason, metadata, fields)


class RevisionCompacted(WeftError):
    """No replica remembers what changed after the revision that a watch was to go on after.

    Whoever holds what an earlier watch said begins anew, without a revision: what that watch does not say is gone.
    """

    @property
    def oldest_revision(self) -> int:
        """The oldest revision that the replica that was asked last goes on after."""
        return int(self.metadata.get("oldest_revision", 0))


NAMED: Mapping[str, type[WeftError]] = {"REVISION_COMPACTED": RevisionCompacted}
PASSING = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
PASSING_REASONS = {"FABRIC_BUSY", "TOO_MANY_APPLIES"}
