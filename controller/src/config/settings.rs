//! The values of a configuration as lines of text: under which name an operator finds each, what it is,
//! and what a change of it costs. Knows no file and no session.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use weft_bgp::family::Family;

use super::check::MOVE_ACTIONS;
use super::group::{AddPath, AttributeLists, Guard, Limits, PeerGroup, RouteTargetFilter};
use super::knobs::{GUARD_MODES, LIMIT_ACTIONS, LINK_BANDWIDTHS, ROUTE_TARGET_FILTERS};
use super::{Bgp, Bmp, Config, Moves, Switches, TcpAoKey};

use text::{
    array, as_table, asn, bfd_table, hops, list, multihop, or_false, prefixes, quoted, restart,
    secs, table, tcp_ao, word,
};

pub use effect::{Effect, Reach};

mod effect;
mod text;

/// One value of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the file; inside a table with a dot: `limits.routes`.
    pub knob: &'static str,
    /// As it is written in the file.
    pub value: String,
    /// When a change of it holds.
    pub effect: Effect,
    /// Who must be told of a change.
    pub reach: Reach,
}

/// Every knob of a peer or a group, always the same ones in the same order. Destructured, so that a new
/// one does not compile until someone decides what a change of it means.
pub fn of_group(group: &PeerGroup) -> Vec<Setting> {
    let mut settings = of_session(group);
    settings.extend(of_routes(group));
    settings.extend(of_add_path(&group.add_path));
    settings.extend(of_guard(&group.guard));
    settings.extend(of_limits(&group.limits));
    settings
}

/// Whether and how there is a session. What is unnamed here is named in `of_routes`.
fn of_session(group: &PeerGroup) -> Vec<Setting> {
    let PeerGroup {
        name: _,
        description,
        shutdown,
        remote_asn,
        families,
        hold,
        connect_retry,
        passive,
        port,
        route_reflector_client: _,
        route_server_client: _,
        local_as,
        allow_as_in: _,
        source_address,
        password_file,
        tcp_ao,
        ttl,
        bfd,
        graceful_restart,
        long_lived_secs,
        graceful_shutdown: _,
        add_path: _,
        software_version,
        extended_messages,
        fqdn,
        route_target_filter: _,
        profile: _,
        opaque_relay: _,
        strict: _,
        guard: _,
        link_bandwidth: _,
        attributes: _,
        limits: _,
    } = group;
    vec![
        reader("description", quoted(description.as_deref().unwrap_or(""))),
        down("shutdown", shutdown.is_some()),
        reader(
            "shutdown_message",
            quoted(shutdown.as_deref().unwrap_or("")),
        ),
        opened("remote_asn", asn(*remote_asn)),
        opened("families", list(families)),
        opened("hold_secs", secs(*hold)),
        live("connect_retry_secs", secs(*connect_retry)),
        live("passive", passive),
        reader("port", port),
        opened("local_as", or_false(local_as.map(as_table))),
        opened("source_address", or_false(source_address.map(quoted))),
        key(or_false(
            password_file.as_ref().map(|path| quoted(path.display())),
        )),
        signature(tcp_ao),
        later("ttl_security_hops", hops(*ttl)),
        later("ebgp_multihop", multihop(*ttl)),
        watch(or_false(bfd.as_ref().map(|bfd| bfd_table(bfd, *ttl)))),
        opened("graceful_restart", or_false(graceful_restart.map(restart))),
        opened("long_lived_secs", long_lived_secs),
        later("software_version", software_version),
        opened("extended_messages", extended_messages),
        later("fqdn", fqdn),
    ]
}

/// What passes over the session. What is unnamed here is named in `of_session`, or is a table.
fn of_routes(group: &PeerGroup) -> Vec<Setting> {
    let PeerGroup {
        name: _,
        description: _,
        shutdown: _,
        remote_asn: _,
        families,
        hold: _,
        connect_retry: _,
        passive: _,
        port: _,
        route_reflector_client,
        route_server_client,
        local_as: _,
        allow_as_in,
        source_address: _,
        password_file: _,
        tcp_ao: _,
        ttl: _,
        bfd: _,
        graceful_restart: _,
        long_lived_secs: _,
        graceful_shutdown,
        add_path: _,
        software_version: _,
        extended_messages: _,
        fqdn: _,
        route_target_filter,
        profile,
        opaque_relay,
        strict,
        guard: _,
        link_bandwidth,
        attributes: AttributeLists { pass, drop },
        limits: _,
    } = group;
    vec![
        kind("route_reflector_client", route_reflector_client),
        kind("route_server_client", route_server_client),
        inbound("allow_as_in", allow_as_in),
        export("graceful_shutdown", graceful_shutdown),
        filter(*route_target_filter, families),
        export(
            "profile",
            quoted(profile.map_or_else(|| "auto".to_owned(), |name| name.to_string())),
        ),
        kind("opaque_relay", opaque_relay),
        inbound("strict", strict),
        export(
            "link_bandwidth",
            quoted(word(*link_bandwidth, &LINK_BANDWIDTHS)),
        ),
        export("attributes.pass", codes(pass)),
        export("attributes.drop", codes(drop)),
    ]
}

