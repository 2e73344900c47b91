//! Causes of a failed connection in words for a person: errors of TLS with a remedy, and no name of a type. Knows no connection.

use std::error::Error;
use std::fmt;
use std::io;

use rustls::pki_types::pem;
use rustls::{CertificateError, OtherError};

use crate::text::{SENTENCE_MAX, plain};

/// Returns the cause of an error: the innermost one, for "transport error" says nothing. Names of a certificate may be in it, so
/// it is [`plain`].
pub(crate) fn of(error: &(dyn Error + 'static)) -> String {
    plain(&innermost(error), CAUSE_MAX)
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    loop {
        let io = innermost.downcast_ref::<io::Error>();
        // An error of I/O has no source, but an inner error.
        let inner = io
            .and_then(|io| io.get_ref())
            .map(|it| it as &(dyn Error + 'static));
        if let Some(tls) = innermost.downcast_ref::<rustls::Error>() {
            return of_tls(tls);
        }
        match inner.or_else(|| innermost.source()) {
            Some(source) => innermost = source,
            None => break,
        }
    }
    match innermost.downcast_ref::<io::Error>() {
        // Without "(os error 111)".
        Some(error) if error.raw_os_error().is_some() => error.kind().to_string(),
        Some(_) | None => spelled(&innermost.to_string()),
    }
}

/// Returns the words for an error of TLS.
pub(crate) fn of_tls(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(fault) => {
            format!("the certificate {}", of_certificate(fault))
        }
        rustls::Error::AlertReceived(alert) => {
            format!("the server ends the handshake: {}", variant(alert))
        }
        rustls::Error::InvalidMessage(fault) => {
            let fault = variant(fault);
            format!("the answer is not TLS ({fault}): the port may be one without TLS")
        }
        rustls::Error::PeerIncompatible(fault) => {
            let fault = variant(fault);
            format!("no version or algorithm of TLS in common: {fault}")
        }
        rustls::Error::PeerMisbehaved(fault) => {
            format!("the server breaks the rules of TLS: {}", variant(fault))
        }
        other => spelled(&other.to_string()),
    }
}

/// Returns the fault of a certificate, and the remedy, behind the words "the certificate".
fn of_certificate(fault: &CertificateError) -> String {
    let fixed = match fault {
        CertificateError::ExpiredContext { time, not_after } => {
            let past = span(time.as_secs().saturating_sub(not_after.as_secs()));
            return format!("expired {past} ago: renew it, or set the clock of this machine");
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let left = span(not_before.as_secs().saturating_sub(time.as_secs()));
            return format!(
                "is valid in {left} only: set the clock of this machine, or of its issuer"
            );
        }
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let (expected, presented) = (expected.to_str(), names(presented));
            return format!(
                "is not valid for {expected}, the host in the address, but for {presented}: its subject alternative names count"
            );
        }
        CertificateError::Other(OtherError(why)) if why.to_string() == IS_CA => {
            "is one of a CA, and not listed itself: list it, or make it with CA:FALSE"
        }
        CertificateError::UnknownIssuer => {
            "is not listed, and no listed CA has signed it: list it, or the CA that has"
        }
        CertificateError::BadSignature => {
            "is not signed by the key of the listed CA that it names: list the CA that has signed it"
        }
        CertificateError::BadEncoding => "is not encoded as X.509 version 3",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not for TLS servers: make it with the extended key usage of server authentication"
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "is signed with an algorithm that weft does not know: use ECDSA, Ed25519, or RSA with 2048 bits or more"
        }
        CertificateError::Other(OtherError(why)) => {
            return format!("has a fault: {}", variant(why));
        }
        other => return format!("has a fault: {}", variant(other)),
    };
    fixed.to_owned()
}

/// Returns the words for an error of PEM.
pub(crate) fn of_pem(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no END line".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line is malformed".to_owned(),
        pem::Error::Base64Decode(_) => "a section is not base64".to_owned(),
        other => spelled(&other.to_string()),
    }
}

/// Returns names of a certificate without their types: "DnsName(\"leaf1\")" as "leaf1".
fn names(presented: &[String]) -> String {
    let name = |shown: &String| match shown.split_once('(') {
        Some((_, inner)) => inner.trim_matches(['"', ')']).to_owned(),
        None => spelled(shown),
    };
    match presented {
        [] => "no name".to_owned(),
        presented => {
            let names: Vec<_> = presented.iter().take(NAMES_SHOWN).map(name).collect();
            names.join(", ")
        }
    }
}

/// Returns a span of time as people say it.
fn span(secs: u64) -> String {
    match secs {
        secs if secs >= 2 * DAY_SECS => format!("{} days", secs / DAY_SECS),
        secs if secs >= 2 * HOUR_SECS => format!("{} hours", secs / HOUR_SECS),
        secs => format!("{secs} s"),
    }
}

/// Returns the name of a variant in words in lower case, without its fields.
pub(crate) fn variant(value: impl fmt::Debug) -> String {
    let shown = format!("{value:?}");
    let end = shown.find(|letter: char| !letter.is_ascii_alphanumeric());
    spelled(&shown[..end.unwrap_or(shown.len())]).to_lowercase()
}

/// Returns a text with names of code as words: "UnknownIssuer" as "unknown issuer".
fn spelled(text: &str) -> String {
    let words = text.split_inclusive(|letter: char| !letter.is_alphanumeric());
    words.map(spelled_word).collect()
}

fn spelled_word(word: &str) -> String {
    let letters: Vec<char> = word.chars().collect();
    let begins = |pair: &[char]| pair[0].is_lowercase() && pair[1].is_uppercase();
    if !letters.windows(2).any(begins) {
        return word.to_owned();
    }
    let mut spelled = String::new();
    let mut before = ' ';
    for letter in letters {
        if (before.is_lowercase() || before.is_ascii_digit()) && letter.is_uppercase() {
            spelled.push(' ');
        }
        spelled.extend(letter.to_lowercase());
        before = letter;
    }
    spelled
}

/// Name that webpki has for a CA's certificate that a server presents as its own.
pub(crate) const IS_CA: &str = "CaUsedAsEndEntity";
/// Names of a certificate that an error lists.
const NAMES_SHOWN: usize = 8;
/// Octets of a cause: a sentence, and as much of the names of a certificate.
const CAUSE_MAX: usize = 2 * SENTENCE_MAX;
const DAY_SECS: u64 = 86_400;
const HOUR_SECS: u64 = 3_600;

#[cfg(test)]
mod tests;
