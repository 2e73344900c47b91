//! How values are written in the file.

use std::fmt;
use std::time::Duration;

use ipnet::IpNet;
use weft_bgp::family::Family;
use weft_bgp::reflect::LocalAs;
use weft_bgp::session::RemoteAsn;

use crate::config::TcpAoKey;
use crate::config::group::{Bfd, GracefulRestart, Ttl};
use crate::config::tcp_ao::ALGORITHMS;

pub(super) fn quoted(text: impl fmt::Display) -> String {
    format!("{:?}", text.to_string())
}

pub(super) fn secs(duration: Duration) -> u64 {
    duration.as_secs()
}

pub(super) fn or_false(value: Option<String>) -> String {
    value.unwrap_or_else(|| "false".to_owned())
}

pub(super) fn array(values: Vec<String>) -> String {
    format!("[{}]", values.join(", "))
}

pub(super) fn table(values: Vec<String>) -> String {
    match values.is_empty() {
        true => "{}".to_owned(),
        false => format!("{{ {} }}", values.join(", ")),
    }
}

pub(super) fn list(families: &[Family]) -> String {
    array(families.iter().map(quoted).collect())
}

pub(super) fn prefixes(prefixes: &[IpNet]) -> String {
    array(prefixes.iter().map(quoted).collect())
}

pub(super) fn asn(remote_asn: RemoteAsn) -> String {
    match remote_asn {
        RemoteAsn::Any => "\"any\"".to_owned(),
        RemoteAsn::Exactly(asn) => asn.to_string(),
        RemoteAsn::Range(low, high) => format!("\"{low}-{high}\""),
    }
}

pub(super) fn as_table(local_as: LocalAs) -> String {
    let LocalAs {
        asn,
        no_prepend,
        replace_as,
    } = local_as;
    format!("{{ asn = {asn}, no_prepend = {no_prepend}, replace_as = {replace_as} }}")
}

pub(super) fn hops(ttl: Ttl) -> String {
    match ttl {
        Ttl::Gtsm(hops) => hops.to_string(),
        Ttl::Multihop(_) => "false".to_owned(),
    }
}

pub(super) fn tcp_ao(keys: &[TcpAoKey]) -> String {
    let one = |key: &TcpAoKey| {
        let TcpAoKey {
            send_id,
            recv_id,
            algorithm,
            tcp_options,
            key_file,
        } = key;
        let algorithm = quoted(word(*algorithm, &ALGORITHMS));
        let key_file = quoted(key_file.display());
        format!(
            "{{ send_id = {send_id}, recv_id = {recv_id}, algorithm = {algorithm}, tcp_options = {tcp_options}, key_file = {key_file} }}"
        )
    };
    match keys.is_empty() {
        true => "false".to_owned(),
        false => array(keys.iter().map(one).collect()),
    }
}

pub(super) fn multihop(ttl: Ttl) -> u8 {
    match ttl {
        Ttl::Gtsm(_) => u8::MAX,
        Ttl::Multihop(ttl) => ttl,
    }
}

pub(super) fn bfd_table(bfd: &Bfd, ttl: Ttl) -> String {
    let (interval_ms, multiplier) = (bfd.interval.as_millis(), bfd.multiplier);
    let multihop = bfd.multihop(ttl);
    let multihop = multihop.map_or_else(String::new, |it| format!(", multihop = {it}"));
    format!("{{ interval_ms = {interval_ms}, multiplier = {multiplier}{multihop} }}")
}

pub(super) fn restart(graceful_restart: GracefulRestart) -> String {
    let GracefulRestart { restart, redundant } = graceful_restart;
    let (restart, redundant) = (secs(restart), secs(redundant));
    format!("{{ restart_secs = {restart}, redundant_restart_secs = {redundant} }}")
}

pub(super) fn word<T: PartialEq>(meant: T, words: &[(&'static str, T)]) -> &'static str {
    words
        .iter()
        .find(|(_, value)| *value == meant)
        .map(|(word, _)| *word)
        .expect("every value has its word")
}
