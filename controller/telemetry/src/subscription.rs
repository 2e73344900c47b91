//! What is asked of a gNMI server, and what else is tried when it refuses: another encoding, no origin, no `last-change`, no
//! ON_CHANGE, a longer interval, no LLDP. It refuses to know streams and statuses.

use std::collections::BTreeSet;
use std::time::Duration;

use weft_proto::gnmi::subscription_list::Mode;
use weft_proto::gnmi::{
    Encoding, Path, PathElem, Subscription, SubscriptionList, SubscriptionMode,
};

/// One way of asking: a row of [`DIALECTS`] and a row of [`EXTENTS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asking {
    dialect: usize,
    extent: usize,
}

/// How a server refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// UNIMPLEMENTED: by gNMI §3.3.1 the encoding, or all of gNMI.
    Unimplemented,
    /// A path, a mode, an interval, or anything else.
    Other,
}

/// What was tried, and what is tried next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ladder {
    asking: Asking,
    refused: BTreeSet<Asking>,
    /// Refused for another reason than UNIMPLEMENTED.
    understood: bool,
}

/// How paths and values are written.
struct Dialect {
    encoding: Encoding,
    origin: &'static str,
}

/// What is asked for.
struct Extent {
    /// ON_CHANGE for oper-status, last changes and neighbours; else SAMPLE.
    on_change: bool,
    /// When interfaces came up or went down last.
    last_change: bool,
    /// Speeds and pause frames.
    ethernet: bool,
    lldp: bool,
    interval: Duration,
}

impl Ladder {
    /// What to ask now.
    pub(crate) fn asking(&self) -> Asking {
        self.asking
    }

    /// What was asked was refused: goes on to what is tried next. False: nothing is left; the next is the first again.
    pub(crate) fn refused(&mut self, how: Refusal) -> bool {
        self.refused.insert(self.asking);
        self.understood |= how == Refusal::Other;
        let Asking { dialect, extent } = self.asking;
        let all = (0..EXTENTS.len())
            .flat_map(|extent| (0..DIALECTS.len()).map(move |dialect| Asking { dialect, extent }));
        let left: Vec<Asking> = all
            .filter(|asking| !self.refused.contains(asking))
            .collect();
        let alike = left.iter().find(|asking| match how {
            Refusal::Unimplemented => asking.extent == extent,
            Refusal::Other => asking.dialect == dialect,
        });
        let next = match alike {
            Some(next) => Some(next),
            // In no encoding at all: there is no gNMI.
            None if !self.understood => None,
            None => left.first(),
        };
        let next = next.copied();
        match next {
            Some(next) => self.asking = next,
            None => *self = Self::default(),
        }
        next.is_some()
    }

    /// What was asked is served: it is what the next stream asks for first.
    pub(crate) fn accepted(&mut self) {
        self.refused.clear();
        self.understood = false;
    }
}

impl Asking {
    /// The list of subscriptions. The target of the prefix is left out if it is empty.
    pub(crate) fn list(self, target: &str) -> SubscriptionList {
        let (dialect, extent) = (self.dialect(), self.extent());
        let subscription = extent.subscriptions().map(|(path, mode, interval)| {
            let sample_interval = match mode {
                SubscriptionMode::Sample => u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX),
                SubscriptionMode::OnChange | SubscriptionMode::TargetDefined => 0,
            };
            Subscription {
                path: Some(self.path(path)),
                mode: mode.into(),
                sample_interval,
                ..Subscription::default()
            }
        });
        let prefix = (!target.is_empty()).then(|| Path {
            target: target.to_owned(),
            ..Path::default()
        });
        SubscriptionList {
            prefix,
            subscription: subscription.collect(),
            mode: Mode::Stream.into(),
            encoding: dialect.encoding.into(),
            ..SubscriptionList::default()
        }
    }

    /// Whether LLDP neighbours are asked for.
    pub(crate) fn has_lldp(self) -> bool {
        self.extent().lldp
    }

    /// Between two samples of counters.
    pub(crate) fn interval(self) -> Duration {
        self.extent().interval
    }

    fn dialect(self) -> &'static Dialect {
        DIALECTS.get(self.dialect).unwrap_or(&DIALECTS[0])
    }

    fn extent(self) -> &'static Extent {
        EXTENTS.get(self.extent).unwrap_or(&EXTENTS[0])
    }

    fn path(self, text: &str) -> Path {
        let elem = text.split('/').map(|name| {
            // Some servers want it said that a key may be any.
            let key = crate::place::key_name(name);
            PathElem {
                name: name.to_owned(),
                key: key
                    .map(|key| (key.to_owned(), "*".to_owned()))
                    .into_iter()
                    .collect(),
            }
        });
        Path {
            origin: self.dialect().origin.to_owned(),
            elem: elem.collect(),
            ..Path::default()
        }
    }
}

impl Extent {
    fn subscriptions(&self) -> impl Iterator<Item = (&'static str, SubscriptionMode, Duration)> {
        let state = match self.on_change {
            true => SubscriptionMode::OnChange,
            false => SubscriptionMode::Sample,
        };
        let sampled = (SubscriptionMode::Sample, self.interval);
        let slowly = (state, self.interval.max(NEIGHBORS_EVERY));
        let rows = [
            (true, OPER_STATUS, (state, self.interval)),
            (self.last_change, LAST_CHANGE, (state, self.interval)),
            (true, COUNTERS, sampled),
            (self.ethernet, ETHERNET, sampled),
            (self.lldp, NEIGHBORS, slowly),
        ];
        let wanted = rows.into_iter().filter(|(wanted, ..)| *wanted);
        wanted.map(|(_, path, (mode, interval))| (path, mode, interval))
    }
}

