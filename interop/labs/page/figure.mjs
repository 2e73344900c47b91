// What the page of a large fabric costs: octets, time until it is usable, until a change is drawn, until a MAC address is found.
// `cargo bench-page` runs it beside a weftd at WEFT_BASE with so many leaves and spines, each linked to each, and all of it well.
import { milliseconds, open, say } from "./browser.mjs";

const { WEFT_BASE: BASE, WEFT_LEAVES: LEAVES, WEFT_SPINES: SPINES, WEFT_MAC: MAC } = process.env;
const LOADS = 5;
const CHANGES = 20;
/** The leaf that is chosen in the map, and whose links change. */
const LEAF = `leaf${Math.ceil(LEAVES / 2)}`;

const sorted = (times) => times.sort((a, b) => a - b);
const median = (times) => sorted(times)[Math.floor(times.length / 2)];
const shown = (times) => `median ${median(times)} ms, worst ${sorted(times).at(-1)} ms of ${times.length}`;

/** Milliseconds until a browser that has nothing of the page shows a view in full. */
async function load(view, ready) {
  const browser = await open({ base: BASE });
  try {
    const from = performance.now();
    await browser.go(view);
    await ready(browser);
    return milliseconds(from);
  } finally {
    await browser.close();
  }
}

async function loads(name, view, ready) {
  const times = [];
  for (let at = 0; at < LOADS; at += 1) times.push(await load(view, ready));
  say(`${name} usable after: ${shown(times)}`);
}

const browser = await open({ base: BASE });
const { page, faults, go, says, shot, size, change, close } = browser;
try {
  const { files, octets } = await size();
  say(`${files} files, ${(octets / 1000).toFixed(1)} kB gzipped`);
  await loads("status", "status", async ({ says: has }) => {
    await has(`${LEAVES} leaves, ${SPINES} spines`);
    await has(`${LEAVES} of ${LEAVES} establishedVTEPs${LEAVES}`);
  });
  await loads("map", "map", ({ says: has }) => has(`${Number(LEAVES) + Number(SPINES)} switches, ${LEAVES * SPINES} links`));

  await go(`map?switch=${LEAF}`);
  await says(`${LEAF}:eth1--spine1:`);
  await page.waitForTimeout(2_000);
  const drawn = [];
  const answered = [];
  for (let at = 0; at < CHANGES; at += 1) {
    const spine = Math.floor(at / 2) % SPINES + 1;
    const took = await change(`${LEAF}:eth${spine}--spine${spine}:eth${LEAF.slice(4)}`, at % 2 ? "ADMIN_STATE_UP" : "ADMIN_STATE_DOWN");
    drawn.push(took.drawn);
    answered.push(took.answered);
    await page.waitForTimeout(200);
  }
  say(`a change is shown after: ${shown(drawn)}; the API answered it after: ${shown(answered)}`);
  await change(`${LEAF}:eth3--spine3:eth${LEAF.slice(4)}`, "ADMIN_STATE_DOWN");
  await page.waitForTimeout(6_000);
  await shot("map-512");

  await go("glass");
  const looked = [];
  for (let at = 0; at < LOADS; at += 1) {
    await page.fill("#q", "");
    await page.press("#q", "Enter");
    await page.waitForFunction(() => !document.querySelector("main article"));
    // Another one each time: the page remembers what it was asked.
    await page.fill("#q", MAC.slice(0, -1) + at);
    const from = performance.now();
    await page.press("#q", "Enter");
    await says("advertised to");
    looked.push(milliseconds(from));
  }
  say(`a MAC address is found, with all that it was advertised to, after: ${shown(looked)}`);
  for (const fault of faults) say(`fault: ${fault}`);
  process.exitCode = faults.length ? 1 : 0;
} catch (error) {
  say(error.message);
  say(await browser.everything());
  process.exitCode = 1;
} finally {
  await close();
}
