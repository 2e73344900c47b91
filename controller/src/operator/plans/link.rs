//! What is seen of links, as messages.

use tonic::Status;
use weft_proto::v1 as proto;
use weft_telemetry::derating::Cause;

use super::super::page::Page;
use super::super::refusal;
use crate::balancer::Plan;
use crate::daemon::switches::led::Led;
use crate::daemon::switches::telemetry::links::Links;
use crate::fabric::fact::Link;
use crate::fabric::measured::Measured;
use crate::fabric::topology::Topology;

/// One page of links, behind a name.
pub(super) fn page(
    led: &Led,
    topology: &Topology,
    after: Option<&str>,
    size: usize,
) -> Page<proto::LinkStatus> {
    let (plan, measured) = (led.plan(), led.measured());
    led.links(|links| {
        let rest = topology.links();
        let rest = rest.filter(|link| after.is_none_or(|after| link.name.as_str() > after));
        Page::of(size, rest.map(|link| status(link, &plan, &measured, links)))
    })
}

/// One link.
///
/// # Errors
/// NOT_FOUND: there is none of this name.
pub(super) fn row(led: &Led, topology: &Topology, name: &str) -> Result<proto::LinkStatus, Status> {
    let link = topology.link(name);
    let link = link.ok_or_else(|| refusal::missing("link_name", "link", name))?;
    let (plan, measured) = (led.plan(), led.measured());
    Ok(led.links(|links| status(link, &plan, &measured, links)))
}

fn status(link: &Link, plan: &Plan, measured: &Measured, links: &Links) -> proto::LinkStatus {
    let unusable = plan.unusable(link);
    let state = match unusable {
        Some(_) => proto::LinkState::Down,
        None => proto::LinkState::Up,
    };
    let decided = measured.derating(&link.name);
    let cause = match decided.cause {
        None => proto::DeratingCause::Unspecified,
        Some(Cause::Errors) => proto::DeratingCause::Errors,
        Some(Cause::Discards) => proto::DeratingCause::Discards,
        Some(Cause::Pause) => proto::DeratingCause::Pause,
    };
    let [a_to_b_bps, b_to_a_bps] = links.bps(link);
    proto::LinkStatus {
        link_name: link.name.to_string(),
        state: state.into(),
        reason: unusable.map(|why| why.to_string()).unwrap_or_default(),
        lldp: links.lldp(link),
        derating_percent: link.derating_percent.max(decided.derating_percent.into()),
        derating_cause: cause.into(),
        a_to_b_bps,
        b_to_a_bps,
        unheard_reasons: links.unheard(link),
    }
}

/// Pages of these.
pub(super) const STATUSES: &str = "link_statuses";
