//! The knobs of a peer group or a peer, checked and laid over what is below them: the defaults under a
//! group, the group under a peer. Knows no session.

use std::str::FromStr;

use weft_bgp::family::Family;
use weft_bgp::reflect::LinkBandwidthForm;
use weft_bgp::session::RemoteAsn;
use weft_evpn::profile::UnknownProfile;

use super::SUPPORTED;
use super::check::{Invalid, invalid, secs, within, word};
use super::file::{FileKnobs, FileTcpAo, OrFlag};
use super::group::{
    Bfd, GracefulRestart, GuardMode, LimitAction, PeerGroup, RouteTargetFilter, Ttl, in_order,
};

mod tables;

impl FileKnobs {
    /// What holds where these knobs lie over `below`; `place` is where they stand in the file.
    pub(super) fn lay_over(
        &self,
        below: PeerGroup,
        place: &str,
        local_asn: u32,
    ) -> Result<PeerGroup, Invalid> {
        let mut group = below;
        self.administration(&mut group, place)?;
        self.session(&mut group, place)?;
        self.capabilities(&mut group, place)?;
        self.transport(&mut group, place)?;
        self.reflection(&mut group, place, local_asn)?;
        self.admission(&mut group, place)?;
        agree(&group, place, local_asn)?;
        Ok(group)
    }

    fn administration(&self, group: &mut PeerGroup, place: &str) -> Result<(), Invalid> {
        if let Some(description) = &self.description {
            group.description = Some(description.clone()).filter(|text| !text.is_empty());
        }
        let down = self.shutdown.unwrap_or_else(|| group.shutdown.is_some());
        let message = self.shutdown_message.clone();
        if message
            .as_ref()
            .is_some_and(|text| text.len() > SHUTDOWN_MESSAGE_MAX)
        {
            return invalid(
                format!("{place}.shutdown_message"),
                "is longer than 255 octets (RFC 9003)",
            );
        }
        let below = group.shutdown.take();
        group.shutdown = down.then(|| message.or(below).unwrap_or_default());
        Ok(())
    }

    fn session(&self, group: &mut PeerGroup, place: &str) -> Result<(), Invalid> {
        if let Some(text) = &self.remote_asn {
            let resolved = text.resolve();
            group.remote_asn =
                resolved.or_else(|reason| invalid(format!("{place}.remote_asn"), reason))?;
        }
        if let Some(names) = &self.families {
            group.families = families(&format!("{place}.families"), names, &SUPPORTED)?;
            if group.families.is_empty() {
                return invalid(format!("{place}.families"), "names no family");
            }
        }
        if let Some(hold_secs) = self.hold_secs {
            if matches!(hold_secs, 1 | 2) {
                return invalid(
                    format!("{place}.hold_secs"),
                    "must be 0 or at least 3 (RFC 4271 §4.2)",
                );
            }
            group.hold = secs(hold_secs.into());
        }
        if let Some(retry_secs) = self.connect_retry_secs {
            if retry_secs == 0 {
                return invalid(format!("{place}.connect_retry_secs"), "must be at least 1");
            }
            group.connect_retry = secs(retry_secs.into());
        }
        if self.port == Some(0) {
            return invalid(format!("{place}.port"), "must be at least 1");
        }
        group.port = self.port.unwrap_or(group.port);
        group.passive = self.passive.unwrap_or(group.passive);
        Ok(())
    }

    fn capabilities(&self, group: &mut PeerGroup, place: &str) -> Result<(), Invalid> {
        match &self.graceful_restart {
            None => {}
            Some(OrFlag::Flag(on)) => {
                group.graceful_restart = on.then(GracefulRestart::default);
            }
            Some(OrFlag::Given(given)) => group.graceful_restart = Some(given.check(place)?),
        }
        if let Some(long_lived_secs) = self.long_lived_secs {
            let field = format!("{place}.long_lived_secs");
            group.long_lived_secs = within(field, long_lived_secs, 0, LONG_LIVED_SECS_MAX)?;
        }
        if let Some(given) = &self.add_path {
            group.add_path = given.check(place)?;
        }
        let Self {
            software_version,
            extended_messages,
            fqdn,
            ..
        } = self;
        group.software_version = software_version.unwrap_or(group.software_version);
        group.extended_messages = extended_messages.unwrap_or(group.extended_messages);
        group.fqdn = fqdn.unwrap_or(group.fqdn);
        Ok(())
    }

