// What is wrong, on one screen; and the replicas.
import { html } from "./lit-html.js";
import { facts, foreign, mark, table } from "./parts.js";
import { ago, lag, leaves, spines, word, wrong } from "./model.js";

export function status({ model }) {
  const faults = wrong(model);
  const established = model.peers.filter((it) => it.session?.state === "SESSION_STATE_ESTABLISHED" || it.session_replica_ids?.length);
  const leader = model.replicas.find((it) => it.role === "REPLICA_ROLE_LEADER");
  return html`
    <h1>Status${model.fabric?.display_name ? html` of <bdi>${model.fabric.display_name}</bdi>` : ""}</h1>
    <section aria-label="What is wrong">
      ${faults.length
        ? html`<ul class="faults">${faults.map((it) => html`<li class=${it.level}>${mark(it.level, it.level === "bad" ? "fault" : "warning")}
            <span>${it.href ? html`<a href=${it.href}>${foreign(it.what)}</a>` : foreign(it.what)} ${foreign(it.text)}</span></li>`)}</ul>`
        : html`<p class="well">${model.heard ? "Nothing is wrong that weft knows of." : "…"}</p>`}
    </section>
    ${facts([
      ["Switches", html`<a href="#/map">${leaves(model).length} leaves, ${spines(model).length} spines</a>`],
      ["Links", `${model.links.size}`],
      ["Host ports", `${model.hostPorts.size}`],
      ["Peers", html`<a href="#/peers">${established.length} of ${model.peers.length} established</a>`],
      ["VTEPs", `${model.vteps.length}`],
      ["Generation", `${model.fabric?.generation ?? ""}`],
    ])}
    <h2>Replicas</h2>
    ${table(["Replica", "Role", "Term", "Committed", "Applied", "Lag", "Heard"], model.replicas.map((it) => [
      html`${it.id}${it.answering ? " (this one)" : ""}`,
      mark(it.role === "REPLICA_ROLE_UNREACHABLE" || it.degraded_reason ? "bad" : "good", word(it.role, "REPLICA_ROLE_")),
      it.term ?? "", it.commit_index ?? "", it.applied_index ?? "", lag(it, leader) || "",
      it.last_contact_time ? `${ago(it.last_contact_time, model.header)} ago` : "",
    ]))}`;
}
