// What is wrong, on one screen; and the replicas.
import { html, nothing } from "./lit-html.js";
import { facts, foreign, mark, table } from "./parts.js";
import { SMALL_MAX, ago, lag, leaves, naturally, spines, word, wrong } from "./model.js";

export function status({ model }) {
  const faults = wrong(model);
  const groups = Map.groupBy(faults, (it) => it.group);
  const established = model.peers.filter((it) => it.session?.state === "SESSION_STATE_ESTABLISHED" || it.session_replica_ids?.length);
  const leader = model.replicas.find((it) => it.role === "REPLICA_ROLE_LEADER");
  return html`
    <h1>Status${model.fabric?.display_name ? html` of <bdi>${model.fabric.display_name}</bdi>` : ""}</h1>
    <section aria-label="What is wrong">
      ${faults.length
        ? [...groups].map(([name, some]) => group(name, some))
        : html`<p class="well">${model.heard ? "Nothing is wrong that weft knows of." : "…"}</p>`}
      ${model.switches.size > SMALL_MAX ? html`<p class="none">Of ${model.switches.size} switches, plans are not asked for here: which links carry nothing, though they are set up, is in the map of a leaf.</p>` : nothing}
    </section>
    ${facts([
      ["Switches", html`<a href="#/map">${leaves(model).length} leaves, ${spines(model).length} spines</a>`],
      ["Links", `${model.links.size}`],
      ["Hosts", model.fabric && `${model.fabric.host_count}`],
      ["Host ports", model.fabric && `${model.fabric.host_port_count}`],
      ["Peers", html`<a href="#/peers">${established.length} of ${model.peers.length} established</a>`],
      ["VTEPs", `${model.vteps.length}`],
      ["Jobs", html`<a href="#/jobs">${model.jobs.size}</a>`],
      ["Generation", model.fabric && `${model.fabric.generation}`],
    ])}
    <h2>Replicas</h2>
    ${table(["Replica", "Role", "Term", "Committed", "Applied", "Lag", "Heard"], model.replicas.map((it) => [
      html`${it.id}${it.answering ? " (this one)" : ""}`,
      mark(it.role === "REPLICA_ROLE_UNREACHABLE" || it.degraded_reason ? "bad" : "good", word(it.role, "REPLICA_ROLE_")),
      it.term ?? "", it.commit_index ?? "", it.applied_index ?? "", lag(it, leader) ?? "",
      it.last_contact_time ? `${ago(it.last_contact_time, model.header)} ago` : "",
    ]))}`;
}

const group = (name, faults) => html`<h2>${name} <span class="number">${faults.length}</span></h2>
  <ul class="faults">${faults.sort((a, b) => naturally(a.level + a.what, b.level + b.what)).slice(0, LINES_MAX).map((it) => html`<li class=${it.level}>${mark(it.level, it.level === "bad" ? "fault" : "warning")}
    <span>${it.href ? html`<a href=${it.href}>${foreign(it.what)}</a>` : foreign(it.what)} ${foreign(it.text)}</span></li>`)}
    ${faults.length > LINES_MAX ? html`<li>and ${faults.length - LINES_MAX} more</li>` : nothing}</ul>`;

/** Lines of one group: what is wrong fits on a screen. */
const LINES_MAX = 20;
