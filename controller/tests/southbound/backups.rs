//! Groups with backups: written, read by the next leader, taken away, and left out where a switch refuses them.

use weft_proto::gribi::aft_operation;
use weft_proto::gribi::aft_result::Status;

use super::foreign::Foreign;
use super::switch::{Replica, Switch, routes};
use super::{EVEN, UNEVEN};

/// Prefix 1 falls back to the third link; prefix 2 has no backup.
fn replica(mut replica: Replica) -> Replica {
    replica.backups = routes(&[(1, &[(3, 1)])]).prefixes;
    replica
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_finds_backups_as_they_were_written() {
    let mut switch = Switch::new();
    switch.on().await;
    let mut first = replica(Replica::new(&switch));
    first.intend(1, &[(1, EVEN), (2, EVEN)]);
    first.lead(1, 1);
    first.in_sync(1).await;
    // A group with the backup, one without, and the backup.
    assert_eq!(switch.plane.installed().groups.len(), 3);
    let before = switch.told().len();
    let mut next = replica(Replica::new(&switch));
    next.intend(1, &[(1, EVEN), (2, EVEN)]);
    next.lead(1, 2);
    next.in_sync(1).await;
    assert_eq!(switch.told().len(), before);

    // Nothing is drained any more.
    next.backups.clear();
    next.intend(2, &[(1, UNEVEN), (2, UNEVEN)]);
    next.in_sync(2).await;
    let installed = switch.plane.installed();
    assert_eq!((installed.groups.len(), installed.next_hops.len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_takes_no_backups_gets_the_weights() {
    for status in [Status::Failed, Status::FibFailed] {
        let switch = Foreign::start();
        switch.answer_backups(status);
        let mut replica = replica(Replica::over(switch.connect()));
        replica.intend(1, &[(1, EVEN), (2, EVEN)]);
        replica.lead(1, 1);
        replica.in_sync(1).await;
        let taken = switch.taken();
        let prefixes = taken.iter();
        let prefixes = prefixes.filter(|it| matches!(it, aft_operation::Entry::Ipv4(_)));
        assert_eq!(prefixes.count(), 2);
        let said = replica.status();
        assert_eq!(said.failed, 0);
        assert!(
            said.last_error.starts_with("no backups are sent"),
            "{said:?}"
        );

        // Nothing is drained any more: next time it is tried again.
        replica.backups.clear();
        replica.intend(2, &[(1, UNEVEN), (2, UNEVEN)]);
        replica.in_sync(2).await;
        assert_eq!(replica.status().last_error, "");
    }
}
