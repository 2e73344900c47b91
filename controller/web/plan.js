// How one leaf should spread what it sends, beside the plan before.
import { html, nothing, svg } from "./lit-html.js";
import { get } from "./api.js";
import { asked, foreign, table } from "./parts.js";
import { leaves, percent, shares } from "./model.js";

/** Of each leaf the plan that was shown last and the one before it. */
const seen = new Map();

function remember(leaf, plan) {
  const known = seen.get(leaf) ?? {};
  const now = JSON.stringify(shares(plan));
  if (known.now !== now) {
    seen.set(leaf, { now, plan, before: known.plan });
  }
  return seen.get(leaf);
}

export function plan(page, name) {
  const names = leaves(page.model).map((it) => it.name).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const leaf = name || names[0];
  const known = leaf ? page.ask(`plan ${leaf}`, () => get(`/v1/leafPlans/${encodeURIComponent(leaf)}`), 2_000) : undefined;
  const to = (event) => { location.hash = `#/plan/${encodeURIComponent(event.target.value)}`; };
  return html`<h1>Plan of ${names.length
      ? html`<select aria-label="Leaf" @change=${to} .value=${leaf}>${names.map((it) => html`<option value=${it} ?selected=${it === leaf}>${it}</option>`)}</select>`
      : "a leaf"}</h1>
    ${known ? asked(known, ({ resource }) => drawn(resource, remember(leaf, resource).before)) : html`<p class="none">No leaf is declared.</p>`}`;
}

function drawn(plan, before) {
  const now = shares(plan);
  const then = new Map(shares(before).map((it) => [it.interface_name, it]));
  const gone = [...then.values()].filter((it) => !now.some((other) => other.interface_name === it.interface_name));
  const rows = [...now, ...gone.map((it) => ({ ...it, share: 0 }))];
  if (!rows.length) return html`<p class="none">There is no plan: nothing alive leads from it to another leaf, or the fabric has just been declared.</p>`;
  return html`
    <p>Share of each uplink in what the leaf sends, if it sends as much to every other leaf${before ? "; the outline is the plan before" : ""}.</p>
    <div class="bars">${rows.map((it) => bar(it, then.get(it.interface_name), Boolean(before)))}</div>
    <h2>Prefixes</h2>
    ${table(["Destination", "Prefix", "Next hops and weights", "Why"], (plan.entries ?? []).slice(0, 200).map((entry) => [
      foreign(entry.destination_switch_name), entry.prefix,
      entry.members.length ? html`<bdi>${entry.members.map((it) => `${it.interface_name} ${it.weight}`).join(", ")}</bdi>` : "its own routing decides",
      foreign(entry.reason),
    ]))}
    ${(plan.entries ?? []).length > 200 ? html`<p class="none">${plan.entries.length - 200} more; GET /v1/leafPlans/${plan.leaf_name} has all.</p>` : nothing}`;
}

const bar = (it, before, compared) => html`<div class="bar">
  <span class="of"><bdi>${it.interface_name}</bdi> <small>to <bdi>${it.neighbor_switch_name}</bdi></small></span>
  <svg viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=${`${percent(it.share)}${compared ? `, before ${percent(before?.share ?? 0)}` : ""}`}>
    <rect class="ground" width="100" height="8"></rect>
    <rect class="share" width=${it.share * 100} height="8"></rect>
    ${compared ? svg`<rect class="before" width=${(before?.share ?? 0) * 100} height="8"></rect>` : nothing}
  </svg>
  <span class="number">${percent(it.share)}${compared ? html` <small>was ${percent(before?.share ?? 0)}</small>` : nothing}</span>
</div>`;
