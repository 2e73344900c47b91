//! `weft job show --flows`: each flow of a job, the way that it goes, and what is predicted and seen of it.

use std::cell::RefCell;

use prost_types::Timestamp;
use weft_proto::v1::{self as proto, FlowWay};

use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Format, Row, or_dash, printable};
use crate::words::{self, measured, word};

/// Lists the flows of a job; where there are none it says why, to people.
pub(super) async fn list(job_name: String, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let why = RefCell::new(String::new());
    let ask = async |connection: &Connection, page_token| {
        let mut client = connection.plans().await?;
        let request = proto::ListJobFlowsRequest {
            job_name: job_name.clone(),
            page_size: PAGE_SIZE,
            page_token,
        };
        let page = connection.answer(client.list_job_flows(request)).await?;
        why.replace(page.unlisted_reason);
        Ok(Page::new(page.header, page.flows, page.next_page_token))
    };
    dialog.pages(ask).await?;
    let why = why.into_inner();
    if !why.is_empty() && matches!(dialog.format, Format::Table | Format::Wide) {
        let name = printable(&job_name);
        writeln!(
            dialog.out,
            "no flow of job {name} is listed: {}",
            printable(&why)
        )?;
    }
    Ok(())
}

impl Row for proto::PlannedFlow {
    const HEADER: &'static [&'static str] = &[
        "SOURCE",
        "DESTINATION",
        "WAY",
        "OVER",
        "PREDICTED",
        "SEEN",
        "TOGETHER-WITH",
        "REASON",
    ];
    const WIDE: &'static [&'static str] = &["SOURCE-LEAF", "DESTINATION-LEAF"];
    const PASSING: &'static [&'static str] = &["SEEN"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.PlannedFlow", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        vec![vec![
            self.source_host_port_name.clone(),
            self.destination_host_port_name.clone(),
            match self.way() {
                FlowWay::Unspecified => "unknown".to_owned(),
                way => word(way.as_str_name(), "FLOW_WAY_"),
            },
            or_dash(&over(self)),
            predicted(self),
            seen(self),
            or_dash(&together(self)),
            or_dash(&self.unpinned_reason),
            self.source_leaf_name.clone(),
            self.destination_leaf_name.clone(),
        ]]
    }

    fn name(&self) -> String {
        let (from, to) = (
            &self.source_host_port_name,
            &self.destination_host_port_name,
        );
        format!("{from} {to}")
    }
}

/// The spines that a flow goes over by its pin.
fn over(flow: &proto::PlannedFlow) -> String {
    if flow.way() != FlowWay::Pins {
        return String::new();
    }
    let paths = flow.paths.iter();
    let paths = paths.map(|it| format!("{}*{}", it.spine_name, it.weight));
    paths.collect::<Vec<_>>().join(", ")
}

/// What is predicted of a flow, and of all that goes together with it.
fn predicted(flow: &proto::PlannedFlow) -> String {
    let own = measured(Some(flow.predicted_bps));
    match flow.bundled_source_count {
        0 => own,
        _ => format!("{own} of {}", measured(Some(flow.bundle_predicted_bps))),
    }
}

/// What is seen, of all that goes together.
fn seen(flow: &proto::PlannedFlow) -> String {
    let all = measured(flow.seen_bps);
    match (flow.seen_bps, flow.bundled_source_count) {
        (None, _) | (_, 0) => all,
        (Some(_), _) => format!("{all} together"),
    }
}

/// The others that a flow goes together with, as many as a person reads.
fn together(flow: &proto::PlannedFlow) -> String {
    let shown = flow.bundled_source_names.iter().take(NAMES_MAX);
    let shown: Vec<&str> = shown.map(String::as_str).collect();
    let count = usize::try_from(flow.bundled_source_count).unwrap_or(usize::MAX);
    match count.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more if shown.is_empty() => words::or_dash(Some(more)),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}

/// Names in a line; --output json has more.
const NAMES_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_together_is_predicted_and_seen_together() {
        let mut flow = proto::PlannedFlow {
            source_host_port_name: "leaf1:eth3".to_owned(),
            destination_host_port_name: "leaf2:eth3".to_owned(),
            way: FlowWay::Pins.into(),
            paths: vec![proto::PinPath {
                spine_name: "spine1".to_owned(),
                weight: 16,
            }],
            predicted_bps: 50_000_000_000,
            bundle_predicted_bps: 50_000_000_000,
            seen_bps: Some(49_900_000_000),
            ..proto::PlannedFlow::default()
        };
        let cells = |flow: &proto::PlannedFlow| flow.lines(None).remove(0)[2..8].to_vec();
        let alone = ["pins", "spine1*16", "50.0 Gb/s", "49.9 Gb/s", "-", "-"];
        assert_eq!(cells(&flow), alone);
        let names = (4..10).map(|it| format!("leaf1:eth{it}"));
        flow.bundled_source_names = names.collect();
        flow.bundled_source_count = 20;
        flow.bundle_predicted_bps = 100_000_000_000;
        let together = [
            "pins",
            "spine1*16",
            "50.0 Gb/s of 100.0 Gb/s",
            "49.9 Gb/s together",
            "leaf1:eth4, leaf1:eth5, leaf1:eth6, leaf1:eth7, and 16 more",
            "-",
        ];
        assert_eq!(cells(&flow), together);
        flow.seen_bps = None;
        assert_eq!(cells(&flow)[3], "-");
        flow.bundled_source_names.clear();
        assert_eq!(cells(&flow)[4], "20");
    }

    #[test]
    fn a_flow_without_a_pin_in_force_goes_over_what_its_leaf_chooses() {
        let flow = proto::PlannedFlow {
            way: FlowWay::OwnRouting.into(),
            paths: vec![proto::PinPath::default()],
            unpinned_reason: "leaf1 is off".to_owned(),
            ..proto::PlannedFlow::default()
        };
        let line = flow.lines(None).remove(0);
        let expected = ["own-routing", "-", "0 b/s", "-", "-", "leaf1 is off"];
        assert_eq!(line[2..8], expected);
        // A later release may know more ways.
        let unknown = proto::PlannedFlow { way: 99, ..flow };
        assert_eq!(unknown.lines(None)[0][2], "unknown");
    }
}
