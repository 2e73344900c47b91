// What this page knows of the fabric, and what of it is wrong. Pure: no element, no call.

/** What is known before anything was heard. */
export function empty() {
  return {
    switches: new Map(), links: new Map(), hosts: new Map(), hostPorts: new Map(),
    replicas: [], peers: [], agents: [], duplicates: [], vteps: [], fabric: undefined,
    header: undefined, heard: false, connected: false, whyNot: "", at: undefined, failed: {},
  };
}

const KINDS = {
  RESOURCE_KIND_SWITCH: ["switches", "switch_resource"],
  RESOURCE_KIND_LINK: ["links", "link_resource"],
  RESOURCE_KIND_HOST: ["hosts", "host_resource"],
  RESOURCE_KIND_HOST_PORT: ["hostPorts", "host_port_resource"],
};

/** What a peer is called at this replica. */
const called = (peer) => peer.session?.address ?? peer.router_id;

/** Takes what an answer of the watch says of peers. */
function followPeers(model, answer) {
  const peers = new Map(answer.peer_snapshot ? [] : model.peers.map((it) => [called(it), it]));
  for (const { change_type: change, peer } of answer.peer_changes ?? []) {
    if (change === "CHANGE_TYPE_DELETED") peers.delete(called(peer));
    else peers.set(called(peer), peer);
  }
  model.peers = [...peers.values()];
  model.peersHeader = answer.header ?? model.peersHeader;
}

/** Takes an answer of the watch. */
export function follow(model, answer, gathering) {
  if (answer.peer_snapshot || answer.peer_changes?.length) followPeers(model, answer);
  const changes = answer.changes ?? [];
  // A snapshot replaces what was known, once it is whole.
  const target = answer.snapshot ? gathering : model;
  for (const change of changes) {
    const [map, field] = KINDS[change.kind] ?? [];
    if (!map) continue;
    if (change.change_type === "CHANGE_TYPE_DELETED") target[map].delete(change.name);
    else target[map].set(change.name, change[field]);
  }
  if (answer.header) {
    if (answer.snapshot) {
      for (const [map] of Object.values(KINDS)) {
        model[map] = gathering[map];
        gathering[map] = new Map();
      }
    }
    model.header = answer.header;
    model.heard = true;
  }
  return changes.length > 0 || answer.snapshot;
}

const SEVERITIES = { bad: 0, warn: 1 };

/** What is wrong: `level` bad or warn, what, a text, and where to look. */
export function wrong(model) {
  const found = [];
  const add = (level, what, text, href) => found.push({ level, what, text, href });
  if (!model.connected && model.heard) add("bad", "This page", `is cut off: ${model.whyNot}. What it shows is old.`);
  const leader = model.replicas.find((it) => it.role === "REPLICA_ROLE_LEADER");
  if (model.replicas.length && !leader) add("bad", "Replicas", "have no leader: nothing can be changed", "#/status");
  for (const replica of model.replicas) {
    const name = `Replica ${replica.id}`;
    if (replica.role === "REPLICA_ROLE_UNREACHABLE") add("bad", name, "is not heard of", "#/status");
    else if (lag(replica, leader) > LAG_MAX) add("warn", name, `is ${lag(replica, leader)} entries behind`, "#/status");
    if (replica.degraded_reason) add("bad", name, replica.degraded_reason, "#/status");
  }
  for (const peer of model.peers) {
    const session = peer.session;
    const name = `Peer ${session?.address ?? peer.router_id}`;
    const href = `#/peers/${encodeURIComponent(session?.address ?? peer.router_id)}`;
    if (session && session.state !== "SESSION_STATE_ESTABLISHED") {
      const error = session.last_error ? `: ${session.last_error}` : "";
      const elsewhere = (peer.session_replica_ids ?? []).length;
      const text = `is ${word(session.state, "SESSION_STATE_")} at this replica${elsewhere ? `, established at ${elsewhere} other` : ""}${error}`;
      add(elsewhere ? "warn" : "bad", name, text, href);
    }
    if (peer.staleness && !["STALENESS_UNSPECIFIED", "STALENESS_FRESH"].includes(peer.staleness)) {
      add("warn", name, `has routes kept as ${word(peer.staleness, "STALENESS_")}`, href);
    }
  }
  for (const link of model.links.values()) {
    if (link.admin_state === "ADMIN_STATE_DOWN") add("warn", `Link ${link.name}`, "is declared down", `#/map?link=${encodeURIComponent(link.name)}`);
  }
  const announced = new Set(model.vteps.map((it) => it.address));
  if (!model.failed.vteps) {
    for (const leaf of leaves(model)) {
      if (leaf.vtep_address && !announced.has(leaf.vtep_address)) {
        add("bad", `Leaf ${leaf.name}`, `announces nothing of its VTEP ${leaf.vtep_address}`, `#/map?switch=${encodeURIComponent(leaf.name)}`);
      }
    }
  }
  for (const agent of model.agents) {
    if (!["SWITCH_AGENT_STATE_IN_SYNC", "SWITCH_AGENT_STATE_SHADOW", "SWITCH_AGENT_STATE_OFF"].includes(agent.state)) {
      add("warn", `Agent of ${agent.switch_name}`, `${word(agent.state, "SWITCH_AGENT_STATE_")}${agent.last_error ? `: ${agent.last_error}` : ""}`, `#/plan/${encodeURIComponent(agent.switch_name)}`);
    }
  }
  for (const mac of model.duplicates) {
    const where = mac.vtep_address ?? mac.esi ?? "nowhere";
    add("warn", `MAC ${mac.mac}`, `moved too often in VNI ${mac.vni}; ${mac.frozen ? `frozen at ${where}` : `now at ${where}`}`, `#/glass/${encodeURIComponent(mac.mac)}`);
  }
  for (const [what, error] of Object.entries(model.failed)) {
    add("warn", "This replica", `does not say its ${what}: ${error}`);
  }
  return found.sort((a, b) => SEVERITIES[a.level] - SEVERITIES[b.level]);
}

