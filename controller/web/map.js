// The fabric as a picture: tiers, links with capacity and share of the plan, what is down.
import { html, nothing, svg } from "./lit-html.js";
import { list } from "./api.js";
import { asked, facts, folded, foreign, labels, link as to, table, toSwitch } from "./parts.js";
import { SMALL_MAX, byName, carries, downText, isDown, isSetDown, percent, rate, silent } from "./model.js";

/** Which tier a switch is drawn in: 0 is nearest to the hosts. */
export const tier = (it) => it.tier ? it.tier - 1 : it.role === "SWITCH_ROLE_LEAF" ? 0 : 1;

/** Where each switch is drawn: many of a tier in several rows, which are named by their first and last. */
export function layout(switches) {
  const tiers = Map.groupBy(switches, tier);
  const places = new Map();
  const rows = [];
  let top = 24;
  for (const at of [...tiers.keys()].sort((a, b) => b - a)) {
    const some = tiers.get(at).sort(byName);
    const named = some.length <= NAMED_MAX;
    const columns = named ? some.length : Math.min(some.length, COLUMNS_MAX);
    const left = named ? 0 : MARGIN;
    const step = (WIDTH - 2 * left) / columns;
    const width = named ? Math.min(step - 10, 110) : Math.max(step - 3, 4);
    const height = named ? 28 : Math.min(width, 16);
    some.forEach((it, index) => {
      const x = left + (index % columns + 0.5) * step;
      const y = top + Math.floor(index / columns) * (height + 4);
      places.set(it.name, { it, x, y, width, height, named });
      if (!named && index % columns === 0) rows.push({ first: it.name, y: y + height / 2 + 4 });
      if (!named) rows.at(-1).last = it.name;
    });
    top += Math.ceil(some.length / columns) * (height + 4) + (at ? 150 : 24);
  }
  return { places, rows, height: top };
}

export function map(page) {
  const { model, route } = page;
  const switches = [...model.switches.values()];
  if (!switches.length) return html`<h1>Map</h1><p class="none">${model.heard ? "No fabric is declared: weft fabric apply FILE." : "…"}</p>`;
  const { places, rows, height } = layout(switches);
  const chosen = route.parameters.get("switch") ?? "";
  const chosenLink = route.parameters.get("link") ?? "";
  const small = switches.length <= SMALL_MAX;
  const touches = (it, name) => it.a.switch_name === name || it.b.switch_name === name;
  const links = [...model.links.values()];
  const down = links.filter((it) => isSetDown(model, it));
  const drawn = small ? links : [...new Set([...down.slice(0, DOWN_MAX), ...links.filter((it) => it.name === chosenLink || touches(it, chosen))])];
  const idle = drawn.filter((it) => isIdle(model, it)).length;
  const widest = Math.max(...drawn.map((it) => carries(model, it) ?? 0));
  const labelled = drawn.filter((it) => it.name === chosenLink || touches(it, chosen));
  const choose = ({ target }) => { location.hash = target.value ? `#/map?switch=${encodeURIComponent(target.value)}` : "#/map"; };
  return html`<h1>Map</h1>
    <p>${switches.length} switches, ${links.length} links${down.length ? html`, ${down.length} of them set down` : nothing}${idle ? html`, ${idle} that ${idle === 1 ? "carries" : "carry"} nothing` : nothing}.
      ${small ? nothing : "The links of a chosen switch are drawn, and those that are set down."}
      <label>Switch <select @change=${choose}><option value="">all</option>${switches.sort(byName).map((it) => html`<option value=${it.name} ?selected=${it.name === chosen}>${it.name}</option>`)}</select></label></p>
    <div class="map"><svg viewBox="0 0 ${WIDTH} ${height}" role="group" aria-label="Switches and links">
      ${drawn.map((it) => drawnLink(model, it, places, widest, it.name === chosenLink))}
      ${[...places.values()].map((place) => drawnSwitch(place, place.it.name === chosen, silent(model, place.it)))}
      ${rows.map(({ first, last, y }) => svg`<text x=${MARGIN - 6} y=${y} text-anchor="end">${short(first)}</text><text x=${WIDTH - MARGIN + 6} y=${y}>${short(last)}</text>`)}
      ${labelled.length <= LABELS_MAX ? labelled.map((it) => capacity(it, places, chosen)) : nothing}
    </svg></div>
    ${legend}
    ${model.switches.has(chosen) ? aboutSwitch(page, model.switches.get(chosen)) : nothing}
    ${model.links.has(chosenLink) ? aboutLink(model, model.links.get(chosenLink)) : nothing}`;
}

