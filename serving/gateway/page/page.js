// The page of an axonrl service. It reads the API with the cookie of its login, and changes nothing.
// What comes from users is set as text: nothing here makes HTML of a string, and the page's policy forbids it.

const EVERY = 2000;
const PATIENCE = 10_000;
const PAGE = 100; // agents at once
const WINDOW = 100; // episodes of the mean
const KEPT = 10_000; // episodes, as the service keeps
const find = (selector, root = document) => root.querySelector(selector);
const main = find("#main");
let view = null; // what is shown: {update, every}
let timer = 0;
let user = "";

// -- asking the server

class Problem extends Error {
  constructor(status, code, message, wait) {
    super(message);
    Object.assign(this, { status, code, wait });
  }
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE), ...options });
    if (answer.ok) return answer.status === 204 ? null : await answer.json();
  } catch {
    throw new Problem(0, "unreachable", "The server cannot be reached.");
  }
  const told = await answer.json().catch(() => ({}));
  throw new Problem(answer.status, told.code, inWords(answer, told), 1000 * answer.headers.get("Retry-After"));
}

function inWords(answer, { code, detail, request_id }) {
  const seconds = Number(answer.headers.get("Retry-After")) || 1;
  const later = `in ${seconds} second${seconds === 1 ? "" : "s"}`;
  const known = {
    invalid_credentials: "The name or the password is not correct.",
    missing_token: "Your session has ended. Please log in again.",
    invalid_token: "Your session has ended. Please log in again.",
    token_expired: "Your session has ended. Please log in again.",
    rate_limited: `Too many requests. Try again ${later}.`,
    agent_busy: "The agent has too much to do to answer now.",
    unavailable: "The server cannot answer this now.",
    database_unavailable: "The server's database does not answer.",
    not_found: "This does not exist. It may have been removed.",
  };
  if (known[code]) return known[code];
  if (answer.status >= 500) return `The server failed. Its log says why (request ${request_id ?? "unknown"}).`;
  return `The server refused this: ${detail ?? `status ${answer.status}`}.`;
}

const read = (path) => ask(`api/v1/${path}`);

// -- text

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });
const ages = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "short" });
const inFull = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });

function number(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2);
  return (Number.isInteger(value) || size >= 1e4 ? whole : fine).format(value);
}

function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function writeTime(node, time) {
  const date = new Date(time ?? NaN);
  if (Number.isNaN(date.getTime())) return write(node, "never");
  const seconds = (date - Date.now()) / 1000;
  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const [unit, size] = units.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  write(node, Math.abs(seconds) < 2 ? "just now" : ages.format(Math.round(seconds / size), unit));
  node.title = inFull.format(date);
}

function writeStatus(node, agent) {
  const asleep = agent.status === "ready" && agent.is_active && !agent.executor;
  const idle = agent.is_active ? (agent.learning ? "ready" : "not learning") : "inactive";
  const status = agent.status === "ready" ? (asleep ? "asleep" : idle) : agent.status;
  write(node, status);
  node.className = `status ${status.replace(" ", "-")}`;
}

// -- tables: rows are kept from one time to the next, so that focus and selection stay

function fill(table, items, key, columns) {
  const body = find("tbody", table);
  const labels = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent);
  const rows = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  items.forEach((item, index) => {
    const id = String(item[key]);
    const row = rows.get(id) ?? newRow(labels, columns, id, table);
    rows.delete(id);
    columns.forEach((column, place) => column(row.cells[place], item));
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
  });
  for (const row of rows.values()) row.remove();
}

function newRow(labels, columns, id, table) {
  const row = document.createElement("tr");
  row.dataset.key = id;
  row.setAttribute("role", "row");
  columns.forEach((_, place) => {
    const cell = document.createElement(place ? "td" : "th");
    cell.setAttribute("role", place ? "cell" : "rowheader");
    if (!place) cell.scope = "row";
    cell.dataset.label = labels[place];
    cell.className = find(`thead th:nth-child(${place + 1})`, table).className;
    row.append(cell);
  });
  return row;
}

const textOf = (name) => (cell, item) => write(cell, String(item[name] ?? ""));
const timeOf = (name) => (cell, item) => writeTime(cell, item[name]);
const count = (name) => (cell, item) => write(cell, item.executor ? number(item.counters[name]) : "–");

function child(cell, tag) {
  return cell.firstElementChild ?? cell.appendChild(document.createElement(tag));
}

// -- charts

function ticks(low, high, most) {
  const rough = (high - low) / most;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 2.5, 5, 10].find((factor) => factor * size >= rough);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at += 1) found.push(at * step || 0);
  return found;
}

function bounds(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value !== null && value < low) low = value;
    if (value !== null && value > high) high = value;
  }
  if (low > high) return [0, 1];
  const edge = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.05;
  return [low >= 0 ? Math.max(0, low - edge) : low - edge, high + edge];
}

