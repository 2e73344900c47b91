//! The gRPC contracts of weft, the code generated from them, and their messages as JSON. Nothing here knows what a message
//! is for.
//!
//! The modules mirror the packages: `weft.v1` is [`v1`], `weft.agent.v1` is [`agent::v1`], `gribi` is [`gribi`],
//! `gnmi` is [`gnmi`].
//! Fields of type `bytes` are [`bytes::Bytes`](prost::bytes::Bytes).

#![allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::use_self,
    clippy::or_fun_call,
    clippy::too_many_lines,
    reason = "generated code; the comments are in the .proto files"
)]

/// What the replicas say to each other: `weft.consensus`.
pub mod consensus {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("weft.consensus.v1");
    }
}

/// What weft-agent says of the switch that it runs on: `weft.agent`.
pub mod agent {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("weft.agent.v1");
    }
}

/// What programs and operators ask of a replica: `weft.v1`.
pub mod v1 {
    tonic::include_proto!("weft.v1");
}

/// OpenConfig gRIBI, the subset that weft uses.
pub mod gribi {
    tonic::include_proto!("gribi");
}

/// The abstract forwarding tables that [`gribi`] carries.
pub mod gribi_aft {
    tonic::include_proto!("gribi_aft");
}

/// Leaves of a YANG tree that may be absent.
pub mod ywrapper {
    tonic::include_proto!("ywrapper");
}

/// OpenConfig gNMI, the subset that weft uses.
pub mod gnmi {
    tonic::include_proto!("gnmi");
}

/// What a request of [`gnmi`] may carry beside.
pub mod gnmi_ext {
    tonic::include_proto!("gnmi_ext");
}

/// Google's packages.
pub mod google {
    /// The envelope of error details: `google.rpc.Status`.
    pub mod rpc {
        tonic::include_proto!("google.rpc");
    }
}

pub mod json;

/// The compiled descriptors of all files, for gRPC server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/weft.bin"));