fn codes(codes: &BTreeSet<u8>) -> String {
    array(codes.iter().map(ToString::to_string).collect())
}

fn of_add_path(add_path: &AddPath) -> [Setting; 3] {
    let AddPath { receive, send, max } = add_path;
    [
        opened("add_path.receive", list(receive)),
        opened("add_path.send", list(send)),
        export("add_path.max", max.map_or(0, u8::from)),
    ]
}

fn of_guard(guard: &Guard) -> [Setting; 5] {
    let Guard {
        next_hop,
        encapsulation,
        pmsi,
        router_mac,
        originator,
    } = guard;
    let mode = |mode| quoted(word(mode, &GUARD_MODES));
    [
        inbound("guard.next_hop", mode(*next_hop)),
        inbound("guard.encapsulation", mode(*encapsulation)),
        inbound("guard.pmsi", mode(*pmsi)),
        inbound("guard.router_mac", mode(*router_mac)),
        inbound("guard.originator", mode(*originator)),
    ]
}

fn of_limits(limits: &Limits) -> Vec<Setting> {
    let Limits {
        routes,
        families,
        types,
        macs_per_vni,
        ips_per_mac,
        attribute_octets,
        attribute_octets_total,
        updates_per_sec,
        warn_percent,
        action,
        restart,
    } = limits;
    let family = |family| families.get(&family).copied().unwrap_or(0);
    let types = types
        .iter()
        .map(|(number, limit)| format!("\"{number}\" = {limit}"));
    vec![
        inbound("limits.routes", routes.unwrap_or(0)),
        inbound("limits.l2vpn-evpn", family(Family::L2VPN_EVPN)),
        inbound("limits.ipv4-unicast", family(Family::IPV4_UNICAST)),
        inbound("limits.ipv6-unicast", family(Family::IPV6_UNICAST)),
        inbound("limits.rtc", family(Family::RTC)),
        inbound("limits.type", table(types.collect())),
        inbound("limits.macs_per_vni", macs_per_vni.unwrap_or(0)),
        inbound("limits.ips_per_mac", ips_per_mac.unwrap_or(0)),
        inbound("limits.attribute_octets", attribute_octets),
        inbound(
            "limits.attribute_octets_total",
            attribute_octets_total.unwrap_or(0),
        ),
        inbound(
            "limits.updates_per_sec",
            updates_per_sec.map_or(0, u32::from),
        ),
        inbound("limits.warn_percent", warn_percent),
        inbound("limits.action", quoted(word(*action, &LIMIT_ACTIONS))),
        inbound("limits.restart_secs", secs(*restart)),
    ]
}

/// What belongs to no peer: each line with the table that it stands in.
pub fn of_daemon(config: &Config) -> Vec<(&'static str, Setting)> {
    let Config {
        replica,
        replicas,
        bgp,
        bmp: _,
        switches: _,
        api,
        metrics,
    } = config;
    let Bgp {
        local,
        listen,
        groups: _,
        listen_ranges: _,
        peers: _,
        dynamic_peers_max,
        route_octets_total,
        vteps,
        moves,
    } = bgp;
    // A lone replica needs no address, and is not listed then.
    let members = replicas.iter().filter_map(|member| {
        let address = member.address.as_ref()?;
        Some(format!("{{ id = {}, address = \"{address}\" }}", member.id))
    });
    let mut settings = vec![
        ("replica", fixed("id", replica.id)),
        (
            "replica",
            fixed("data_dir", quoted(replica.data_dir.display())),
        ),
        (
            "replica",
            fixed("listen", or_false(replica.listen.map(quoted))),
        ),
        ("weftd", fixed("replicas", array(members.collect()))),
        ("bgp", fixed("asn", local.asn)),
        ("bgp", fixed("router_id", quoted(local.router_id))),
        ("bgp", fixed("cluster_id", quoted(local.cluster_id))),
        (
            "bgp",
            fixed("listen", array(listen.iter().map(quoted).collect())),
        ),
        ("bgp", reader("dynamic_peers_max", dynamic_peers_max)),
        (
            "bgp",
            reader("route_octets_total", route_octets_total.unwrap_or(0)),
        ),
        ("bgp", reader("vteps", prefixes(vteps))),
    ];
    settings.extend(of_moves(moves).map(|setting| ("bgp.moves", setting)));
    settings.extend(of_switches(&config.switches).map(|setting| ("switches", setting)));
    settings.extend([
        ("api", fixed("listen", quoted(api.listen))),
        ("api", fixed("insecure", api.insecure)),
        (
            "api",
            fixed("hosts", array(api.hosts.iter().map(quoted).collect())),
        ),
        ("metrics", fixed("listen", or_false(metrics.map(quoted)))),
    ]);
    settings
}