// Of many points in one column of pixels, the lowest and the highest are drawn.
function outline(xs, ys, toX, toY) {
  let [path, pen, column, low, high] = ["", "M", null, 0, 0];
  const flush = () => {
    if (column === null) return;
    path += `${pen}${column} ${toY(low).toFixed(1)}`;
    if (high !== low) path += `L${column} ${toY(high).toFixed(1)}`;
    [pen, column] = ["L", null];
  };
  xs.forEach((x, index) => {
    const [at, y] = [Math.round(toX(x) * 2) / 2, ys[index]];
    if (at !== column || y === null) flush();
    if (y === null) pen = "M";
    else if (column === null) [column, low, high] = [at, y, y];
    else [low, high] = [Math.min(low, y), Math.max(high, y)];
  });
  flush();
  return path;
}

class Chart {
  constructor(figure, tell) {
    Object.assign(this, { svg: find("svg", figure), reading: find(".reading", figure), tell, xs: [], lines: [] });
    new ResizeObserver(() => this.draw()).observe(this.svg);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.point(null));
  }

  set(xs, lines, label) {
    Object.assign(this, { xs, lines });
    this.svg.setAttribute("aria-label", label);
    this.draw();
  }

  add(tag, attributes, text = "") {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.textContent = text;
    return this.svg.appendChild(node);
  }

  draw() {
    const [width, height] = [this.svg.clientWidth, this.svg.clientHeight];
    this.svg.replaceChildren();
    if (!width) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    if (!this.xs.length) {
      this.add("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, this.tell(-1));
      return write(this.reading, "");
    }
    const [low, high] = bounds(this.lines.flatMap((line) => line.ys));
    const [first, last] = [this.xs[0], Math.max(this.xs.at(-1), this.xs[0] + 1)];
    const marks = ticks(low, high, 6);
    const left = 12 + 7 * Math.max(...marks.map((mark) => number(mark).length));
    this.toX = (x) => left + ((x - first) / (last - first)) * (width - left - 8);
    this.toY = (y) => 8 + ((high - y) / (high - low)) * (height - 32);
    for (const mark of marks) {
      this.add("path", { class: "grid", d: `M${left} ${this.toY(mark)}H${width - 8}` });
      this.add("text", { x: left - 6, y: this.toY(mark) + 4, "text-anchor": "end" }, number(mark));
    }
    for (const mark of ticks(first, last, Math.max(2, width / 80)).filter(Number.isInteger)) {
      const anchor = this.toX(mark) > width - 24 ? "end" : "middle";
      this.add("text", { x: this.toX(mark), y: height - 6, "text-anchor": anchor }, number(mark));
    }
    for (const { kind, ys } of this.lines) {
      this.add("path", { class: kind, d: outline(this.xs, ys, this.toX, this.toY) });
      if (ys.length === 1 && ys[0] !== null) this.dot(kind, 0, ys[0]);
    }
    this.point(this.pointed ?? null);
  }

  dot(kind, index, y, more = "") {
    this.add("circle", { class: `${kind} ${more}`, r: 4, cx: this.toX(this.xs[index]), cy: this.toY(y) });
  }

  // What is under the pointer; without one, the newest.
  point(event) {
    this.pointed = event;
    for (const node of this.svg.querySelectorAll(".at")) node.remove();
    if (!this.xs.length) return;
    let index = this.xs.length - 1;
    if (event) {
      const at = event.clientX - this.svg.getBoundingClientRect().left;
      while (index > 0 && this.toX((this.xs[index] + this.xs[index - 1]) / 2) > at) index -= 1;
      this.add("path", { class: "at", d: `M${this.toX(this.xs[index])} 8V${this.svg.clientHeight - 24}` });
      for (const { kind, ys } of this.lines) if (ys[index] !== null) this.dot(kind, index, ys[index], "at");
    }
    write(this.reading, this.tell(index));
  }
}

// -- views: each has `update`, which is called again and again while it is seen

