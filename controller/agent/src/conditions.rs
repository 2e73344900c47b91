//! What is wrong or unusual at the switch, by kind, for as long as a person may want to know. Knows
//! nothing of what is done about it.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_proto::agent::v1::ConditionType;

/// Conditions that were noted: the last text of each kind, how often, and when.
#[derive(Debug, Default)]
pub struct Conditions {
    noted: BTreeMap<i32, Noted>,
}

#[derive(Debug)]
struct Noted {
    kind: ConditionType,
    text: String,
    times: u64,
    at: Duration,
}

impl Conditions {
    /// Notes a condition; a kind that is noted already counts once more.
    pub fn note(&mut self, kind: ConditionType, text: String, uptime: Duration) {
        let times = self.noted.get(&kind.into()).map_or(0, |noted| noted.times);
        let noted = Noted {
            kind,
            text,
            times: times + 1,
            at: uptime,
        };
        self.noted.insert(kind.into(), noted);
    }

    /// Forgets a kind.
    pub fn mend(&mut self, kind: ConditionType) {
        self.noted.remove(&kind.into());
    }

    /// The conditions to show at this time: those that last, and those of the last ten minutes.
    pub fn shown(&self, uptime: Duration) -> impl Iterator<Item = (ConditionType, String)> + '_ {
        let recent =
            move |noted: &&Noted| lasts(noted.kind) || uptime.saturating_sub(noted.at) < SHOWN_FOR;
        self.noted.values().filter(recent).map(|noted| {
            let text = match noted.times {
                1 => noted.text.clone(),
                times => format!("{} ({times} times)", noted.text),
            };
            (noted.kind, text)
        })
    }
}

/// Whether a condition holds until it is mended; the others are events.
fn lasts(kind: ConditionType) -> bool {
    matches!(
        kind,
        ConditionType::MarksUnavailable
            | ConditionType::LeaseExpired
            | ConditionType::KernelRefused
            | ConditionType::GuardianUnavailable
    )
}

/// How long an event is shown: a person who is called looks within this time.
const SHOWN_FOR: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(conditions: &Conditions, secs: u64) -> Vec<String> {
        let shown = conditions.shown(Duration::from_secs(secs));
        shown.map(|(_, text)| text).collect()
    }

    #[test]
    fn an_event_is_counted_and_forgotten() {
        let mut conditions = Conditions::default();
        for secs in [1, 2] {
            let at = Duration::from_secs(secs);
            conditions.note(ConditionType::RuleRemoved, "gone".into(), at);
        }
        assert_eq!(shown(&conditions, 3), ["gone (2 times)"]);
        assert_eq!(shown(&conditions, 700), [""; 0]);
    }

    #[test]
    fn a_state_lasts_until_it_is_mended() {
        let mut conditions = Conditions::default();
        let kind = ConditionType::MarksUnavailable;
        conditions.note(kind, "no nft".into(), Duration::ZERO);
        assert_eq!(shown(&conditions, 7_000), ["no nft"]);
        conditions.mend(kind);
        assert_eq!(shown(&conditions, 7_000), [""; 0]);
    }
}
