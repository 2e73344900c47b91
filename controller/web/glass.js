// The looking glass: an IP, MAC, prefix, VTEP or VNI gives every path, why it won, and to whom it was advertised.
import { html, nothing } from "./lit-html.js";
import { get, list, maybe } from "./api.js";
import { asked, facts, fault, folded, foreign, link, mark, table, toSwitch } from "./parts.js";
import { classify, prefixLength, word } from "./model.js";

export function glass(page, name) {
  const submit = (event) => {
    event.preventDefault();
    const text = new FormData(event.target).get("q").trim();
    page.stale("glass");
    page.stale("route");
    location.hash = `#/glass/${encodeURIComponent(text)}`;
    page.draw();
  };
  const asking = classify(name);
  const known = ["nothing", "unknown"].includes(asking.kind) ? undefined : page.ask(`glass ${name}`, () => find(asking, page.model));
  return html`<h1>Looking glass</h1>
    <form @submit=${submit} role="search">
      <label for="q">IP, MAC, prefix, VTEP or VNI</label>
      <input id="q" name="q" .value=${name} autocomplete="off" spellcheck="false" placeholder="00:00:5e:00:53:01">
      <button>Look</button>
    </form>
    ${asking.kind === "unknown" ? html`<p class="fault" role="alert">${foreign(name)} is no IP address, MAC address, prefix or VNI.</p>` : nothing}
    ${known ? asked(known, (answer) => found(page, answer)) : nothing}`;
}

/** What is known of what was asked for: routes without what a single one is asked for. */
async function find(asking, model) {
  const routes = (parameters) => list("/v1/routes", "routes", { view: "ROUTE_VIEW_BASIC", page_size: ROUTES_MAX, ...parameters }, ROUTES_MAX);
  const family = asking.v6 ? "ADDRESS_FAMILY_IPV6_UNICAST" : "ADDRESS_FAMILY_IPV4_UNICAST";
  switch (asking.kind) {
    case "mac": return { routes: await routes({ mac: asking.value }) };
    case "vni": {
      const [vni, all] = await Promise.all([maybe(get(`/v1/vnis/${asking.value}`)), routes({ vni: asking.value })]);
      return { vni: vni?.resource, routes: all };
    }
    case "prefix": {
      const [ip, length] = asking.value.split("/");
      const all = both(...await Promise.all([routes({ family, ip }), routes({ ip, route_type: "EVPN_ROUTE_TYPE_IP_PREFIX" })]));
      // What is longer has the address, and covers a part of the prefix alone.
      const covering = all.found.filter((it) => prefixLength(it) <= Number(length));
      return { routes: { ...all, found: longestFirst(covering) }, covered: true };
    }
    default: {
      const [hosts, evpn, unicast, behind] = await Promise.all([
        list("/v1/hostAddresses", "host_addresses", { ip: asking.value }, 100),
        routes({ ip: asking.value }), routes({ family, ip: asking.value }), routes({ vtep_address: asking.value }),
      ]);
      const covering = longestFirst(both(evpn, unicast).found);
      const all = both({ found: covering, more: evpn.more || unicast.more }, behind);
      return { hosts: hosts.found, vtep: model.vteps.find((it) => it.address === asking.value), routes: all, covered: covering.some((it) => prefixLength(it) !== Infinity) };
    }
  }
}

const id = (it) => `${it.family} ${it.rd ?? ""} ${it.key}`;

function both(...lists) {
  const seen = new Map(lists.flatMap((it) => it.found).map((it) => [id(it), it]));
  return { found: [...seen.values()], more: lists.some((it) => it.more) };
}

const longestFirst = (routes) => routes.sort((a, b) => prefixLength(a) === prefixLength(b) ? 0 : prefixLength(b) - prefixLength(a));

