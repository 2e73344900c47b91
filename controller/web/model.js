// What this page knows of the fabric, and what of it is wrong. Pure: no element, no call.

/** What is known before anything was heard. */
export function empty() {
  return {
    ...declared(), replicas: [], peers: [], agents: [], duplicates: [], vteps: [], fabric: undefined, api: [],
    // Which VTEPs are announced; undefined: not known yet.
    vtepAddresses: undefined,
    // Statuses of links, by name; undefined: not known yet, or more links than are asked for.
    linkStatuses: undefined,
    // Of leaves whose plan is known, the share of each uplink; and whether plans may be older than what is declared.
    shares: new Map(), unsettled: false,
    // How often the watch told of peers.
    peerNews: 0,
    header: undefined, heard: false, connected: false, whyNot: "", failed: {},
  };
}

/** What the watch tells of declared resources. */
const declared = () => ({ switches: new Map(), links: new Map(), jobs: new Map() });

/** What the parts of snapshots told so far. */
export const begunSnapshot = () => ({ declared: declared(), peerChanges: [] });

const KINDS = {
  RESOURCE_KIND_SWITCH: ["switches", "switch_resource"],
  RESOURCE_KIND_LINK: ["links", "link_resource"],
  RESOURCE_KIND_JOB: ["jobs", "job_resource"],
};

/** What a peer is called at this replica. */
const called = (peer) => peer.session?.address ?? peer.router_id;

/** Takes what an answer of the watch says of peers; of a snapshot once it is whole. */
function followPeers(model, answer, gathering) {
  let changes = answer.peer_changes ?? [];
  if (answer.peer_snapshot) {
    changes = gathering.peerChanges.concat(changes);
    gathering.peerChanges = answer.header ? [] : changes;
    if (!answer.header) return;
  }
  const peers = new Map(answer.peer_snapshot ? [] : model.peers.map((it) => [called(it), it]));
  for (const { change_type: change, peer } of changes) {
    if (change === "CHANGE_TYPE_DELETED") peers.delete(called(peer));
    else peers.set(called(peer), peer);
  }
  model.peers = [...peers.values()];
  model.peersHeader = answer.header ?? model.peersHeader;
  model.peerNews += 1;
}

/** Takes an answer of the watch; whether it tells of declared resources, and of the fabric among them. */
export function follow(model, answer, gathering) {
  if (answer.peer_snapshot || answer.peer_changes?.length) followPeers(model, answer, gathering);
  const changes = answer.changes ?? [];
  // A snapshot replaces what was known, once it is whole.
  const target = answer.snapshot ? gathering.declared : model;
  for (const change of changes) {
    const [map, field] = KINDS[change.kind] ?? [];
    if (!map) continue;
    if (change.change_type === "CHANGE_TYPE_DELETED") target[map].delete(change.name);
    else target[map].set(change.name, change[field]);
  }
  if (answer.header) {
    if (answer.snapshot) {
      Object.assign(model, gathering.declared);
      gathering.declared = declared();
    }
    model.header = answer.header;
    model.heard = true;
  }
  return { declared: answer.snapshot || changes.length > 0, fabric: answer.snapshot || changes.some((it) => it.kind !== "RESOURCE_KIND_JOB") };
}

const SEVERITIES = { bad: 0, warn: 1 };

/** What is wrong: `group`, `level` bad or warn, what, a text, and where to look. */
export function wrong(model) {
  const found = [];
  const add = (group, level, what, text, href) => found.push({ group, level, what, text, href });
  if (!model.connected && model.heard) add("This page", "bad", "This page", `is cut off: ${model.whyNot}. What it shows is old.`);
  wrongReplicas(model, add);
  model.peers.forEach((it) => wrongPeer(it, add));
  for (const link of model.links.values()) {
    const href = `#/map?link=${encodeURIComponent(link.name)}`;
    if (link.admin_state === "ADMIN_STATE_DOWN") add("Links", "warn", `Link ${link.name}`, "is declared down", href);
    else if (isDown(model, link)) add("Links", "bad", `Link ${link.name}`, `is ${downText(model, link)}`, href);
  }
  wrongLinks(model, add);
  for (const it of spines(model).filter((it) => it.admin_state === "ADMIN_STATE_DOWN")) {
    add("Switches", "warn", `Switch ${it.name}`, "is declared down", `#/map?switch=${encodeURIComponent(it.name)}`);
  }
  for (const leaf of leaves(model).filter((it) => silent(model, it))) {
    add("Leaves", "bad", `Leaf ${leaf.name}`, `announces nothing of its VTEP ${leaf.vtep_address}`, `#/map?switch=${encodeURIComponent(leaf.name)}`);
  }
  for (const agent of model.agents) {
    if (!["SWITCH_AGENT_STATE_IN_SYNC", "SWITCH_AGENT_STATE_SHADOW", "SWITCH_AGENT_STATE_OFF"].includes(agent.state)) {
      add("Agents", "warn", `Agent of ${agent.switch_name}`, `is in state ${word(agent.state, "SWITCH_AGENT_STATE_")}${agent.last_error ? `: ${agent.last_error}` : ""}`, `#/plan/${encodeURIComponent(agent.switch_name)}`);
    }
  }
  for (const mac of model.duplicates) {
    const where = mac.vtep_address ?? mac.esi ?? "nowhere";
    add("MAC addresses", "warn", `MAC ${mac.mac}`, `moved too often in VNI ${mac.vni}; ${mac.frozen ? `frozen at ${where}` : `now at ${where}`}`, `#/glass/${encodeURIComponent(mac.mac)}`);
  }
  for (const [what, error] of Object.entries(model.failed)) {
    add("This page", "warn", "This replica", `does not say its ${what}: ${error}`);
  }
  return found.sort((a, b) => SEVERITIES[a.level] - SEVERITIES[b.level]);
}

