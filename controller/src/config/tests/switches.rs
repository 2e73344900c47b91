//! What `[switches]` may say, and what its files may hold.

use std::os::unix::fs::PermissionsExt;

use super::super::show::{From, show};
use super::{parse, refused};
use crate::config::{Config, Login, Switches};

#[test]
fn switches_without_a_table_have_neither_cas_nor_a_login() {
    assert_eq!(parse("").unwrap().switches, Switches::default());
    let off = "[switches]\nca_file = false\nusername = false\npassword_file = false";
    assert_eq!(parse(off).unwrap().switches, Switches::default());
}

#[test]
fn cas_and_a_login_are_taken_and_shown_without_the_password() {
    let text =
        "[switches]\nca_file = \"ca.pem\"\nusername = \"weft\"\npassword_file = \"password\"";
    let config = parse(text).unwrap();
    let expected = Switches {
        ca_file: Some("ca.pem".into()),
        login: Some(Login {
            username: "weft".to_owned(),
            password_file: "password".into(),
        }),
    };
    assert_eq!(config.switches, expected);
    let shown = show(&config);
    let shown = shown.iter().find(|it| it.name == "switches").unwrap();
    let values: Vec<_> = shown
        .values
        .iter()
        .map(|it| (it.knob, it.value.as_str(), it.from))
        .collect();
    let expected = [
        ("ca_file", "\"ca.pem\"", From::File),
        ("username", "\"weft\"", From::File),
        ("password_file", "\"password\"", From::File),
    ];
    assert_eq!(values, expected);
}

#[test]
fn half_a_login_is_a_mistake() {
    for (text, mistake) in [
        (
            "username = \"weft\"",
            "switches.username: needs password_file",
        ),
        (
            "password_file = \"password\"",
            "switches.password_file: needs username",
        ),
        (
            "username = \"weft\"\npassword_file = \"password\"",
            "switches.username: needs ca_file: a login is sent over TLS only",
        ),
        ("ca_file = \"\"", "switches.ca_file: is empty"),
        (
            "ca_file = true",
            "switches.ca_file: must be a value, or false for none",
        ),
        (
            "ca_file = \"a\"\nusername = \"w\u{e9}ft\"\npassword_file = \"b\"",
            "switches.username: not printable ASCII",
        ),
    ] {
        let message = refused(&format!("[switches]\n{text}"));
        assert!(message.ends_with(mistake), "{message}");
    }
    assert!(refused("[switches]\npassword = \"x\"").contains("unknown field"));
}

#[test]
fn files_that_hold_no_ca_or_no_password_are_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let [file, ca, password] = ["weft.toml", "ca.pem", "password"].map(|it| folder.path().join(it));
    let text = format!(
        "[switches]\nca_file = {ca:?}\nusername = \"weft\"\npassword_file = {password:?}\n"
    );
    std::fs::write(&file, text).unwrap();
    let refused = || Config::load(&file).unwrap_err().to_string();
    assert!(refused().contains("switches.ca_file: "), "{}", refused());
    assert!(refused().contains("No such file"), "{}", refused());
    std::fs::write(&ca, "nonsense").unwrap();
    assert!(
        refused().ends_with("ca.pem: no certificate in PEM"),
        "{}",
        refused()
    );
    std::fs::write(&ca, CA).unwrap();
    let refused_password = |content: &str, mode| {
        std::fs::write(&password, content).unwrap();
        std::fs::set_permissions(&password, PermissionsExt::from_mode(mode)).unwrap();
        Config::load(&file).map_err(|error| error.to_string())
    };
    let open = refused_password("a secret\n", 0o644).unwrap_err();
    assert!(open.contains("switches.password_file: key file"), "{open}");
    assert!(open.contains("open to group or others"), "{open}");
    let odd = refused_password("a s\u{e9}cret", 0o600).unwrap_err();
    assert!(odd.ends_with("not printable ASCII"), "{odd}");
    let config = refused_password("a secret\n", 0o600).unwrap();
    let credentials = config.switches.load().unwrap();
    let (username, key) = credentials.login.clone().unwrap();
    assert_eq!(
        (username.as_str(), key.octets()),
        ("weft", &b"a secret"[..])
    );
    assert!(!format!("{config:?} {credentials:?}").contains("a secret"));
    assert_eq!(credentials, config.switches.load().unwrap());
    std::fs::write(&password, "another\n").unwrap();
    assert_ne!(credentials, config.switches.load().unwrap());
}

/// A CA whose key nobody has.
const CA: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBhDCCASmgAwIBAgIUAlgEONFggn7jmau8soXtLli8c98wCgYIKoZIzj0EAwIw\n\
FjEUMBIGA1UEAwwLQ0Egb2YgdGVzdHMwIBcNMjYxMTI2MDM1NTQzWhgPMjEyNjEx\n\
MDIwMzU1NDNaMBYxFDASBgNVBAMMC0NBIG9mIHRlc3RzMFkwEwYHKoZIzj0CAQYI\n\
KoZIzj0DAQcDQgAE+L1ZHCkeW2j0jCFgr1ae6AiC1W90gtM+vRo+zdG8ImzEWYT0\n\
hJnms6amH1xva5Y3NO3L+ouwauB4E0QY0dH43aNTMFEwHQYDVR0OBBYEFE5XN+5f\n\
XTdtE32Eo6nDelSODd7bMB8GA1UdIwQYMBaAFE5XN+5fXTdtE32Eo6nDelSODd7b\n\
MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhAK/ZTOQXV6pAqASS\n\
E2iDHHNErR380ibbRvNMdRWyL3WOAiEAl5XOiOqAS7V0RGljSB1PnRg79O5RU4cB\n\
UBo4ijd9+Kw=\n\
-----END CERTIFICATE-----\n";
