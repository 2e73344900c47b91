//! Why a call is refused, in a form that programs can read: google.rpc.ErrorInfo with a reason that the contract lists, and
//! google.rpc.BadRequest with every field. Knows no call.

use std::time::Duration;

use axum::http::HeaderMap;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::door::bounds::{OCTETS_MAX, OCTETS_PER_ADDRESS};
use crate::fabric::fact::{InvalidFabric, Kind};

/// Who says so.
const DOMAIN: &str = "weft";
/// Of fields and reasons, which are sent in base64. Clients of other languages take 8 KiB of headers.
const DETAILS_OCTETS_MAX: usize = 2000;
/// Of a message: what a client wrote stands in it, at whatever length. It is sent twice, once with three octets for most.
const MESSAGE_OCTETS_MAX: usize = 1000;
/// Names in a refusal.
const NAMES_SHOWN: usize = 8;
/// What a field and a reason take besides their texts.
const FRAME_OCTETS: usize = 10;

/// A refusal with a reason of the contract.
fn refuse(
    code: Code,
    reason: &str,
    metadata: &[(&str, &str)],
    message: impl Into<String>,
) -> Status {
    let message = cut(&message.into(), MESSAGE_OCTETS_MAX).to_owned();
    let metadata: Vec<(String, String)> = metadata
        .iter()
        .map(|(key, value)| ((*key).to_owned(), short(value).to_owned()))
        .collect();
    let details = ErrorDetails::with_error_info(
        reason,
        DOMAIN,
        metadata
            .into_iter()
            .collect::<std::collections::HashMap<_, _>>(),
    );
    Status::with_error_details(code, message, details)
}

/// Refuses what has a fault.
pub(super) fn check(faults: &InvalidFabric) -> Result<(), Status> {
    match faults.is_empty() {
        true => Ok(()),
        false => Err(invalid(faults)),
    }
}

/// What was read of a field, unless that or something else has a fault.
pub(super) fn read<T>(read: Option<T>, faults: &InvalidFabric) -> Result<T, Status> {
    let read = read.filter(|_| faults.is_empty());
    read.ok_or_else(|| invalid(faults))
}

/// Fields that are wrong, as many as fit into the headers of an answer; the text has the first.
pub(super) fn invalid(faults: &InvalidFabric) -> Status {
    let mut details = ErrorDetails::with_error_info("INVALID_FIELDS", DOMAIN, []);
    let (mut octets, mut shown) = (0, 0);
    for fault in &faults.faults {
        octets += fault.field.len() + fault.reason.len() + FRAME_OCTETS;
        if shown > 0 && octets > DETAILS_OCTETS_MAX {
            break;
        }
        details.add_bad_request_violation(&fault.field, &fault.reason);
        shown += 1;
    }
    let first = faults.faults.first();
    let message = first.map(ToString::to_string).unwrap_or_default();
    let mut message = cut(&message, MESSAGE_OCTETS_MAX).to_owned();
    let more = faults.faults.len().saturating_sub(1);
    if more > 0 {
        message = format!("{message}; and {more} more");
    }
    Status::with_error_details(Code::InvalidArgument, message, details)
}

/// One field that is wrong.
pub(super) fn field(field: &str, reason: impl std::fmt::Display) -> Status {
    invalid(&InvalidFabric::of(field, reason))
}

pub(super) fn no_such(kind: Kind, name: &str) -> Status {
    missing("name", kind.noun(), name)
}

/// `field` names something of this kind that is not there.
pub(super) fn missing(field: &str, kind: &str, name: &str) -> Status {
    let reason = format!("no {kind} is named {:?}", short(name));
    missing_because(field, kind, name, reason)
}

/// `field` names something that is not of this kind, for a reason.
pub(super) fn missing_because(
    field: &str,
    kind: &str,
    name: &str,
    reason: impl std::fmt::Display,
) -> Status {
    let metadata = [("kind", kind), ("name", name)];
    let message = format!("{field}: {reason}");
    refuse(Code::NotFound, "NO_SUCH_RESOURCE", &metadata, message)
}

/// Nobody leads, or the one that did does not answer.
pub(super) fn nobody_leads() -> Status {
    let message = "only the leader knows or decides this, and there is none; nothing is changed";
    refuse(Code::Unavailable, "NO_LEADER", &[], message)
}

/// What was asked for as a whole does not fit into a message; `list` answers it in pages.
pub(super) fn too_large(list: &str) -> Status {
    let message = format!("the answer has more than 4 MiB; {list} answers it in pages");
    refuse(Code::ResourceExhausted, "TOO_LARGE", &[], message)
}

