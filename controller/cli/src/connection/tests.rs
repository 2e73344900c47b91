//! Races, with questions that answer as each test has it. Knows no replica.

use std::future::pending;

use super::*;

/// A connection to three addresses, none of which is dialed.
fn three() -> Connection {
    let addresses = ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"];
    let connection = Connection::new(addresses.map(str::to_owned).into(), Duration::from_secs(9));
    connection.replicas.settled.set(true);
    connection
}

fn silent(connection: &Connection) -> Failure {
    Failure::unanswered(connection.address(), "nothing")
}

#[test]
fn no_two_changes_have_one_id() {
    let (first, second) = (request_id(), request_id());
    assert_ne!(first, second);
    let lengths: Vec<_> = first.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12], "{first}");
    assert!(first.chars().all(|it| it == '-' || it.is_ascii_hexdigit()));
}

#[tokio::test]
async fn the_first_answer_counts_and_its_replica_is_asked_first_from_then_on() {
    let connection = three();
    let asked = RefCell::new(Vec::new());
    let id = request_id();
    let change = async || {
        let address = connection.address().to_owned();
        asked.borrow_mut().push((address.clone(), id.clone()));
        match address.as_str() {
            "192.0.2.2:1" => Ok(address),
            _ => pending().await,
        }
    };
    assert_eq!(connection.change(&change).await.unwrap(), "192.0.2.2:1");
    // The same change, and the third replica is not asked.
    let expected = ["192.0.2.1:1", "192.0.2.2:1"].map(|it| (it.to_owned(), id.clone()));
    assert_eq!(asked.take(), expected);
    assert_eq!(connection.address(), "192.0.2.2:1");
    connection.change(&change).await.unwrap();
    assert_eq!(asked.take(), expected[1..]);
}

#[tokio::test]
async fn a_replica_that_fails_is_left_at_once_and_all_that_fail_are_counted() {
    let connection = three();
    let asked = RefCell::new(Vec::new());
    let question = async || {
        asked.borrow_mut().push(connection.address().to_owned());
        Err::<(), _>(silent(&connection))
    };
    let failure = connection.read(question).await.unwrap_err();
    let text = "no answer from 192.0.2.1:1: nothing, and none from 2 other addresses";
    assert_eq!(failure.to_string(), text);
    assert_eq!(asked.take().len(), 3);
}

#[tokio::test]
async fn a_change_that_died_with_a_replica_is_asked_for_again_until_another_one_leads() {
    let connection = three();
    let asked = Cell::new(0);
    let change = async || {
        asked.set(asked.get() + 1);
        match asked.get() {
            // The leader dies with the change; to the others it is the leader still.
            1 => Err(silent(&connection).unsettled()),
            2..=3 => Err(silent(&connection)),
            // Nobody can be reached for a moment, and nobody leads then.
            4..=6 => Err(silent(&connection)),
            7 => Err(Failure::Undecided("no leader".to_owned())),
            _ => Ok(()),
        }
    };
    connection.change(&change).await.unwrap();
    assert_eq!(asked.get(), 8);
    // A change that no replica took is not waited for.
    asked.set(3);
    let failure = connection.change(&change).await.unwrap_err();
    assert!(matches!(failure, Failure::Unanswered { .. }), "{failure:?}");
    assert_eq!(asked.get(), 6);
}

#[tokio::test]
async fn a_refusal_is_an_answer() {
    let connection = three();
    let asked = Cell::new(0);
    let question = async || {
        asked.set(asked.get() + 1);
        Err::<(), _>(Failure::Refused("no".to_owned()))
    };
    assert_eq!(connection.read(question).await.unwrap_err().exit_code(), 1);
    assert_eq!(asked.get(), 1);
}

#[tokio::test]
async fn a_request_that_takes_long_is_asked_of_the_next_replica_only_after_a_failure() {
    let connection = three().patient(Duration::from_secs(60));
    let asked = RefCell::new(Vec::new());
    let question = async || {
        let address = connection.address().to_owned();
        asked.borrow_mut().push(address.clone());
        match address.as_str() {
            "192.0.2.1:1" => Err(silent(&connection)),
            _ => {
                tokio::time::sleep(3 * race::NEXT_AFTER).await;
                Ok(address)
            }
        }
    };
    assert_eq!(connection.read(question).await.unwrap(), "192.0.2.2:1");
    assert_eq!(asked.take(), ["192.0.2.1:1", "192.0.2.2:1"]);
}

#[tokio::test]
async fn a_stream_that_ends_leaves_its_replica() {
    let connection = three();
    for address in ["192.0.2.2:1", "192.0.2.3:1", "192.0.2.1:1"] {
        connection.leave();
        assert_eq!(connection.address(), address);
    }
    let none = Connection::new(Vec::new(), Duration::from_secs(1));
    none.leave();
    let question = async || Ok(());
    assert_eq!(none.read(question).await.unwrap_err().exit_code(), 1);
}
