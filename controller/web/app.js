// The page: which view is shown, what keeps it current, and its frame.
import { html, nothing, render } from "./lit-html.js";
import { get, list, watch } from "./api.js";
import { empty, follow, wrong } from "./model.js";
import { status } from "./status.js";
import { peer, peers } from "./peers.js";
import { glass } from "./glass.js";
import { map } from "./map.js";
import { plan } from "./plan.js";
import { vni, vnis } from "./vnis.js";

const VIEWS = [
  ["status", "Status"], ["peers", "Peers"], ["glass", "Looking glass"],
  ["map", "Map"], ["plan", "Plan"], ["vnis", "VNIs"],
];

const model = empty();
const gathering = empty();
const page = { model, route: route(), draw, answers: new Map() };

/** The view that the address names: "#/peers/10.0.0.1?x=y". */
function route() {
  const [path, parameters] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/");
  const known = VIEWS.some(([name]) => name === view);
  return {
    view: known ? view : "status",
    name: rest.length ? decodeURIComponent(rest.join("/")) : "",
    parameters: new URLSearchParams(parameters ?? ""),
  };
}

function shown() {
  const { view, name } = page.route;
  switch (view) {
    case "peers": return name ? peer(page, name) : peers(page);
    case "glass": return glass(page, name);
    case "map": return map(page);
    case "plan": return plan(page, name);
    case "vnis": return name ? vni(page, name) : vnis(page);
    default: return status(page);
  }
}

let waiting = false;
/** Draws with the next frame, however often it is asked for. */
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const faults = wrong(model).length;
    document.title = faults ? `(${faults}) weft` : "weft";
    render(frame(faults), document.getElementById("app"));
  });
}

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
  </header>
  <main id="main" tabindex="-1">${shown()}</main>`;

/** Asks for what a view shows, once per key and again after `age` milliseconds; the last answer meanwhile. */
page.ask = (key, question, age = 5_000) => {
  const known = page.answers.get(key) ?? { at: -Infinity };
  const now = performance.now();
  if (!known.asking && now - known.at > age) {
    known.asking = true;
    page.answers.set(key, known);
    question()
      .then((answer) => Object.assign(known, { answer, error: undefined }), (error) => Object.assign(known, { error }))
      .finally(() => {
        Object.assign(known, { asking: false, at: performance.now() });
        draw();
      });
  }
  return known;
};
/** What was answered is old: it is asked again. */
page.stale = () => page.answers.forEach((known) => { known.at = -Infinity; });

async function look() {
  const part = async (name, question) => {
    try {
      model[name] = await question();
      delete model.failed[name];
    } catch (error) {
      if (model.connected) model.failed[name] = error.message;
    }
  };
  const all = (path, field) => async () => (await list(path, field)).found;
  await Promise.all([
    part("replicas", all("/v1/replicas", "replicas")),
    part("peers", async () => {
      const { found, header } = await list("/v1/peers", "peers");
      model.peersHeader = header;
      return found;
    }),
    part("vteps", all("/v1/vteps", "vteps")),
    part("agents", all("/v1/switchAgents", "switch_agents")),
    part("duplicates", all("/v1/duplicateMacs", "duplicate_macs")),
    part("fabric", () => get("/v1/fabric")),
  ]);
  draw();
}

let looking;
/** Looks at what cannot be followed: soon after a change, and every five seconds. */
function lookSoon(wait = 0) {
  clearTimeout(looking);
  looking = setTimeout(() => look().finally(() => lookSoon(document.hidden ? 30_000 : 5_000)), wait);
}

addEventListener("hashchange", () => {
  page.route = route();
  draw();
  document.getElementById("main")?.focus();
});
document.getElementById("app").replaceChildren();
watch(
  (answer) => {
    if (follow(model, answer, gathering)) {
      page.stale();
      if (!answer.snapshot) lookSoon(100);
    }
    draw();
  },
  (connected, whyNot) => {
    const back = connected && !model.connected;
    Object.assign(model, { connected, whyNot: whyNot ?? "" });
    if (back) lookSoon();
    draw();
  },
);
lookSoon();
draw();
