//! How a switch is reached: over TCP, or over TLS with what `[switches]` of the configuration names if it is declared with
//! TLS. A login is never sent without TLS. It refuses to know what is asked over a connection.

use std::fmt;
use std::sync::Arc;

use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};
use weft_telemetry::{Connect, connect_tls};

use crate::config::Credentials;

/// How one switch is reached. What is connected in one way goes on in it: another way needs another connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Over TCP, without a login.
    Tcp,
    /// Over TLS, with these.
    Tls(Arc<Credentials>),
}

/// Opens connections to one switch.
#[derive(Clone)]
pub struct Dialer {
    /// Opens them.
    pub connect: Connect,
    /// Goes with each call.
    pub login: Login,
}

/// A connection; each call over it carries the login.
pub(super) type Line = InterceptedService<Channel, Login>;

/// User and password as calls carry them; or none.
#[derive(Clone, Default)]
pub struct Login(Option<[MetadataValue<Ascii>; 2]>);

impl Access {
    /// The access to a switch that is declared with TLS, or without.
    pub fn new(tls: bool, credentials: &Arc<Credentials>) -> Self {
        match tls {
            true => Self::Tls(Arc::clone(credentials)),
            false => Self::Tcp,
        }
    }

    /// What opens connections in this way; `tcp` is how TCP is reached.
    pub fn dialer(&self, tcp: &Connect) -> Dialer {
        match self {
            Self::Tcp => Dialer {
                connect: Arc::clone(tcp),
                login: Login::default(),
            },
            Self::Tls(credentials) => Dialer {
                connect: over_tls(credentials),
                login: Login::new(credentials),
            },
        }
    }
}

fn over_tls(credentials: &Credentials) -> Connect {
    match credentials.authorities.clone() {
        Some(authorities) => Arc::new(move |address| connect_tls(&authorities, address)),
        None => Arc::new(|_| Box::pin(async { Err(NO_AUTHORITY.to_owned()) })),
    }
}

impl Dialer {
    /// Connects to the server at an address.
    ///
    /// # Errors
    /// Why it is not connected, for a person.
    pub(super) async fn open(&self, address: Arc<str>) -> Result<Line, String> {
        let channel = (self.connect)(address).await?;
        Ok(InterceptedService::new(channel, self.login.clone()))
    }
}

impl Login {
    fn new(credentials: &Credentials) -> Self {
        Self(credentials.login.as_ref().map(|(username, password)| {
            let [username, mut password] = [username.as_bytes(), password.octets()].map(|octets| {
                let value = MetadataValue::try_from(octets);
                value.expect("the configuration takes printable ASCII only")
            });
            // HTTP/2 does not index it, and nobody prints it.
            password.set_sensitive(true);
            [username, password]
        }))
    }

    /// As the metadata of a call.
    pub fn metadata(&self) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        self.sign(&mut metadata);
        metadata
    }

    fn sign(&self, metadata: &mut MetadataMap) {
        if let Some([username, password]) = &self.0 {
            metadata.insert("username", username.clone());
            metadata.insert("password", password.clone());
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(..)")
    }
}

impl Interceptor for Login {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        self.sign(request.metadata_mut());
        Ok(request)
    }
}

const NO_AUTHORITY: &str = "[switches] ca_file of weftd names no CA: a switch that is declared with tls is not connected to without";

#[cfg(test)]
mod tests {
    use weft_sys::Key;

    use super::*;

    fn credentials() -> Arc<Credentials> {
        Arc::new(Credentials {
            authorities: None,
            login: Some(("weft".to_owned(), Key::new(b"a secret").unwrap())),
        })
    }

    fn nowhere() -> Connect {
        Arc::new(|address| Box::pin(async move { Err(format!("{address} over TCP")) }))
    }

    #[tokio::test]
    async fn without_ca_file_a_switch_with_tls_is_not_connected_to() {
        let dialer = Access::new(true, &credentials()).dialer(&nowhere());
        let refused = dialer.open("leaf1:9340".into()).await.err().unwrap();
        assert!(refused.contains("[switches] ca_file"), "{refused}");
        let dialer = Access::new(false, &credentials()).dialer(&nowhere());
        let refused = dialer.open("leaf1:9340".into()).await.err().unwrap();
        assert_eq!(refused, "leaf1:9340 over TCP");
    }

    #[test]
    fn the_login_goes_over_tls_only_and_is_not_shown() {
        let access = Access::new(true, &credentials());
        let secure = access.dialer(&nowhere()).login;
        let metadata = secure.metadata();
        assert_eq!(metadata.get("username").unwrap(), "weft");
        assert_eq!(metadata.get("password").unwrap(), "a secret");
        assert!(!format!("{access:?} {secure:?} {metadata:?}").contains("a secret"));
        let clear = Access::new(false, &credentials()).dialer(&nowhere()).login;
        assert!(clear.metadata().is_empty());
        let signed = secure.clone().call(Request::new(())).unwrap();
        assert_eq!(signed.metadata().get("username").unwrap(), "weft");
    }

    #[test]
    fn access_changes_with_the_declaration_and_the_files() {
        let (one, same) = (credentials(), credentials());
        let other = Arc::new(Credentials::default());
        assert_eq!(Access::new(true, &one), Access::new(true, &same));
        assert_ne!(Access::new(true, &one), Access::new(true, &other));
        assert_ne!(Access::new(true, &one), Access::new(false, &one));
        assert_eq!(Access::new(false, &one), Access::new(false, &other));
    }
}
