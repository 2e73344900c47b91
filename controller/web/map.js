// The fabric as a picture: tiers, links with capacity and share of the plan, what is down.
import { html, nothing, svg } from "./lit-html.js";
import { get } from "./api.js";
import { facts, foreign, link as to, table } from "./parts.js";
import { percent, rate, shares } from "./model.js";

const WIDTH = 1200;
const numeric = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true });
/** Leaves whose names are drawn, and all of whose links are. */
const NAMED_MAX = 48;

/** Which tier a switch is drawn in: 0 is nearest to the hosts. */
export const tier = (it) => it.tier ? it.tier - 1 : it.role === "SWITCH_ROLE_LEAF" ? 0 : 1;

/** Where each switch is drawn: many of a tier in several rows. */
export function layout(switches) {
  const tiers = new Map();
  for (const it of switches) {
    const at = tier(it);
    if (!tiers.has(at)) tiers.set(at, []);
    tiers.get(at).push(it);
  }
  const places = new Map();
  let top = 24;
  for (const at of [...tiers.keys()].sort((a, b) => b - a)) {
    const row = tiers.get(at).sort(numeric);
    const columns = row.length <= NAMED_MAX / 2 ? row.length : Math.min(row.length, 64);
    const step = WIDTH / columns;
    const named = columns <= 24;
    const width = named ? Math.min(step - 10, 110) : Math.max(step - 3, 4);
    const height = named ? 28 : Math.min(width, 16);
    row.forEach((it, index) => {
      const x = (index % columns + 0.5) * step;
      const y = top + Math.floor(index / columns) * (height + 4);
      places.set(it.name, { it, x, y, width, height, named });
    });
    top += Math.ceil(row.length / columns) * (height + 4) + (at ? 150 : 24);
  }
  return { places, height: top };
}

export function map(page) {
  const { model, route } = page;
  const switches = [...model.switches.values()];
  if (!switches.length) return html`<h1>Map</h1><p class="none">${model.heard ? "No fabric is declared: weft fabric apply FILE." : "…"}</p>`;
  const { places, height } = layout(switches);
  const chosen = route.parameters.get("switch") ?? "";
  const chosenLink = route.parameters.get("link") ?? "";
  const announced = new Set(model.vteps.map((it) => it.address));
  const silent = (it) => it.role === "SWITCH_ROLE_LEAF" && it.vtep_address && !model.failed.vteps && !announced.has(it.vtep_address);
  const small = switches.length <= NAMED_MAX;
  const plans = new Map();
  const wanted = small ? switches.filter((it) => it.role === "SWITCH_ROLE_LEAF") : switches.filter((it) => it.name === chosen && it.role === "SWITCH_ROLE_LEAF");
  for (const leaf of wanted) {
    const known = page.ask(`plan ${leaf.name}`, () => get(`/v1/leafPlans/${encodeURIComponent(leaf.name)}`), 5_000);
    const found = shares(known.answer?.resource);
    if (found.length) plans.set(leaf.name, new Map(found.map((it) => [it.interface_name, it.share])));
  }
  // What a plan does not name carries nothing.
  const of = (end) => plans.has(end.switch_name) ? plans.get(end.switch_name).get(end.interface_name) ?? 0 : undefined;
  const share = (link) => of(link.a) ?? of(link.b);
  const links = [...model.links.values()].filter((it) => small || it.admin_state === "ADMIN_STATE_DOWN" || it.name === chosenLink
    || it.a.switch_name === chosen || it.b.switch_name === chosen);
  const down = [...model.links.values()].filter((it) => it.admin_state === "ADMIN_STATE_DOWN").length;
  return html`<h1>Map</h1>
    <p>${switches.length} switches, ${model.links.size} links${down ? html`, ${down} of them declared down` : nothing}.
      ${small ? "The width of a link is its share of what the leaf sends." : "Choose a switch to see its links."}</p>
    <div class="map"><svg viewBox="0 0 ${WIDTH} ${height}" role="group" aria-label="Switches and links">
      ${links.map((it) => drawnLink(it, places, share(it), it.name === chosenLink))}
      ${[...places.values()].map((place) => drawnSwitch(place, place.it.name === chosen, silent(place.it)))}
    </svg></div>
    ${chosen && model.switches.get(chosen) ? aboutSwitch(model, model.switches.get(chosen), share, silent) : nothing}
    ${chosenLink && model.links.get(chosenLink) ? aboutLink(model.links.get(chosenLink), share) : nothing}`;
}

