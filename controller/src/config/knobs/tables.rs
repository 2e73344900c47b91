//! The knobs that are tables of their own. Knows one table at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU8, NonZeroU32};
use std::str::FromStr;
use std::time::Duration;

use weft_bgp::attribute::AttributeFilter;
use weft_bgp::family::Family;
use weft_bgp::reflect::LocalAs;

use super::{GUARD_MODES, LIMIT_ACTIONS, families};
use crate::config::SUPPORTED;
use crate::config::check::{Invalid, invalid, secs, within, word};
use crate::config::file::{
    FileAddPath, FileAttributes, FileBfd, FileGracefulRestart, FileGuard, FileLimits, FileLocalAs,
};
use crate::config::group::{AddPath, AttributeLists, Bfd, GracefulRestart, Guard, Limits};

impl FileLocalAs {
    pub(super) fn check(&self, place: &str, local_asn: u32) -> Result<LocalAs, Invalid> {
        if self.asn == 0 {
            return invalid(
                format!("{place}.local_as.asn"),
                "AS 0 is reserved (RFC 7607)",
            );
        }
        if self.asn == local_asn {
            return invalid(
                format!("{place}.local_as.asn"),
                format!("{local_asn} is our AS already"),
            );
        }
        if self.replace_as && !self.no_prepend {
            return invalid(format!("{place}.local_as.replace_as"), "needs no_prepend");
        }
        Ok(LocalAs {
            asn: self.asn,
            no_prepend: self.no_prepend,
            replace_as: self.replace_as,
        })
    }
}

impl FileBfd {
    pub(super) fn check(&self, place: &str) -> Result<Bfd, Invalid> {
        let mut bfd = Bfd {
            multihop: self.multihop,
            ..Bfd::default()
        };
        if let Some(interval_ms) = self.interval_ms {
            let field = format!("{place}.bfd.interval_ms");
            let interval_ms = within(field, interval_ms, 10, 60_000)?;
            bfd.interval = Duration::from_millis(interval_ms.into());
        }
        if let Some(multiplier) = self.multiplier {
            let multiplier = within(format!("{place}.bfd.multiplier"), multiplier, 1, 255)?;
            bfd.multiplier = u8::try_from(multiplier).unwrap_or(u8::MAX);
        }
        Ok(bfd)
    }
}

impl FileGracefulRestart {
    pub(super) fn check(&self, place: &str) -> Result<GracefulRestart, Invalid> {
        let default = GracefulRestart::default();
        let time = |given: Option<u32>, field, default| match given {
            None => Ok(default),
            // Twelve bits, RFC 4724 §3.
            Some(given) => {
                let field = format!("{place}.graceful_restart.{field}");
                within(field, given, 0, 4095).map(secs)
            }
        };
        let restart = time(self.restart_secs, "restart_secs", default.restart)?;
        let redundant = time(
            self.redundant_restart_secs,
            "redundant_restart_secs",
            default.redundant,
        )?;
        Ok(GracefulRestart { restart, redundant })
    }
}

impl FileAddPath {
    pub(super) fn check(&self, place: &str) -> Result<AddPath, Invalid> {
        let list = |way: &str, names: &Option<Vec<String>>| {
            let place = format!("{place}.add_path.{way}");
            families(&place, names.as_deref().unwrap_or_default(), &SUPPORTED)
        };
        Ok(AddPath {
            receive: list("receive", &self.receive)?,
            send: list("send", &self.send)?,
            max: self.max.and_then(NonZeroU8::new),
        })
    }
}

impl FileAttributes {
    /// List by list.
    pub(super) fn lay_over(
        &self,
        below: AttributeLists,
        place: &str,
    ) -> Result<AttributeLists, Invalid> {
        let given = |way: &str, codes: &Option<Vec<u8>>, below: BTreeSet<u8>| {
            let Some(codes) = codes else {
                return Ok(below);
            };
            let typed = |code: &&u8| !AttributeFilter::covers(**code);
            if let Some(code) = codes.iter().find(typed) {
                return invalid(
                    format!("{place}.{way}"),
                    format!("attribute {code} is not one that is carried as it came"),
                );
            }
            Ok(codes.iter().copied().collect())
        };
        let lists = AttributeLists {
            pass: given("pass", &self.pass, below.pass)?,
            drop: given("drop", &self.drop, below.drop)?,
        };
        if let Some(code) = lists.pass.intersection(&lists.drop).next() {
            return invalid(
                format!("{place}.drop"),
                format!("attribute {code} is in pass too"),
            );
        }
        Ok(lists)
    }
}

