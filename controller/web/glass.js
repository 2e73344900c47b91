// The looking glass: an IP, MAC, prefix, VTEP or VNI gives every path, why it won, and to whom it was advertised.
import { html, nothing } from "./lit-html.js";
import { get, list, maybe } from "./api.js";
import { asked, facts, foreign, link, mark, table } from "./parts.js";
import { classify, word } from "./model.js";

const ROUTES_MAX = 200;
const FULL = "ROUTE_VIEW_FULL";

export function glass(page, name) {
  const submit = (event) => {
    event.preventDefault();
    const text = new FormData(event.target).get("q").trim();
    page.stale();
    location.hash = `#/glass/${encodeURIComponent(text)}`;
    page.draw();
  };
  const asking = classify(name);
  const known = ["nothing", "unknown"].includes(asking.kind) ? undefined : page.ask(`glass ${name}`, () => find(asking));
  return html`<h1>Looking glass</h1>
    <form @submit=${submit} role="search">
      <label for="q">IP, MAC, prefix, VTEP or VNI</label>
      <input id="q" name="q" .value=${name} autocomplete="off" spellcheck="false" placeholder="00:00:5e:00:53:01">
      <button>Look</button>
    </form>
    ${asking.kind === "unknown" ? html`<p class="fault" role="alert">${foreign(name)} is no IP address, MAC address, prefix or VNI.</p>` : nothing}
    ${known ? asked(known, (answer) => found(answer, page.model)) : nothing}`;
}

/** Everything that is known of what was asked for. */
async function find(asking) {
  const routes = (parameters) => list("/v1/routes", "routes", { view: FULL, page_size: ROUTES_MAX, ...parameters }, ROUTES_MAX);
  switch (asking.kind) {
    case "mac": return { routes: await routes({ mac: asking.value }) };
    case "vni": {
      const [vni, all] = await Promise.all([maybe(get(`/v1/vnis/${asking.value}`)), routes({ vni: asking.value })]);
      return { vni: vni?.resource, routes: all };
    }
    case "prefix": {
      const family = asking.v6 ? "ADDRESS_FAMILY_IPV6_UNICAST" : "ADDRESS_FAMILY_IPV4_UNICAST";
      const [address] = asking.value.split("/");
      const [unicast, evpn] = await Promise.all([
        routes({ family, key: asking.value }), routes({ ip: address, route_type: "EVPN_ROUTE_TYPE_IP_PREFIX" }),
      ]);
      return { routes: both(unicast, evpn) };
    }
    default: {
      const family = asking.v6 ? "ADDRESS_FAMILY_IPV6_UNICAST" : "ADDRESS_FAMILY_IPV4_UNICAST";
      const [hosts, vtep, evpn, unicast, behind] = await Promise.all([
        list("/v1/hostAddresses", "host_addresses", { ip: asking.value }, 100),
        maybe(get(`/v1/vteps/${encodeURIComponent(asking.value)}`)),
        routes({ ip: asking.value }), routes({ family, ip: asking.value }), routes({ vtep_address: asking.value }),
      ]);
      return { hosts: hosts.found, vtep: vtep?.resource, routes: both(evpn, unicast, behind) };
    }
  }
}

function both(...lists) {
  const seen = new Map(lists.flatMap((it) => it.found).map((it) => [`${it.family} ${it.rd ?? ""} ${it.key}`, it]));
  return { found: [...seen.values()], more: lists.some((it) => it.more) };
}

function found({ hosts, vtep, vni, routes }, model) {
  return html`
    ${hosts?.length ? html`<h2>Host</h2>${table(["IP", "MAC", "VNI", "VTEP", "Segment", "Sequence"], hosts.map((it) => [
      it.ip, link("glass", it.mac), it.vni !== undefined ? link("vnis", `${it.vni}`) : it.rd ?? "", link("glass", it.vtep_address), it.esi ?? "", it.sequence,
    ]))}` : nothing}
    ${vtep ? html`<h2>VTEP</h2>${facts([
      ["Address", vtep.address], ["Switch", vtep.switch_name && html`<a href="#/map?switch=${encodeURIComponent(vtep.switch_name)}"><bdi>${vtep.switch_name}</bdi></a>`],
      ["Peer", link("peers", vtep.peer_router_id)], ["VNIs", html`${vtep.vnis.slice(0, 64).map((it) => html`${link("vnis", `${it}`)} `)}`],
      ["MAC routes", `${vtep.mac_route_count}`],
    ])}` : nothing}
    ${vni ? html`<h2>VNI ${vni.vni}</h2><p>${link("vnis", `${vni.vni}`, "VTEPs and flood list")}: ${vni.vteps.length} VTEPs</p>` : nothing}
    <h2>${routes.found.length}${routes.more ? " of more" : ""} ${routes.found.length === 1 ? "route" : "routes"}</h2>
    ${routes.found.length ? routes.found.map((it) => route(it)) : html`<p class="none">No route is known.</p>`}`;
}

const route = (it) => html`<article class="route">
  <h3><code>${it.rd ? `${it.rd} ` : ""}${it.key}</code></h3>
  <p class="kind">${word(it.family, "ADDRESS_FAMILY_")}${typeof it.route_type === "string" && !it.route_type.endsWith("UNSPECIFIED") ? `, ${word(it.route_type, "EVPN_ROUTE_TYPE_")}` : ""}</p>
  ${it.paths.map((path) => html`<section class="way ${path.best ? "best" : ""}">
    <p>${path.best ? mark("good", "best") : mark("quiet", "path")} from ${link("peers", path.peer_router_id)} (AS ${path.peer_asn})
      ${path.next_hop ? html`by ${link("glass", path.next_hop)}` : nothing}${path.vni !== undefined ? html` in VNI ${link("vnis", `${path.vni}`)}` : nothing}${path.decision ? html`<span class="why">: ${foreign(path.decision)}</span>` : nothing}</p>
    ${facts([
      ["AS path", path.as_path], ["Local preference", `${path.local_preference}`], ["MED", path.med],
      ["Segment", path.esi && !/^00(:00)*$/.test(path.esi) ? path.esi : ""],
      ["Communities", (path.communities ?? []).join(" ")], ["Extended", path.extended_communities?.length ? foreign(path.extended_communities.join(" ")) : ""],
      ["Large", (path.large_communities ?? []).join(" ")], ["Stale", word(path.staleness, "STALENESS_").replace(/unspecified|fresh/, "")],
    ])}
    ${path.advertisements?.length ? html`<details><summary>advertised to ${path.advertisements.filter((it) => it.advertised).length} of ${path.advertisements.length} peers of this replica</summary>
      ${table(["Peer", "Advertised", "Why not"], path.advertisements.map((to) => [
        link("peers", to.peer_address), to.advertised ? mark("good", "yes") : mark("quiet", "no"), to.reason_text ? foreign(to.reason_text) : "",
      ]))}</details>` : nothing}
  </section>`)}
</article>`;