/** Entries that a replica is behind the leader. */
export function lag(replica, leader) {
  if (!leader || replica.applied_index === undefined || leader.commit_index === undefined) return 0;
  return Math.max(0, leader.commit_index - replica.applied_index);
}

/** "SESSION_STATE_OPEN_SENT" as "open sent". */
export function word(value, prefix) {
  return (value ?? "").replace(prefix, "").toLowerCase().replaceAll("_", " ");
}

export const leaves = (model) => [...model.switches.values()].filter((it) => it.role === "SWITCH_ROLE_LEAF");
export const spines = (model) => [...model.switches.values()].filter((it) => it.role === "SWITCH_ROLE_SPINE");

/** What a query of the looking glass is: kind and value. */
export function classify(text) {
  const asked = text.trim().toLowerCase();
  if (asked === "") return { kind: "nothing" };
  if (/^[0-9a-f]{2}([:-][0-9a-f]{2}){5}$/.test(asked)) return { kind: "mac", value: asked.replaceAll("-", ":") };
  if (/^[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}$/.test(asked)) {
    return { kind: "mac", value: asked.replaceAll(".", "").match(/../g).join(":") };
  }
  if (/^(vni\s*)?\d{1,8}$/.test(asked)) return { kind: "vni", value: asked.replace(/\D/g, "") };
  const v6 = asked.includes(":");
  if (/^[0-9a-f:.]+\/\d{1,3}$/.test(asked)) return { kind: "prefix", value: asked, v6 };
  if (/^\d{1,3}(\.\d{1,3}){3}$/.test(asked) || (v6 && /^[0-9a-f:.]+$/.test(asked))) return { kind: "ip", value: asked, v6 };
  return { kind: "unknown", value: asked };
}

/** Share of each uplink in what a leaf sends, if it sends as much to each destination: by interface, biggest first. */
export function shares(plan) {
  const found = new Map();
  let destinations = 0;
  for (const entry of plan?.entries ?? []) {
    const sum = entry.members.reduce((total, it) => total + it.weight, 0);
    if (!sum) continue;
    destinations += 1;
    for (const member of entry.members) {
      const known = found.get(member.interface_name) ?? { ...member, share: 0 };
      known.share += member.weight / sum;
      found.set(member.interface_name, known);
    }
  }
  const list = [...found.values()].map((it) => ({ ...it, share: it.share / destinations }));
  return list.sort((a, b) => a.interface_name.localeCompare(b.interface_name, "en", { numeric: true }));
}

/** 400000000000 as "400 Gb/s". */
export function rate(bps) {
  const units = ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"];
  let at = 0;
  while (bps >= 1000 && at < units.length - 1) {
    bps /= 1000;
    at += 1;
  }
  return `${Number(bps.toFixed(bps < 10 ? 1 : 0))} ${units[at]}`;
}

/** How long ago a time was, by the clock of the replica that answered. */
export function ago(time, header) {
  if (!time) return "";
  const seconds = Math.max(0, Math.round((Date.parse(header?.answer_time ?? new Date()) - Date.parse(time)) / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export const percent = (share) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;

/** A replica that lags more is shown: some seconds of a busy fabric. */
const LAG_MAX = 5_000;
