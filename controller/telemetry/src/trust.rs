//! Which certificates of switches are trusted: those that a listed certificate has signed, and the listed ones themselves. Knows no
//! connection.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use crate::cause;

/// Certificates that the operator lists: CAs, and certificates of switches.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorities(Arc<[CertificateDer<'static>]>);

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authorities").field(&self.0.len()).finish()
    }
}

impl Authorities {
    /// Reads certificates in PEM, of which there must be one at least.
    ///
    /// # Errors
    /// The fault of the text, for a person.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let listed = read.map_err(|error| format!("not PEM: {}", cause::of_pem(&error)))?;
        if listed.is_empty() {
            return Err("no certificate in PEM".to_owned());
        }
        let authorities = Self(listed.into());
        authorities.roots()?;
        Ok(authorities)
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        for (certificate, number) in self.0.iter().zip(1..) {
            let added = roots.add(certificate.clone());
            added.map_err(|error| format!("certificate {number}: {}", cause::of_tls(&error)))?;
        }
        Ok(roots)
    }

    /// Returns what checks the certificate of a server against those that are listed.
    ///
    /// # Errors
    /// Why nothing can be checked, for a person.
    pub(crate) fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, String> {
        let roots = Arc::new(self.roots()?);
        let provider = Arc::new(ring::default_provider());
        let signed = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
        Ok(Arc::new(Verifier {
            listed: Arc::clone(&self.0),
            signed: signed.map_err(|error| error.to_string())?,
        }))
    }
}

#[derive(Debug)]
struct Verifier {
    listed: Arc<[CertificateDer<'static>]>,
    signed: Arc<WebPkiServerVerifier>,
}

impl Verifier {
    /// True if the operator lists a certificate, octet by octet.
    fn lists(&self, certificate: &CertificateDer<'_>) -> bool {
        let mut listed = self.listed.iter();
        listed.any(|it| it.as_ref() == certificate.as_ref())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // A listed certificate is an anchor of trust, for which nobody has to vouch (RFC 5280 §6.1): a CA that comes with it may have
        // expired.
        let is_listed = self.lists(certificate);
        let others: &[CertificateDer<'_>] = if is_listed { &[] } else { others };
        let verified = self
            .signed
            .verify_server_cert(certificate, others, name, ocsp, now);
        match verified {
            // Its lifetime is checked before its issuer, its name after; its extended key usage is not checked if it is one of a CA.
            Err(Error::InvalidCertificate(fault)) if is_listed && is_of_issuer(&fault) => {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = &self.signed;
        verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = &self.signed;
        verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

/// True if a certificate is refused for who has signed it, or how, or for being a CA.
fn is_of_issuer(fault: &CertificateError) -> bool {
    match fault {
        CertificateError::UnknownIssuer
        | CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => true,
        CertificateError::Other(OtherError(why)) => why.to_string() == cause::IS_CA,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused() {
        let refused = |pem: &str| Authorities::from_pem(pem.as_bytes()).unwrap_err();
        assert_eq!(refused(""), "no certificate in PEM");
        assert_eq!(refused("switches"), "no certificate in PEM");
        let framed = |text: &str| {
            refused(&format!(
                "-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"
            ))
        };
        assert_eq!(framed("!"), "not PEM: a section is not base64");
        let nonsense = framed("c3dpdGNo");
        let expected = "certificate 1: the certificate is not encoded as X.509 version 3";
        assert_eq!(nonsense, expected);
        let cut = refused("-----BEGIN CERTIFICATE-----\nc3dpdGNo\n");
        assert_eq!(cut, "not PEM: a section has no END line");
    }

    #[test]
    fn authorities_are_compared_and_counted() {
        let made = || {
            let parameters = rcgen::CertificateParams::new(["leaf1".to_owned()]).unwrap();
            let key = rcgen::KeyPair::generate().unwrap();
            parameters.self_signed(&key).unwrap().pem()
        };
        let (one, other) = (made(), made());
        let read = |pem: &str| Authorities::from_pem(pem.as_bytes()).unwrap();
        assert_eq!(read(&one), read(&one));
        assert_ne!(read(&one), read(&other));
        let both = read(&format!("{one}{other}"));
        assert_eq!(format!("{both:?}"), "Authorities(2)");
    }
}
