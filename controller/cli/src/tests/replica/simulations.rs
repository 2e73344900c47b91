//! Its simulations: what was asked decides how they end. And the plans of `leaf1` and `leaf4`.

use tonic::{Request, Response, Status};
use weft_proto::v1::{self as proto, simulation_service_server as simulation_server};

use super::jobs::certificate;
use super::{Answer, Replica, header};

/// Two spines to `leaf2`.
pub(super) fn leaf_plans() -> proto::ListLeafPlansResponse {
    let member = |via: &str, interface: &str, weight| proto::PlanMember {
        next_hop: "198.51.100.0".to_owned(),
        interface_name: interface.to_owned(),
        neighbor_switch_name: via.to_owned(),
        weight,
        reason: format!("{weight} of 3 parts"),
    };
    let entry = |to: &str, prefix: &str| proto::PlanEntry {
        destination_switch_name: to.to_owned(),
        prefix: prefix.to_owned(),
        members: vec![member("spine1", "eth1", 2), member("spine2", "eth2", 1)],
        reason: "3 parts over 2 of 3 uplinks; leaf1:eth3--spine3:eth1: no part".to_owned(),
        ..proto::PlanEntry::default()
    };
    proto::ListLeafPlansResponse {
        header: header(1),
        leaf_plans: vec![proto::LeafPlan {
            leaf_name: "leaf1".to_owned(),
            entries: vec![
                entry("leaf2", "192.0.2.12/32"),
                entry("leaf3", "192.0.2.13/32"),
            ],
            ..proto::LeafPlan::default()
        }],
        ..proto::ListLeafPlansResponse::default()
    }
}

/// `leaf4` has no weights to `leaf1`.
pub(super) fn unweighted() -> proto::ListLeafPlansResponse {
    let entry = proto::PlanEntry {
        destination_switch_name: "leaf1".to_owned(),
        prefix: "192.0.2.11/32".to_owned(),
        members: Vec::new(),
        reason: "no confirmed way over 1 uplinks: the switch's own routing decides; \
                 leaf4:eth1--spine1:eth4: not used: nobody announces the way"
            .to_owned(),
        ..proto::PlanEntry::default()
    };
    proto::ListLeafPlansResponse {
        header: header(1),
        leaf_plans: vec![proto::LeafPlan {
            leaf_name: "leaf4".to_owned(),
            entries: vec![entry],
            ..proto::LeafPlan::default()
        }],
        ..proto::ListLeafPlansResponse::default()
    }
}

#[tonic::async_trait]
impl simulation_server::SimulationService for Replica {
    /// Jobs are placed, unless a switch is drained, and links carry them, unless one is named `over`; a fabric of the
    /// client's own is answered by its name.
    async fn simulate_plan(
        &self,
        request: Request<proto::SimulatePlanRequest>,
    ) -> Answer<proto::SimulatePlanResponse> {
        let request = request.into_inner();
        if let Some(link) = request.failed_link_names.iter().find(|link| *link == "x") {
            let reason = format!("failed_link_names[0]: no link is named {link:?}");
            return Err(Status::invalid_argument(reason));
        }
        let cut = !request.drained_switch_names.is_empty();
        let (state, reason) = match cut {
            true => (
                proto::JobPlanState::Infeasible,
                "leaf1 has no link that carries traffic",
            ),
            false => (proto::JobPlanState::Pinned, ""),
        };
        let fabric = request.fabric.map(|fabric| fabric.display_name);
        let names = request.jobs.into_iter().map(|job| job.name);
        let mut names: Vec<_> = fabric.into_iter().chain(names).collect();
        names.extend(
            request
                .excluded_job_names
                .iter()
                .map(|it| format!("not-{it}")),
        );
        let is_over = names.iter().any(|name| name == "over");
        let job = |job_name| proto::JobPlan {
            job_name,
            state: state.into(),
            reason: reason.to_owned(),
            flow_count: 8,
            pinned_flow_count: if cut { 0 } else { 8 },
            ..proto::JobPlan::default()
        };
        let pins = match request.with_pins {
            true => vec![
                pin("leaf1:eth3", "leaf2:eth3"),
                pin("leaf2:eth3", "leaf1:eth3"),
            ],
            false => Vec::new(),
        };
        Ok(Response::new(proto::SimulatePlanResponse {
            pins,
            pin_certificate: Some(certificate(if is_over { 2.0 } else { 0.5 })),
            ..answer(names.into_iter().map(job).collect(), request.replan_pins)
        }))
    }
}

fn pin(from: &str, to: &str) -> proto::Pin {
    proto::Pin {
        job_name: "train2".to_owned(),
        source_host_port_name: from.to_owned(),
        destination_host_port_name: to.to_owned(),
        paths: vec![proto::PinPath {
            spine_name: "spine1".to_owned(),
            weight: 16,
        }],
        ..proto::Pin::default()
    }
}

fn answer(job_plans: Vec<proto::JobPlan>, replanned: bool) -> proto::SimulatePlanResponse {
    let load = |up: bool, share: f64| {
        let (from, to) = if up {
            ("leaf1", "spine1")
        } else {
            ("spine1", "leaf1")
        };
        proto::LinkLoad {
            link_name: "leaf1:eth1--spine1:eth1".to_owned(),
            source_switch_name: from.to_owned(),
            destination_switch_name: to.to_owned(),
            load_bps: (share * 100e9) as u64,
            share,
        }
    };
    proto::SimulatePlanResponse {
        header: header(1),
        job_plans,
        pin_certificate: None,
        pin_changes: Some(proto::PinChanges {
            pin_count: 8,
            moved_count: if replanned { 6 } else { 2 },
            added_count: 1,
            removed_count: 0,
        }),
        weight_certificate: Some(proto::WeightCertificate {
            leaf_count: 4,
            changed_leaf_count: 3,
            unreachable_pair_count: 0,
            max_overload_ppm: 12_500,
            max_overload_leaf_name: "leaf2".to_owned(),
        }),
        link_loads: vec![load(true, 0.5), load(false, 0.25)],
        link_load_count: 12,
        flow_count: 8,
        stranded_flow_count: 0,
        placement_rates: vec![
            rate(proto::PlacementMethod::EnhancedEcmp, 0.333, 0.75),
            rate(proto::PlacementMethod::CapacityWeights, 0.5, 0.8),
        ],
        pins: Vec::new(),
    }
}

fn rate(
    method: proto::PlacementMethod,
    slowest_flow_share: f64,
    mean_flow_share: f64,
) -> proto::PlacementRate {
    proto::PlacementRate {
        placement_method: method.into(),
        slowest_flow_share,
        mean_flow_share,
        draw_count: 16,
    }
}