/** A warning of a port that listens beyond its machine, from the settings of the API. */
export function exposed(api) {
  const value = (key) => api.find((it) => it.key === key)?.value.replaceAll('"', "") ?? "";
  const listen = value("listen");
  if (!listen || /^(127\.|\[::1\]|\[::ffff:127\.)/.test(listen)) return undefined;
  const insecure = value("insecure") === "true";
  return `The API listens at ${listen} with insecure = ${insecure}: ${insecure ? "whoever reaches it may change everything, without encryption or a password." : "calls from other machines are refused."}`;
}

/** Adds links that are derated, and switches that are not heard. */
function wrongLinks(model, add) {
  const statuses = [...model.linkStatuses?.values() ?? []];
  for (const it of statuses.filter((status) => status.derating_cause !== "DERATING_CAUSE_UNSPECIFIED")) {
    const cause = word(it.derating_cause, "DERATING_CAUSE_");
    add("Links", "warn", `Link ${it.link_name}`, `is derated by ${it.derating_percent} % for ${cause}`, `#/map?link=${encodeURIComponent(it.link_name)}`);
  }
  // Each switch is at the end of many links.
  for (const reason of new Set(statuses.flatMap((it) => it.unheard_reasons ?? []))) add("Links", "warn", "No gNMI", `from ${reason}`);
}

function wrongReplicas(model, add) {
  const own = model.replicas.find((it) => it.id === model.answering);
  if (own?.degraded_reason) {
    // It hears of nobody: the fault is its own.
    add("Replicas", "bad", `Replica ${own.id}`, own.degraded_reason, "#/status");
    return;
  }
  const leader = model.replicas.find((it) => it.role === "REPLICA_ROLE_LEADER");
  if (model.replicas.length && !leader) add("Replicas", "bad", "Replicas", "have no leader: nothing can be changed", "#/status");
  for (const replica of model.replicas) {
    const name = `Replica ${replica.id}`;
    if (replica.role === "REPLICA_ROLE_UNREACHABLE") add("Replicas", "bad", name, "is not heard of", "#/status");
    else if (lag(replica, leader) > LAG_MAX) add("Replicas", "warn", name, `is ${lag(replica, leader)} entries behind`, "#/status");
    if (replica.degraded_reason) add("Replicas", "bad", name, replica.degraded_reason, "#/status");
    if (replica.last_log_drop_time && Date.now() - Date.parse(replica.last_log_drop_time) < LOG_DROP_SHOWN_FOR) {
      add("Replicas", "warn", name, `dropped ${replica.dropped_log_line_count} lines of its log: its standard error is not read`, "#/status");
    }
  }
}

function wrongPeer(peer, add) {
  const { session } = peer;
  const name = `Peer ${called(peer)}`;
  const href = `#/peers/${encodeURIComponent(called(peer))}`;
  if (session && session.state !== "SESSION_STATE_ESTABLISHED") {
    const error = session.last_error ? `: ${session.last_error}` : "";
    const elsewhere = (peer.session_replica_ids ?? []).length;
    const text = `is in state ${word(session.state, "SESSION_STATE_")} at this replica${elsewhere ? `, established at ${elsewhere} other` : ""}${error}`;
    add("Peers", elsewhere ? "warn" : "bad", name, text, href);
  }
  if (peer.staleness && !["STALENESS_UNSPECIFIED", "STALENESS_FRESH"].includes(peer.staleness)) {
    add("Peers", "warn", name, `has routes kept as ${word(peer.staleness, "STALENESS_")}`, href);
  }
}

/** Whether a leaf announces nothing of the VTEP that is declared. */
export function silent(model, leaf) {
  if (!leaf.vtep_address || leaf.role !== "SWITCH_ROLE_LEAF" || model.failed.vteps || !model.vtepAddresses) return false;
  return !model.vtepAddresses.has(leaf.vtep_address);
}

/** The end of a link whose plan is known. */
const knower = (model, link) => [link.a, link.b].find((end) => model.shares.has(end.switch_name));

/**
 * The share of a link in what the leaf at one of its ends sends. A plan leaves out what is down and what leads nowhere: 0.
 * Undefined: the plan is not known, or older than what is declared.
 */
export function carries(model, link) {
  const end = knower(model, link);
  const share = end && (model.shares.get(end.switch_name).get(end.interface_name) ?? 0);
  return share === 0 && model.unsettled ? undefined : share;
}

/** Entries that a replica is behind the leader; undefined: not known. */
export function lag(replica, leader) {
  if (!leader || replica.applied_index === undefined || leader.commit_index === undefined) return undefined;
  return Math.max(0, leader.commit_index - replica.applied_index);
}

/** "SESSION_STATE_OPEN_SENT" as "open sent". */
export function word(value, prefix) {
  return (value ?? "").replace(prefix, "").toLowerCase().replaceAll("_", " ");
}

/** Whether a link, or a switch at one end of it, is declared down. */
export const isSetDown = (model, link) => [link, model.switches.get(link.a.switch_name), model.switches.get(link.b.switch_name)].some((it) => it?.admin_state === "ADMIN_STATE_DOWN");
/** Whether weft sees that a link is down, an operator apart: the same judge as that of `weft link status`. */
export const isDown = (model, link) => model.linkStatuses?.get(link.name)?.state === "LINK_STATE_DOWN" && !isSetDown(model, link);
/** "down: leaf1: eth1 is down". */
export const downText = (model, link) => ["down", model.linkStatuses.get(link.name).reason].filter(Boolean).join(": ");
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

/** Length of the prefix that a route is for: of "10.0.0.0/8" and "[5]:[0]:[8]:[10.0.0.0]" 8; Infinity: a host's own route. */
export function prefixLength(route) {
  const [, length] = /^\[5\]:\[\d+\]:\[(\d+)\]/.exec(route.key) ?? /\/(\d+)$/.exec(route.key) ?? [];
  return length === undefined ? Infinity : Number(length);
}

/** Share of each uplink in what a leaf sends, if it sends as much to each destination: by interface. */
export function shares(plan) {
  const found = new Map();
  let destinations = 0;
  for (const entry of plan?.entries ?? []) {
    const sum = entry.members.reduce((total, it) => total + it.weight, 0);
    if (!sum) continue;
    destinations += 1;
    for (const member of entry.members) {
      const known = found.get(member.interface_name) ?? { interface_name: member.interface_name, neighbor_switch_name: member.neighbor_switch_name, share: 0 };
      known.share += member.weight / sum;
      found.set(member.interface_name, known);
    }
  }
  return [...found.values()].map((it) => ({ ...it, share: Math.round(it.share / destinations * 1e6) / 1e6 })).sort(byInterface);
}

/**
 * Of each leaf that has a plan the share of each uplink that the plan names, in what it sends to VTEPs that are announced: nothing
 * is sent to others, and a plan for them is as declared. A long plan comes in several parts.
 */
export function sharesByLeaf(plans, announced) {
  const whole = new Map();
  for (const plan of plans) {
    if (plan.plan_revision === undefined || !plan.entries?.length) continue;
    whole.set(plan.leaf_name, [...whole.get(plan.leaf_name) ?? [], ...plan.entries]);
  }
  const alive = (entries) => entries.filter((it) => announced?.has(it.prefix.split("/")[0]));
  const byInterface = (entries) => new Map(shares({ entries }).map((it) => [it.interface_name, it.share]));
  return new Map([...whole].map(([leaf, entries]) => [leaf, byInterface(alive(entries).length ? alive(entries) : entries)]));
}

/** leaf2 before leaf10. */
export const naturally = new Intl.Collator("en", { numeric: true }).compare;
export const byInterface = (a, b) => naturally(a.interface_name, b.interface_name);
export const byName = (a, b) => naturally(a.name, b.name);

function scaled(number, step, units) {
  let at = 0;
  while (number >= step && at < units.length - 1) {
    number /= step;
    at += 1;
  }
  return `${Number(number.toFixed(number < 10 ? 1 : 0))} ${units[at]}`;
}

/** 400000000000 as "400 Gb/s". */
export const rate = (bps) => scaled(bps, 1000, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"]);
/** 4294967296 as "4 GiB". */
export const size = (octets) => scaled(octets, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);

/** Seconds since a time, by the clock of the replica that answered. */
const since = (time, header) => Math.round((Date.parse(header?.answer_time ?? new Date()) - Date.parse(time)) / 1000);

/** How long ago a time was. */
export const ago = (time, header) => time ? span(Math.max(0, since(time, header))) : "";

/** How far ahead a time is. */
export function ahead(time, header) {
  const seconds = -since(time, header);
  return seconds > 0 ? `in ${span(seconds)}` : "now";
}

function span(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export const percent = (share) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;

/** Links whose statuses are asked for, as by `weft status`. */
export const LINKS_MAX = 20_000;
/** More switches are not drawn with their names and all of their links, nor are the plans of all leaves asked for. */
export const SMALL_MAX = 48;
/** A replica that lags more is shown: some seconds of a busy fabric. */
const LAG_MAX = 5_000;
/** As agents show an event, in ms. */
const LOG_DROP_SHOWN_FOR = 600_000;
