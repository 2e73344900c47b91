//! Errors of libraries, as people read them.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{
    AlertDescription, ContentType, Error, InconsistentKeys, InvalidMessage, PeerIncompatible,
    PeerMisbehaved,
};

use super::*;

fn at(secs: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(secs))
}

fn other(text: &'static str) -> CertificateError {
    CertificateError::Other(OtherError(Arc::new(io::Error::other(text))))
}

/// Nothing of it is a name or a value of code.
fn assert_legible(text: &str) {
    for mark in ["Other(", "{", "::", "os error", "Error("] {
        assert!(!text.contains(mark), "{mark} in {text}");
    }
    let letters: Vec<char> = text.chars().collect();
    let is_camel = |pair: &[char]| pair[0].is_lowercase() && pair[1].is_uppercase();
    assert!(!letters.windows(2).any(is_camel), "{text}");
}

fn faults() -> Vec<CertificateError> {
    vec![
        CertificateError::BadEncoding,
        CertificateError::Expired,
        CertificateError::ExpiredContext {
            time: at(400_000),
            not_after: at(100_000),
        },
        CertificateError::NotValidYet,
        CertificateError::NotValidYetContext {
            time: at(100_000),
            not_before: at(100_030),
        },
        CertificateError::Revoked,
        CertificateError::UnhandledCriticalExtension,
        CertificateError::UnknownIssuer,
        CertificateError::UnknownRevocationStatus,
        CertificateError::ExpiredRevocationListContext {
            time: at(2),
            next_update: at(1),
        },
        CertificateError::BadSignature,
        CertificateError::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id: vec![1],
            supported_algorithms: Vec::new(),
        },
        CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext {
            signature_algorithm_id: vec![1],
            public_key_algorithm_id: vec![2],
        },
        CertificateError::NotValidForName,
        CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("leaf1").unwrap(),
            presented: vec![
                "DnsName(\"spine1.example\")".to_owned(),
                "IpAddress(192.0.2.1)".to_owned(),
            ],
        },
        CertificateError::InvalidPurpose,
        CertificateError::InvalidOcspResponse,
        CertificateError::ApplicationVerificationFailure,
        other(IS_CA),
        other("PathLenConstraintViolated"),
    ]
}

#[test]
fn every_fault_of_a_certificate_is_in_words() {
    for fault in faults() {
        assert_legible(&of_tls(&Error::InvalidCertificate(fault)));
    }
}

#[test]
fn every_error_of_tls_is_in_words() {
    for error in [
        Error::AlertReceived(AlertDescription::HandshakeFailure),
        Error::AlertReceived(AlertDescription::UnknownCA),
        Error::InvalidMessage(InvalidMessage::InvalidContentType),
        Error::InvalidMessage(InvalidMessage::MissingData("Handshake")),
        Error::PeerIncompatible(PeerIncompatible::ServerDoesNotSupportTls12Or13),
        Error::PeerMisbehaved(PeerMisbehaved::BadCertChainExtensions),
        Error::InappropriateMessage {
            expect_types: vec![ContentType::Alert, ContentType::Handshake],
            got_type: ContentType::ApplicationData,
        },
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch),
        Error::NoCertificatesPresented,
        Error::UnsupportedNameType,
        Error::DecryptError,
        Error::EncryptError,
        Error::PeerSentOversizedRecord,
        Error::HandshakeNotComplete,
        Error::NoApplicationProtocol,
        Error::FailedToGetCurrentTime,
        Error::FailedToGetRandomBytes,
        Error::BadMaxFragmentSize,
        Error::General("a fault of CamelCase".to_owned()),
        Error::Other(OtherError(Arc::new(io::Error::other("BadThing")))),
    ] {
        assert_legible(&of_tls(&error));
    }
}

#[test]
fn what_an_operator_can_mend_has_a_remedy() {
    let said = |fault| of_tls(&Error::InvalidCertificate(fault));
    for (fault, expected) in [
        (
            other(IS_CA),
            "the certificate is one of a CA, and not listed itself: list it, or make it with CA:FALSE",
        ),
        (
            CertificateError::ExpiredContext {
                time: at(400_000),
                not_after: at(100_000),
            },
            "the certificate expired 3 days ago: renew it, or set the clock of this machine",
        ),
        (
            CertificateError::NotValidForNameContext {
                expected: ServerName::try_from("192.0.2.9").unwrap(),
                presented: vec![
                    "DnsName(\"leaf1\")".to_owned(),
                    "IpAddress(2001:db8::1)".to_owned(),
                ],
            },
            "the certificate is not valid for 192.0.2.9, the host in the address, but for leaf1, 2001:db8::1: its subject alternative \
             names count",
        ),
        (
            CertificateError::NotValidForNameContext {
                expected: ServerName::try_from("leaf1").unwrap(),
                presented: Vec::new(),
            },
            "the certificate is not valid for leaf1, the host in the address, but for no name: its subject alternative names count",
        ),
    ] {
        assert_eq!(said(fault), expected);
    }
}

#[test]
fn the_innermost_cause_is_the_one_that_says_something() {
    let refused = io::Error::from_raw_os_error(111);
    assert_eq!(of(&refused), "connection refused");
    let fault = Error::InvalidCertificate(CertificateError::UnknownIssuer);
    let wrapped = io::Error::new(io::ErrorKind::InvalidData, fault);
    let wrapped = io::Error::other(wrapped);
    let expected = "the certificate is not listed, and no listed CA has signed it: list it, or the CA that has";
    assert_eq!(of(&wrapped), expected);
    let plain = io::Error::other("HTTP/2 was not negotiated");
    assert_eq!(of(&plain), "HTTP/2 was not negotiated");
}
