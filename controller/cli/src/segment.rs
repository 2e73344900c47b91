//! `weft segment`: Ethernet segments, who is attached to each, and who forwards.

use std::io::Write;

use clap::{Args, Subcommand};
use serde::Serialize;
use weft_proto::operator::v1 as proto;

use crate::dialog::Dialog;
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
        let (esi, wanted) = match self {
            Self::List(wanted) => (None, wanted),
            Self::Show { esi, wanted } => (Some(esi), wanted),
        };
        let request = proto::ListSegmentsRequest {
            consistency: proto::Consistency::from(wanted.consistency).into(),
            esi: esi.clone().unwrap_or_default(),
            tag: wanted.tag,
        };
        let mut client = dialog.connection.operator().await?;
        let call = client.list_segments(request);
        let answer = dialog.connection.answer(call).await?;
        let segments: Vec<_> = answer.segments.into_iter().map(Segment::from).collect();
        match (esi, segments.first()) {
            (Some(esi), None) => Err(Failure::Refused(format!("there is no segment {esi:?}"))),
            (Some(_), Some(segment)) if dialog.format == Format::Table => {
                Ok(segment.print(dialog.out)?)
            }
            (Some(_) | None, _) => dialog.rows::<_, Segment>(segments),
        }
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

impl From<proto::Segment> for Segment {
    fn from(segment: proto::Segment) -> Self {
        let domains = segment.domains.into_iter().map(|domain| Domain {
            vni: domain.vni,
            tag: domain.tag,
            vteps: domain.vteps,
        });
        Self {
            esi: segment.esi,
            redundancy: segment.redundancy,
            algorithm: segment.algorithm,
            forwarder: segment.forwarder,
            attached: segment.attached,
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
        Segment::from(proto::Segment {
            esi: "03:44:38:39:ff:ff:01:00:00:01".to_owned(),
            redundancy: "all-active".to_owned(),
            algorithm: "modulo".to_owned(),
            forwarder: "192.0.2.11".to_owned(),
            attached: vec!["192.0.2.11".to_owned(), "192.0.2.12".to_owned()],
            domains: vec![proto::SegmentDomain {
                vni: 100,
                tag: 0,
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
