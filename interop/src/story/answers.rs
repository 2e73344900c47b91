//! What answers of `weft ... -o json` are made of: messages of the API. The paths of stories are held against their descriptors,
//! for a path to what no message has finds nothing, and where nothing is expected such a check never fails.

use weft_proto::json;

use super::{
    expectation::Expectation,
    path::{self, Filter, Segment},
};

/// What stands at a place of an answer.
#[derive(Clone, Debug)]
enum Shape {
    List(Box<Self>),
    Map(Box<Self>),
    /// A message by its full name.
    Message(String),
    /// Messages of several answers: of each its place, and its name.
    Several(&'static [(&'static str, &'static str)]),
    /// An enum by its full name.
    Enum(String),
    /// Text, a number, or a message that is written as one of these.
    Plain,
}

/// Whether what is expected of a command's answer can be there at all. Ok: how many paths were followed.
pub(super) fn check(line: &str, expectations: &[Expectation]) -> Result<usize, String> {
    let mut followed = 0;
    for expectation in expectations {
        let Some(place) = expectation.place() else {
            continue;
        };
        let answer = of(line).ok_or_else(|| format!("what does `{line}` answer?"))?;
        let shape = answer.at(place).map_err(|why| format!("{place}: {why}"))?;
        for value in expectation.values() {
            shape
                .may_be(&value)
                .map_err(|why| format!("{place}: {why}"))?;
        }
        for part in expectation.parts() {
            shape
                .may_have(part)
                .map_err(|why| format!("{place}: {why}"))?;
        }
        followed += 1;
    }
    Ok(followed)
}

/// What a command answers.
fn of(line: &str) -> Option<Shape> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["weft", noun, verb, ..] = words[..] else {
        return None;
    };
    if [noun, verb] == ["job", "show"] && line.ends_with(" -o json") {
        return Some(Shape::Several(JOB));
    }
    let known = ANSWERS.iter().find(|(it, ..)| *it == [noun, verb]);
    let (_, message, is_list) = known.filter(|_| line.ends_with(" -o json"))?;
    let message = Shape::Message(format!("weft.v1.{message}"));
    Some(match is_list {
        true => Shape::List(Box::new(message)),
        false => message,
    })
}

/// Noun and verb, the message, and whether there are several.
const ANSWERS: &[([&str; 2], &str, bool)] = &[
    (["agent", "list"], "SwitchAgent", true),
    (["agent", "show"], "SwitchAgent", false),
    (["balance", "list"], "LeafBalance", true),
    (["host", "list"], "HostAddress", true),
    (["job", "list"], "Job", true),
    (["link", "list"], "Link", true),
    (["link", "show"], "Link", false),
    (["mac", "moves"], "DuplicateMac", true),
    (["peer", "list"], "Peer", true),
    (["peer", "show"], "Peer", false),
    (["pin", "list"], "Pin", true),
    (["plan", "diff"], "LeafPlanDiff", true),
    (["plan", "show"], "LeafPlan", true),
    (["replica", "list"], "Replica", true),
    (["route", "list"], "Route", true),
    (["route", "show"], "Route", true),
    (["segment", "list"], "EthernetSegment", true),
    (["switch", "list"], "Switch", true),
    (["switch", "show"], "Switch", false),
    (["vni", "list"], "Vni", true),
    (["vni", "show"], "Vni", false),
    (["vtep", "list"], "Vtep", true),
];

/// What `weft job show` answers.
const JOB: &[(&str, &str)] = &[
    ("job", "Job"),
    ("job_plan", "JobPlan"),
    ("certificate", "PinCertificate"),
];

impl Shape {
    fn at(&self, place: &str) -> Result<Self, String> {
        let segments = path::read(place);
        segments
            .iter()
            .try_fold(self.clone(), |shape, segment| shape.step(segment))
    }

    fn step(self, segment: &Segment) -> Result<Self, String> {
        match (self, segment) {
            (Self::List(inside) | Self::Map(inside), Segment::Each) => Ok(*inside),
            (Self::List(inside) | Self::Map(inside), Segment::Those(filters)) => {
                filters.iter().try_for_each(|one| inside.filtered(one))?;
                Ok(*inside)
            }
            (Self::List(inside), Segment::Named(name)) if name.parse::<usize>().is_ok() => {
                Ok(*inside)
            }
            (Self::Map(inside), Segment::Named(_)) => Ok(*inside),
            (Self::Message(message), Segment::Named(name)) => {
                field(&message, name).ok_or_else(|| format!("no {message} has {name}"))
            }
            (Self::Several(places), Segment::Named(name)) => {
                let place = places.iter().find(|(place, _)| place == name);
                let message = place.map(|(_, message)| format!("weft.v1.{message}"));
                let message = message.ok_or_else(|| format!("no answer has {name}"))?;
                Ok(Self::Message(message))
            }
            (shape, Segment::Named(name)) => Err(format!("{shape:?} has no {name}")),
            (shape, Segment::Each | Segment::Below | Segment::Those(_)) => {
                Err(format!("{shape:?} is no list"))
            }
        }
    }

