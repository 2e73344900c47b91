// The page in a browser, followed through what the lab does to the fabric, by one name for all replicas. Each thing that it waited
// for and saw is a line; the last line is "the page is well". It gives up after a minute without one.
import { createServer, connect } from "node:net";
import { json, milliseconds, open, say } from "./browser.mjs";

const PORT = 8401;
const API = `http://127.0.0.1:${PORT}`;
/** In the order in which connections are led to them: the page comes from the first, and dies with it. */
const REPLICAS = [2, 1, 3].map((id) => ({ id, host: `10.255.1.${id}`, port: 7401 }));
const MAC = "00:00:5e:00:53:02";

/** What an operator has before the replicas: each connection leads to the first of them that takes it. */
function relay(replicas) {
  const lead = (near, [first, ...others]) => {
    if (!first) {
      near.destroy();
      return;
    }
    const far = connect(first.port, first.host);
    const next = () => lead(near, others);
    far.once("error", next);
    far.once("connect", () => {
      far.off("error", next);
      far.on("error", () => {});
      far.once("close", () => near.destroy());
      near.once("close", () => far.destroy());
      near.pipe(far).pipe(near);
    });
  };
  const server = createServer((near) => {
    near.on("error", () => {});
    lead(near, replicas);
  });
  return new Promise((ready) => server.listen(PORT, "127.0.0.1", () => ready(server)));
}

const relayed = await relay(REPLICAS);
const { page, faults, go, says, shot, size, change, serious, everything, close } = await open({
  base: `http://weft.example:${PORT}`, api: API, args: ["--host-resolver-rules=MAP weft.example 127.0.0.1"],
});

async function usable() {
  const { files, octets } = await size();
  say(`${files} files, ${(octets / 1000).toFixed(1)} kB gzipped`);
  const from = performance.now();
  await go("status");
  await says("4 leaves, 2 spines");
  say(`usable after ${milliseconds(from)} ms`);
  await says("4 of 4 established");
  say("all peers are established");
  await says("Host ports4");
  await says("insecure = true: whoever reaches it may change everything");
  const { header } = await json(API, "/v1/replicas");
  await says(`replica ${header.replica_id}, revision`);
  say(`the page comes from replica ${header.replica_id}, ${header.leader_id === header.replica_id ? "which leads" : "which does not lead"}`);
}

async function changed(link, state) {
  const { drawn } = await change(link, state);
  say(`a change is shown after ${drawn} ms: ${link} ${state}`);
}

async function links() {
  await go("map");
  await page.waitForSelector("svg a");
  await changed("leaf2:eth1--spine1:eth2", "ADMIN_STATE_DOWN");
  await changed("leaf2:eth1--spine1:eth2", "ADMIN_STATE_UP");
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
  // Many: each is asked for in full when it is opened.
  await go("glass/100");
  const route = page.locator(".route", { hasText: "[3]:[0]:[32]:[10.255.0.12]" });
  await route.locator("summary").click();
  await route.getByText("advertised to").waitFor();
  await go("vnis/100");
  await says("10.255.0.13");
  await shot("vni");
}

/** A job is declared, pinned, shown and ends. Its label would run as HTML. */
async function jobs() {
  const declare = async (job) => {
    const answer = await fetch(`${API}/v1/jobs`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(job) });
    if (!answer.ok) throw new Error(await answer.text());
  };
  await go("jobs");
  await says("No job is declared: weft job apply job.yaml declares one.");
  const groups = [{ name: "dp", collective: "COLLECTIVE_ALL_REDUCE", octets: 4 * 2 ** 30 }];
  await declare({ name: "train", host_names: ["h1", "h2"], groups, labels: { note: '<img src=x onerror="document.title=1">' } });
  await says("train2 hostsdp all-reduce 4 GiB0neverpinned2 of 2");
  await says("Max load");
  await shot("jobs");
  await declare({ name: "short", host_names: ["h3", "h4"], groups, ttl: "5s" });
  await says("short2 hosts");
  await page.waitForFunction(() => !document.querySelector("main a[href='#/jobs/short']"));
  say("jobs are shown as they come, are pinned, and end with their lease");
  await go("jobs/train");
  await says('note=<img src=x onerror="document.title=1">');
  if (await page.locator("main img").count()) faults.push("what a job said became an element");
  await page.locator("tr", { hasText: "leaf1:eth3" }).locator(".bar a", { hasText: "spine" }).first().waitFor();
  say("a job shows the spines of its flows, and what it says as text");
  await shot("job");
}

