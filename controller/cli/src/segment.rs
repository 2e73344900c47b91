//! `weft segment`: Ethernet segments, who is attached to each, and who forwards.

use std::io::Write;

use clap::{Args, Subcommand};
use serde::Serialize;
use weft_proto::v1::{self as proto, DesignatedForwarderAlgorithm, RedundancyMode};

use crate::connection::Connection;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Format, or_dash};
use crate::route::Consistency;

/// What can be asked of Ethernet segments.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every segment that routes of types 1 and 4 tell of.
    List(Wanted),
    /// One segment with its broadcast domains.
    Show {
        /// Ten octets in hex with colons.
        esi: String,
        #[command(flatten)]
        wanted: Wanted,
    },
}

/// Which answer is wanted.
#[derive(Args)]
pub(crate) struct Wanted {
    /// The forwarder for this Ethernet tag, mostly a VLAN; without it only one that forwards for all.
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
    let mut client = dialog.connection.evpn().await?;
    let ask = async |connection: &Connection, page_token| {
        let request = proto::ListEthernetSegmentsRequest {
            page_size: PAGE_SIZE,
            page_token,
            consistency: proto::Consistency::from(wanted.consistency).into(),
            ethernet_tag: wanted.tag,
        };
        let call = client.list_ethernet_segments(request);
        let page = connection.answer(call).await?;
        Ok((page.ethernet_segments, page.next_page_token))
    };
    dialog.pages::<_, Segment>(ask).await
}

async fn show(esi: String, wanted: &Wanted, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.evpn().await?;
    let call = client.get_ethernet_segment(proto::GetEthernetSegmentRequest {
        consistency: proto::Consistency::from(wanted.consistency).into(),
        esi,
        ethernet_tag: wanted.tag,
    });
    let answer = dialog.connection.answer(call).await?;
    let segment = answer.resource.unwrap_or_default();
    match dialog.format {
        Format::Table | Format::Wide | Format::Name => {
            Ok(Segment::from(segment).print(dialog.out)?)
        }
        Format::Json | Format::Yaml => dialog.rows::<_, Segment>(vec![segment]),
    }
}

#[derive(Serialize)]
struct Segment {
    esi: String,
    redundancy: String,
    algorithm: String,
    forwarder: String,
    attached: Vec<String>,
    domains: Vec<Domain>,
}

#[derive(Serialize)]
struct Domain {
    vni: u32,
    tag: u32,
    vteps: Vec<String>,
}

impl From<proto::EthernetSegment> for Segment {
    fn from(segment: proto::EthernetSegment) -> Self {
        let redundancy = match segment.redundancy_mode() {
            RedundancyMode::AllActive => "all-active",
            RedundancyMode::SingleActive => "single-active",
            RedundancyMode::Mixed => "mixed",
            RedundancyMode::Unspecified => "unknown",
        };
        let algorithm = match segment.algorithm() {
            DesignatedForwarderAlgorithm::Modulo => "modulo".to_owned(),
            DesignatedForwarderAlgorithm::HighestRandomWeight => "highest random weight".to_owned(),
            DesignatedForwarderAlgorithm::HighestPreference => "highest preference".to_owned(),
            DesignatedForwarderAlgorithm::LowestPreference => "lowest preference".to_owned(),
            DesignatedForwarderAlgorithm::Unspecified => {
                format!("algorithm {}", segment.algorithm_number)
            }
        };
        let domains = segment.domains.into_iter().map(|domain| Domain {
            vni: domain.vni.unwrap_or(0),
            tag: domain.ethernet_tag,
            vteps: domain.vteps,
        });
        Self {
            esi: segment.esi,
            redundancy: redundancy.to_owned(),
            algorithm,
            forwarder: segment.designated_forwarder.unwrap_or_default(),
            attached: segment.attached_vteps,
            domains: domains.collect(),
        }
    }
}

impl Segment {
    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{}: {}", self.esi, self.redundancy)?;
        writeln!(out, "attached:  {}", or_dash(&self.attached.join(", ")))?;
        writeln!(
            out,
            "forwarder: {} by {}",
            or_dash(&self.forwarder),
            self.algorithm
        )?;
        for domain in &self.domains {
            let Domain { vni, tag, vteps } = domain;
            let over = or_dash(&vteps.join(", "));
            writeln!(out, "VNI {vni}, tag {tag}: over {over}")?;
        }
        Ok(())
    }
}

impl output::Row for Segment {
    const HEADER: &'static [&'static str] =
        &["ESI", "REDUNDANCY", "ALGORITHM", "FORWARDER", "ATTACHED"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.esi.clone(),
            self.redundancy.clone(),
            self.algorithm.clone(),
            or_dash(&self.forwarder),
            or_dash(&self.attached.join(",")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::List;

    fn segment() -> Segment {
        Segment::from(proto::EthernetSegment {
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
        })
    }

    #[test]
    fn segments_in_columns() {
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        list.add(&[segment()]).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "ESI                            REDUNDANCY  ALGORITHM  FORWARDER   ATTACHED\n",
            "03:44:38:39:ff:ff:01:00:00:01  all-active  modulo     192.0.2.11  192.0.2.11,192.0.2.12\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_segment_with_its_domains() {
        let mut out = Vec::new();
        segment().print(&mut out).unwrap();
        let expected = "\
03:44:38:39:ff:ff:01:00:00:01: all-active
attached:  192.0.2.11, 192.0.2.12
forwarder: 192.0.2.11 by modulo
VNI 100, tag 0: over 192.0.2.11
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
