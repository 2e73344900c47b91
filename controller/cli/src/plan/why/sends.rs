//! Whether a job sends from one host port to another at all: what is no flow is not explained. Knows no pin and no weight.

use std::net::IpAddr;

use tonic::Code;
use weft_proto::v1 as proto;

use super::{declared, undeclared};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;

/// Refuses two host ports between which a job sends nothing, as far as that is known; `crosses` says that their leaves differ.
pub(super) async fn check(
    plan: &proto::GetJobPlanResponse,
    job: &str,
    [from, to]: [&str; 2],
    crosses: bool,
    dialog: &Dialog<'_>,
) -> Result<(), Failure> {
    let nothing = |why: &str| {
        let text = format!("job {job} sends nothing from {from} to {to}{why}");
        Err(Failure::Refused(text))
    };
    let job_declared = declared(job, dialog).await?;
    for port in [from, to] {
        let found = host_port(port, dialog).await?;
        if !has(&job_declared, &found) {
            return nothing(&format!(": it has no NIC at {port}"));
        }
    }
    let is_flowless = |it: &proto::JobPlan| it.state() == proto::JobPlanState::NoFlows;
    if from == to || (crosses && plan.resource.as_ref().is_some_and(is_flowless)) {
        return nothing("");
    }
    if crosses && !may_send(job, (from, to), dialog).await? {
        return nothing("");
    }
    Ok(())
}

/// The host port of this name, or what stands for a NIC that none declares.
async fn host_port(name: &str, dialog: &Dialog<'_>) -> Result<proto::HostPort, Failure> {
    if let Some((vni, ip)) = undeclared(name) {
        return Ok(proto::HostPort {
            name: name.to_owned(),
            vni: Some(vni),
            addresses: vec![ip.to_string()],
            ..proto::HostPort::default()
        });
    }
    let connection = &dialog.connection;
    let question = async || {
        let mut client = connection.fabric().await?;
        let request = proto::GetHostPortRequest {
            name: name.to_owned(),
        };
        match connection.status(client.get_host_port(request)).await? {
            Ok(answer) => Ok(answer.resource.unwrap_or_default()),
            Err(status) if status.code() == Code::NotFound => {
                let reason = format!("no host port is named {name:?}");
                Err(Failure::Refused(reason))
            }
            Err(status) => Err(Failure::from_status(connection.address(), &status)),
        }
    };
    connection.read(question).await
}

/// Whether a job has the NIC behind a host port: as a rank, as an end of a flow, or because it is one of its hosts'.
fn has(job: &proto::Job, port: &proto::HostPort) -> bool {
    let flows = job.flows.iter();
    let ends = flows.flat_map(|flow| [&flow.source, &flow.destination]);
    let mut named = job.ranks.iter().chain(ends.flatten());
    // An empty name is that of no host.
    let mut hosts = job.host_names.iter().filter(|host| !host.is_empty());
    named.any(|nic| is_at(nic, port))
        || (job.ranks.is_empty() && hosts.any(|host| *host == port.host_name))
}

fn is_at(nic: &proto::Nic, port: &proto::HostPort) -> bool {
    if !nic.host_port_name.is_empty() {
        return nic.host_port_name == port.name;
    }
    let Ok(ip) = nic.address.parse::<IpAddr>() else {
        return false;
    };
    let mut addresses = port.addresses.iter();
    let has_address = addresses.any(|it| it.parse::<IpAddr>().is_ok_and(|it| it == ip));
    has_address && (nic.vni.is_none() || nic.vni == port.vni)
}

/// Whether a job sends from one host port to another over a spine; true also where nobody knows its flows one by one.
async fn may_send(job: &str, wanted: (&str, &str), dialog: &Dialog<'_>) -> Result<bool, Failure> {
    let connection = &dialog.connection;
    let mut token = String::new();
    loop {
        let question = async || {
            let mut client = connection.plans().await?;
            let request = proto::ListJobFlowsRequest {
                job_name: job.to_owned(),
                page_size: PAGE_SIZE,
                page_token: token.clone(),
            };
            connection.answer(client.list_job_flows(request)).await
        };
        let page = connection.read(question).await?;
        if !page.unlisted_reason.is_empty() {
            return Ok(true);
        }
        let mut all = page.flows.iter().map(ends);
        // They come in order of the names of their ends.
        match all.find(|it| *it >= wanted) {
            Some(found) => return Ok(found == wanted),
            None if page.next_page_token.is_empty() => return Ok(false),
            None => connection.advance(&mut token, page.next_page_token)?,
        }
    }
}

fn ends(flow: &proto::PlannedFlow) -> (&str, &str) {
    let (from, to) = (
        &flow.source_host_port_name,
        &flow.destination_host_port_name,
    );
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_nics_of_its_ranks_of_its_flows_or_of_its_hosts() {
        let port = proto::HostPort {
            name: "leaf1:eth3".to_owned(),
            host_name: "h1".to_owned(),
            vni: Some(100),
            addresses: vec!["2001:db8::1".to_owned()],
            ..proto::HostPort::default()
        };
        let named = |name: &str| proto::Nic {
            host_port_name: name.to_owned(),
            ..proto::Nic::default()
        };
        let at = |address: &str, vni| proto::Nic {
            address: address.to_owned(),
            vni,
            ..proto::Nic::default()
        };
        let table = [
            (named("leaf1:eth3"), true),
            (named("leaf1:eth4"), false),
            // The same address, written in another way.
            (at("2001:db8:0::1", None), true),
            (at("2001:db8::1", Some(100)), true),
            (at("2001:db8::1", Some(200)), false),
            (at("2001:db8::2", None), false),
        ];
        for (nic, expected) in table {
            let ranks = proto::Job {
                ranks: vec![nic.clone()],
                ..proto::Job::default()
            };
            assert_eq!(has(&ranks, &port), expected, "{nic:?}");
            let flow = proto::JobFlow {
                destination: Some(nic),
                ..proto::JobFlow::default()
            };
            let flows = proto::Job {
                flows: vec![flow],
                ..proto::Job::default()
            };
            assert_eq!(has(&flows, &port), expected);
        }
        let mut hosts = proto::Job {
            host_names: vec!["h1".to_owned()],
            ..proto::Job::default()
        };
        assert!(has(&hosts, &port));
        hosts.ranks.push(named("leaf1:eth4"));
        assert!(!has(&hosts, &port));
        let nameless = proto::HostPort::default();
        assert!(!has(&proto::Job::default(), &nameless));
    }
}
