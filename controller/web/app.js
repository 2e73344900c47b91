// The page: which view is shown, what keeps it current, and its frame.
import { html, nothing, render } from "./lit-html.js";
import { get, leafPlan, list, watch } from "./api.js";
import { LINKS_MAX, SMALL_MAX, begunSnapshot, empty, exposed, follow, sharesByLeaf, wrong } from "./model.js";
import { status } from "./status.js";
import { peer, peers } from "./peers.js";
import { glass } from "./glass.js";
import { map } from "./map.js";
import { plan } from "./plan.js";
import { job, jobs } from "./jobs.js";
import { vni, vnis } from "./vnis.js";

const VIEWS = [
  ["status", "Status"], ["peers", "Peers"], ["glass", "Looking glass"],
  ["map", "Map"], ["plan", "Plan"], ["jobs", "Jobs"], ["vnis", "VNIs"],
];

const model = empty();
let gathering = begunSnapshot();
/** `answers` to what views asked, by key; `open` are the keys of what is unfolded. */
const page = { model, route: route(), draw, answers: new Map(), open: new Set() };

/** The view that the address names: "#/peers/10.0.0.1?x=y". */
function route() {
  const [path, parameters] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  const known = VIEWS.some(([name]) => name === view);
  return { view: known ? view : "status", name: decoded(rest.join("/")), parameters: new URLSearchParams(parameters ?? "") };
}

/** What somebody broke on the way is shown as it came. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function shown() {
  const { view, name } = page.route;
  switch (view) {
    case "peers": return name ? peer(page, name) : peers(page);
    case "glass": return glass(page, name);
    case "map": return map(page);
    case "plan": return plan(page, name);
    case "jobs": return name ? job(page, name) : jobs(page);
    case "vnis": return name ? vni(page, name) : vnis(page);
    default: return status(page);
  }
}

/** A task that runs once, after the shortest time that anybody asked for: what is due sooner is not put off. */
function timer(task) {
  let due = Infinity;
  let waiting;
  return (wait = 0) => {
    const at = performance.now() + wait;
    if (at >= due) return;
    clearTimeout(waiting);
    due = at;
    waiting = setTimeout(() => {
      due = Infinity;
      task();
    }, wait);
  };
}

let waiting = false;
let drawings = 0;
/** Draws with the next frame, however often it is asked for. */
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawings += 1;
    askPlans();
    askLinks();
    const faults = wrong(model).length;
    document.title = faults ? `(${faults}) weft` : "weft";
    render(frame(faults), document.getElementById("app"));
  });
}
const drawSoon = timer(draw);

const frame = (faults) => html`
  <header>
    <a class="name" href="#/status">weft</a>
    <nav aria-label="Views">
      ${VIEWS.map(([name, text]) => html`<a href="#/${name}" aria-current=${page.route.view === name ? "page" : nothing}>${text}${name === "status" && faults ? html` <span class="count">${faults}</span>` : nothing}</a>`)}
    </nav>
    <p class="heard ${model.connected ? "" : "lost"}" role="status">
      ${model.connected
        ? html`replica ${model.header?.replica_id ?? ""}, revision <span class="number">${model.header?.revision ?? ""}</span>`
        : model.heard ? html`cut off: ${model.whyNot}` : "connecting"}
    </p>
    ${exposed(model.api) ? html`<p class="exposed">${exposed(model.api)}</p>` : nothing}
  </header>
  <main id="main" tabindex="-1">${shown()}</main>`;

/**
 * Asks for what a view shows, once per key and again after `age` milliseconds; the last answer meanwhile. What takes long is asked
 * for less often. Answers that no view has drawn lately are forgotten.
 */
page.ask = (key, question, age = 5_000) => {
  const known = page.answers.get(key) ?? { at: -Infinity, took: 0, stale: false, asking: false };
  known.drawn = drawings;
  page.answers.delete(key);
  page.answers.set(key, known);
  for (const [old, { drawn }] of page.answers) {
    if (page.answers.size > ANSWERS_MAX && drawn < drawings - 1) page.answers.delete(old);
  }
  const now = performance.now();
  const due = known.at + Math.max(known.stale ? 0 : age, known.error ? 0 : Math.min(known.took * 10, REST_MS_MAX));
  if (known.asking) return known;
  if (now < due) {
    drawSoon(due - now);
    return known;
  }
  Object.assign(known, { asking: true, stale: false });
  question()
    .then((answer) => Object.assign(known, { answer, error: undefined }), (error) => Object.assign(known, { error }))
    .finally(() => {
      const at = performance.now();
      Object.assign(known, { asking: false, at, took: at - now });
      draw();
    });
  return known;
};

/** Answers whose key begins so are old: they are asked for again. */
page.stale = (begin) => page.answers.forEach((known, key) => {
  if (key.startsWith(begin)) known.stale = true;
});

