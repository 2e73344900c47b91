//! Links that do not carry what they should.

use std::collections::BTreeSet;

use weft_proto::v1::{self as proto, DeratingCause, LinkState};

use super::fabric::Declared;
use super::{Part, Report};
use crate::failure::Failure;
use crate::link;
use crate::words;

/// Looks whether plans use every link that no operator set down, and all of it.
pub(super) async fn links(declared: &Declared, report: &Report<'_>) -> Result<Part, Failure> {
    if declared.too_many_links {
        let summary = "too many to look at: see weft link status";
        return Ok(Part::new(summary, Vec::new()));
    }
    let connection = &report.connection;
    let ask = async |token| link::status::page(connection, token).await;
    let links = connection.every(ask, report.count("links")).await?;
    let up = links.iter().filter(|it| it.state() == LinkState::Up);
    let derated = links.iter().filter_map(derated);
    let (up, derated) = (up.count(), derated.count());
    let summary = format!("{up} of {} are up, {derated} derated", links.len());
    Ok(Part::new(summary, wrong(&links, &declared.set_down)))
}

/// What is wrong, links that are down first.
fn wrong(links: &[proto::LinkStatus], set_down: &BTreeSet<String>) -> Vec<String> {
    let is_down = |it: &&proto::LinkStatus| {
        it.state() == LinkState::Down && !set_down.contains(&it.link_name)
    };
    let down = links.iter().filter(is_down).map(|it| {
        let why = match it.reason.as_str() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        format!("link {} is down{why}", it.link_name)
    });
    let derated = links.iter().filter_map(derated);
    // Each switch is at the end of many links.
    let unheard: BTreeSet<&String> = links.iter().flat_map(|it| &it.unheard_reasons).collect();
    let unheard = unheard.into_iter();
    let unheard = unheard.map(|reason| format!("no gNMI from {reason}"));
    down.chain(derated).chain(unheard).collect()
}

/// What a link is derated for, if something was measured.
fn derated(link: &proto::LinkStatus) -> Option<String> {
    let cause = match link.derating_cause() {
        DeratingCause::Unspecified => return None,
        cause => words::word(cause.as_str_name(), "DERATING_CAUSE_"),
    };
    let (name, percent) = (&link.link_name, link.derating_percent);
    Some(format!("link {name} is derated by {percent} % for {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_an_operator_set_down_is_not_wrong() {
        let down = |name: &str, reason: &str| proto::LinkStatus {
            link_name: name.to_owned(),
            state: LinkState::Down.into(),
            reason: reason.to_owned(),
            ..proto::LinkStatus::default()
        };
        let silent = proto::LinkStatus {
            state: LinkState::Up.into(),
            // As it is declared: nothing was measured.
            derating_percent: 10,
            unheard_reasons: vec!["leaf1: connection refused".to_owned()],
            ..proto::LinkStatus::default()
        };
        let slow = proto::LinkStatus {
            link_name: "slow".to_owned(),
            state: LinkState::Up.into(),
            derating_percent: 50,
            derating_cause: DeratingCause::Errors.into(),
            ..proto::LinkStatus::default()
        };
        let reason = "leaf1: eth1 is down";
        let links = [
            silent.clone(),
            slow,
            silent,
            down("a", reason),
            down("b", ""),
        ];
        let set_down = BTreeSet::from(["b".to_owned()]);
        let expected = [
            "link a is down: leaf1: eth1 is down",
            "link slow is derated by 50 % for errors",
            "no gNMI from leaf1: connection refused",
        ];
        assert_eq!(wrong(&links, &set_down), expected);
    }
}