    fn filtered(&self, by: &Filter) -> Result<(), String> {
        let shape = self.at(&by.name)?;
        match by.whole {
            true => shape.may_be(&by.wanted),
            false => shape.may_have(&by.wanted),
        }
    }

    /// Whether this can be the value there.
    fn may_be(&self, value: &str) -> Result<(), String> {
        match self {
            Self::Plain => Ok(()),
            Self::Enum(name) if is_value(name, value) => Ok(()),
            Self::Enum(name) => Err(format!("{value} is no {name}")),
            shape => Err(format!("{shape:?} is no {value}")),
        }
    }

    /// Whether this can be a part of the value there.
    fn may_have(&self, part: &str) -> Result<(), String> {
        match self {
            Self::Plain => Ok(()),
            Self::Enum(name) if values(name).any(|value| value.contains(part)) => Ok(()),
            Self::Enum(name) => Err(format!("no {name} has {part}")),
            shape => Err(format!("{shape:?} is no text with {part}")),
        }
    }
}

fn field(message: &str, name: &str) -> Option<Shape> {
    let field = json::descriptor(message)?.get_field_by_name(name)?;
    let kind = field.kind();
    let inside = match (kind.as_message(), kind.as_enum()) {
        (Some(entry), _) if field.is_map() => {
            let value = self::field(entry.full_name(), "value")?;
            return Some(Shape::Map(Box::new(value)));
        }
        (Some(message), _) if message.full_name().starts_with("google.protobuf.") => Shape::Plain,
        (Some(message), _) => Shape::Message(message.full_name().to_owned()),
        (None, Some(of)) => Shape::Enum(of.full_name().to_owned()),
        (None, None) => Shape::Plain,
    };
    Some(match field.is_list() {
        true => Shape::List(Box::new(inside)),
        false => inside,
    })
}

/// Whether an enum has a value. A number that it does not name stays a number.
fn is_value(name: &str, value: &str) -> bool {
    let number = value.parse::<i32>();
    let of = json::pool().get_enum_by_name(name).unwrap();
    values(name).any(|known| known == value)
        || number.is_ok_and(|number| of.get_value(number).is_none())
}

fn values(name: &str) -> impl Iterator<Item = String> {
    let of = json::pool().get_enum_by_name(name).unwrap();
    let names: Vec<_> = of.values().map(|value| value.name().to_owned()).collect();
    names.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_message_has_is_no_place() {
        let held = |line: &str, expectation: &str| {
            let expectation = serde_yaml_ng::from_str(expectation).unwrap();
            check(line, &[expectation])
        };
        let (peers, peer) = ("weft peer list -o json", "weft peer show leaf1 -o json");
        let routes = "weft route list -o json";
        let job = "weft job show ring -o json";
        for (line, expectation) in [
            (
                peers,
                "{at: '/*[session/state=SESSION_STATE_ESTABLISHED]', count: 4}",
            ),
            (peers, "{at: '/*/session/state', lacks: IDLE}"),
            (
                peers,
                "{at: '/*/session/state_change_time', contains: '2026'}",
            ),
            (peer, "{at: /detail/messages_sent/notification, above: 1}"),
            (job, "{at: /certificate/max_load, below: 1.1}"),
            (job, "{at: /job_plan/state, is: JOB_PLAN_STATE_PINNED}"),
            (
                routes,
                "{at: '/*[paths/*/best=true]/paths/0/communities/*', there: false}",
            ),
            (
                routes,
                "{at: '/*/route_type', exactly: [200, EVPN_ROUTE_TYPE_LEAF]}",
            ),
        ] {
            assert_eq!(held(line, expectation), Ok(1), "{expectation}");
        }
        for (line, expectation) in [
            (peers, "{at: '/*[state=Established]', there: false}"),
            (peers, "{at: '/*[session/state=Established]', there: false}"),
            (peers, "{at: '/*[session/state~Establ]', there: false}"),
            (peers, "{at: '/*[session=up]', there: false}"),
            (peers, "{at: '/*/session/state', exactly: [Established]}"),
            (peers, "{at: '/*/session/state', lacks: Idle}"),
            (peers, "{at: '/*/session', lacks: Idle}"),
            (peers, "{at: /session/state, there: false}"),
            (peers, "{at: '/**/state', there: false}"),
            (peer, "{at: '/*/session', there: false}"),
            (peer, "{at: /session/state/name, there: false}"),
            (job, "{at: /plan/state, is: JOB_PLAN_STATE_PINNED}"),
            (job, "{at: /certificate, is: 1}"),
            (job, "{at: '/*/max_load', below: 1.1}"),
            (routes, "{at: '/*[paths/best=true]', there: false}"),
            (routes, "{at: '/*/route_type', exactly: [2]}"),
            (
                "weft route list",
                "{at: '/*/paths/*/best', exactly: [true]}",
            ),
            (
                "weft peer count -o json",
                "{at: '/*/session', there: false}",
            ),
        ] {
            assert!(held(line, expectation).is_err(), "{line}: {expectation}");
        }
    }
}
