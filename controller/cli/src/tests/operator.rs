//! What an operator types around a command: several replicas, names, waits, and what is wrong.

use tokio::net::TcpListener;

use super::{Failure, typed, typed_at};
use crate::connection::Connection;

/// An address that nobody listens at.
async fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    address.to_string()
}

#[tokio::test]
async fn the_next_replica_is_asked_if_one_is_silent() {
    // It takes connections, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let dead = nobody().await;
    let replica = super::listening().await;
    let several = format!("{dead},{replica}");
    let (printed, result) = typed_at_all(&several, &["peer", "list", "-o", "name"]).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(printed, "192.0.2.11\n192.0.2.12\n");
    let (_, result) = typed_at_all(&format!("{dead},{silent}"), &["peer", "list"]).await;
    let said = result.unwrap_err().to_string();
    assert!(said.contains("and none from 1 other addresses"), "{said}");
}

async fn typed_at_all(addresses: &str, words: &[&str]) -> (String, Result<(), Failure>) {
    let words = [&["--address", addresses, "--timeout", "1"], words].concat();
    super::typed_as(&words).await
}

#[tokio::test]
async fn a_list_has_names_and_no_header_if_that_is_wanted() {
    let (printed, _) = typed(&["peer", "list", "-o", "name"]).await;
    assert_eq!(printed, "192.0.2.11\n192.0.2.12\n");
    let (printed, _) = typed(&["peer", "list", "--no-headers"]).await;
    assert!(printed.starts_with("192.0.2.11 "), "{printed}");
    let (printed, _) = typed(&["peer", "list", "-o", "wide"]).await;
    let header = printed.lines().next().unwrap();
    assert!(
        header.ends_with("LAST-ERROR  FAMILIES  RECEIVED  SENT  DYNAMIC"),
        "{header}"
    );
}

#[tokio::test]
async fn a_wait_ends_when_it_is_so_or_with_its_own_code() {
    let gone = ["peer", "wait", "192.0.2.9", "--for", "gone"];
    assert!(typed(&gone).await.1.is_ok());
    let up = ["peer", "wait", "192.0.2.9", "--within", "0"];
    let failure = typed(&up).await.1.unwrap_err();
    assert_eq!(failure.exit_code(), 3);
    assert_eq!(failure.to_string(), "192.0.2.9 is Active after 0 s");
}

#[tokio::test]
async fn a_vni_that_is_not_there_is_named() {
    let failure = typed(&["vni", "show", "7"]).await.1.unwrap_err();
    assert_eq!(failure.to_string(), "vni: no route tells of VNI 7");
    // The words of earlier releases still mean the same.
    assert!(typed(&["flood", "list"]).await.1.is_ok());
    assert!(typed(&["neighbor", "list"]).await.1.is_ok());
}

#[tokio::test]
async fn replicas_are_compared_only_where_there_are_several() {
    let failure = typed(&["config", "diff", "--replicas"])
        .await
        .1
        .unwrap_err();
    assert_eq!(failure.exit_code(), 1);
    let replica = super::listening().await;
    let both = format!("{replica},{replica}");
    let (printed, result) = typed_at_all(&both, &["config", "diff", "--replicas"]).await;
    assert!(result.is_ok());
    assert_eq!(printed.lines().count(), 1);
}

#[tokio::test]
async fn each_address_is_a_replica_of_its_own() {
    let both = vec!["192.0.2.1:1".to_owned(), "192.0.2.2:1".to_owned()];
    let connection = Connection::new(both, std::time::Duration::from_secs(1));
    let each: Vec<_> = connection
        .each()
        .iter()
        .map(|it| it.address().to_owned())
        .collect();
    assert_eq!(each, ["192.0.2.1:1", "192.0.2.2:1"]);
    assert_eq!(
        connection.patient(std::time::Duration::ZERO).address(),
        "192.0.2.1:1"
    );
}

#[tokio::test]
async fn what_cannot_be_asked_is_wrong() {
    // The replica in this process does not list replicas.
    let replica = super::listening().await;
    let words = ["status", "--timeout", "1"];
    let (_, result) = typed_at(replica, &words).await;
    assert_eq!(result.unwrap_err().exit_code(), 2);
}
