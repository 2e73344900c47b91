//! What the routes say that should not be so.

use std::collections::{BTreeMap, BTreeSet};

use weft_proto::v1 as proto;

use super::{Part, Report};
use crate::failure::Failure;
use crate::{host, mac, vtep};

/// Looks whether every leaf announces its VTEP.
pub(super) async fn vteps(
    leaves: &[(String, String)],
    report: &Report<'_>,
) -> Result<Part, Failure> {
    let connection = &report.connection;
    let ask = async |token| vtep::page(connection, proto::Consistency::Linearizable, token).await;
    let vteps = connection.every(ask, report.count("VTEPs")).await?;
    let announced: BTreeSet<_> = vteps.iter().map(|it| it.address.as_str()).collect();
    let silent = leaves.iter();
    let silent = silent.filter(|(_, vtep)| !announced.contains(vtep.as_str()));
    let wrong: Vec<_> = silent
        .map(|(name, vtep)| format!("leaf {name} announces nothing of its VTEP {vtep}"))
        .collect();
    let (all, there) = (leaves.len(), leaves.len() - wrong.len());
    let summary = format!("{} announced, {there} of {all} leaves", announced.len());
    Ok(Part::new(summary, wrong))
}

/// Looks for MAC addresses that move too often.
pub(super) async fn macs(report: &Report<'_>) -> Result<Part, Failure> {
    let connection = &report.connection;
    let ask = async |token| mac::page(connection, token).await;
    let macs = connection.every(ask, report.count("MAC addresses")).await?;
    let wrong = macs.iter().map(|it| {
        let frozen = if it.frozen { ", and is frozen" } else { "" };
        format!("MAC {} moves too often in VNI {}{frozen}", it.mac, it.vni)
    });
    let wrong = wrong.collect();
    let summary = format!("{} move too often", macs.len());
    Ok(Part::new(summary, wrong))
}

/// Looks for IP addresses that several hosts have.
pub(super) async fn hosts(report: &Report<'_>) -> Result<Part, Failure> {
    let connection = &report.connection;
    let request = proto::ListHostAddressesRequest {
        duplicates_only: true,
        ..proto::ListHostAddressesRequest::default()
    };
    let ask = async |token| host::page(connection, &request, token).await;
    let hosts = connection.every(ask, report.count("IP addresses")).await?;
    let mut macs: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for it in &hosts {
        let address = (host::domain(it), it.ip.as_str());
        macs.entry(address).or_default().insert(&it.mac);
    }
    let wrong = macs.iter().map(|((domain, ip), macs)| {
        let macs: Vec<_> = macs.iter().copied().collect();
        format!("IP {ip} in VNI {domain} is at {}", macs.join(" and "))
    });
    let wrong = wrong.collect();
    let summary = format!("{} IP addresses at several hosts", macs.len());
    Ok(Part::new(summary, wrong))
}