impl FileGuard {
    pub(super) fn lay_over(&self, below: Guard, place: &str) -> Result<Guard, Invalid> {
        let rules = match self {
            Self::All(text) => return word(place.to_owned(), text, &GUARD_MODES).map(Guard::all),
            Self::Rules(rules) => rules,
        };
        let mut guard = below;
        for (rule, text) in rules {
            let mode = word(format!("{place}.{rule}"), text, &GUARD_MODES);
            let place_of = match rule.as_str() {
                "next_hop" => &mut guard.next_hop,
                "encapsulation" => &mut guard.encapsulation,
                "pmsi" => &mut guard.pmsi,
                "router_mac" => &mut guard.router_mac,
                "originator" => &mut guard.originator,
                other => {
                    return invalid(
                        place,
                        format!(
                            "{other:?} is not one of next_hop, encapsulation, pmsi, router_mac, originator"
                        ),
                    );
                }
            };
            *place_of = mode?;
        }
        Ok(guard)
    }
}

impl FileLimits {
    /// Limit by limit; 0 takes one away.
    pub(super) fn lay_over(&self, below: Limits, place: &str) -> Result<Limits, Invalid> {
        let mut limits = below;
        let change = |limit: &mut Option<u64>, given: Option<u64>| {
            if let Some(given) = given {
                *limit = Some(given).filter(|limit| *limit > 0);
            }
        };
        change(&mut limits.routes, self.routes);
        change(
            &mut limits.attribute_octets_total,
            self.attribute_octets_total,
        );
        change(&mut limits.macs_per_vni, self.macs_per_vni);
        change(&mut limits.ips_per_mac, self.ips_per_mac);
        let families = [
            (Family::L2VPN_EVPN, self.l2vpn_evpn),
            (Family::IPV4_UNICAST, self.ipv4_unicast),
            (Family::IPV6_UNICAST, self.ipv6_unicast),
            (Family::RTC, self.rtc),
        ];
        for (family, given) in families {
            lay(&mut limits.families, family, given);
        }
        for (name, given) in &self.types {
            let number = u8::from_str(name).ok().filter(|number| *number > 0);
            let Some(number) = number else {
                return invalid(
                    format!("{place}.type.{name}"),
                    format!("{name:?} is not an EVPN route type, 1 to 255"),
                );
            };
            lay(&mut limits.types, number, Some(*given));
        }
        if let Some(octets) = self.attribute_octets {
            let field = format!("{place}.attribute_octets");
            limits.attribute_octets = within(field, octets, 256, 65_535)?;
        }
        if let Some(rate) = self.updates_per_sec {
            limits.updates_per_sec = NonZeroU32::new(rate);
        }
        if let Some(percent) = self.warn_percent {
            let percent = within(format!("{place}.warn_percent"), percent, 1, 100)?;
            limits.warn_percent = u8::try_from(percent).unwrap_or(100);
        }
        if let Some(text) = &self.action {
            limits.action = word(format!("{place}.action"), text, &LIMIT_ACTIONS)?;
        }
        match self.restart_secs {
            Some(0) => return invalid(format!("{place}.restart_secs"), "must be at least 1"),
            Some(number) => limits.restart = secs(number),
            None => {}
        }
        Ok(limits)
    }
}

fn lay<K: Ord>(limits: &mut BTreeMap<K, u64>, key: K, given: Option<u64>) {
    match given {
        None => {}
        Some(0) => {
            limits.remove(&key);
        }
        Some(limit) => {
            limits.insert(key, limit);
        }
    }
}