/** Which share each link has: of all leaves where they are few, else of the one that is chosen in the map. */
function askPlans() {
  const age = model.unsettled ? 500 : 5_000;
  const parameters = page.route.view === "map" ? page.route.parameters : new URLSearchParams();
  const { a, b } = model.links.get(parameters.get("link")) ?? {};
  const chosen = [parameters.get("switch"), a?.switch_name, b?.switch_name].find((it) => model.switches.get(it)?.role === "SWITCH_ROLE_LEAF");
  let known;
  if (model.switches.size && model.switches.size <= SMALL_MAX) {
    known = page.ask("plans", async () => sharesByLeaf((await list("/v1/leafPlans", "leaf_plans")).found, model.vtepAddresses), age);
  } else if (chosen) {
    known = page.ask(`plans ${chosen}`, async () => sharesByLeaf([await leafPlan(chosen)], model.vtepAddresses), age);
  }
  model.shares = (!known?.error && known?.answer) || new Map();
  if (known?.error && model.connected) model.failed.plans = known.error.message;
  else delete model.failed.plans;
}

/** Asks for the statuses of links, if they are few enough. */
function askLinks() {
  model.linkStatuses = undefined;
  delete model.failed["statuses of links"];
  if (!model.links.size || model.links.size > LINKS_MAX) return;
  const age = model.switches.size <= SMALL_MAX ? 2_000 : 30_000;
  const known = page.ask("links", async () => {
    const { found } = await list("/v1/linkStatuses", "link_statuses", { page_size: 10_000 });
    return new Map(found.map((it) => [it.link_name, it]));
  }, age);
  if (!known.error) model.linkStatuses = known.answer;
  else if (model.connected) model.failed["statuses of links"] = known.error.message;
}

let settled = 0;
/** A plan follows what is declared within a second or so. */
const settle = timer(() => {
  const left = settled - performance.now();
  if (left > 0) {
    settle(left);
    return;
  }
  model.unsettled = false;
  draw();
});

/** Asks for a part of the model, and draws it. */
async function part(name, question) {
  try {
    model[name] = await question();
    delete model.failed[name];
  } catch (error) {
    if (model.connected) model.failed[name] = error.message;
  }
  draw();
}

/** Asks for what cannot be followed. */
async function look() {
  const all = (path, field) => async () => (await list(path, field)).found;
  await Promise.all([
    part("peers", async () => {
      const news = model.peerNews;
      const { found, header } = await list("/v1/peers", "peers");
      // The watch is as good and newer, but for counters; and another replica has sessions of its own.
      if (news !== model.peerNews || header.replica_id !== (model.header ?? header).replica_id) return model.peers;
      model.peersHeader = header;
      return found;
    }),
    part("vteps", async () => {
      const { found } = await list("/v1/vteps", "vteps");
      model.vtepAddresses = new Set(found.map((it) => it.address));
      return found;
    }),
    part("agents", all("/v1/switchAgents", "switch_agents")),
    part("duplicates", all("/v1/duplicateMacs", "duplicate_macs")),
    part("fabric", () => get("/v1/fabric")),
    // The daemon's own tables come first: they are on the first page.
    part("api", async () => (await get("/v1/config/values", { subject: "api", with_defaults: true })).values),
  ]);
}

/** Looks at the replicas, and again: a replica that hangs answers this question, and no other one. */
const lookAtReplicas = timer(async () => {
  if (document.hidden) return;
  await part("replicas", async () => {
    const { found, header } = await list("/v1/replicas", "replicas");
    model.answering = header.replica_id;
    return found;
  });
  lookAtReplicas(REPLICAS_MS);
});

let looking = false;
let again = false;
/** Looks soon after a change and every five seconds: one look at a time, and none while nobody sees the page. */
const lookSoon = timer(async () => {
  again = looking;
  if (looking || document.hidden) return;
  looking = true;
  const from = performance.now();
  await look();
  looking = false;
  lookSoon(again ? Math.max(100, (performance.now() - from) * 2) : 5_000);
});

addEventListener("hashchange", () => {
  const before = page.route;
  page.route = route();
  draw();
  // Who chose something within a view goes on from there.
  if (before.view !== page.route.view || before.name !== page.route.name) document.getElementById("main")?.focus();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  lookSoon();
  lookAtReplicas();
});
document.getElementById("app").replaceChildren();
watch({
  begun: () => { gathering = begunSnapshot(); },
  heard: (answer) => {
    const told = follow(model, answer, gathering);
    if (told.declared) page.stale("job");
    if (told.fabric) {
      page.stale("plan");
      page.stale("links");
      if (!answer.snapshot) {
        model.unsettled = true;
        settled = performance.now() + SETTLED_MS;
        settle(SETTLED_MS);
        lookSoon(100);
      }
    }
    draw();
  },
  state: (connected, whyNot) => {
    const back = connected && !model.connected;
    Object.assign(model, { connected, whyNot: whyNot ?? "" });
    if (back) lookSoon();
    draw();
  },
});
lookSoon();
lookAtReplicas();
draw();

/** After an answer that took long, at most. */
const REST_MS_MAX = 15_000;
/** Answers that are kept beside those of the view that is shown. */
const ANSWERS_MAX = 32;
const SETTLED_MS = 2_000;
/** A fault is shown within 5 s, of which the replica takes 3 to see it. */
const REPLICAS_MS = 1_500;
