//! What gNMI shows of a real kernel, beside what `ip` says of it. Knows nothing of streams: those are tested over a recorded
//! plane.

use std::collections::BTreeSet;
use std::path::{Path as File, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value as Json;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use weft_proto::gnmi::g_nmi_client::GNmiClient;
use weft_proto::gnmi::typed_value::Value;
use weft_proto::gnmi::{GetRequest, Path, PathElem};

use crate::session::Session;
use crate::switch::{Switch, on_switch, say};

/// Everything below this, as plain JSON.
async fn tree(channel: Channel, path: &[&str]) -> Json {
    let elem = path.iter().map(|name| PathElem {
        name: (*name).into(),
        ..PathElem::default()
    });
    let request = GetRequest {
        path: vec![Path {
            elem: elem.collect(),
            ..Path::default()
        }],
        ..GetRequest::default()
    };
    let answer = GNmiClient::new(channel).get(request).await;
    let answer = answer.expect("served").into_inner();
    let update = &answer.notification[0].update[0];
    match update.val.clone().and_then(|typed| typed.value) {
        Some(Value::JsonVal(text)) => serde_json::from_slice(&text).expect("JSON"),
        other => panic!("{other:?}"),
    }
}

/// Group, next hop and weight of each member, and prefix and group of each route.
type Forwarding = (BTreeSet<(u64, u64, u64)>, BTreeSet<(String, u64)>);

fn list<'a>(json: &'a Json, name: &str) -> impl Iterator<Item = &'a Json> {
    json[name].as_array().into_iter().flatten()
}

fn number(json: &Json) -> u64 {
    json.as_u64().expect("a number")
}

async fn by_gnmi(channel: Channel) -> Forwarding {
    let instances = tree(channel, &["network-instances"]).await;
    let afts = &instances["network-instance"][0]["afts"];
    let groups = list(&afts["next-hop-groups"], "next-hop-group");
    let members = groups.flat_map(|group| {
        let members = list(&group["next-hops"], "next-hop").map(|member| &member["state"]);
        members.map(|it| {
            let group = number(&group["state"]["id"]);
            (group, number(&it["index"]), number(&it["weight"]))
        })
    });
    let entries = list(&afts["ipv4-unicast"], "ipv4-entry");
    let routes = entries.map(|entry| {
        let prefix = entry["prefix"].as_str().expect("text").to_owned();
        (prefix, number(&entry["state"]["next-hop-group"]))
    });
    (members.collect(), routes.collect())
}

fn by_ip(switch: &Switch) -> Forwarding {
    let groups = switch.groups();
    let groups = groups.as_array().cloned().unwrap_or_default();
    let members = groups.iter().flat_map(|group| {
        list(group, "group").map(|member| {
            // ip leaves out a weight of 1.
            let weight = member["weight"].as_u64().unwrap_or(1);
            (number(&group["id"]), number(&member["id"]), weight)
        })
    });
    let routes = switch.ip("-j route show table 155");
    let routes: Json = serde_json::from_str(&routes).expect("JSON");
    let routes = routes.as_array().into_iter().flatten().map(|route| {
        let prefix = route["dst"].as_str().expect("text").to_owned();
        (prefix, number(&route["nhid"]))
    });
    (members.collect(), routes.collect())
}

/// Waits until both say the same, and it holds.
async fn until(switch: &Switch, channel: Channel, holds: impl Fn(&Forwarding) -> bool) {
    let same = async {
        loop {
            let (gnmi, ip) = (by_gnmi(channel.clone()).await, by_ip(switch));
            if gnmi == ip && holds(&ip) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    if timeout(Duration::from_secs(20), same).await.is_err() {
        let gnmi = by_gnmi(channel).await;
        panic!("gNMI: {gnmi:?}, ip: {:?}", by_ip(switch));
    }
}

#[test]
fn gnmi_shows_the_groups_that_the_kernel_has() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let _session = Session::with_two_paths(agent.channel()).await;
        let channel = agent.channel();
        until(switch, channel.clone(), |(members, routes)| {
            members.len() == 2 && routes.len() == 1
        })
        .await;
        // FRR's route loses a next hop: a part of the group takes the place of the group.
        switch.ip("route replace 203.0.113.0/24 metric 20 via 192.0.2.2");
        until(switch, channel.clone(), |(members, routes)| {
            let group = routes.iter().next().map(|(_, group)| *group);
            let used = members.iter().filter(|(of, _, _)| Some(*of) == group);
            used.count() == 1
        })
        .await;
        switch.ip("route del 203.0.113.0/24 metric 20");
        until(switch, channel, |(_, routes)| routes.is_empty()).await;
    });
}

#[test]
fn gnmi_shows_the_interfaces_as_ip_does() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        switch.ip("link set far2 down");
        let shown = switch.ip("-j link");
        let links: Json = serde_json::from_str(&shown).expect("JSON");
        let links = links.as_array().expect("a list");
        let wanted: BTreeSet<(String, u64, String)> = links
            .iter()
            .map(|link| {
                let oper = match link["operstate"].as_str().expect("text") {
                    "LOWERLAYERDOWN" => "LOWER_LAYER_DOWN",
                    other => other,
                };
                let name = link["ifname"].as_str().expect("text");
                (name.to_owned(), number(&link["ifindex"]), oper.to_owned())
            })
            .collect();
        let interfaces = tree(agent.channel(), &["interfaces"]).await;
        let seen = list(&interfaces, "interface").map(|interface| {
            let state = &interface["state"];
            let text = |name: &str| state[name].as_str().expect("text").to_owned();
            (text("name"), number(&state["ifindex"]), text("oper-status"))
        });
        assert_eq!(seen.collect::<BTreeSet<_>>(), wanted);
        assert!(wanted.iter().any(|(_, _, oper)| oper != "UP"), "{wanted:?}");
        // The agent saw one of them go down.
        let changed = |name: &str| {
            let mut all = list(&interfaces, "interface");
            all.any(|it| it["name"] == name && it["state"]["last-change"].is_u64())
        };
        assert!(changed("up2") && !changed("up1"), "{interfaces}");
    });
}