fn of_moves(moves: &Moves) -> [Setting; 4] {
    let Moves {
        window,
        moves,
        action,
        recover,
    } = moves;
    [
        reader("window_secs", secs(*window)),
        reader("moves", moves),
        reader("action", quoted(word(*action, &MOVE_ACTIONS))),
        reader("recover_secs", secs(*recover)),
    ]
}

fn of_switches(switches: &Switches) -> [Setting; 3] {
    let Switches { ca_file, login } = switches;
    let file = |path: &PathBuf| quoted(path.display());
    let username = login.as_ref().map(|login| quoted(&login.username));
    let password_file = login.as_ref().map(|login| file(&login.password_file));
    [
        reader("ca_file", or_false(ca_file.as_ref().map(file))),
        reader("username", or_false(username)),
        reader("password_file", or_false(password_file)),
    ]
}

/// A collector.
pub fn of_bmp(bmp: &Bmp) -> Vec<Setting> {
    let Bmp {
        name: _,
        address,
        adj_rib_in,
        loc_rib,
        adj_rib_out,
        statistics,
    } = bmp;
    vec![
        reader("address", quoted(address)),
        reader("adj_rib_in", adj_rib_in),
        reader("loc_rib", loc_rib),
        reader("adj_rib_out", adj_rib_out),
        reader("statistics_secs", secs(*statistics)),
    ]
}

/// To or from memberships the OPEN has another family, unless that is there anyway.
fn filter(mode: RouteTargetFilter, families: &[Family]) -> Setting {
    let effect = match mode {
        RouteTargetFilter::Rtc if !families.contains(&Family::RTC) => Effect::SessionReset,
        RouteTargetFilter::Rtc | RouteTargetFilter::Off | RouteTargetFilter::Auto => {
            Effect::Applied
        }
    };
    let value = quoted(word(mode, &ROUTE_TARGET_FILTERS));
    setting("route_target_filter", value, effect, Reach::Interest)
}

fn setting(knob: &'static str, value: impl fmt::Display, effect: Effect, reach: Reach) -> Setting {
    Setting {
        knob,
        value: value.to_string(),
        effect,
        reach,
    }
}

fn reader(knob: &'static str, value: impl fmt::Display) -> Setting {
    setting(knob, value, Effect::Applied, Reach::Reader)
}

fn live(knob: &'static str, value: impl fmt::Display) -> Setting {
    setting(knob, value, Effect::Applied, Reach::Session)
}

/// Settled by the OPEN.
fn opened(knob: &'static str, value: impl fmt::Display) -> Setting {
    setting(knob, value, Effect::SessionReset, Reach::Session)
}

fn later(knob: &'static str, value: impl fmt::Display) -> Setting {
    setting(knob, value, Effect::NextSession, Reach::Session)
}

fn down(knob: &'static str, value: impl fmt::Display) -> Setting {
    setting(knob, value, Effect::SessionReset, Reach::Administration)
}

fn key(value: impl fmt::Display) -> Setting {
    setting("password_file", value, Effect::Applied, Reach::Key)
}

/// An open connection changes its keys, but does not begin or cease to have some.
fn signature(keys: &[TcpAoKey]) -> Setting {
    let effect = match keys.is_empty() {
        true => Effect::SessionReset,
        false => Effect::Applied,
    };
    setting("tcp_ao", tcp_ao(keys), effect, Reach::Key)
}

fn watch(value: impl fmt::Display) -> Setting {
    setting("bfd", value, Effect::Applied, Reach::Watch)
}

fn export(knob: &'static str, value: impl fmt::Display) -> Setting {
    setting(knob, value, Effect::Applied, Reach::Export)
}

fn inbound(knob: &'static str, value: impl fmt::Display) -> Setting {
    setting(knob, value, Effect::Applied, Reach::Inbound)
}

fn kind(knob: &'static str, value: impl fmt::Display) -> Setting {
    setting(knob, value, Effect::Applied, Reach::Kind)
}

fn fixed(knob: &'static str, value: impl fmt::Display) -> Setting {
    setting(knob, value, Effect::NeedsRestart, Reach::Reader)
}
