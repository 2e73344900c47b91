//! `weft link status`: what is seen of links.

use prost_types::Timestamp;
use weft_proto::v1::{self as proto, ChangeType, DeratingCause, LinkState};

use super::of_either_name;
use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, Heard, PAGE_SIZE, Reader};
use crate::failure::Failure;
use crate::output::{self, Row, or_dash};
use crate::words::{self, measured};

/// Shows one link, or all.
pub(super) async fn show(link: Option<String>, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let Some(link) = link else {
        if dialog.watch {
            let request = proto::WatchRequest {
                link_statuses: Some(proto::LinkStatusFilter::default()),
                // A replica of an older release would stream all that is declared: nothing has this name.
                names: vec![String::new()],
                ..proto::WatchRequest::default()
            };
            dialog.follow(request, Statuses::default()).await?;
        }
        return dialog.pages(page).await;
    };
    let connection = &dialog.connection;
    let ask = async |link_name: String| {
        let mut client = connection.plans().await?;
        let call = client.get_link_status(proto::GetLinkStatusRequest { link_name });
        Ok(connection.status(call).await?.map(|it| it.resource))
    };
    let status = of_either_name(&link, connection, ask).await?;
    let status = status.unwrap_or_default();
    match dialog.object(&status.object())? {
        true => Ok(()),
        false => dialog.rows(&[status], None),
    }
}

/// Reads statuses of links out of the answers of a watch.
#[derive(Default)]
struct Statuses {
    /// The replica said all of them since the stream began.
    begun: bool,
}

impl Reader for Statuses {
    type Row = proto::LinkStatus;

    fn begin(&mut self) {
        self.begun = false;
    }

    fn read(&mut self, answer: proto::WatchResponse) -> Option<Heard<proto::LinkStatus>> {
        let is_last = answer.header.is_some();
        self.begun |= answer.link_status_snapshot;
        if is_last && !answer.snapshot && !self.begun {
            return None;
        }
        let (mut rows, mut gone) = (Vec::new(), Vec::new());
        for change in answer.link_status_changes {
            let deleted = change.change_type() == ChangeType::Deleted;
            if deleted { &mut gone } else { &mut rows }.extend(change.link_status);
        }
        let whole = answer.link_status_snapshot && is_last;
        Some(Heard { rows, gone, whole })
    }
}

/// A page of the list.
pub(crate) async fn page(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::LinkStatus>, Failure> {
    let mut client = connection.plans().await?;
    let request = proto::ListLinkStatusesRequest {
        page_size: PAGE_SIZE,
        page_token,
    };
    let page = connection
        .answer(client.list_link_statuses(request))
        .await?;
    Ok(Page::new(
        page.header,
        page.link_statuses,
        page.next_page_token,
    ))
}

impl Row for proto::LinkStatus {
    const HEADER: &'static [&'static str] = &[
        "LINK",
        "STATE",
        "A-TO-B",
        "B-TO-A",
        "DERATED",
        "KEPT-FREE",
        "LLDP",
        "GNMI",
        "REASON",
    ];
    const PASSING: &'static [&'static str] = &["A-TO-B", "B-TO-A"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.LinkStatus", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let derated = match self.derating_cause() {
            DeratingCause::Unspecified => format!("{} %", self.derating_percent),
            cause => {
                let cause = words::word(cause.as_str_name(), "DERATING_CAUSE_");
                format!("{} % for {cause}", self.derating_percent)
            }
        };
        let state = match self.state() {
            LinkState::Unspecified => "unknown",
            LinkState::Up => "up",
            LinkState::Down => "down",
        };
        vec![vec![
            self.link_name.clone(),
            state.to_owned(),
            measured(self.a_to_b_bps),
            measured(self.b_to_a_bps),
            derated,
            format!("{} %", self.kept_free_percent),
            or_dash(self.lldp()),
            or_dash(&self.unheard_reasons.join("; ")),
            or_dash(&self.reason),
        ]]
    }

    fn name(&self) -> String {
        self.link_name.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_is_derated_says_what_for() {
        let status = proto::LinkStatus {
            link_name: "leaf1:eth1--spine1:eth1".to_owned(),
            state: LinkState::Up.into(),
            derating_percent: 50,
            derating_cause: DeratingCause::Errors.into(),
            kept_free_percent: 20,
            lldp: Some("as declared".to_owned()),
            a_to_b_bps: Some(1_500),
            unheard_reasons: vec!["leaf1: connection refused".to_owned()],
            ..proto::LinkStatus::default()
        };
        let line = status.lines(None).remove(0);
        assert_eq!(
            line[1..],
            [
                "up",
                "1.5 kb/s",
                "-",
                "50 % for errors",
                "20 %",
                "as declared",
                "leaf1: connection refused",
                "-"
            ]
        );
    }
}
