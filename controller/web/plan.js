// How one leaf should spread what it sends, beside the plan before.
import { html, nothing } from "./lit-html.js";
import { leafPlan } from "./api.js";
import { asked, bar, foreign, table } from "./parts.js";
import { byInterface, byName, leaves, shares } from "./model.js";

/** Of each leaf the shares that were shown last and those before them, as text; a tab keeps them when it is loaded anew. */
const seen = new Map();

/** Shares before the last change that this tab saw; undefined: it saw none. */
function remember(leaf, shown) {
  const key = `weft plan ${leaf}`;
  const known = seen.get(leaf) ?? kept(key);
  const now = JSON.stringify(shown);
  if (known.now === now) {
    seen.set(leaf, known);
  } else {
    seen.set(leaf, { now, before: known.now });
    try {
      sessionStorage.setItem(key, JSON.stringify(seen.get(leaf)));
    } catch {
      // A browser that keeps nothing: until the page is loaded anew.
    }
  }
  const { before } = seen.get(leaf);
  return before && JSON.parse(before);
}

function kept(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key)) ?? {};
  } catch {
    return {};
  }
}

export function plan(page, name) {
  const names = leaves(page.model).sort(byName).map((it) => it.name);
  const leaf = name || names[0];
  const known = leaf ? page.ask(`plan ${leaf}`, () => leafPlan(leaf), 2_000) : undefined;
  const to = (event) => { location.hash = `#/plan/${encodeURIComponent(event.target.value)}`; };
  return html`<h1>Plan of ${names.length
      ? html`<select aria-label="Leaf" @change=${to} .value=${leaf}>${names.map((it) => html`<option value=${it} ?selected=${it === leaf}>${it}</option>`)}</select>`
      : "a leaf"}</h1>
    ${known ? asked(known, (it) => drawn(it, shares(it))) : html`<p class="none">${page.model.heard ? "No leaf is declared." : "…"}</p>`}`;
}

function drawn(plan, now) {
  // A leaf without a plan yet has no shares that a later one could be compared with.
  const before = plan.plan_revision === undefined ? undefined : remember(plan.leaf_name, now);
  const then = new Map((before ?? []).map((it) => [it.interface_name, it]));
  const gone = [...then.values()].filter((it) => !now.some((other) => other.interface_name === it.interface_name));
  const rows = [...now, ...gone.map((it) => ({ ...it, share: 0 }))].sort(byInterface);
  if (!rows.length) return html`<p class="none">There is no plan: nothing alive leads from it to another leaf, or the fabric has just been declared.</p>`;
  return html`
    <p>Share of each uplink in what the leaf sends, if it sends as much to every other leaf${before ? "; the outline is the plan before" : ""}.</p>
    <div class="bars">${rows.map((it) => bar(
      html`<bdi>${it.interface_name}</bdi> <small>to <bdi>${it.neighbor_switch_name}</bdi></small>`,
      it.share, before && (then.get(it.interface_name)?.share ?? 0),
    ))}</div>
    <h2>Prefixes</h2>
    ${table(["Destination", "Prefix", "Next hops and weights", "Why"], (plan.entries ?? []).slice(0, ENTRIES_MAX).map((entry) => [
      foreign(entry.destination_switch_name), entry.prefix,
      entry.members.length ? html`<bdi>${entry.members.map((it) => `${it.interface_name} ${it.weight}`).join(", ")}</bdi>` : "its own routing decides",
      foreign(entry.reason),
    ]))}
    ${(plan.entries ?? []).length > ENTRIES_MAX ? html`<p class="none">${plan.entries.length - ENTRIES_MAX} more; GET /v1/leafPlans?leaf_name=${plan.leaf_name} has all.</p>` : nothing}`;
}

/** Prefixes that are drawn. */
const ENTRIES_MAX = 200;
