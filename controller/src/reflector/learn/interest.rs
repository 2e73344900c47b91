//! What a peer wants to be told, as far as its own routes say: the route targets that they carry, and its
//! memberships. Knows neither who the peer is nor what is told to others.

use std::collections::BTreeSet;

use bytes::Bytes;
use foldhash::HashMap;
use weft_bgp::attribute::{Attributes, ExtendedCommunity};
use weft_bgp::constrain::{self, Targets};
use weft_bgp::nlri::route_target::Membership;

use crate::config::RouteTargetFilter;

/// What the routes that are held say about interest.
#[derive(Debug, Default)]
pub struct Interest {
    filter: Filter,
    /// Routes that have a value, and the targets of that value: most routes of a tenant share one.
    values: HashMap<Bytes, (usize, Targets)>,
    /// Values that carry a target.
    targets: HashMap<ExtendedCommunity, usize>,
    memberships: BTreeSet<Membership>,
    changed: bool,
}

/// A filter that defaults to off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filter(RouteTargetFilter);

impl Default for Filter {
    fn default() -> Self {
        Self(RouteTargetFilter::Off)
    }
}

impl Interest {
    /// Whose word counts. With `Auto`, the routes held have to be given again.
    pub fn set_filter(&mut self, filter: RouteTargetFilter) {
        if self.filter.0 == filter {
            return;
        }
        self.filter = Filter(filter);
        self.values.clear();
        self.targets.clear();
        self.changed = true;
    }

    /// Whether the targets of routes count.
    pub fn is_auto(&self) -> bool {
        self.filter.0 == RouteTargetFilter::Auto
    }

    /// A route with this value is held; `attributes` are those in it.
    pub fn add(&mut self, value: &Bytes, attributes: &Attributes) {
        if !self.is_auto() {
            return;
        }
        if let Some((count, _)) = self.values.get_mut(value) {
            *count += 1;
            return;
        }
        let targets = Targets::of(attributes);
        for target in targets.iter() {
            let count = self.targets.entry(target).or_default();
            *count += 1;
            self.changed |= *count == 1;
        }
        self.values.insert(value.clone(), (1, targets));
    }

    /// A route with this value is gone.
    pub fn remove(&mut self, value: &Bytes) {
        let Some((count, _)) = self.values.get_mut(value) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        let Some((_, targets)) = self.values.remove(value) else {
            return;
        };
        for target in targets.iter() {
            if let Some(count) = self.targets.get_mut(&target) {
                *count -= 1;
                if *count == 0 {
                    self.targets.remove(&target);
                    self.changed = true;
                }
            }
        }
    }

    /// A membership is held.
    pub fn join(&mut self, membership: Membership) {
        self.changed |=
            self.memberships.insert(membership) && self.filter.0 == RouteTargetFilter::Rtc;
    }

    /// A membership is gone.
    pub fn leave(&mut self, membership: &Membership) {
        self.changed |=
            self.memberships.remove(membership) && self.filter.0 == RouteTargetFilter::Rtc;
    }

    /// What the peer wants.
    pub fn wanted(&self) -> constrain::Interest {
        match self.filter.0 {
            RouteTargetFilter::Off => constrain::Interest::Everything,
            RouteTargetFilter::Rtc => {
                constrain::Interest::of_memberships(self.memberships.iter().copied())
            }
            RouteTargetFilter::Auto => {
                constrain::Interest::of_exports(self.targets.keys().copied())
            }
        }
    }

    /// Whether that changed since the last time somebody asked.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}