function found(page, { hosts, vtep, vni, routes, covered }) {
  const few = routes.found.length <= FULL_MAX;
  return html`
    ${hosts?.length ? html`<h2>Host</h2>${table(["IP", "MAC", "VNI", "VTEP", "Segment", "Sequence"], hosts.map((it) => [
      it.ip, link("glass", it.mac), it.vni !== undefined ? link("vnis", `${it.vni}`) : it.rd ?? "", link("glass", it.vtep_address), it.esi ?? "", it.sequence,
    ]))}` : nothing}
    ${vtep ? html`<h2>VTEP</h2>${facts([
      ["Address", vtep.address], ["Switch", vtep.switch_name && toSwitch(vtep.switch_name)],
      ["Peer", link("peers", vtep.peer_router_id)],
      ["VNIs", html`${vtep.vnis.slice(0, 64).map((it) => html`${link("vnis", `${it}`)} `)}${vtep.vnis.length > 64 ? `and ${vtep.vnis.length - 64} more` : ""}`],
      ["MAC routes", `${vtep.mac_route_count}`],
    ])}` : nothing}
    ${vni ? html`<h2>VNI ${vni.vni}</h2><p>${link("vnis", `${vni.vni}`, "VTEPs and flood list")}: ${vni.vteps.length} VTEPs</p>` : nothing}
    <h2>${routes.found.length}${routes.more ? " of more" : ""} ${routes.found.length === 1 ? "route" : "routes"}</h2>
    ${covered && routes.found.length ? html`<p class="none">Prefixes that cover it are among them: the longest first.</p>` : nothing}
    ${routes.found.length ? routes.found.map((it) => few ? whole(page, it) : brief(page, it)) : html`<p class="none">No route is known.</p>`}`;
}

/** One route in full: why each path won or lost, and to whom it is advertised. */
const full = (page, it) => page.ask(`route ${id(it)}`, () => maybe(get(`/v1/routes/${encodeURIComponent(it.key)}`, { family: it.family, rd: it.rd })), 10_000);

const kind = (it) => `${word(it.family, "ADDRESS_FAMILY_")}${typeof it.route_type === "string" && !it.route_type.endsWith("UNSPECIFIED") ? `, ${word(it.route_type, "EVPN_ROUTE_TYPE_")}` : ""}`;

/** A route among few: as it is known, and in full as soon as that is. */
function whole(page, it) {
  const known = full(page, it);
  return html`<article class="route">
    <h3><code>${it.rd ? `${it.rd} ` : ""}${it.key}</code></h3>
    <p class="kind">${kind(it)}</p>
    ${fault(known)}
    ${(known.answer?.resource ?? it).paths.map((path, at) => way(page, it, path, at))}
  </article>`;
}

/** A route among many: a line, and in full when it is opened. */
function brief(page, it) {
  const best = it.paths.find((path) => path.best) ?? it.paths[0];
  const summary = html`<code>${it.rd ? `${it.rd} ` : ""}${it.key}</code> <small>${kind(it)}${best?.next_hop ? `, by ${best.next_hop}` : ""}${it.paths.length > 1 ? `, ${it.paths.length} paths` : ""}</small>`;
  return html`<article class="route">${folded(page, `brief ${id(it)}`, summary, () => {
    const known = full(page, it);
    return html`${fault(known)}${(known.answer?.resource ?? it).paths.map((path, at) => way(page, it, path, at))}`;
  })}</article>`;
}

const way = (page, it, path, at) => html`<section class="way ${path.best ? "best" : ""}">
  <p>${path.best ? mark("good", "best") : mark("quiet", "path")} from ${link("peers", path.peer_router_id)} (AS ${path.peer_asn})
    ${path.next_hop ? html`by ${link("glass", path.next_hop)}` : nothing}${path.vni !== undefined ? html` in VNI ${link("vnis", `${path.vni}`)}` : nothing}${path.decision ? html`<span class="why">: ${foreign(path.decision)}</span>` : nothing}</p>
  ${facts([
    ["AS path", path.as_path], ["Local preference", `${path.local_preference}`], ["MED", path.med],
    ["Segment", path.esi && !/^00(:00)*$/.test(path.esi) ? path.esi : ""],
    ["Communities", (path.communities ?? []).join(" ")], ["Extended", path.extended_communities?.length ? foreign(path.extended_communities.join(" ")) : ""],
    ["Large", (path.large_communities ?? []).join(" ")], ["Stale", word(path.staleness, "STALENESS_").replace(/unspecified|fresh/, "")],
  ])}
  ${path.advertisements?.length ? folded(page, `told ${at} ${id(it)}`,
    `advertised to ${path.advertisements.filter((to) => to.advertised).length} of ${path.advertisements.length} peers of this replica`,
    () => table(["Peer", "Advertised", "Why not"], path.advertisements.map((to) => [
      link("peers", to.peer_address), to.advertised ? mark("good", "yes") : mark("quiet", "no"), to.reason_text ? foreign(to.reason_text) : "",
    ]))) : nothing}
</section>`;

/** Routes of one question. */
const ROUTES_MAX = 200;
/** So many are asked for in full at once: each names every peer. */
const FULL_MAX = 3;
