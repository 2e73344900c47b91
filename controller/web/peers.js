// BGP neighbours, and one of them in full.
import { html } from "./lit-html.js";
import { get } from "./api.js";
import { asked, facts, foreign, link, mark, table } from "./parts.js";
import { ago, word } from "./model.js";

const state = (session) => session
  ? mark(session.state === "SESSION_STATE_ESTABLISHED" ? "good" : "bad", word(session.state, "SESSION_STATE_"))
  : mark("quiet", "elsewhere");

export function peers({ model }) {
  const rows = model.peers.map((it) => [
    link("peers", it.session?.address ?? it.router_id), it.router_id ?? "", it.asn ?? "", state(it.session),
    ago(it.session?.state_change_time, model.peersHeader), it.route_count, (it.session_replica_ids ?? []).join(" "),
    it.owner_replica_id ?? "", it.session?.last_error && it.session.state !== "SESSION_STATE_ESTABLISHED" ? foreign(it.session.last_error) : "",
  ]);
  return html`<h1>Peers</h1>
    ${table(["Peer", "Router id", "AS", "State", "For", "Routes", "Established at", "Owner", "Why not"], rows, "No peer is configured, and none was heard of.")}`;
}

export function peer(page, name) {
  const known = page.ask(`peer ${name}`, () => get(`/v1/peers/${encodeURIComponent(name)}`), 2_000);
  return html`<p class="path"><a href="#/peers">Peers</a></p><h1>${foreign(name)}</h1>
    ${asked(known, ({ resource: it, header }) => {
      const { session, detail } = it;
      return html`${facts([
        ["State", state(session)], ["For", ago(session?.state_change_time, header)],
        ["Router id", it.router_id], ["AS", it.asn], ["Owner", it.owner_replica_id && `replica ${it.owner_replica_id}`],
        ["Established at", (it.session_replica_ids ?? []).map((id) => `replica ${id}`).join(", ")],
        ["Routes", `${it.route_count}`], ["Kept", word(it.staleness, "STALENESS_").replace("unspecified", "")],
        ["Group", session?.peer_group && foreign(session.peer_group)],
        ["Description", detail?.description && foreign(detail.description)],
        ["Taken for", detail?.profile && `${detail.profile}: ${detail.profile_reason ?? ""}`],
        ["Hold time", detail?.hold_time], ["Keepalive", detail?.keepalive_interval],
        ["BFD", detail && word(detail.bfd_state, "BFD_STATE_").replace("unspecified", "none")],
        ["Messages", session && `${session.messages_received} received, ${session.messages_sent} sent`],
        ["Waits", detail?.wait_reason && foreign(detail.wait_reason)],
        ["Last error", session?.last_error && foreign(session.last_error)],
      ])}
      ${detail ? html`<h2>Families</h2>
        ${table(["Family", "Routes", "ADD-PATH", "End-of-RIB", "Wants"], (detail.families ?? []).map((family) => [
          word(family.family, "ADDRESS_FAMILY_"), family.route_count,
          [family.add_path_receive && "receive", family.add_path_send && "send"].filter(Boolean).join(", "),
          family.end_of_rib_received ? "received" : "",
          family.interest?.everything ? "everything" : family.interest ? `${family.interest.route_target_count} route targets` : "",
        ]), "No session.")}
        <h2>Counted</h2>
        ${facts(["refused", "discarded", "suspect", "malformed", "dropped", "refused_connections"].flatMap((kind) =>
          Object.entries(detail[kind] ?? {}).map(([reason, count]) => [`${kind}: ${reason}`, `${count}`])))}
        <h2>Capabilities</h2><ul class="plain">${(detail.capabilities ?? []).map((text) => html`<li>${foreign(text)}</li>`)}</ul>` : ""}`;
    })}`;
}
