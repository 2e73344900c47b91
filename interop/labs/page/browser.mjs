// Chromium before the page, and what every story about it needs: to go to a view, to wait until the page says something, to change
// a link, to measure. Knows no lab and no fabric.
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { gzipSync } from "node:zlib";

// Where `cargo interop` puts them.
const cache = process.env.XDG_CACHE_HOME ?? `${process.env.HOME}/.cache`;
const require = createRequire(`${cache}/weft/page/`);
const { chromium } = require("playwright-core");
const axe = () => readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const SHOTS = process.env.WEFT_SHOTS ?? "shots";
/** A folder that the page's files are taken from, instead of from weftd: to try what is not built yet. */
const WEB = process.env.WEFT_WEB;

export const say = (text) => console.log(text);
export const milliseconds = (from) => Math.round(performance.now() - from);
export const json = async (base, path) => (await fetch(base + path)).json();

/**
 * A page at `base`. `faults` fill with what its console says, but for connections that break: those are part of the story.
 * `api` is where this script itself asks: a name that only the browser resolves is none for it.
 */
export async function open({ base, api = base, args = [] }) {
  mkdirSync(SHOTS, { recursive: true });
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", ...args] });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  // The document is weftd's own: scripts of one that came from nowhere may not call a server of this machine.
  if (WEB) await context.route(/\.(js|css|svg)$/, (route) => route.fulfill({ path: WEB + new URL(route.request().url()).pathname }));
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => { if (message.type() === "error" && !message.text().includes("ERR_")) faults.push(message.text()); });

  const go = async (view) => {
    await page.goto(`${base}/#/${view}`);
    await page.waitForSelector("main h1");
  };
  /** Waits until the page says so. */
  const says = (text) => page.waitForFunction((it) => document.querySelector("#app")?.textContent.replaceAll(/\s+/g, " ").includes(it), text);
  const shot = (name) => page.screenshot({ path: `${SHOTS}/${name}.png` });
  /** Waits until the map draws a link as set down, or as not. */
  const draws = (link, down) => page.waitForFunction(([name, wanted]) => {
    const drawn = [...document.querySelectorAll("svg a")].map((it) => it.getAttribute("aria-label")).find((it) => it.startsWith(`${name}: `));
    return drawn !== undefined && drawn.includes("set down") === wanted;
  }, [link, down]);

  /** How many octets the page takes over the wire, as it is packed. */
  async function size() {
    const index = await (await fetch(`${api}/`)).text();
    const files = new Set(["/", ...[...index.matchAll(/(?:href|src)="(\/?[^"#:]+)"/g)].map(([, name]) => "/" + name.replace(/^\//, ""))]);
    let octets = 0;
    for (const file of files) {
      const body = Buffer.from(await (await fetch(api + file)).arrayBuffer());
      octets += gzipSync(body).length;
      for (const [, name] of body.toString().matchAll(/from "\.\/([^"]+)"/g)) files.add("/" + name);
    }
    return { files: files.size, octets };
  }

  /** Milliseconds from the change of a link until the API has answered, and until the map has drawn it. */
  async function change(link, state) {
    const seen = draws(link, state === "ADMIN_STATE_DOWN");
    const from = performance.now();
    await patch(link, state);
    const answered = milliseconds(from);
    await seen;
    return { answered, drawn: milliseconds(from) };
  }

  /** Sets a link down or up. A new leader refuses that until it has heard every switch, or 10 s have passed. */
  async function patch(link, state) {
    const until = performance.now() + 15_000;
    for (;;) {
      const answer = await fetch(`${api}/v1/links/${encodeURIComponent(link)}?update_mask=admin_state`, {
        method: "PATCH", headers: { "content-type": "application/json" }, body: JSON.stringify({ admin_state: state }),
      });
      if (answer.ok) return;
      const said = await answer.text();
      if (answer.status !== 503 || performance.now() > until) throw new Error(said);
      await new Promise((again) => setTimeout(again, 200));
    }
  }

  /** What axe-core finds serious on a view. The policy of the page lets no foreign script in, but the browser's own. */
  async function serious() {
    await page.evaluate(axe());
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    return violations.filter((it) => ["serious", "critical"].includes(it.impact))
      .map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(" ").slice(0, 200)}`);
  }

  /** Everything that is there, for who gave up. */
  const everything = async () => (await page.textContent("body").catch(() => "")).replaceAll(/\s+/g, " ").slice(0, 1_500);
  return { page, faults, go, says, shot, draws, size, change, patch, serious, everything, close: () => browser.close() };
}
