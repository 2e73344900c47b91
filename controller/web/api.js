// The API of the replica that served this page: JSON as /openapi.json describes it.

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
export async function get(path, parameters, signal) {
  const answer = await fetch(path + query(parameters), { headers: { accept: "application/json" }, signal });
  const body = await answer.json().catch(() => undefined);
  if (!answer.ok) throw new Refusal(answer.status, body?.error);
  return body;
}

/** Every page of a list; `most` items at most. */
export async function list(path, field, parameters = {}, most = Infinity) {
  const found = [];
  let token = "";
  let header;
  do {
    const page = await get(path, { ...parameters, page_token: token });
    header ??= page.header;
    found.push(...page[field]);
    token = page.next_page_token;
  } while (token && found.length < most);
  return { found, header, more: Boolean(token) };
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
 * Follows every change: `heard` gets each answer of the watch, `state` whether the replica is heard. A browser comes back by
 * itself with the revision that it heard last; if the replica does not remember it, the watch begins anew.
 */
export function watch(heard, state) {
  let source;
  let silence;
  let wait = 500;
  const open = () => {
    const kinds = ["SWITCH", "LINK", "HOST", "HOST_PORT"].map((it) => `kinds=RESOURCE_KIND_${it}`).join("&");
    source = new EventSource(`/v1/watch?progress_interval=4s&peers=&${kinds}`);
    const alive = () => {
      clearTimeout(silence);
      silence = setTimeout(() => again("nothing heard for 15 s"), 15_000);
    };
    alive();
    source.onopen = alive;
    source.onmessage = (event) => {
      alive();
      wait = 500;
      state(true);
      heard(JSON.parse(event.data));
    };
    source.addEventListener("status", (event) => again(JSON.parse(event.data).error.message));
    source.onerror = () => {
      state(false, "the replica does not answer");
      // A browser tries again by itself unless it was refused.
      if (source.readyState === EventSource.CLOSED) again("the watch is refused");
    };
  };
  const again = (reason) => {
    clearTimeout(silence);
    source.close();
    state(false, reason);
    setTimeout(open, wait);
    wait = Math.min(wait * 2, 8_000);
  };
  open();
}
