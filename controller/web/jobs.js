// Jobs, what is planned for each, and how good the pins of all are; one of them with its pins.
import { html, nothing } from "./lit-html.js";
import { get, list, maybe } from "./api.js";
import { asked, bar, facts, fault, folded, foreign, labels, link, mark, table, toSwitch } from "./parts.js";
import { ahead, byName, size, word } from "./model.js";

const LEVELS = {
  JOB_PLAN_STATE_PINNED: "good", JOB_PLAN_STATE_PENDING: "warn", JOB_PLAN_STATE_UNRESOLVED: "warn", JOB_PLAN_STATE_INFEASIBLE: "bad",
};
/** Pins that leaves do not have are not good yet. */
const level = (plan) => plan.state === "JOB_PLAN_STATE_PINNED" && plan.unprogrammed_reasons.length ? "warn" : LEVELS[plan.state] ?? "quiet";
const state = (plan) => plan ? mark(level(plan), word(plan.state, "JOB_PLAN_STATE_")) : "";
/** Flows that go by pins which leaves have, of all; "-": nobody knows what the leaves have. `weft job list` counts alike. */
const byPins = (plan) => {
  if (!plan) return "";
  const { programmed_flow_count: programmed, flow_count: all } = plan;
  const known = programmed + plan.weighted_flow_count + plan.own_routing_flow_count;
  const open = plan.pinned_flow_count > 0 && programmed === 0 && known < all;
  return `${open ? "-" : programmed} of ${all}`;
};
const whyNot = (plan) => {
  const reasons = [plan?.reason, ...plan?.unprogrammed_reasons ?? []].filter(Boolean).join("; ");
  return reasons && foreign(reasons);
};

/** What decides the lower bound. */
const BOUNDS = {
  BOUND_KIND_UNSPECIFIED: "nothing has to be sent",
  BOUND_KIND_LEAF_SENDS: "what one leaf sends over its uplinks",
  BOUND_KIND_LEAF_TAKES: "what one leaf takes over its uplinks",
  BOUND_KIND_LEAF_PAIR: "what one leaf sends to another over the spines that both have",
  BOUND_KIND_ALL_FLOWS: "what many leaves send or take together",
};

/** A share of a link: a tenth of a percent is between good and as good as can be. */
const load = (share) => `${Number((share * 100).toFixed(1))} %`;
const count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;
const collective = (group) => word(group.collective, "COLLECTIVE_").replaceAll(" ", "-");
/** Octets of a buffer; of an all-to-all-v those of all ranks together, without what a rank has for itself. */
const octetsOf = (group) => {
  const pairs = group.pair_octets ?? [];
  const own = Math.sqrt(pairs.length) + 1;
  return pairs.length ? pairs.reduce((sum, it, at) => at % own ? sum + Number(it) : sum, 0) : group.octets;
};
const more = (number, path) => number > 0 ? html`<p class="none">${number} more; GET ${path} has all.</p>` : nothing;
const several = (all, shown, number = all.length) => html`${all.map((it, at) => html`${at ? ", " : ""}${shown(it)}`)}${number > all.length ? ` and ${number - all.length} more` : ""}`;

export function jobs(page) {
  const { model } = page;
  const known = page.ask("jobplans", async () => {
    const { found, first } = await list("/v1/jobPlans", "job_plans", { page_size: PLANS_MAX });
    return { plans: new Map(found.map((it) => [it.job_name, it])), certificate: first.certificate };
  }, 2_000);
  const all = [...model.jobs.values()].sort(byName);
  return html`<h1>Jobs</h1>
    ${fault(known)}
    ${known.answer?.certificate ? html`${certificate(known.answer.certificate)}<h2>Each job</h2>` : nothing}
    ${table(["Job", "Hosts or ranks", "Groups", "Flows declared", "Expires", "Plan", "Flows by pins", "Why not"], all.slice(0, JOBS_MAX).map((it) => {
      const plan = known.answer?.plans.get(it.name);
      return [
        link("jobs", it.name), who(it), brief(it.groups), it.flows.length, it.expire_time ? ahead(it.expire_time, model.header) : "never",
        state(plan), byPins(plan), whyNot(plan),
      ];
    }), model.heard ? html`No job is declared: <code>weft job apply job.yaml</code> declares one.` : "…")}
    ${more(all.length - JOBS_MAX, "/v1/jobs")}`;
}

