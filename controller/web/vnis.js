// VNIs with their VTEPs and flood lists.
import { html } from "./lit-html.js";
import { get, list } from "./api.js";
import { asked, link, table, toSwitch } from "./parts.js";

export function vnis(page) {
  const known = page.ask("vnis", () => list("/v1/vnis", "vnis", {}, VNIS_MAX), 60_000);
  return html`<h1>VNIs</h1>${asked(known, ({ found, more }) => html`
    ${table(["VNI", "VTEPs", "MAC routes", "Switches"], found.map((it) => [
      link("vnis", `${it.vni}`), it.vteps.length, it.vteps.reduce((sum, vtep) => sum + vtep.mac_route_count, 0),
      html`<bdi>${it.vteps.slice(0, 8).map((vtep) => vtep.switch_name ?? vtep.address).join(", ")}${it.vteps.length > 8 ? " …" : ""}</bdi>`,
    ]), "No inclusive multicast route tells of a VNI.")}
    <p class="none">As of the last minute${more ? "; there are more, and the looking glass finds each" : ""}.</p>`)}`;
}

export function vni(page, name) {
  const known = page.ask(`vni ${name}`, () => get(`/v1/vnis/${encodeURIComponent(name)}`));
  return html`<p class="path"><a href="#/vnis">VNIs</a></p><h1>VNI ${name}</h1>
    ${asked(known, ({ resource }) => html`
      <p>Broadcast, unknown unicast and multicast frames are flooded among these VTEPs: each floods to all the others.</p>
      ${table(["VTEP", "Switch", "MAC routes", "Floods to"], resource.vteps.map((it) => [
        link("glass", it.address), it.switch_name ? toSwitch(it.switch_name) : "",
        it.mac_route_count,
        html`<bdi>${resource.vteps.filter((other) => other !== it).slice(0, 12).map((other) => other.address).join(" ")}${resource.vteps.length > 13 ? " …" : ""}</bdi>`,
      ]))}
      <p><a href="#/glass/${encodeURIComponent(name)}">Its routes in the looking glass</a></p>`)}`;
}

/** VNIs that are drawn. */
const VNIS_MAX = 10_000;