/// The message has the place of the mistake, and a line of the file, at whatever length.
pub(super) fn config_invalid(message: &str) -> Status {
    refuse(Code::InvalidArgument, "CONFIG_INVALID", &[], message)
}

pub(super) fn no_config_file(message: impl Into<String>) -> Status {
    refuse(Code::FailedPrecondition, "NO_CONFIG_FILE", &[], message)
}

pub(super) fn already_exists(kind: Kind, name: &str) -> Status {
    let noun = kind.noun();
    let metadata = [("kind", noun), ("name", name)];
    let message = format!("resource.name: there is a {noun} named {name:?}");
    refuse(Code::AlreadyExists, "ALREADY_EXISTS", &metadata, message)
}

pub(super) fn etag_mismatch(kind: Kind, name: &str, etag: &str) -> Status {
    let noun = kind.noun();
    let metadata = [("kind", noun), ("name", name), ("etag", etag)];
    let message = format!("etag: {noun} {name} was changed since it was read; its etag is {etag}");
    refuse(Code::Aborted, "ETAG_MISMATCH", &metadata, message)
}

pub(super) fn generation_mismatch(generation: u64) -> Status {
    let metadata = [("generation", &*generation.to_string())];
    let message =
        format!("generation: the fabric was changed since it was read; it is {generation}");
    refuse(Code::Aborted, "GENERATION_MISMATCH", &metadata, message)
}

/// `faults` say who names it.
pub(super) fn in_use(kind: Kind, name: &str, faults: &InvalidFabric) -> Status {
    let metadata = [("kind", kind.noun()), ("name", name)];
    refuse(
        Code::FailedPrecondition,
        "IN_USE",
        &metadata,
        faults.to_string(),
    )
}

pub(super) fn request_id_reused() -> Status {
    let message = "request_id: an earlier request with this id had other content";
    refuse(Code::InvalidArgument, "REQUEST_ID_REUSED", &[], message)
}

pub(super) fn not_established(name: &str) -> Status {
    let message = format!("name: this replica has no established session to {name}");
    let metadata = [("name", name)];
    refuse(
        Code::FailedPrecondition,
        "NOT_ESTABLISHED",
        &metadata,
        message,
    )
}

pub(super) fn not_capable(name: &str) -> Status {
    let message = format!("name: {name} does not have the capability ROUTE-REFRESH");
    let metadata = [("name", name)];
    refuse(Code::FailedPrecondition, "NOT_CAPABLE", &metadata, message)
}

pub(super) fn busy() -> Status {
    let message = "others changed the fabric again and again meanwhile; try again";
    refuse(Code::Aborted, "FABRIC_BUSY", &[], message)
}

pub(super) fn too_many_applies(most: usize) -> Status {
    let message = format!("this replica reads or writes {most} declarations already; try again");
    refuse(Code::ResourceExhausted, "TOO_MANY_APPLIES", &[], message)
}

pub(super) fn too_many_exports(most: usize) -> Status {
    let message = format!("this replica is writing {most} export already; try again");
    refuse(Code::ResourceExhausted, "TOO_MANY_EXPORTS", &[], message)
}

pub(super) fn too_many_simulations(most: usize) -> Status {
    let message = format!("this replica is simulating {most} plan already; try again");
    refuse(
        Code::ResourceExhausted,
        "TOO_MANY_SIMULATIONS",
        &[],
        message,
    )
}

/// This call, or others of its address, have too many octets in flight.
pub(super) fn too_many_octets() -> Status {
    let message = format!(
        "requests in flight: more than {} MiB of one address, or {} MiB in all; try again, or ask another replica",
        OCTETS_PER_ADDRESS >> 20,
        OCTETS_MAX >> 20
    );
    refuse(Code::Unavailable, "TOO_MANY_OCTETS", &[], message)
}

pub(super) fn simulation_too_slow(limit: Duration) -> Status {
    let message = format!("the plan was not there within {} s", limit.as_secs());
    refuse(Code::DeadlineExceeded, "SIMULATION_TOO_SLOW", &[], message)
}

/// No list answers it in parts.
pub(super) fn answer_too_large() -> Status {
    let message = "the answer has more than 4 MiB";
    refuse(Code::ResourceExhausted, "TOO_LARGE", &[], message)
}

