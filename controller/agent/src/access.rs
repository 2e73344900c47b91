//! Who may call: TLS for all that is served, and a login that every call must carry. Reads its files once, at the start.
//! Knows nothing of what is called.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use subtle::ConstantTimeEq;
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Status};
use weft_sys::{Key, KeyError};

/// A server that speaks TLS with the certificate, or the chain, and the private key in these files, both PEM.
///
/// # Errors
///
/// What is wrong with the files, for a person.
pub fn with_tls(server: Server, certificate: &Path, key: &Path) -> Result<Server, String> {
    let chain = std::fs::read(certificate)
        .map_err(|error| format!("--tls-cert {}: {error}", certificate.display()))?;
    let secret =
        weft_sys::private_file(key).map_err(|error| format!("--tls-key: {}", chained(&error)))?;
    let identity = Identity::from_pem(chain, secret.as_slice());
    let tls = ServerTlsConfig::new()
        .identity(identity)
        .timeout(HANDSHAKE_MAX);
    server.tls_config(tls).map_err(|error| {
        let (certificate, key) = (certificate.display(), key.display());
        format!(
            "--tls-cert {certificate}, --tls-key {key}: {}",
            fault(&error)
        )
    })
}

/// Returns the fault of a certificate and its key in words for a person.
fn fault(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = match innermost.downcast_ref::<rustls::Error>() {
        Some(rustls::Error::InconsistentKeys(_)) => "the key is not that of the certificate",
        Some(rustls::Error::NoCertificatesPresented) => "no certificate in PEM",
        Some(rustls::Error::InvalidCertificate(_)) => {
            "the certificate is not encoded as X.509 version 3"
        }
        Some(_) => "a key of another kind than RSA, ECDSA and Ed25519 in PKCS #8, PKCS #1 or SEC 1",
        None => return innermost.to_string(),
    };
    text.to_owned()
}

/// Lets calls pass that carry the login, in the metadata `username` and `password`; all calls if there is none.
#[derive(Clone, Debug, Default)]
pub struct Gate(Option<Arc<Login>>);

#[derive(Debug)]
struct Login {
    username: String,
    password: Key,
}

impl Gate {
    /// A gate for one user, whose password is in a file.
    ///
    /// # Errors
    ///
    /// Why the file holds no password.
    pub fn new(username: String, password_file: &Path) -> Result<Self, KeyError> {
        let password = Key::load(password_file)?;
        Ok(Self(Some(Arc::new(Login { username, password }))))
    }
}

impl Login {
    /// Whether a call carries the user and the password. A wrong one takes as long as another, whichever octet is wrong.
    fn admits(&self, metadata: &MetadataMap) -> bool {
        let sent = |name| metadata.get(name).map_or(&[][..], |it| it.as_bytes());
        let user = sent("username").ct_eq(self.username.as_bytes());
        let password = sent("password").ct_eq(self.password.octets());
        (user & password).into()
    }
}

impl Interceptor for Gate {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        match &self.0 {
            Some(login) if !login.admits(request.metadata()) => {
                Err(Status::unauthenticated(REFUSED))
            }
            Some(_) | None => Ok(request),
        }
    }
}

/// An error with what it wraps.
fn chained(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut wrapped = error.source();
    while let Some(error) = wrapped {
        text = format!("{text}: {error}");
        wrapped = error.source();
    }
    text
}

const REFUSED: &str = "weft-agent was started with --username: the metadata username and password are missing or wrong";

/// Who does not finish a handshake within this makes room for another.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use tempfile::TempDir;
    use tonic::Code;

    use super::*;

    const CERTIFICATE_OF_NOTHING: &str =
        "-----BEGIN CERTIFICATE-----\nc3dpdGNo\n-----END CERTIFICATE-----\n";
    const PKCS_8_OF_NOTHING: &str =
        "-----BEGIN PRIVATE KEY-----\nc3dpdGNo\n-----END PRIVATE KEY-----\n";

    fn file(directory: &TempDir, name: &str, content: &str, mode: u32) -> PathBuf {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_call_needs_both_the_user_and_the_password() {
        let directory = tempfile::tempdir().unwrap();
        let password = file(&directory, "password", "a secret\n", 0o600);
        let mut gate = Gate::new("weft".to_owned(), &password).unwrap();
        let mut call = |pairs: &[(&'static str, &str)]| {
            let mut request = Request::new(());
            for (name, value) in pairs {
                request.metadata_mut().insert(*name, value.parse().unwrap());
            }
            gate.call(request).map(drop).map_err(|status| status.code())
        };
        let user = ("username", "weft");
        assert_eq!(call(&[user, ("password", "a secret")]), Ok(()));
        for wrong in [
            &[][..],
            &[user],
            &[("password", "a secret")],
            &[user, ("password", "")],
            &[user, ("password", "a secreT")],
            &[user, ("password", "a secret and more")],
            &[("username", "root"), ("password", "a secret")],
        ] {
            assert_eq!(call(wrong), Err(Code::Unauthenticated), "{wrong:?}");
        }
        assert!(!format!("{gate:?}").contains("a secret"));
        assert!(Gate::default().call(Request::new(())).is_ok());
    }

    #[test]
    fn files_that_make_no_server_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let parameters = rcgen::CertificateParams::new(["leaf1".to_owned()]).unwrap();
        let certificate = parameters.self_signed(&key).unwrap().pem();
        let key = key.serialize_pem();
        let certificate = file(&directory, "cert.pem", &certificate, 0o644);
        let made = |key: PathBuf| with_tls(Server::builder(), &certificate, &key).map(drop);
        assert_eq!(made(file(&directory, "key.pem", &key, 0o600)), Ok(()));
        let refused = made(file(&directory, "open.pem", &key, 0o644)).unwrap_err();
        assert!(refused.starts_with("--tls-key: key file "), "{refused}");
        assert!(refused.contains("open to group or others"), "{refused}");
        for (content, fault) in [
            (other.as_str(), "the key is not that of the certificate"),
            ("nonsense", "no RSA or PKCS8-encoded keys found."),
            (PKCS_8_OF_NOTHING, "a key of another kind than RSA"),
        ] {
            let refused = made(file(&directory, "other.pem", content, 0o600)).unwrap_err();
            assert!(refused.contains("other.pem: "), "{refused}");
            assert!(refused.contains(fault), "{refused}");
        }
        for (content, fault) in [
            ("nonsense", "no certificate in PEM"),
            (CERTIFICATE_OF_NOTHING, "not encoded as X.509 version 3"),
        ] {
            let certificate = file(&directory, "nothing.pem", content, 0o644);
            let key = file(&directory, "key.pem", &key, 0o600);
            let refused = with_tls(Server::builder(), &certificate, &key).unwrap_err();
            assert!(refused.ends_with(fault), "{refused}");
        }
        let missing = directory.path().join("missing.pem");
        let refused = with_tls(Server::builder(), &missing, &certificate).unwrap_err();
        assert!(refused.starts_with("--tls-cert "), "{refused}");
        assert!(refused.contains("missing.pem"), "{refused}");
    }
}