#[test]
fn gnmi_leaves_out_the_pause_frames_of_a_driver_that_counts_none() {
    on_switch(async |switch| {
        let agent = switch.agent().await;
        let interfaces = tree(agent.channel(), &["interfaces"]).await;
        // The same reading has what the kernel does count.
        for up in list(&interfaces, "interface") {
            assert!(up["state"]["counters"]["in-octets"].is_u64(), "{up}");
            assert!(up["ethernet"]["state"]["counters"].is_null(), "{up}");
        }
        assert!(list(&interfaces, "interface").count() >= 4);
    });
}

/// lldpd at some ports of this namespace, with a name of its own.
struct Lldpd {
    child: Child,
    socket: PathBuf,
    configuration: PathBuf,
}

impl Lldpd {
    fn start(name: &str, ports: &str) -> Self {
        let file = |end: &str| {
            let name = format!("weft-{}-{name}.{end}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let (socket, configuration) = (file("socket"), file("conf"));
        let text = format!("configure system hostname {name}\nconfigure lldp tx-interval 1\n");
        std::fs::write(&configuration, text).expect("writable");
        let child = Command::new("lldpd")
            // In the foreground, and silent.
            .args(["-dd", "-I", ports, "-C", ports, "-u"])
            .arg(&socket)
            .arg("-O")
            .arg(&configuration)
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("started");
        Self {
            child,
            socket,
            configuration,
        }
    }
}

impl Drop for Lldpd {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        // Its monitor ends the process that has given its rights up.
        let pid = nix::unistd::Pid::from_raw(pid);
        let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _reaped = self.child.wait();
        for file in [&self.socket, &self.configuration] {
            let _gone = std::fs::remove_file(file);
        }
    }
}

/// By interface: what neighbours are called, and what they say of their ports.
async fn neighbors(channel: Channel) -> BTreeSet<(String, String, String)> {
    // The root: without a neighbour there is no /lldp.
    let lldp = &tree(channel, &[]).await["lldp"];
    let interfaces: Vec<&Json> = list(&lldp["interfaces"], "interface").collect();
    let neighbors = interfaces.iter().flat_map(|interface| {
        list(&interface["neighbors"], "neighbor").map(|neighbor| {
            let state = &neighbor["state"];
            let text = |json: &Json| json.as_str().unwrap_or("absent").to_owned();
            assert_eq!(text(&state["port-id"]).len(), "00:00:5e:00:53:01".len());
            assert_eq!(text(&state["chassis-id"]).len(), 17);
            let (name, port) = (&state["system-name"], &state["port-description"]);
            (text(&interface["name"]), text(name), text(port))
        })
    });
    neighbors.collect()
}

#[test]
fn gnmi_shows_the_neighbours_that_lldpd_hears() {
    if !["/usr/sbin/lldpd", "/usr/local/sbin/lldpd"]
        .map(File::new)
        .iter()
        .any(|it| it.exists())
    {
        say("NOT TESTED: LLDP needs lldpd (Debian: lldpd)");
        return;
    }
    on_switch(async |switch| {
        let own = Lldpd::start("leaf1", "up1,up2");
        let _spine1 = Lldpd::start("spine1", "far1");
        let spine2 = Lldpd::start("spine2", "far2");
        let socket = own.socket.to_str().expect("text");
        let agent = switch.daemon(&["--lldpd-socket", socket]);
        agent.ready().await;
        let heard = |pairs: &[(&str, &str, &str)]| -> BTreeSet<(String, String, String)> {
            let owned =
                |(a, b, c): &(&str, &str, &str)| (a.to_string(), b.to_string(), c.to_string());
            pairs.iter().map(owned).collect()
        };
        let both = heard(&[("up1", "spine1", "far1"), ("up2", "spine2", "far2")]);
        wait_for(agent.channel(), &both).await;
        // Somebody moves a cable to another switch: with the carrier, the neighbour is forgotten.
        switch.ip("link set far2 down");
        wait_for(agent.channel(), &heard(&[("up1", "spine1", "far1")])).await;
        drop(spine2);
        let _spine3 = Lldpd::start("spine3", "far2");
        switch.ip("link set far2 up");
        let other = heard(&[("up1", "spine1", "far1"), ("up2", "spine3", "far2")]);
        wait_for(agent.channel(), &other).await;
        agent.stop().await;
    });
}

/// Waits until these are the neighbours.
async fn wait_for(channel: Channel, wanted: &BTreeSet<(String, String, String)>) {
    let same = async {
        while neighbors(channel.clone()).await != *wanted {
            sleep(Duration::from_millis(100)).await;
        }
    };
    if timeout(Duration::from_secs(20), same).await.is_err() {
        panic!("{wanted:?}, not {:?}", neighbors(channel).await);
    }
}