function drawnLink(it, places, share, chosen) {
  const a = places.get(it.a.switch_name);
  const b = places.get(it.b.switch_name);
  if (!a || !b) return nothing;
  const [low, high] = a.y > b.y ? [a, b] : [b, a];
  const down = it.admin_state === "ADMIN_STATE_DOWN";
  const width = down ? 1.5 : share === undefined ? 1 : 0.6 + share * 9;
  const text = `${it.name}: ${rate(it.capacity_bps)}${down ? ", down" : ""}${share !== undefined ? `, ${percent(share)} of what the leaf sends` : ""}`;
  return svg`<a href=${`#/map?link=${encodeURIComponent(it.name)}`} aria-label=${text} tabindex=${down || chosen ? 0 : -1}>
    <path class="link ${down ? "down" : ""} ${chosen ? "chosen" : ""} ${share === 0 ? "idle" : ""}" stroke-width=${width}
      d="M${low.x} ${low.y}L${high.x} ${high.y + high.height}"><title>${text}</title></path></a>`;
}

function drawnSwitch({ it, x, y, width, height, named }, chosen, silent) {
  const text = `${it.name}${it.vtep_address ? `, VTEP ${it.vtep_address}` : ""}${silent ? ", announces nothing" : ""}`;
  return svg`<a href=${`#/map?switch=${encodeURIComponent(it.name)}`} aria-label=${text}>
    <rect class="switch ${chosen ? "chosen" : ""} ${silent ? "bad" : ""}" x=${x - width / 2} y=${y} width=${width} height=${height} rx="3"><title>${text}</title></rect>
    ${named ? svg`<text x=${x} y=${y + height / 2 + 4} text-anchor="middle" aria-hidden="true">${it.name.length > 14 ? `${it.name.slice(0, 13)}…` : it.name}</text>` : nothing}
  </a>`;
}

const labels = (it) => {
  const pairs = Object.entries(it.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return pairs.length ? foreign(pairs.join(" ")) : "";
};

function aboutSwitch(model, it, share, silent) {
  const links = [...model.links.values()].filter((link) => link.a.switch_name === it.name || link.b.switch_name === it.name);
  const ports = [...model.hostPorts.values()].filter((port) => port.switch_name === it.name);
  return html`<h2><bdi>${it.name}</bdi></h2>
    ${facts([
      ["Role", it.role === "SWITCH_ROLE_LEAF" ? "leaf" : "spine"], ["Tier", it.tier], ["Plane", it.plane], ["Rail", it.rail], ["Pod", it.pod && foreign(it.pod)],
      ["VTEP", it.vtep_address && html`${to("glass", it.vtep_address)}${silent(it) ? " announces nothing" : ""}`],
      ["Agent", it.agent_address && foreign(it.agent_address)],
      ["Plan", it.role === "SWITCH_ROLE_LEAF" && to("plan", it.name, "how it spreads what it sends")],
      ["Host ports", ports.length ? `${ports.length}` : ""],
      ["Labels", labels(it)],
    ].map(([name, value]) => [name, value === false ? "" : value]))}
    ${table(["Link", "Capacity", "State", "Share"], links.sort(numeric).map((link) => [
      html`<a href="#/map?link=${encodeURIComponent(link.name)}"><bdi>${link.name}</bdi></a>`, rate(link.capacity_bps),
      link.admin_state === "ADMIN_STATE_DOWN" ? "down" : "up", share(link) === undefined ? "" : percent(share(link)),
    ]))}`;
}

const aboutLink = (it, share) => html`<h2><bdi>${it.name}</bdi></h2>${facts([
  ["Between", html`${[it.a, it.b].map((end, at) => html`${at ? " and " : ""}<a href="#/map?switch=${encodeURIComponent(end.switch_name)}"><bdi>${end.switch_name}</bdi></a> <bdi>${end.interface_name}</bdi> ${end.address}`)}`],
  ["Capacity", rate(it.capacity_bps)], ["State", it.admin_state === "ADMIN_STATE_DOWN" ? "down" : "up"],
  ["Share", share(it) === undefined ? "" : `${percent(share(it))} of what the leaf sends`],
])}`;
