// What several views are made of.
import { html, nothing, svg } from "./lit-html.js";
import { percent } from "./model.js";

/** A table: columns are names, rows lists of cells. */
export const table = (columns, rows, none = "There is none.") => rows.length
  ? html`<div class="scroll" tabindex="0"><table>
      <thead><tr>${columns.map((it) => html`<th scope="col">${it}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr>${row.map((cell, at) => at ? html`<td>${cell}</td>` : html`<th scope="row">${cell}</th>`)}</tr>`)}</tbody>
    </table></div>`
  : html`<p class="none">${none}</p>`;

/** Names and values. */
export const facts = (pairs) => html`<dl>${pairs.filter(([, value]) => value !== undefined && value !== "" && value !== nothing)
  .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

/** Text of somebody else: its direction does not reach beyond it. */
export const foreign = (text) => html`<bdi>${text}</bdi>`;

export const link = (view, name, text = name) => html`<a href="#/${view}/${encodeURIComponent(name)}"><bdi>${text}</bdi></a>`;

/** To a switch in the map. */
export const toSwitch = (name) => html`<a href="#/map?switch=${encodeURIComponent(name)}"><bdi>${name}</bdi></a>`;

/** A state with its colour, and its word for those who see none. */
export const mark = (level, text) => html`<span class="mark ${level}">${text}</span>`;

/** Why there is no answer, or none since the last one. */
export const fault = (known) => known.error ? html`<p class="fault" role="alert">${known.error.message}</p>` : nothing;

export const labels = (it) => {
  const pairs = Object.entries(it.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return pairs.length ? foreign(pairs.join(" ")) : "";
};

/** A share as a bar, and the one before as its outline, if there is one to compare with. What is more than all fills it. */
export const bar = (of, share, before, text = percent) => html`<div class="bar">
  <span class="of">${of}</span>
  <svg viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=${`${text(share)}${before !== undefined ? `, before ${text(before)}` : ""}`}>
    <rect class="ground" width="100" height="8"></rect>
    <rect class="share" width=${Math.min(share, 1) * 100} height="8"></rect>
    ${before !== undefined ? svg`<rect class="before" width=${before * 100} height="8"></rect>` : nothing}
  </svg>
  <span class="number">${text(share)}${before !== undefined ? html` <small>was ${text(before)}</small>` : nothing}</span>
</div>`;

/** What was asked: the answer drawn, the wait, or why there is none. */
export const asked = (known, shown) => html`
  ${fault(known)}
  ${known.answer !== undefined ? shown(known.answer) : known.error ? nothing : html`<p class="wait">…</p>`}`;

/** What is drawn, and asked for, only while somebody has it open. */
export function folded(page, key, summary, shown) {
  const open = page.open.has(key);
  const toggle = ({ target }) => {
    if (target.open === page.open.has(key)) return;
    if (target.open) page.open.add(key);
    else page.open.delete(key);
    page.draw();
  };
  return html`<details ?open=${open} @toggle=${toggle}><summary>${summary}</summary>${open ? shown() : nothing}</details>`;
}