const sample = (shape, text) => html`<li><svg viewBox="0 0 34 12" width="34" height="12" aria-hidden="true">${shape}</svg> ${text}</li>`;
const legend = html`<ul class="legend" aria-label="Legend">
  ${sample(svg`<path class="link" stroke-width="5" d="M1 6H33"></path>`, "set up: the wider, the more of what the leaf sends")}
  ${sample(svg`<path class="link" stroke-width="1" d="M1 6H33"></path>`, "set up, share not known")}
  ${sample(svg`<path class="link idle" stroke-width="2.5" d="M1 6H33"></path>`, "set up, carries nothing: is down, or no plan uses it")}
  ${sample(svg`<path class="link down" stroke-width="1.5" d="M1 6H33"></path>`, "set down")}
  ${sample(svg`<rect class="switch bad" x="11" width="12" height="12" rx="3"></rect>`, "leaf that announces nothing")}
  <li><b>400G</b> capacity in b/s, at the links of what is chosen</li>
</ul>`;

const short = (name) => name.length > 14 ? `${name.slice(0, 13)}…` : name;

/** From where to where a link is drawn; undefined: one of its switches is not known. */
function line(it, places) {
  const a = places.get(it.a.switch_name);
  const b = places.get(it.b.switch_name);
  if (!a || !b) return undefined;
  const [low, high] = a.y > b.y ? [a, b] : [b, a];
  return { low: [low.x, low.y], high: [high.x, high.y + high.height], lowest: low.it.name };
}