    fn transport(&self, group: &mut PeerGroup, place: &str) -> Result<(), Invalid> {
        match &self.source_address {
            None => {}
            Some(OrFlag::Flag(flag)) => {
                off(format!("{place}.source_address"), *flag)?;
                group.source_address = None;
            }
            Some(OrFlag::Given(address)) => group.source_address = Some(*address),
        }
        match &self.password_file {
            None => {}
            Some(OrFlag::Flag(flag)) => {
                off(format!("{place}.password_file"), *flag)?;
                group.password_file = None;
            }
            Some(OrFlag::Given(path)) if path.as_os_str().is_empty() => {
                return invalid(format!("{place}.password_file"), "is empty");
            }
            Some(OrFlag::Given(path)) => group.password_file = Some(path.clone()),
        }
        match &self.tcp_ao {
            None => {}
            Some(OrFlag::Flag(flag)) => {
                off(format!("{place}.tcp_ao"), *flag)?;
                group.tcp_ao = Vec::new();
            }
            Some(OrFlag::Given(all)) => group.tcp_ao = FileTcpAo::check_all(all, place)?,
        }
        match &self.bfd {
            None => {}
            Some(OrFlag::Flag(on)) => group.bfd = on.then(Bfd::default),
            Some(OrFlag::Given(given)) => group.bfd = Some(given.check(place)?),
        }
        self.ttl(group, place)
    }

    fn ttl(&self, group: &mut PeerGroup, place: &str) -> Result<(), Invalid> {
        let hops = match &self.ttl_security_hops {
            None => None,
            Some(OrFlag::Flag(flag)) => {
                off(format!("{place}.ttl_security_hops"), *flag)?;
                if matches!(group.ttl, Ttl::Gtsm(_)) {
                    group.ttl = Ttl::Multihop(u8::MAX);
                }
                None
            }
            Some(OrFlag::Given(hops)) => {
                let field = format!("{place}.ttl_security_hops");
                Some(within(field, *hops, 1, 254)?)
            }
        };
        if let (Some(_), Some(_)) = (hops, self.ebgp_multihop) {
            return invalid(
                format!("{place}.ttl_security_hops"),
                "excludes ebgp_multihop",
            );
        }
        if let Some(hops) = hops {
            group.ttl = Ttl::Gtsm(u8::try_from(hops).unwrap_or(u8::MAX - 1));
        }
        if let Some(ttl) = self.ebgp_multihop {
            let ttl = within(format!("{place}.ebgp_multihop"), ttl, 1, 255)?;
            group.ttl = Ttl::Multihop(u8::try_from(ttl).unwrap_or(u8::MAX));
        }
        Ok(())
    }

    fn reflection(
        &self,
        group: &mut PeerGroup,
        place: &str,
        local_asn: u32,
    ) -> Result<(), Invalid> {
        let Self {
            route_reflector_client,
            route_server_client,
            graceful_shutdown,
            opaque_relay,
            ..
        } = self;
        group.route_reflector_client =
            route_reflector_client.unwrap_or(group.route_reflector_client);
        group.route_server_client = route_server_client.unwrap_or(group.route_server_client);
        group.graceful_shutdown = graceful_shutdown.unwrap_or(group.graceful_shutdown);
        group.opaque_relay = opaque_relay.unwrap_or(group.opaque_relay);
        match &self.local_as {
            None => {}
            Some(OrFlag::Flag(flag)) => {
                off(format!("{place}.local_as"), *flag)?;
                group.local_as = None;
            }
            Some(OrFlag::Given(given)) => group.local_as = Some(given.check(place, local_asn)?),
        }
        if let Some(text) = &self.route_target_filter {
            let field = format!("{place}.route_target_filter");
            group.route_target_filter = word(field, text, &ROUTE_TARGET_FILTERS)?;
        }
        if let Some(text) = &self.profile {
            group.profile = match text.as_str() {
                "auto" => None,
                name => Some(name.parse().or_else(|error: UnknownProfile| {
                    invalid(
                        format!("{place}.profile"),
                        format!("{name:?}: {error}, auto"),
                    )
                })?),
            };
        }
        if let Some(text) = &self.link_bandwidth {
            let field = format!("{place}.link_bandwidth");
            group.link_bandwidth = word(field, text, &LINK_BANDWIDTHS)?;
        }
        if let Some(given) = &self.attributes {
            let lists = std::mem::take(&mut group.attributes);
            group.attributes = given.lay_over(lists, &format!("{place}.attributes"))?;
        }
        Ok(())
    }

