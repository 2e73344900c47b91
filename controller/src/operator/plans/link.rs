//! What is seen of links, as messages.

use prost::Message;
use tonic::Status;
use weft_proto::v1 as proto;
use weft_telemetry::derating::Cause;

use super::super::page::Page;
use super::super::refusal;
use crate::balancer::Plan;
use crate::daemon::switches::led::Led;
use crate::daemon::switches::telemetry::links::Links;
use crate::fabric::fact::{Link, etag};
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
    let mut rest = topology.links_after(after.unwrap_or_default()).peekable();
    let mut page = Page::new(size);
    while rest.peek().is_some() && !page.more {
        led.links(|links| {
            let some = rest.by_ref().take(LOOKED_AT);
            let mut rows = some.map(|link| status(link, &plan, &measured, links));
            rows.all(|row| page.put(row))
        });
    }
    page
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
    let seen = proto::LinkStatus {
        link_name: link.name.to_string(),
        state: state.into(),
        reason: unusable.map(|why| why.to_string()).unwrap_or_default(),
        lldp: links.lldp(link),
        derating_percent: link.derating_percent.max(decided.derating_percent.into()),
        derating_cause: cause(decided.cause).into(),
        unheard_reasons: links.unheard(link),
        kept_free_percent: measured.kept_free_of(link).into(),
        ..proto::LinkStatus::default()
    };
    with_rates(seen, links.bps(link))
}

/// What a link is derated for, as the API writes it.
pub(super) fn cause(cause: Option<Cause>) -> proto::DeratingCause {
    match cause {
        None => proto::DeratingCause::Unspecified,
        Some(Cause::Errors) => proto::DeratingCause::Errors,
        Some(Cause::Discards) => proto::DeratingCause::Discards,
        Some(Cause::Pause) => proto::DeratingCause::Pause,
    }
}

/// What is seen of a link, with its rates: those change all the time, so its etag is one without them.
fn with_rates(
    seen: proto::LinkStatus,
    [a_to_b_bps, b_to_a_bps]: [Option<u64>; 2],
) -> proto::LinkStatus {
    proto::LinkStatus {
        etag: etag(&seen.encode_to_vec()),
        a_to_b_bps,
        b_to_a_bps,
        ..seen
    }
}

/// Links that are looked at without a break: who takes what switches say waits meanwhile.
const LOOKED_AT: usize = 256;
/// Pages of these.
pub(super) const STATUSES: &str = "link_statuses";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::topology::tests::with_nics;

    #[test]
    fn a_page_begins_behind_a_name_and_has_all_links_up_to_its_size() {
        let (led, topology) = (Led::new(), with_nics(20, 20, 0));
        let names: Vec<String> = topology.links().map(|it| it.name.to_string()).collect();
        assert_eq!(names.len(), 400);
        let page = |after: Option<usize>, size| {
            let after = after.map(|at| names[at].as_str());
            let page = page(&led, &topology, after, size);
            let rows = page.rows.into_iter();
            (rows.map(|it| it.link_name).collect::<Vec<_>>(), page.more)
        };
        assert_eq!(page(None, 1000), (names.clone(), false));
        assert_eq!(page(None, 300), (names[..300].to_vec(), true));
        assert_eq!(page(None, LOOKED_AT), (names[..LOOKED_AT].to_vec(), true));
        assert_eq!(page(Some(299), 300), (names[300..].to_vec(), false));
        assert_eq!(page(Some(399), 300), (Vec::new(), false));
        // A link that is not there any more.
        let behind = format!("{}!", names[9]);
        let rows = super::page(&led, &topology, Some(&behind), 1).rows;
        assert_eq!(rows[0].link_name, names[10]);
    }

    #[test]
    fn rates_are_no_part_of_an_etag_and_all_else_is() {
        let seen = |derating_percent| proto::LinkStatus {
            link_name: "leaf1:eth1--spine1:eth1".to_owned(),
            derating_percent,
            ..proto::LinkStatus::default()
        };
        let quiet = with_rates(seen(0), [None, None]);
        let busy = with_rates(seen(0), [Some(1), Some(2)]);
        assert_eq!((busy.a_to_b_bps, busy.b_to_a_bps), (Some(1), Some(2)));
        assert_eq!((quiet.etag.len(), &quiet.etag), (16, &busy.etag));
        let derated = with_rates(seen(50), [None, None]);
        assert_ne!(derated.etag, quiet.etag);
    }
}