function show(name, title) {
  main.replaceChildren(find(`template#${name}`).content.cloneNode(true));
  document.title = `${title} · axonrl`;
  for (const link of document.querySelectorAll("#nav a")) {
    const here = link.dataset.view === name || (name === "agent" && link.dataset.view === "agents");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const known = name !== "login";
  find("#nav").hidden = find("#account").hidden = !known;
  write(find("#notice"), "");
}

const put = (name, text) => write(find(`[data-field="${name}"]`, main), text);

function showAgents(after) {
  show("agents", "Agents");
  put("url", location.origin);
  put("user", user);
  const columns = [
    (cell, agent) => {
      const link = child(cell, "a");
      write(link, agent.name);
      link.href = `#/agents/${encodeURIComponent(agent.name)}`;
    },
    textOf("model"),
    (cell, agent) => writeStatus(child(cell, "span"), agent),
    count("global_timestep"),
    count("global_step"),
    count("global_episode"),
    (cell, agent) => write(cell, number(agent.episode_return_mean)),
    timeOf("last_active"),
  ];
  return async () => {
    const from = after ? `&after=${encodeURIComponent(after)}` : "";
    const found = await read(`agents?limit=${PAGE + 1}${from}`);
    return () => {
      const agents = found.slice(0, PAGE);
      fill(find("table", main), agents, "id", columns);
      find("table", main).hidden = !agents.length;
      find(".empty", main).hidden = agents.length > 0 || Boolean(after);
      find(".paging", main).hidden = found.length <= PAGE && !after;
      find(".first", main).hidden = !after;
      find(".next", main).hidden = found.length <= PAGE;
      if (agents.length) find(".next", main).href = `#/?after=${encodeURIComponent(agents.at(-1).name)}`;
      find(".why", main).hidden = !find(".status.asleep", main);
    };
  };
}

const forTokens = [
  textOf("name"),
  (cell, token) => write(cell, `…${token.last_four}`),
  (cell, token) => {
    const ended = token.expires_at !== null && new Date(token.expires_at) <= new Date();
    const status = token.revoked_at ? "revoked" : ended ? "expired" : "active";
    const node = child(cell, "span");
    write(node, status);
    node.className = `status ${status === "active" ? "ready" : ""}`;
  },
  (cell, token) => write(cell, token.scopes.join(", ")),
  (cell, token) => write(cell, token.agents ? token.agents.join(", ") : "all"),
  timeOf("created_at"),
  timeOf("expires_at"),
  (cell, token) => write(cell, token.last_used ?? "never"),
];

function showTokens() {
  show("tokens", "Tokens");
  return async () => {
    const tokens = await read("tokens");
    return () => {
      fill(find("table", main), tokens, "id", forTokens);
      find("table", main).hidden = !tokens.length;
      find(".empty", main).hidden = tokens.length > 0;
    };
  };
}

const forEpisodes = [
  textOf("episode"),
  (cell, episode) => write(cell, number(episode.episode_return)),
  (cell, episode) => write(cell, number(episode.length)),
  (cell, episode) => write(cell, episode.terminated ? "terminal" : "truncated"),
  textOf("environment"),
  (cell, episode) => writeTime(cell, episode.time * 1000),
];

function showAgent(name) {
  show("agent", name);
  write(find("h1", main), name);
  let known = nothing("");
  const returns = new Chart(find("#returns"), (index) => {
    if (index < 0) return "No episode has ended yet.";
    const { episode, episode_return } = known.episodes[index];
    return `Episode ${number(episode)}: return ${number(episode_return)}, mean ${number(known.means[index])}`;
  });
  const losses = new Chart(find("#losses"), (index) =>
    index < 0 ? "No update yet." : `Update ${number(known.updates[index])}: loss ${number(known.losses[index])}`,
  );
  return async () => {
    const agent = await read(`agents/${encodeURIComponent(name)}`);
    const news = await newsOf(agent, known);
    return () => {
      known = news;
      writeAgent(agent, known);
      drawReturns(returns, known);
      const label = known.losses.length ? `Loss: ${number(known.losses.at(-1))} now` : "Loss: none yet";
      losses.set(known.updates, [{ kind: "loss", ys: known.losses }], label);
    };
  };
}

const nothing = (id) => ({ id, episodes: [], means: [], updates: [], losses: [], last: 0, loss: null, asked: false });

// What is known of an agent, with what is new since. One of the same name, or another state, begins anew.
async function newsOf(agent, before) {
  const { global_episode: ended, global_step: updates } = agent.counters;
  const same = agent.id === before.id && (!agent.executor || ended >= before.last);
  const known = same ? { ...before } : nothing(agent.id);
  const path = `agents/${encodeURIComponent(agent.name)}`;
  let more = !known.asked || ended > known.last;
  while (more) {
    const after = known.last ? `&after=${known.last}` : "";  // at first the newest
    const found = await read(`${path}/episodes?limit=${KEPT}${after}`);
    if (found.length) known.last = found.at(-1).episode;
    known.episodes = [...known.episodes, ...found].slice(-KEPT);
    more = found.length === KEPT && known.last < ended;
  }
  known.means = means(known.episodes.map((episode) => episode.episode_return));
  if (!known.asked || updates !== known.updates.at(-1)) {
    known.loss = (await read(`${path}/loss`)).loss ?? null;
    if (updates < known.updates.at(-1)) [known.updates, known.losses] = [[], []];
    const had = known.loss !== null || known.updates.length;
    if (had && agent.executor && updates !== known.updates.at(-1)) {
      known.updates = [...known.updates, updates].slice(-KEPT);
      known.losses = [...known.losses, known.loss].slice(-KEPT);
    }
  }
  known.asked = true;
  return known;
}

function means(values) {
  let sum = 0;
  return values.map((value, index) => {
    sum += value - (index >= WINDOW ? values[index - WINDOW] : 0);
    return sum / Math.min(index + 1, WINDOW);
  });
}

function writeAgent(agent, known) {
  const counted = (name) => (agent.executor ? number(agent.counters[name]) : "–");
  put("description", agent.description);
  put("problem", agent.status === "failed" ? `The agent has failed: ${agent.status_detail || "no reason is known"}` : "");
  writeStatus(find('[data-field="status"]', main), agent);
  put("model", agent.model);
  put("timesteps", counted("global_timestep"));
  put("updates", counted("global_step"));
  put("episodes", counted("global_episode"));
  put("mean", number(agent.episode_return_mean ?? known.means.at(-1)));
  put("loss", number(known.loss));
  writeTime(find('[data-field="active"]', main), agent.last_active);
  find(".last", main).hidden = !known.episodes.length;
  fill(find(".last table", main), known.episodes.slice(-10).reverse(), "episode", forEpisodes);
  const config = find(".config", main);
  const settings = JSON.stringify(agent.config);
  if (config.dataset.settings === settings) return;
  config.dataset.settings = settings;
  config.replaceChildren(...Object.entries(agent.config).map(([key, value]) => {
    const [pair, term, told] = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
    term.textContent = key;
    told.textContent = typeof value === "string" ? value : JSON.stringify(value);
    pair.append(term, told);
    return pair;
  }));
}

function drawReturns(chart, { episodes, means: ys }) {
  const ended = episodes.length ? `${number(episodes.at(-1).episode)} episodes` : "no episode has ended yet";
  const now = ys.length ? `, the mean of the last ${WINDOW} is ${number(ys.at(-1))}` : "";
  const lines = [
    { kind: "one", ys: episodes.map((episode) => episode.episode_return) },
    { kind: "mean", ys },
  ];
  chart.set(episodes.map((episode) => episode.episode), lines, `Return per episode: ${ended}${now}`);
}

// -- logging in and out

function showLogin(problem = "") {
  clearTimeout(timer);
  view = null;
  show("login", "Log in");
  const form = find("form", main);
  write(find(".problem", form), problem);
  find("#username", form).focus();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = find("button", form);
    button.disabled = true;
    try {
      await ask("login", { method: "POST", body: new URLSearchParams(new FormData(form)) });
      await begin();
    } catch (problem) {
      write(find(".problem", form), problem.message);
      find("#password", form).select();
    }
    button.disabled = false;
  });
}