/// Leaves lose their last path to each other. `first` is one pair of them; `jobs` have NICs behind both.
pub(super) fn last_path(first: (&str, &str), leaves: &[&str], jobs: &[&str]) -> Status {
    let (a, b) = first;
    let (leaves, jobs) = (some(leaves), some(jobs));
    let mut message = format!("{a} and {b} lose their last path to each other");
    if leaves != format!("{a}, {b}") {
        message += &format!("; leaves: {leaves}");
    }
    if !jobs.is_empty() {
        message += &format!("; jobs: {jobs}");
    }
    message += "; force makes the change all the same";
    let metadata = [("leaves", &*leaves), ("jobs", &*jobs)];
    refuse(Code::FailedPrecondition, "LAST_PATH", &metadata, message)
}

/// Some names of a list, and how many more there are.
fn some(names: &[&str]) -> String {
    let shown = names[..names.len().min(NAMES_SHOWN)].join(", ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The leader does not know yet which links carry traffic.
pub(super) fn leader_unsure() -> Status {
    let message = "the leader has not heard from every switch yet, so that it cannot tell which paths are left; try again, or force \
        the change";
    refuse(Code::Unavailable, "LEADER_UNSURE", &[], message)
}

/// A declaration without a resource.
pub(super) fn nothing_declared() -> Status {
    let message = "the declaration names no resource; nothing is changed";
    refuse(Code::InvalidArgument, "NOTHING_DECLARED", &[], message)
}

/// A declaration of another fabric than the declared one.
pub(super) fn other_fabric(declared: &str, name: &str) -> Status {
    let message = format!(
        "display_name: the declared fabric is {:?} and not {:?}; rename gives it the other name",
        short(declared),
        short(name)
    );
    let metadata = [("declared", declared)];
    refuse(Code::FailedPrecondition, "OTHER_FABRIC", &metadata, message)
}

/// Every proposal of this replica counts as an old one.
pub(super) fn superseded() -> Status {
    let message = "the replicas have applied later proposals of this replica than it makes: its data directory was lost, and its \
        clock is behind; ask another replica, and restart this one with the right time";
    refuse(Code::Unavailable, "REPLICA_SUPERSEDED", &[], message)
}

pub(super) fn endless_stream(limit: Duration) -> Status {
    let message = format!("the declaration did not end within {} s", limit.as_secs());
    refuse(Code::DeadlineExceeded, "STREAM_TOO_SLOW", &[], message)
}

/// A part of a declaration, or the begin of a body, does not come.
pub(super) fn slow_part(limit: Duration) -> Status {
    let message = format!("nothing came for {} s", limit.as_secs());
    refuse(Code::DeadlineExceeded, "STREAM_TOO_SLOW", &[], message)
}

/// A caller beyond this machine, without `api.insecure`.
pub(super) fn insecure() -> Status {
    let message = "this replica answers callers on its own machine alone; `insecure = true` under [api] in its file answers \
        everybody, without encryption or a password";
    refuse(Code::PermissionDenied, "INSECURE", &[], message)
}

pub(super) fn foreign_host() -> Status {
    let message =
        "Host: neither an address of this replica, nor localhost, nor a name of `hosts` in [api]";
    refuse(Code::PermissionDenied, "FOREIGN_HOST", &[], message)
}

pub(super) fn foreign_origin() -> Status {
    let message = "Origin: a page of another site may not call";
    refuse(Code::PermissionDenied, "FOREIGN_ORIGIN", &[], message)
}

/// A change over HTTP that is not JSON.
pub(super) fn not_json() -> Status {
    let message = "Content-Type: a change is application/json";
    refuse(Code::InvalidArgument, "NOT_JSON", &[], message)
}

/// A path that takes these methods of HTTP.
pub(super) fn other_methods(methods: &str) -> Status {
    let message = format!("this path takes {methods}");
    refuse(Code::Unimplemented, "UNKNOWN_METHOD", &[], message)
}

pub(super) fn no_such_path() -> Status {
    let message =
        "nothing is here; a / within a name is written %2F, and /openapi.json says what is where";
    refuse(Code::NotFound, "NO_SUCH_PATH", &[], message)
}

/// A service is asked by something that may be a browser's page.
pub(super) fn not_by_a_program() -> Status {
    let message =
        "gRPC is spoken over HTTP/2 and without an Origin; /openapi.json has the paths of JSON";
    refuse(Code::PermissionDenied, "NOT_GRPC", &[], message)
}

/// The body of a request did not end.
pub(super) fn slow() -> Status {
    let message = "body: it did not end within 30 s";
    refuse(Code::DeadlineExceeded, "STREAM_TOO_SLOW", &[], message)
}

pub(super) fn too_long(octets: usize) -> Status {
    field("body", format_args!("more than {octets} octets"))
}

pub(super) fn behind() -> Status {
    let message = "this replica does not keep up with the others";
    refuse(Code::Unavailable, "REPLICA_BEHIND", &[], message)
}

pub(super) fn stopping() -> Status {
    let message = "this replica is stopping";
    refuse(Code::Unavailable, "REPLICA_STOPPING", &[], message)
}

pub(super) fn no_majority() -> Status {
    let message = "no majority of replicas answers";
    refuse(Code::Unavailable, "NO_MAJORITY", &[], message)
}

pub(super) fn no_majority_to_read() -> Status {
    let message = "no majority of replicas answers; ask with consistency SERIALIZABLE";
    refuse(Code::Unavailable, "NO_MAJORITY", &[], message)
}

pub(super) fn outcome_unknown() -> Status {
    let message = "the replicas did not answer in time; the change may still be made";
    refuse(Code::Unavailable, "OUTCOME_UNKNOWN", &[], message)
}

/// What a watcher asks for is forgotten here.
pub(super) fn revision_compacted(oldest: u64) -> Status {
    let metadata = [("oldest_revision", &*oldest.to_string())];
    let message =
        format!("after_revision: forgotten at this replica; the oldest that it knows is {oldest}");
    refuse(Code::OutOfRange, "REVISION_COMPACTED", &metadata, message)
}

/// What a watcher asks for is nowhere yet.
pub(super) fn revision_in_future(revision: u64) -> Status {
    let metadata = [("revision", &*revision.to_string())];
    let message = format!("after_revision: the replicas are at {revision} only");
    refuse(Code::OutOfRange, "REVISION_IN_FUTURE", &metadata, message)
}

pub(super) fn watcher_too_slow() -> Status {
    let message = "the client did not take answers for 30 seconds";
    refuse(Code::ResourceExhausted, "WATCHER_TOO_SLOW", &[], message)
}

pub(super) fn too_many_watchers(most: usize) -> Status {
    let message = format!("this replica has {most} watchers already");
    refuse(Code::ResourceExhausted, "TOO_MANY_WATCHERS", &[], message)
}

pub(super) fn no_leader() -> Status {
    let message = "this replica has heard of no leader for some time";
    refuse(Code::Unavailable, "NO_LEADER", &[], message)
}

/// A task of ours ended without an answer.
pub(super) fn defect() -> Status {
    failed("a defect of weft; its log has more")
}

/// What must work does not.
pub(super) fn failed(error: impl std::fmt::Display) -> Status {
    refuse(Code::Internal, "DEFECT", &[], error.to_string())
}

/// What tonic says of a call before any handler does, or instead of the next message of one, with a reason. What has one is
/// as it was.
pub(super) fn unread(status: Status) -> Status {
    // The connection's own mistakes have a source: whoever made the call is gone.
    if !status.details().is_empty() || std::error::Error::source(&status).is_some() {
        return status;
    }
    let (code, reason) = match status.code() {
        Code::Unimplemented if status.message().is_empty() => {
            let message = "there is no such method";
            return refuse(Code::Unimplemented, "UNKNOWN_METHOD", &[], message);
        }
        // OUT_OF_RANGE would have a watcher begin anew.
        Code::OutOfRange => (Code::ResourceExhausted, "MESSAGE_TOO_LARGE"),
        Code::Internal | Code::Unimplemented => (Code::InvalidArgument, "MALFORMED_MESSAGE"),
        _ => return status,
    };
    refuse(code, reason, &[], status.message())
}

/// The same in the headers of an answer.
pub(super) fn name_reason(headers: &mut HeaderMap) {
    if headers.contains_key(Status::GRPC_STATUS_DETAILS) {
        return;
    }
    let status = Status::from_header_map(headers).map(unread);
    if let Some(status) = status.filter(|status| !status.details().is_empty()) {
        // What is longer than a header may be was cut.
        let _ = status.add_header(headers);
    }
}

/// What a client called something, as far as it is shown.
fn short(text: &str) -> &str {
    cut(text, NAME_OCTETS_MAX)
}

/// The beginning of a text.
fn cut(text: &str, octets: usize) -> &str {
    &text[..text.floor_char_boundary(octets)]
}

/// The longest name that there is.
const NAME_OCTETS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::lone::reason;
    use super::*;

    /// gRPC's clients in C, Python and C++ refuse 16 KiB of headers, and some already 8.
    #[test]
    fn many_faults_fit_into_headers() {
        let mut faults = InvalidFabric::default();
        for at in 0..1000 {
            faults.fault(format_args!("links[{at}].b.switch_name"), "葉".repeat(300));
        }
        let refused = invalid(&faults);
        assert_fits(&refused);
        assert_eq!(reason(&refused).1, "INVALID_FIELDS");
        let bad = refused.get_details_bad_request().unwrap();
        assert!(!bad.field_violations.is_empty());
        assert!(refused.message().ends_with("; and 99 more"), "{refused}");
    }

    fn assert_fits(refused: &Status) {
        let text = refused.message().len() * 3;
        let details = refused.details().len() * 4 / 3;
        assert!(text + details < 8000, "{text} + {details}");
    }

    #[test]
    fn what_a_client_wrote_is_cut_before_headers_are_too_long() {
        let long = "葉".repeat(1 << 20);
        for refused in [
            config_invalid(&long),
            field(&long, &long),
            missing("name", "peer", &long),
            missing_because(&long, &long, &long, &long),
            no_config_file(&*long),
            other_fabric(&long, &long),
            last_path((&long, &long), &[&*long; 20], &[&*long; 20]),
            not_established(&long),
            unread(Status::internal(&*long)),
        ] {
            assert_fits(&refused);
        }
    }

    /// A program is written from the comments of the contract.
    #[test]
    fn the_contract_has_every_reason_and_no_other() {
        let is_reason = |it: &&str| {
            let plain = |octet: u8| octet.is_ascii_uppercase() || octet == b'_';
            it.len() > 3 && it.bytes().all(plain)
        };
        let code = include_str!("refusal.rs").split("#[cfg(test)]").next();
        let sent: BTreeSet<&str> = code.unwrap().split('"').filter(is_reason).collect();
        let contract = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/weft/v1");
        let files = std::fs::read_dir(contract).unwrap();
        let texts = files.map(|it| std::fs::read_to_string(it.unwrap().path()).unwrap());
        let texts: Vec<String> = texts.collect();
        let mut documented = BTreeSet::new();
        for text in &texts {
            let rows = text.lines().filter_map(|line| line.strip_prefix("//   "));
            let reasons: BTreeSet<&str> = rows
                .filter_map(|row| Some(row.split_once(' ')?.0))
                .filter(is_reason)
                .collect();
            // Every method can answer these, whatever else a service answers.
            if reasons.contains("DEFECT") {
                let always = ["INVALID_FIELDS", "INSECURE", "NOT_GRPC", "TOO_MANY_OCTETS"];
                assert!(always.iter().all(|it| reasons.contains(it)), "{reasons:?}");
            }
            documented.extend(reasons);
        }
        // Of HTTP alone: /openapi.json has them.
        let http = include_str!("json/openapi.rs");
        for reason in ["NO_SUCH_PATH", "NOT_JSON", "FOREIGN_HOST", "FOREIGN_ORIGIN"] {
            assert!(http.contains(reason), "{reason}");
            documented.insert(reason);
        }
        assert_eq!(documented, sent);
    }

    #[test]
    fn what_no_handler_refused_has_a_reason_too() {
        let named = |status: Status| {
            let mut headers = HeaderMap::new();
            status.add_header(&mut headers).unwrap();
            name_reason(&mut headers);
            reason(&Status::from_header_map(&headers).unwrap())
        };
        let expected = |code, reason: &str| (code, reason.to_owned());
        let large = named(Status::out_of_range("decoded message length too large"));
        assert_eq!(
            large,
            expected(Code::ResourceExhausted, "MESSAGE_TOO_LARGE")
        );
        let malformed = named(Status::internal("failed to decode Protobuf message"));
        assert_eq!(
            malformed,
            expected(Code::InvalidArgument, "MALFORMED_MESSAGE")
        );
        let unknown = named(Status::unimplemented(""));
        assert_eq!(unknown, expected(Code::Unimplemented, "UNKNOWN_METHOD"));
        assert_eq!(
            named(revision_compacted(7)),
            expected(Code::OutOfRange, "REVISION_COMPACTED")
        );
        assert_eq!(named(defect()), expected(Code::Internal, "DEFECT"));
        let gone = Status::cancelled("the client went away");
        assert_eq!(named(gone), expected(Code::Cancelled, ""));
    }
}
