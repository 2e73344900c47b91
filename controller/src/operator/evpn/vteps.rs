//! VTEPs and VNIs as the selected EVPN routes tell of them. Knows the reflector's view of them; the rules are `weft_evpn`'s.

use std::net::IpAddr;

use weft_evpn::Vni;
use weft_evpn::vtep::Vteps;
use weft_proto::v1 as proto;

use super::super::page::Page;
use crate::fabric::topology::Topology;

/// A page of VTEPs after one of them.
pub(super) fn page(
    vteps: &Vteps,
    topology: Option<&Topology>,
    after: Option<IpAddr>,
    size: usize,
) -> Page<proto::Vtep> {
    let rest = vteps
        .vteps()
        .filter(|it| after.is_none_or(|after| *it > after));
    Page::of(size, rest.map(|address| row(vteps, topology, address)))
}

/// One VTEP, if there is one of this address.
pub(super) fn one(
    vteps: &Vteps,
    topology: Option<&Topology>,
    address: IpAddr,
) -> Option<proto::Vtep> {
    let known = vteps.contains(address);
    known.then(|| row(vteps, topology, address))
}

fn row(vteps: &Vteps, topology: Option<&Topology>, address: IpAddr) -> proto::Vtep {
    let vnis: Vec<Vni> = vteps.vnis_of(address).collect();
    let first = vnis.first();
    let peer = first.and_then(|vni| vteps.announcers(*vni, address).next());
    proto::Vtep {
        address: address.to_string(),
        peer_router_id: peer
            .map(|peer| peer.router_id.to_string())
            .unwrap_or_default(),
        switch_name: switch_name(topology, address),
        vnis: vnis.iter().map(|vni| vni.number()).collect(),
        mac_route_count: vteps.mac_routes(address),
    }
}

fn switch_name(topology: Option<&Topology>, vtep: IpAddr) -> Option<String> {
    let switch = topology?.switch_of_vtep(vtep)?;
    Some(switch.name.to_string())
}

/// A page of VNIs after one of them.
pub(super) fn vnis(
    vteps: &Vteps,
    topology: Option<&Topology>,
    after: Option<u32>,
    size: usize,
) -> Page<proto::Vni> {
    let rest = vteps
        .vnis()
        .filter(|it| after.is_none_or(|after| it.number() > after));
    Page::of(size, rest.map(|vni| flooded(vteps, topology, vni)))
}

/// One VNI, if it has a VTEP.
pub(super) fn vni(vteps: &Vteps, topology: Option<&Topology>, vni: Vni) -> Option<proto::Vni> {
    let row = flooded(vteps, topology, vni);
    (!row.vteps.is_empty()).then_some(row)
}

fn flooded(vteps: &Vteps, topology: Option<&Topology>, vni: Vni) -> proto::Vni {
    let member = |address: IpAddr| proto::VniVtep {
        address: address.to_string(),
        switch_name: switch_name(topology, address),
        mac_route_count: vteps.mac_routes_in(address, vni),
    };
    proto::Vni {
        vni: vni.number(),
        vteps: vteps.members(vni).map(member).collect(),
    }
}