async function linkDown() {
  await go("plan/leaf1");
  await says("67 %");
  say("leaf1 sends 67 % by eth1");
  await shot("plan-before");
  await says("100 % was 33 %");
  say("the share of eth1 of leaf1 moved to eth2");
  await page.reload();
  await says("100 % was 33 %");
  say("a page that is loaded anew knows the plan before");
  await shot("plan");
  await go("map?switch=leaf1");
  await says("leaf1:eth1--spine1:eth1100 Gb/sdown: leaf1: eth1 is down");
  await page.waitForSelector('a[aria-label^="leaf1:eth1--spine1:eth1"] .link.idle');
  say("the map shows it as a link that carries nothing");
  await shot("map");
  await page.emulateMedia({ colorScheme: "dark" });
  await shot("map-dark");
  await page.emulateMedia({ colorScheme: "light" });
  await go("status");
  await says("Link leaf1:eth1--spine1:eth1 is down: leaf1: eth1 is down");
  say("and the status names it");
}

/** leaf2 says a shutdown communication that would run as HTML and turn the text behind it around. */
async function hostile() {
  await go("peers");
  await says('"<img src=x onerror=');
  await says("\\u{202e}");
  await go("status");
  await says('"<img src=x onerror=');
  if (await page.locator("main img").count()) faults.push("what a peer said became an element");
  if ((await page.textContent("body")).includes("\u202e")) faults.push("what a peer said turns text around");
  say("what leaf2 says is shown as text");
  await says("4 of 4 established");
}

async function leafDead() {
  await go("status");
  await says("Leaf leaf4 announces nothing of its VTEP 10.255.0.14");
  await says("Link leaf1:eth1--spine1:eth1 is down: leaf1: eth1 is down");
  say("leaf4 is shown as dead");
  await shot("status");
  await go("peers");
  await says("10.255.0.14");
  await shot("peers");
}

/** The replica that serves the page dies: the page that is open goes on with another one, and is not loaded anew. */
async function replicaDead() {
  const [dead] = REPLICAS;
  await go("map");
  await page.evaluate(() => { globalThis.here = true; });
  say("the replica may die");
  await page.waitForFunction((it) => {
    const text = document.querySelector(".heard:not(.lost)")?.textContent.trim() ?? "";
    return text.startsWith("replica ") && !text.startsWith(`replica ${it},`);
  }, dead.id);
  const heard = (await page.textContent(".heard")).trim();
  say(`the page goes on with another one: ${heard}`);
  await page.click("nav a[href='#/status']");
  await says(`Replica ${dead.id} is not heard of`);
  // Nothing can be changed before somebody leads; that nobody does is said with the same word, but in no cell.
  await page.locator("main td", { hasText: /\bleader\s*$/ }).waitFor();
  await page.click("nav a[href='#/map']");
  await page.waitForSelector("svg a");
  await changed("leaf3:eth1--spine1:eth3", "ADMIN_STATE_DOWN");
  if (!await page.evaluate(() => globalThis.here)) throw new Error("the page was loaded anew");
  say("its death is shown, and the page was not loaded anew");
}

/** Nothing serious, on every view, in light and dark. */
async function accessible() {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const view of ["status", "peers", "peers/10.255.0.11", `glass/${MAC}`, "glass/100", "map?switch=leaf1", "plan/leaf1", "jobs", "jobs/train", "vnis", "vnis/100"]) {
      await go(view);
      await page.waitForTimeout(300);
      for (const it of await serious()) faults.push(`${view} (${colorScheme}): ${it}`);
    }
    if (colorScheme === "dark") await shot("vnis-dark");
  }
  await page.emulateMedia({ colorScheme: "light" });
  await go("glass/%E0%A4%A");
  await says("is no IP address, MAC address, prefix or VNI");
  await page.setViewportSize({ width: 390, height: 800 });
  await go("status");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  if (wide) faults.push("a phone has to scroll sideways");
  await shot("phone");
  await go("jobs/train");
  if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) faults.push("a phone has to scroll the view of a job sideways");
}

let verdict = "given up";
try {
  await usable();
  await links();
  await lookUp();
  await jobs();
  await linkDown();
  await hostile();
  await leafDead();
  await replicaDead();
  await accessible();
  for (const fault of faults) say(`fault: ${fault}`);
  verdict = faults.length ? "the page has faults" : "the page is well";
} catch (error) {
  say(error.message);
  say(await everything());
  await shot("given-up");
} finally {
  await close();
  relayed.close();
}
say(verdict);
process.exit(0);
