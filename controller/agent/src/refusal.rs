//! Why a call or a stream ends with an error, as a gRPC status with gRIBI's typed detail.

use prost::Message;
use tonic::{Code, Status};
use weft_proto::google::rpc;
use weft_proto::gribi::{
    FlushResponseError, ModifyRpcErrorDetails, flush_response_error, modify_rpc_error_details,
};

/// What the client is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refusal {
    /// The gRPC code.
    pub code: Code,
    /// For a person.
    pub text: String,
    /// For a program.
    pub detail: Detail,
}

/// The typed reason, where gRIBI has one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The code says it all.
    None,
    /// A `Modify` stream ends.
    Modify(modify_rpc_error_details::Reason),
    /// A `Flush` is refused.
    Flush(flush_response_error::Reason),
}

impl Refusal {
    /// INVALID_ARGUMENT.
    #[must_use]
    pub fn invalid(text: &str) -> Self {
        Self {
            code: Code::InvalidArgument,
            text: text.to_owned(),
            detail: Detail::None,
        }
    }

    /// FAILED_PRECONDITION of a `Modify` stream.
    #[must_use]
    pub fn failed(reason: modify_rpc_error_details::Reason, text: &str) -> Self {
        let detail = Detail::Modify(reason);
        Self {
            code: Code::FailedPrecondition,
            text: text.to_owned(),
            detail,
        }
    }

    /// UNIMPLEMENTED of a `Modify` stream.
    #[must_use]
    pub fn unimplemented(reason: modify_rpc_error_details::Reason, text: &str) -> Self {
        let detail = Detail::Modify(reason);
        Self {
            code: Code::Unimplemented,
            text: text.to_owned(),
            detail,
        }
    }

    /// A `Flush` that is refused.
    #[must_use]
    pub fn flush(code: Code, reason: flush_response_error::Reason, text: &str) -> Self {
        Self {
            code,
            text: text.to_owned(),
            detail: Detail::Flush(reason),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let (name, value) = match refusal.detail {
            Detail::None => return Self::new(refusal.code, refusal.text),
            Detail::Modify(reason) => {
                let detail = ModifyRpcErrorDetails {
                    reason: reason.into(),
                };
                ("gribi.ModifyRPCErrorDetails", detail.encode_to_vec())
            }
            Detail::Flush(reason) => {
                let detail = FlushResponseError {
                    status: reason.into(),
                };
                ("gribi.FlushResponseError", detail.encode_to_vec())
            }
        };
        let type_url = format!("type.googleapis.com/{name}");
        let envelope = rpc::Status {
            code: refusal.code.into(),
            message: refusal.text.clone(),
            details: vec![prost_types::Any { type_url, value }],
        };
        Self::with_details(refusal.code, refusal.text, envelope.encode_to_vec().into())
    }
}