function drawnLink(model, it, places, widest, chosen) {
  const at = line(it, places);
  if (!at) return nothing;
  const [share, down, idle] = [carries(model, it), isSetDown(model, it), isIdle(model, it)];
  const width = down ? 1.5 : idle ? 2.5 : share === undefined ? 1 : 1 + share / widest * 5;
  const text = `${it.name}: ${rate(it.capacity_bps)}, ${state(model, it)}${share !== undefined ? `, ${percent(share)} of what the leaf sends` : ""}`;
  return svg`<a href=${`#/map?link=${encodeURIComponent(it.name)}`} aria-label=${text} tabindex=${down || idle || chosen ? 0 : -1}>
    <path class="link ${down ? "down" : ""} ${chosen ? "chosen" : ""} ${idle ? "idle" : ""}" stroke-width=${width}
      d="M${at.low.join(" ")}L${at.high.join(" ")}"><title>${text}</title></path></a>`;
}

/** The capacity of a link, near its end that is not at the chosen switch. */
function capacity(it, places, chosen) {
  const at = line(it, places);
  if (!at) return nothing;
  const up = at.lowest === chosen ? 0.8 : it.a.switch_name === chosen || it.b.switch_name === chosen ? 0.2 : 0.5;
  const [x, y] = [0, 1].map((axis) => at.low[axis] + (at.high[axis] - at.low[axis]) * up);
  return svg`<text class="capacity" x=${x} y=${y + 4} text-anchor="middle" aria-hidden="true">${rate(it.capacity_bps).replace(/ (.?)b\/s/, "$1")}</text>`;
}

function drawnSwitch({ it, x, y, width, height, named }, chosen, dead) {
  const text = `${it.name}${it.vtep_address ? `, VTEP ${it.vtep_address}` : ""}${dead ? ", announces nothing" : ""}`;
  return svg`<a href=${`#/map?switch=${encodeURIComponent(it.name)}`} aria-label=${text} tabindex=${named || chosen ? 0 : -1}>
    <rect class="switch ${chosen ? "chosen" : ""} ${dead ? "bad" : ""}" x=${x - width / 2} y=${y} width=${width} height=${height} rx="3"><title>${text}</title></rect>
    ${named ? svg`<text x=${x} y=${y + height / 2 + 4} text-anchor="middle" aria-hidden="true">${short(it.name)}</text>` : nothing}
  </a>`;
}

/** Whether a link is down or in no plan, although it is set up. */
const isIdle = (model, it) => !isSetDown(model, it) && (isDown(model, it) || carries(model, it) === 0);

/** State of a link: as an operator set it, as weft sees it, and as the plan uses it. */
function state(model, it) {
  const share = carries(model, it);
  if (isSetDown(model, it)) return "set down";
  if (isDown(model, it)) return downText(model, it);
  return share === 0 ? "carries nothing" : share ? "up" : "set up";
}

const shareOf = (model, it) => {
  const share = carries(model, it);
  return share === undefined ? "" : percent(share);
};

function aboutSwitch(page, it) {
  const { model } = page;
  const leaf = it.role === "SWITCH_ROLE_LEAF";
  const links = [...model.links.values()].filter((link) => link.a.switch_name === it.name || link.b.switch_name === it.name);
  return html`<h2><bdi>${it.name}</bdi></h2>
    ${facts([
      ["Role", leaf ? "leaf" : "spine"], ["Tier", it.tier], ["Plane", it.plane], ["Rail", it.rail], ["Pod", it.pod && foreign(it.pod)],
      ["VTEP", it.vtep_address && html`${to("glass", it.vtep_address)}${silent(model, it) ? " announces nothing" : ""}`],
      ["Agent", it.agent_address && foreign(it.agent_address)],
      ["Plan", leaf ? to("plan", it.name, "how it spreads what it sends") : ""],
      ["Labels", labels(it)],
    ])}
    ${table(["Link", "Capacity", "State", "Share"], links.sort(byName).map((link) => [
      html`<a href="#/map?link=${encodeURIComponent(link.name)}"><bdi>${link.name}</bdi></a>`, rate(link.capacity_bps),
      foreign(state(model, link)), shareOf(model, link),
    ]))}
    ${folded(page, `ports ${it.name}`, "Host ports", () => asked(page.ask(`ports ${it.name}`, () => portsOf(it.name), 60_000), (ports) =>
      table(["Port", "Host", "VNI", "Capacity", "Rail", "Labels"], ports.map((port) => [
        foreign(port.interface_name), foreign(port.host_name ?? ""), port.vni !== undefined ? to("vnis", `${port.vni}`) : "",
        port.capacity_bps ? rate(port.capacity_bps) : "", port.rail ?? "", labels(port),
      ]), "No host port is declared.")))}`;
}

/** Host ports of a switch. A list has no filter for them, but names begin with the switch's and come in order. */
async function portsOf(name) {
  const behind = (found) => found.length && found.at(-1).name >= `${name};`;
  const { found } = await list("/v1/hostPorts", "host_ports", { page_size: 10_000 }, Infinity, behind);
  return found.filter((it) => it.switch_name === name);
}

const aboutLink = (model, it) => html`<h2><bdi>${it.name}</bdi></h2>${facts([
  ["Between", html`${[it.a, it.b].map((end, at) => html`${at ? " and " : ""}${toSwitch(end.switch_name)} <bdi>${end.interface_name}</bdi> ${end.address}`)}`],
  ["Capacity", rate(it.capacity_bps)], ["State", foreign(state(model, it))],
  ["Share", shareOf(model, it) && `${shareOf(model, it)} of what the leaf sends`],
  ["Labels", labels(it)],
])}`;

const WIDTH = 1200;
/** Beside rows whose switches are drawn without their names. */
const MARGIN = 100;
/** Switches of a tier that are drawn with their names, and columns of one whose are not. */
const NAMED_MAX = 24;
const COLUMNS_MAX = 64;
/** Capacities that are drawn beside each other. */
const LABELS_MAX = 32;
/** Links that are set down and drawn in a large fabric. */
const DOWN_MAX = 1_000;
