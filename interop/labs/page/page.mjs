// The page of replica 1 in a browser, followed through what the lab does to the fabric. Each thing that it waited for and saw is a
// line; the last line is "the page is well". It gives up after a minute without one.
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { gzipSync } from "node:zlib";

// Where `cargo interop` puts them.
const cache = process.env.XDG_CACHE_HOME ?? `${process.env.HOME}/.cache`;
const require = createRequire(`${cache}/weft/page/`);
const { chromium } = require("playwright-core");
const axe = require.resolve("axe-core/axe.min.js");
const BASE = "http://127.0.0.1:7401";
const SHOTS = process.env.WEFT_SHOTS ?? "shots";
const MAC = "00:00:5e:00:53:02";

mkdirSync(SHOTS, { recursive: true });
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
const page = await context.newPage();
const faults = [];
page.on("pageerror", (error) => faults.push(error.message));
page.on("console", (message) => { if (message.type() === "error" && !message.text().includes("ERR_")) faults.push(message.text()); });
page.setDefaultTimeout(60_000);

const say = (text) => console.log(text);
const go = async (view) => {
  await page.goto(`${BASE}/#/${view}`);
  await page.waitForSelector("main h1");
};
/** Waits until the view says so. */
const says = (text) => page.waitForFunction((it) => document.querySelector("main")?.textContent.replaceAll(/\s+/g, " ").includes(it), text);
const shot = async (name) => page.screenshot({ path: `${SHOTS}/${name}.png` });
const json = async (path) => (await fetch(BASE + path)).json();
const milliseconds = (from) => Math.round(performance.now() - from);

async function size() {
  const index = await (await fetch(`${BASE}/`)).text();
  const files = new Set(["/", ...[...index.matchAll(/(?:href|src)="(\/?[^"#:]+)"/g)].map(([, name]) => "/" + name.replace(/^\//, ""))]);
  let octets = 0;
  for (const file of files) {
    const body = Buffer.from(await (await fetch(BASE + file)).arrayBuffer());
    octets += gzipSync(body).length;
    for (const [, name] of body.toString().matchAll(/from "\.\/([^"]+)"/g)) files.add("/" + name);
  }
  say(`${files.size} files, ${(octets / 1000).toFixed(1)} kB gzipped`);
}

async function usable() {
  const from = performance.now();
  await go("status");
  await says("4 leaves, 2 spines");
  say(`usable after ${milliseconds(from)} ms`);
  await says("4 of 4 established");
  say("all peers are established");
}

/** A change by the API, until it is drawn. */
async function change(link, state) {
  await go("map");
  const path = `/v1/links/${encodeURIComponent(link)}`;
  const wanted = state === "ADMIN_STATE_DOWN" ? `${link}: 100 Gb/s, down` : `${link}: 100 Gb/s,`;
  const seen = page.waitForFunction((text) => [...document.querySelectorAll("svg a")].some((it) => it.getAttribute("aria-label").startsWith(text)), wanted);
  await page.waitForTimeout(300);
  const from = performance.now();
  const answer = await fetch(path.startsWith("/") ? BASE + path + "?update_mask=admin_state" : path, {
    method: "PATCH", headers: { "content-type": "application/json" }, body: JSON.stringify({ admin_state: state }),
  });
  if (!answer.ok) throw new Error(await answer.text());
  await seen;
  say(`a change is shown after ${milliseconds(from)} ms: ${link} ${state}`);
}

async function linkDown() {
  await go("plan/leaf1");
  await says("67 %");
  say("leaf1 sends 67 % by eth1");
  await shot("plan-before");
  await says("100 % was 33 %");
  say("the share of eth1 of leaf1 moved to eth2");
  await shot("plan");
  await go("map?switch=leaf1");
  await says("leaf1:eth1--spine1:eth1");
  await page.waitForFunction(() => document.querySelector('a[aria-label^="leaf1:eth1--spine1:eth1"]')?.getAttribute("aria-label").includes("0.0 % of"));
  say("and the map shows it");
  await shot("map");
}

async function leafDead() {
  await go("status");
  await says("Leaf leaf4 announces nothing of its VTEP 10.255.0.14");
  say("leaf4 is shown as dead");
  await shot("status");
  await go("peers");
  await says("10.255.0.14");
  await shot("peers");
}

async function lookUp() {
  await go("glass");
  await page.fill("#q", MAC);
  await page.press("#q", "Enter");
  await says(`[${MAC}]`);
  await says("from 10.255.0.13");
  await says("in VNI 100");
  await page.click("details summary");
  await says("10.255.0.11");
  say(`${MAC} is found: its path, its VTEP, and to whom it was advertised`);
  await shot("glass");
  await go("vnis/100");
  await says("10.255.0.13");
  await shot("vni");
}

async function replicaDead() {
  await go("status");
  await says("Replica 2 is not heard of");
  say("replica 2 is shown as dead");
  await page.waitForFunction(() => !document.querySelector(".heard").classList.contains("lost"));
  await says("leader");
}

/** Nothing serious, on every view, in light and dark. */
async function accessible() {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const view of ["status", "peers", "peers/10.255.0.11", `glass/${MAC}`, "map?switch=leaf1", "plan/leaf1", "vnis", "vnis/100"]) {
      await go(view);
      await page.waitForTimeout(300);
      // The policy of the page lets no foreign script in, but the browser's own.
      await page.evaluate(execFileSync("cat", [axe], { encoding: "utf8", maxBuffer: 1 << 24 }));
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      const serious = violations.filter((it) => ["serious", "critical"].includes(it.impact));
      for (const it of serious) faults.push(`${view} (${colorScheme}): ${it.id}: ${it.nodes.map((node) => node.html).join(" ").slice(0, 200)}`);
    }
    if (colorScheme === "dark") await shot("vnis-dark");
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 390, height: 800 });
  await go("status");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  if (wide) faults.push("a phone has to scroll sideways");
  await shot("phone");
}

let verdict = "given up";
try {
  await size();
  await usable();
  await change("leaf2:eth1--spine1:eth2", "ADMIN_STATE_DOWN");
  await change("leaf2:eth1--spine1:eth2", "ADMIN_STATE_UP");
  await lookUp();
  await linkDown();
  await leafDead();
  await replicaDead();
  await change("leaf3:eth1--spine1:eth3", "ADMIN_STATE_DOWN");
  await accessible();
  for (const fault of faults) say(`fault: ${fault}`);
  verdict = faults.length ? "the page has faults" : "the page is well";
} catch (error) {
  say(error.message);
  say((await page.textContent("body").catch(() => "")).replaceAll(/\s+/g, " ").slice(0, 1500));
  await shot("given-up");
} finally {
  await browser.close();
}
say(verdict);
