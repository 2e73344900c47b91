//! Which changes a watcher wants, and how they are written. Knows no stream.

use std::collections::BTreeSet;

use weft_proto::v1 as proto;
use weft_proto::v1::resource_change::Resource as Written;

use super::became;
use crate::fabric::declared::Changed;
use crate::fabric::fact::{Fact, InvalidFabric, Kind, Resource};

/// What a watcher wants.
pub(super) struct Filter {
    /// Whether declared resources are wanted at all.
    declared: bool,
    /// Empty: all.
    kinds: Vec<Kind>,
    /// Empty: all.
    names: BTreeSet<String>,
}

impl Filter {
    /// Reads what a client wants.
    pub(super) fn read(request: &proto::WatchRequest, faults: &mut InvalidFabric) -> Self {
        let mut kinds = Vec::new();
        for (at, number) in request.kinds.iter().enumerate() {
            let named = Kind::ALL
                .into_iter()
                .find(|kind| i32::from(kind.to_message()) == *number);
            match named {
                Some(kind) => kinds.push(kind),
                None => {
                    faults.fault(
                        format_args!("kinds[{at}]"),
                        format_args!("{number} is no kind"),
                    );
                }
            }
        }
        if request.names.len() > NAMES_MAX {
            faults.fault("names", format_args!("more than {NAMES_MAX}"));
        }
        let beside = request.routes.is_some()
            || request.peers.is_some()
            || request.pins.is_some()
            || request.decisions.is_some()
            || request.job_plans.is_some()
            || request.link_statuses.is_some();
        Self {
            declared: !kinds.is_empty() || !beside,
            kinds,
            names: request.names.iter().cloned().collect(),
        }
    }

    /// Whether changes of this fact are wanted.
    pub(super) fn wants(&self, fact: &Fact) -> bool {
        self.declared
            && (self.kinds.is_empty() || self.kinds.contains(&fact.kind()))
            && (self.names.is_empty() || self.names.contains(fact.name()))
    }

    /// A change as its watcher wants to hear it; None if it does not.
    pub(super) fn change(&self, changed: &Changed) -> Option<proto::ResourceChange> {
        let (fact, change) = became(changed.before.as_ref(), changed.after.as_ref())?;
        self.wants(fact).then(|| proto::ResourceChange {
            revision: Some(changed.revision),
            ..written(fact, change)
        })
    }
}

/// A fact that exists.
pub(super) fn existing(fact: &Fact) -> proto::ResourceChange {
    written(fact, proto::ChangeType::Created)
}

fn written(fact: &Fact, change: proto::ChangeType) -> proto::ResourceChange {
    let resource = match fact.kind() {
        Kind::Switch => proto::Switch::of(fact).map(Written::SwitchResource),
        Kind::Host => proto::Host::of(fact).map(Written::HostResource),
        Kind::Link => proto::Link::of(fact).map(Written::LinkResource),
        Kind::HostPort => proto::HostPort::of(fact).map(Written::HostPortResource),
        Kind::Job => proto::Job::of(fact).map(Written::JobResource),
    };
    proto::ResourceChange {
        kind: fact.kind().to_message().into(),
        name: fact.name().to_owned(),
        change_type: change.into(),
        revision: None,
        resource,
    }
}

/// They are looked up for each change.
const NAMES_MAX: usize = 1000;
