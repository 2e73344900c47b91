//! What each NIC sends as plans have it: how much of it over which spine. Beside what a NIC is measured to send, that says what
//! uplinks should carry. Pure.

use std::collections::BTreeMap;

use weft_proto::v1;

use super::{PinPlan, name};
use crate::fabric::fact::{JobName, PortName, SwitchName};
use crate::fabric::pin::Pins;

/// What NICs send, by the host port of each.
pub type Sends = BTreeMap<PortName, PortSends>;

/// What one NIC sends, in bits per second while the busiest NIC of its job sends or takes at its rate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortSends {
    /// Pinned, by spine.
    pub by_spine: BTreeMap<SwitchName, f64>,
    /// Over spines, where a hash decides over which: it is not pinned, or divided by the hash between the spines of its pin.
    pub loose: f64,
    /// To NICs at the same leaf.
    pub within: f64,
    /// Jobs with pins of it.
    pub jobs: Vec<JobName>,
}

impl PortSends {
    /// All that it sends.
    pub fn total(&self) -> f64 {
        self.by_spine.values().sum::<f64>() + self.loose + self.within
    }
}

impl PinPlan {
    /// What NICs send with the adopted pins, as far as somebody declared it, at the leaves that are asked for.
    pub fn sends(&self, pins: &Pins, is_asked: impl Fn(&SwitchName) -> bool) -> Sends {
        let mut all = Sends::new();
        for (job, sent) in self.sent.iter() {
            let Ok(sent) = sent else {
                continue;
            };
            let declared = self
                .topology
                .job(job)
                .map(|job| job.declared.balance_mode());
            let is_on = declared != Some(v1::BalanceMode::Shadow);
            let asked = sent.over.iter().filter(|sent| is_asked(&sent.from.switch));
            for sent in asked {
                let known = all.entry(sent.from.name.clone()).or_default();
                let paths = pins.get(&name(&(job, sent))).filter(|_| is_on);
                let weights = || paths.into_iter().flat_map(|it| it.iter());
                let total: f64 = weights().map(|path| f64::from(path.weight)).sum();
                // Queue pairs divide it as it is planned, a TCP connection goes one way.
                let is_hashed = sent.ports.is_empty() && weights().nth(1).is_some();
                if total <= 0.0 || is_hashed {
                    known.loose += sent.bps as f64;
                    continue;
                }
                for path in weights() {
                    let bps = sent.bps as f64 * f64::from(path.weight) / total;
                    *known.by_spine.entry(path.spine.clone()).or_default() += bps;
                }
                if known.jobs.last() != Some(job) {
                    known.jobs.push(job.clone());
                }
            }
            for (port, bps) in &sent.within {
                let at = self.topology.host_port(port);
                if at.is_some_and(|port| is_asked(&port.switch)) {
                    all.entry(port.clone()).or_default().within += *bps as f64;
                }
            }
        }
        all
    }
}