    fn admission(&self, group: &mut PeerGroup, place: &str) -> Result<(), Invalid> {
        if let Some(count) = self.allow_as_in {
            let count = within(format!("{place}.allow_as_in"), count, 0, ALLOW_AS_IN_MAX)?;
            group.allow_as_in = u8::try_from(count).unwrap_or_default();
        }
        group.strict = self.strict.unwrap_or(group.strict);
        if let Some(given) = &self.guard {
            group.guard = given.lay_over(group.guard, &format!("{place}.guard"))?;
        }
        if let Some(given) = &self.limits {
            let limits = std::mem::take(&mut group.limits);
            group.limits = given.lay_over(limits, &format!("{place}.limits"))?;
        }
        Ok(())
    }
}

/// What no knob says alone.
fn agree(group: &PeerGroup, place: &str, local_asn: u32) -> Result<(), Invalid> {
    let own_asn = group.local_as.map_or(local_asn, |local_as| local_as.asn);
    if let RemoteAsn::Exactly(asn) = group.remote_asn {
        if asn == own_asn && group.route_server_client {
            return invalid(
                format!("{place}.route_server_client"),
                "the group is iBGP; use route_reflector_client (RFC 4456)",
            );
        }
        if asn != own_asn && group.route_reflector_client {
            return invalid(
                format!("{place}.route_reflector_client"),
                "the group is eBGP; use route_server_client (RFC 7947)",
            );
        }
    }
    if group.password_file.is_some() && !group.tcp_ao.is_empty() {
        return invalid(
            format!("{place}.tcp_ao"),
            "excludes password_file (TCP-MD5, RFC 2385); false takes away what the group has",
        );
    }
    if group.long_lived_secs > 0 && group.graceful_restart.is_none() {
        return invalid(
            format!("{place}.long_lived_secs"),
            "needs graceful_restart (RFC 9494 §4.2)",
        );
    }
    let offered = group.offered();
    let ways = [
        ("receive", &group.add_path.receive),
        ("send", &group.add_path.send),
    ];
    for (way, families) in ways {
        if let Some(family) = families.iter().find(|family| !offered.contains(family)) {
            return invalid(
                format!("{place}.add_path.{way}"),
                format!("{family} is not among the families"),
            );
        }
    }
    if group.opaque_relay && !group.families.contains(&Family::L2VPN_EVPN) {
        return invalid(
            format!("{place}.opaque_relay"),
            "l2vpn-evpn is not among the families",
        );
    }
    Ok(())
}

/// Of a flag in the place of a value only `false` means something.
pub(super) fn off(field: String, flag: bool) -> Result<(), Invalid> {
    match flag {
        true => invalid(field, "must be a value, or false for none"),
        false => Ok(()),
    }
}

fn families(place: &str, names: &[String], known: &[Family]) -> Result<Vec<Family>, Invalid> {
    let mut families = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let family = Family::from_str(name)
            .ok()
            .filter(|family| known.contains(family));
        let Some(family) = family else {
            let known: Vec<_> = known.iter().map(ToString::to_string).collect();
            return invalid(
                format!("{place}[{at}]"),
                format!("{name:?} is not one of {}", known.join(", ")),
            );
        };
        families.push(family);
    }
    Ok(in_order(families))
}

pub(super) const ROUTE_TARGET_FILTERS: [(&str, RouteTargetFilter); 3] = [
    ("off", RouteTargetFilter::Off),
    ("rtc", RouteTargetFilter::Rtc),
    ("auto", RouteTargetFilter::Auto),
];
pub(super) const LINK_BANDWIDTHS: [(&str, Option<LinkBandwidthForm>); 4] = [
    ("by-profile", None),
    ("as-is", Some(LinkBandwidthForm::AsIs)),
    ("transitive", Some(LinkBandwidthForm::Transitive)),
    ("non-transitive", Some(LinkBandwidthForm::NonTransitive)),
];
pub(super) const GUARD_MODES: [(&str, GuardMode); 3] = [
    ("off", GuardMode::Off),
    ("warn", GuardMode::Warn),
    ("reject", GuardMode::Reject),
];
pub(super) const LIMIT_ACTIONS: [(&str, LimitAction); 3] = [
    ("drop-new", LimitAction::DropNew),
    ("warn", LimitAction::Warn),
    ("reset", LimitAction::Reset),
];
/// RFC 9003 §2: one octet of length.
const SHUTDOWN_MESSAGE_MAX: usize = 255;
/// RFC 9494 §3.1: 24 bits.
const LONG_LIVED_SECS_MAX: u32 = 0xff_ffff;
/// More often is a loop, whatever the operator thinks. FRR's bound.
const ALLOW_AS_IN_MAX: u32 = 10;