const OPER_STATUS: &str = "interfaces/interface/state/oper-status";
const LAST_CHANGE: &str = "interfaces/interface/state/last-change";
const COUNTERS: &str = "interfaces/interface/state/counters";
/// Speeds, and below it the counters of pause frames.
const ETHERNET: &str = "interfaces/interface/ethernet/state";
const NEIGHBORS: &str = "lldp/interfaces/interface/neighbors/neighbor/state";

/// From the most widely served to the least.
#[rustfmt::skip]
const DIALECTS: [Dialect; 5] = [
    Dialect { encoding: Encoding::JsonIetf, origin: "openconfig" },
    Dialect { encoding: Encoding::Proto, origin: "openconfig" },
    Dialect { encoding: Encoding::JsonIetf, origin: "" },
    Dialect { encoding: Encoding::Proto, origin: "" },
    Dialect { encoding: Encoding::Json, origin: "" },
];

/// From the best to the least. A link that goes down is heard of at once by ON_CHANGE: that is worth more than `last-change`.
#[rustfmt::skip]
const EXTENTS: [Extent; 9] = [
    Extent { on_change: true, last_change: true, ethernet: true, lldp: true, interval: EVERY },
    Extent { on_change: true, last_change: false, ethernet: true, lldp: true, interval: EVERY },
    Extent { on_change: false, last_change: true, ethernet: true, lldp: true, interval: EVERY },
    Extent { on_change: false, last_change: false, ethernet: true, lldp: true, interval: EVERY },
    Extent { on_change: true, last_change: false, ethernet: false, lldp: true, interval: EVERY },
    Extent { on_change: true, last_change: false, ethernet: true, lldp: false, interval: EVERY },
    Extent { on_change: false, last_change: false, ethernet: false, lldp: false, interval: EVERY },
    Extent { on_change: false, last_change: false, ethernet: true, lldp: true, interval: SELDOM },
    Extent { on_change: false, last_change: false, ethernet: false, lldp: false, interval: SELDOM },
];

/// Between two samples of counters.
const EVERY: Duration = Duration::from_secs(1);

/// The same, from a switch that refuses to read them so often.
const SELDOM: Duration = Duration::from_secs(10);

/// LLDP says something every 30 s.
const NEIGHBORS_EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_tried_once() {
        let mut ladder = Ladder::default();
        let mut tried = BTreeSet::from([ladder.asking()]);
        while ladder.refused(Refusal::Other) {
            assert!(tried.insert(ladder.asking()), "{ladder:?}");
        }
        assert_eq!(tried.len(), DIALECTS.len() * EXTENTS.len());
        assert_eq!(ladder.asking(), Asking::default());
    }

    #[test]
    fn a_server_without_gnmi_is_asked_in_each_dialect_only() {
        let mut ladder = Ladder::default();
        let mut tried = 1;
        while ladder.refused(Refusal::Unimplemented) {
            tried += 1;
        }
        assert_eq!(tried, DIALECTS.len());
    }

    #[test]
    fn an_encoding_that_is_refused_does_not_cost_a_subscription() {
        let mut ladder = Ladder::default();
        assert!(ladder.refused(Refusal::Unimplemented));
        let list = ladder.asking().list("");
        assert_eq!(list.encoding(), Encoding::Proto);
        assert_eq!(list.subscription.len(), 5);
        assert_eq!(list.prefix, None);
    }

    #[test]
    fn a_mode_that_is_refused_does_not_cost_the_encoding() {
        let mut ladder = Ladder::default();
        // The first time it may have been for the sake of `last-change`.
        assert!(ladder.refused(Refusal::Other));
        assert!(ladder.refused(Refusal::Other));
        let list = ladder.asking().list("leaf1");
        assert_eq!(list.encoding(), Encoding::JsonIetf);
        let modes = list
            .subscription
            .iter()
            .map(|subscription| subscription.mode());
        assert!(modes.eq([SubscriptionMode::Sample; 5]));
        assert_eq!(
            list.prefix.map(|prefix| prefix.target),
            Some("leaf1".into())
        );
    }

    #[test]
    fn a_server_without_last_change_is_asked_for_the_rest_as_before() {
        let mut ladder = Ladder::default();
        let paths = |ladder: &Ladder| -> Vec<String> {
            let list = ladder.asking().list("");
            let paths = list.subscription.into_iter().filter_map(|it| it.path);
            let last = paths.filter_map(|mut path| path.elem.pop());
            last.map(|elem| elem.name).collect()
        };
        let rest = ["oper-status", "counters", "state", "state"];
        assert!(paths(&ladder).contains(&"last-change".to_owned()));
        assert!(ladder.refused(Refusal::Other));
        assert_eq!(paths(&ladder), rest);
        let list = ladder.asking().list("");
        assert_eq!(list.subscription[0].mode(), SubscriptionMode::OnChange);
    }

    #[test]
    fn what_was_accepted_is_asked_first() {
        let mut ladder = Ladder::default();
        ladder.refused(Refusal::Other);
        let accepted = ladder.asking();
        ladder.accepted();
        assert_eq!(ladder.asking(), accepted);
    }
}
