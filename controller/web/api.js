// The API of the replica that served this page, or of another one behind the same name: JSON as /openapi.json describes it.

/** A call that was refused. */
export class Refusal extends Error {
  constructor(number, error) {
    super(error?.message || `HTTP ${number}`);
    this.number = number;
    this.status = error?.status;
    this.reason = error?.details?.find((it) => it.reason)?.reason;
  }
}

/** Parameters as a query; what is undefined or empty is left out. */
export function query(parameters = {}) {
  const pairs = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
  return pairs.length ? "?" + pairs.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&") : "";
}

/** One answer. */
export async function get(path, parameters) {
  try {
    const answer = await fetch(path + query(parameters), { headers: { accept: "application/json" }, signal: AbortSignal.timeout(ANSWER_MS_MAX) });
    if (answer.ok) return await answer.json();
    throw new Refusal(answer.status, (await answer.json().catch(() => undefined))?.error);
  } catch (error) {
    throw error.name === "TimeoutError" ? new Error(`no answer within ${ANSWER_MS_MAX / 1000} s`) : error;
  }
}

/** Every page of a list: `most` items at most, and no page after one that is `enough`. `first` is the answer that began it. */
export async function list(path, field, parameters = {}, most = Infinity, enough = () => false) {
  const found = [];
  let token = "";
  let first;
  do {
    const page = await get(path, { ...parameters, page_token: token });
    first ??= page;
    found.push(...page[field]);
    token = page.next_page_token;
  } while (token && found.length < most && !enough(found));
  return { found, first, header: first.header, more: Boolean(token) };
}

/** The plan of a leaf. A long one comes in several parts, and not as a single answer. */
export async function leafPlan(leaf) {
  const { found } = await list("/v1/leafPlans", "leaf_plans", { leaf_name: leaf });
  return { leaf_name: leaf, ...found[0], entries: found.flatMap((it) => it.entries) };
}

/** Whether something is there: undefined if not. */
export async function maybe(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error instanceof Refusal && error.number === 404) return undefined;
    throw error;
  }
}

/**
 * Follows every change: `heard` gets each answer of the watch, `state` whether the replica is heard, and `begun` is called when what
 * was heard in part is void. After a break it goes on after the revision that it heard last, whichever replica answers then; if
 * that one does not remember it, the watch begins anew. A page that nobody sees follows nothing: browsers allow six connections
 * to a server, and tabs share them.
 */
export function watch({ heard, state, begun }) {
  let source;
  let silence;
  let next;
  let revision;
  let wait = WAIT_MS_MIN;
  const close = () => {
    clearTimeout(silence);
    clearTimeout(next);
    source?.close();
    source = undefined;
  };
  const open = () => {
    close();
    if (document.hidden) return;
    const kinds = ["SWITCH", "LINK", "JOB"].map((it) => `&kinds=RESOURCE_KIND_${it}`).join("");
    const after = revision === undefined ? "" : `&after_revision=${revision}`;
    source = new EventSource(`/v1/watch?progress_interval=4s&peers=${kinds}${after}`);
    const alive = () => {
      clearTimeout(silence);
      silence = setTimeout(() => again(`nothing heard for ${SILENCE_MS_MAX / 1000} s`), SILENCE_MS_MAX);
    };
    alive();
    begun();
    source.onopen = () => {
      alive();
      begun();
    };
    source.onmessage = (event) => {
      alive();
      wait = WAIT_MS_MIN;
      const answer = JSON.parse(event.data);
      revision = answer.header?.revision ?? revision;
      state(true);
      heard(answer);
    };
    source.addEventListener("status", (event) => {
      const { error } = JSON.parse(event.data);
      // Too old, or of other replicas: what exists is asked for anew.
      if (error.status === "OUT_OF_RANGE") revision = undefined;
      again(error.message);
    });
    source.onerror = () => {
      // Closed: refused, and a browser does not learn why.
      const refused = source?.readyState === EventSource.CLOSED;
      if (refused) revision = undefined;
      again(refused ? "the watch is refused" : "the replica does not answer");
    };
  };
  const again = (reason) => {
    close();
    state(false, reason);
    next = setTimeout(open, wait);
    wait = Math.min(wait * 2, WAIT_MS_MAX);
  };
  document.addEventListener("visibilitychange", () => {
    wait = WAIT_MS_MIN;
    open();
  });
  open();
}

/** An answer that takes longer does not come. */
const ANSWER_MS_MAX = 10_000;
/** The watch says every 4 s that it is there. */
const SILENCE_MS_MAX = 15_000;
const WAIT_MS_MIN = 500;
const WAIT_MS_MAX = 8_000;