const who = (it) => it.ranks.length ? count(it.ranks.length, "rank") : it.host_names.length ? count(it.host_names.length, "host") : "";

const brief = (groups) => html`<bdi>${groups.slice(0, BRIEF_MAX).map((it) => `${it.name} ${collective(it)} ${size(octetsOf(it))}`).join(", ")}${
  groups.length > BRIEF_MAX ? ` and ${groups.length - BRIEF_MAX} more` : ""}</bdi>`;

const certificate = (it) => html`<section aria-label="Certificate">
  <h2>Pins of all jobs</h2>
  <p>100 % is all that a link carries, while every NIC that sends most of its job sends at its rate. No placement of the same queue pairs is below the
    lower bound. Leaves that are on get the pins of jobs that are on.</p>
  <div class="bars">${bar("Max load", it.max_load, undefined, load)}${bar("Lower bound", it.lower_bound, undefined, load)}</div>
  ${facts([
    ["Lower bound decided by", html`${BOUNDS[it.bound_kind] ?? word(it.bound_kind, "BOUND_KIND_")}${it.bound_leaf_names.length ? html`: ${several(it.bound_leaf_names, toSwitch)}` : nothing}`],
    ["Tight links", it.tight_link_names.length ? several(it.tight_link_names, toLink, it.tight_link_count) : ""],
  ])}
</section>`;

const toLink = (name) => html`<a href="#/map?link=${encodeURIComponent(name)}"><bdi>${name}</bdi></a>`;

export function job(page, name) {
  const { model } = page;
  const it = model.jobs.get(name);
  const head = html`<p class="path"><a href="#/jobs">Jobs</a></p><h1>${foreign(name)}</h1>`;
  if (!it) return html`${head}<p class="none">${model.heard ? "There is no such job: it has ended, or nobody declared it." : "…"}</p>`;
  const path = `/v1/jobs/${name}`;
  const known = page.ask(`jobplan ${name}`, () => maybe(get(`/v1/jobPlans/${encodeURIComponent(name)}`)), 2_000);
  const plan = known.answer?.resource;
  /** A long part of it, in part, and only while somebody has it open. */
  const part = (what, all, shown) => all.length
    ? folded(page, `job ${what} ${name}`, count(all.length, what), () => html`${shown(all.slice(0, LINES_MAX))}${more(all.length - LINES_MAX, path)}`)
    : nothing;
  return html`${head}
    ${fault(known)}
    ${facts([
      ["Plan", state(plan)], ["Flows planned to be pinned", plan ? `${plan.pinned_flow_count} of ${plan.flow_count}` : ""], ["Flows by pins", byPins(plan)], ["Why not", whyNot(plan)],
      ["Hashing", plan?.hashed_load && html`the busiest link, at ${toSwitch(plan.hashed_load.leaf_name)}, is full to ${load(plan.hashed_load.even_load)} if every link gets its share, and to
        ${load(plan.hashed_load.most_load)} at most, but for one hash of a hundred`],
      ["Mode", it.balance_mode === "BALANCE_MODE_UNSPECIFIED" ? "" : word(it.balance_mode, "BALANCE_MODE_")],
      ["Expires", it.expire_time ? html`${ahead(it.expire_time, model.header)} <small>${it.expire_time}</small>` : "never: it ends when it is deleted"],
      ["Ranks", it.ranks.length ? `${it.ranks.length}` : "one of each NIC of its hosts"],
      ["Layout", it.layout.length ? foreign(it.layout.map(({ name: dimension, degree }) => `${dimension} ${degree}`).join(", ")) : ""],
      ["Labels", labels(it)],
    ])}
    ${part("host", it.host_names, (hosts) => html`<p>${several(hosts, foreign)}</p>`)}
    ${part("rank", it.ranks, (ranks) => table(["Rank", "NIC"], ranks.map((rank, at) => [at, nic(rank)])))}
    ${part("flow", it.flows, (flows) => table(["From", "To", "Octets", "Queue pairs", "Overlap set"], flows.map((flow) => [
      nic(flow.source), nic(flow.destination), octets(flow), flow.queue_pairs ?? "", foreign(flow.overlap_set),
    ])))}
    <h2>Groups</h2>
    ${table(["Group", "Collective", "Ranks", "Octets", "Algorithm", "Channels", "Queue pairs", "Overlap set"], it.groups.slice(0, LINES_MAX).map((group) => [
      foreign(group.name), collective(group), group.dimension ? html`along <bdi>${group.dimension}</bdi>` : group.ranks.length || "all", octets({ octets: octetsOf(group) }),
      word(group.algorithm, "COLLECTIVE_ALGORITHM_").replace("unspecified", ""), group.channels ?? "", group.queue_pairs ?? "", foreign(group.overlap_set),
    ]))}
    ${more(it.groups.length - LINES_MAX, path)}
    ${plan?.overlap_set_times?.length ? html`<h2>Overlap sets</h2>
      <p>The ideal time is that of the busiest NIC at its rate; the predicted one is longer where pins put more on a link than it carries.</p>
      ${table(["Overlap set", "Ideal time", "Predicted time"], plan.overlap_set_times.map((set) => [
        set.overlap_set ? foreign(set.overlap_set) : "of those without one", set.ideal_duration, set.predicted_duration ?? "",
      ]))}
      ${plan.overlap_set_count > plan.overlap_set_times.length ? html`<p class="none">${plan.overlap_set_count - plan.overlap_set_times.length} more.</p>` : nothing}` : nothing}
    <h2>Pins</h2>
    ${pins(page, name)}`;
}

