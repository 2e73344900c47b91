//! `weft segment`: Ethernet segments, who is attached to each, and who is the designated forwarder (DF).

use std::io::Write;

use clap::{Args, Subcommand};
use prost_types::Timestamp;
use weft_proto::v1::{self as proto, DesignatedForwarderAlgorithm, RedundancyMode};

use crate::completion;
use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Row, or_dash, printable};
use crate::route::Consistency;
use crate::words;

/// What can be asked of Ethernet segments.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every segment that routes of types 1 and 4 announce.
    List(Wanted),
    /// One segment with its broadcast domains.
    Show {
        /// Ten octets in hex with colons.
        #[arg(add = completion::segments())]
        esi: String,
        #[command(flatten)]
        wanted: Wanted,
    },
}

/// Which answer is wanted.
#[derive(Args)]
pub(crate) struct Wanted {
    /// The DF for this Ethernet tag, mostly a VLAN; without it only one that is it for all tags.
    #[arg(long, value_name = "N")]
    tag: Option<u32>,
    /// Who has to agree on the answer.
    #[arg(long, value_enum, default_value_t = Consistency::Linearizable)]
    consistency: Consistency,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::List(wanted) => list(&wanted, dialog).await,
            Self::Show { esi, wanted } => show(esi, &wanted, dialog).await,
        }
    }
}

async fn list(wanted: &Wanted, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let ask = async |connection: &Connection, page_token| {
        let mut client = connection.evpn().await?;
        let request = proto::ListEthernetSegmentsRequest {
            page_size: PAGE_SIZE,
            page_token,
            consistency: proto::Consistency::from(wanted.consistency).into(),
            ethernet_tag: wanted.tag,
        };
        let call = client.list_ethernet_segments(request);
        let page = connection.answer(call).await?;
        let rows = page.ethernet_segments;
        Ok(Page::new(page.header, rows, page.next_page_token))
    };
    dialog.pages(ask).await
}

async fn show(esi: String, wanted: &Wanted, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let request = proto::GetEthernetSegmentRequest {
        consistency: proto::Consistency::from(wanted.consistency).into(),
        esi,
        ethernet_tag: wanted.tag,
    };
    let question = async || {
        let mut client = connection.evpn().await?;
        let call = client.get_ethernet_segment(request.clone());
        connection.answer(call).await
    };
    let answer = connection.read(question).await?;
    let segment = answer.resource.unwrap_or_default();
    if !dialog.object(&segment.object())? {
        print(&segment, dialog.out)?;
    }
    Ok(())
}

fn redundancy(mode: RedundancyMode) -> &'static str {
    match mode {
        RedundancyMode::AllActive => "all-active",
        RedundancyMode::SingleActive => "single-active",
        RedundancyMode::Mixed => "mixed",
        RedundancyMode::Unspecified => "unknown",
    }
}

fn algorithm(segment: &proto::EthernetSegment) -> String {
    match segment.algorithm() {
        DesignatedForwarderAlgorithm::Modulo => "modulo".to_owned(),
        DesignatedForwarderAlgorithm::HighestRandomWeight => "highest random weight".to_owned(),
        DesignatedForwarderAlgorithm::HighestPreference => "highest preference".to_owned(),
        DesignatedForwarderAlgorithm::LowestPreference => "lowest preference".to_owned(),
        DesignatedForwarderAlgorithm::Unspecified => {
            format!("algorithm {}", segment.algorithm_number)
        }
    }
}

fn print(segment: &proto::EthernetSegment, out: &mut dyn Write) -> std::io::Result<()> {
    let mode = redundancy(segment.redundancy_mode());
    let attached = or_dash(&segment.attached_vteps.join(", "));
    writeln!(out, "{}: {mode}", printable(&segment.esi))?;
    writeln!(out, "attached: {}", printable(&attached))?;
    let forwarder = or_dash(segment.designated_forwarder());
    writeln!(
        out,
        "DF:       {} by {}",
        printable(&forwarder),
        algorithm(segment)
    )?;
    for domain in &segment.domains {
        let vni = words::or_dash(domain.vni);
        let over = or_dash(&domain.vteps.join(", "));
        let tag = domain.ethernet_tag;
        writeln!(out, "VNI {vni}, tag {tag}: over {}", printable(&over))?;
    }
    Ok(())
}

impl Row for proto::EthernetSegment {
    const HEADER: &'static [&'static str] = &["ESI", "REDUNDANCY", "ALGORITHM", "DF", "ATTACHED"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.EthernetSegment", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        vec![vec![
            self.esi.clone(),
            redundancy(self.redundancy_mode()).to_owned(),
            algorithm(self),
            or_dash(self.designated_forwarder()),
            or_dash(&self.attached_vteps.join(",")),
        ]]
    }

    fn name(&self) -> String {
        self.esi.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Format, List};

    fn segment() -> proto::EthernetSegment {
        proto::EthernetSegment {
            esi: "03:44:38:39:ff:ff:01:00:00:01".to_owned(),
            redundancy_mode: RedundancyMode::AllActive.into(),
            algorithm: DesignatedForwarderAlgorithm::Modulo.into(),
            algorithm_number: 0,
            designated_forwarder: Some("192.0.2.11".to_owned()),
            attached_vteps: vec!["192.0.2.11".to_owned(), "192.0.2.12".to_owned()],
            domains: vec![proto::EthernetSegmentDomain {
                vni: Some(100),
                ethernet_tag: 0,
                vteps: vec!["192.0.2.11".to_owned()],
            }],
        }
    }

    #[test]
    fn segments_in_columns() {
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        list.add(&[segment()], None).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "ESI                            REDUNDANCY  ALGORITHM  DF          ATTACHED\n",
            "03:44:38:39:ff:ff:01:00:00:01  all-active  modulo     192.0.2.11  192.0.2.11,192.0.2.12\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_segment_with_its_domains() {
        let mut out = Vec::new();
        print(&segment(), &mut out).unwrap();
        let expected = "\
03:44:38:39:ff:ff:01:00:00:01: all-active
attached: 192.0.2.11, 192.0.2.12
DF:       192.0.2.11 by modulo
VNI 100, tag 0: over 192.0.2.11
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