find("#logout").addEventListener("click", async () => {
  try {
    await ask("logout", { method: "POST" });
  } catch (problem) {
    if (problem.status !== 401) return write(find("#notice"), `You are still logged in. ${problem.message}`);
  }
  showLogin();
});

// -- what is seen, and when

function route(focus = true) {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  if (!path.startsWith("/") && path) return; // a place inside of this view
  const [, name, ...rest] = path.split("/");
  let update;
  try {
    if (name === "agents" && rest.length) update = showAgent(decodeURIComponent(rest.join("/")));
  } catch {
    location.hash = "#/";
  }
  update ??= name === "tokens" ? showTokens() : showAgents(new URLSearchParams(query).get("after"));
  view = { update, busy: false };
  if (focus) find("h1", main).focus();
  refresh();
}

async function refresh() {
  clearTimeout(timer);
  const mine = view;
  if (!mine || mine.busy || document.hidden) return;
  mine.busy = true;
  let wait = EVERY;
  try {
    const draw = await mine.update();
    if (mine !== view) return;
    draw();
    tell("", "");
  } catch (problem) {
    if (mine !== view) return;
    if (!(problem instanceof Problem)) throw problem;
    if (problem.status === 401) return showLogin(problem.message);
    wait = Math.max(wait, problem.wait || 0);
    tell(`${problem.message} Trying again every ${Math.round(wait / 1000)} seconds.`, "Not live");
  } finally {
    mine.busy = false;
  }
  timer = setTimeout(refresh, wait);
}

function tell(notice, state) {
  write(find("#notice"), notice);
  const live = find(".live", main);
  if (!live) return;
  live.classList.toggle("on", !notice);
  write(live, state || "Live");
  live.title = notice ? "" : "Updated every 2 seconds while you look at it";
}

async function begin() {
  user = (await ask("session")).user;
  if (user === null) return showLogin();
  write(find("#user"), user);
  route();
}

addEventListener("hashchange", () => view && route());
document.addEventListener("visibilitychange", refresh);
begin().catch((problem) => showLogin(problem.message));