const octets = (it) => html`${size(it.octets)} <small>${it.octets}</small>`;
const nic = (it) => html`<bdi>${it.host_port_name || it.address}</bdi>${it.vni === undefined ? nothing : html` in VNI ${link("vnis", `${it.vni}`)}`}`;

/** A page of the pins of a job, as long as the list's: the address names the one before it. */
function pins(page, name) {
  const after = page.route.parameters.get("after") ?? "";
  const known = page.ask(`jobpins ${name} ${after}`, () => get("/v1/pins", { job_name: name, page_size: PINS_MAX, page_token: after }));
  // Who went on by keyboard keeps the link that the next page is asked with, while this one comes.
  const next = known.answer ? known.answer.next_page_token : after;
  return html`<p>${after ? html`<a href="#/jobs/${encodeURIComponent(name)}">First pins</a> ` : nothing}
      ${next ? html`<a href="#/jobs/${encodeURIComponent(name)}?after=${encodeURIComponent(next)}">Next pins</a>` : nothing}</p>
    ${asked(known, (answer) => table(["From", "To", "Spines"], answer.pins.map((it) => [
      foreign(it.source_host_port_name), foreign(it.destination_host_port_name), spines(it.paths),
    ]), after ? "There are no more." : "No flow is pinned."))}`;
}

function spines(paths) {
  const sum = paths.reduce((total, it) => total + it.weight, 0);
  return html`<div class="bars">${paths.slice(0, PATHS_MAX).map((it) => bar(toSwitch(it.spine_name), it.weight / sum))}</div>
    ${paths.length > PATHS_MAX ? html`<small>and ${paths.length - PATHS_MAX} more</small>` : nothing}`;
}

/** Plans of one answer. */
const PLANS_MAX = 10_000;
/** Jobs that are drawn, and groups of one in the list. */
const JOBS_MAX = 1_000;
const BRIEF_MAX = 3;
/** Hosts, ranks, flows or groups of a job that are drawn. */
const LINES_MAX = 200;
/** Pins that are drawn at once, and spines of each. */
const PINS_MAX = 100;
const PATHS_MAX = 16;
