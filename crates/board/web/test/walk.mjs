// Walks every page in a real browser against a live server: LANDFALL_PROGRAM=…/landfall node test/walk.mjs [DIRECTORY FOR SCREENSHOTS]
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { mkdirSync } from "node:fs";
import { launch } from "./browser.mjs";
import { front } from "./front.mjs";
import { Prometheus, present as prometheusIsThere } from "./prometheus.mjs";
import { World, peers, until } from "./world.mjs";

const shots = process.argv[2];
if (shots) mkdirSync(shots, { recursive: true });
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PAGES = ["/", "/jobs", "/nodes", "/timeline", "/decisions", "/policies", "/plan", "/replays", "/workloads", "/tenants", "/capacity"];

const began = Date.now();
const world = new World(process.env.LANDFALL_PROGRAM ?? "landfall");
const prometheus = new Prometheus();
let [near, far] = [];
let browser;
const troubles = [];
const NOTHING = /(?!)/;

/** A tab whose mistakes count, but for those that the test makes. Waits are long because the machine may be busy; none is a measure. */
async function tab(context, path = "/", expected = NOTHING, at = world) {
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.expected = expected;
  page.on("console", (message) => message.type() === "error" && !page.expected.test(message.text()) && troubles.push(`${page.url()}: ${message.text()}`));
  page.on("pageerror", (error) => troubles.push(`${page.url()}: ${error.message}`));
  await page.goto(`${at.url}/#${path}`);
  return page;
}

const context = (options = {}) => browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
/** Goes to a page of the board, and is there when this returns: what is looked at next is no longer the page before. */
const go = (page, path) => page.evaluate((path) => new Promise((there) => {
  if (location.hash === `#${path}`) return there();
  // The page hears it first; it draws before the second turn.
  addEventListener("hashchange", () => setTimeout(() => setTimeout(there)), { once: true });
  location.hash = path;
}), path);
/** The line behind a mistake that the test makes is written at any time: it is waited for, and no other one passes. */
async function provoking(page, pattern, number, work) {
  let seen = 0;
  const count = (message) => message.type() === "error" && pattern.test(message.text()) && seen++;
  page.expected = pattern;
  page.on("console", count);
  const made = await work();
  await until(() => seen >= number, `${number} lines of the console like ${pattern}`);
  page.off("console", count);
  page.expected = NOTHING;
  return made;
}
/** Asks what would be, and waits for the answer to this question. */
async function lookAhead(page) {
  const [answer] = await Promise.all([
    page.waitForResponse((answer) => answer.url().endsWith("/api/v1/plan")),
    page.getByRole("button", { name: "Look ahead" }).click(),
  ]);
  assert.equal(answer.status(), 200, await answer.text());
  await page.locator(".stack[aria-live]").waitFor();
}
const sees = (page, text) => page.getByText(text).first().waitFor();

async function step(name, work) {
  const from = Date.now();
  await work();
  console.log(`ok  ${String(Date.now() - from).padStart(5)} ms  ${name}`);
}

/** What axe finds that is serious. */
async function inspect(page, where) {
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.filter((one) => ["serious", "critical"].includes(one.impact)).map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).slice(0, 4).join(" | ")} (${one.nodes[0].failureSummary})`);
  });
  assert.deepEqual(found, [], `axe on ${where}`);
}

async function walk() {
  await world.begin({ up: ["--stop-jobs"] });
  await world.hollow(24, "--gpus", "8:A100:80GiB", "--pool", "gpu", "--prefix", "gpu", "--task-time", "1h..2h");
  await world.hollow(16, "--cpus", "64", "--pool", "hpc", "--prefix", "hpc", "--task-time", "30min..1h");
  [near, far] = await peers(world.program);
  if (prometheusIsThere()) await prometheus.begin(world, near, far);
  else console.log("SKIPPED: prometheus is not installed, so nobody scrapes the server");
  const jobs = await world.furnish();
  browser = await launch();

  const admin = await context();
  let page;
  await step("nobody is let in without a token, and a wrong one is refused in words", async () => {
    const stranger = await tab(await context(), "/", /401/);
    await stranger.getByLabel("Token").fill("lf_wrong_token");
    await stranger.getByRole("button", { name: "Sign in" }).click();
    await sees(stranger, "the token is not valid");
    await stranger.close();
  });

  await step("the address that `landfall up` prints signs in, once", async () => {
    page = await tab(admin, world.address.split("#")[1]);
    await sees(page, "live");
    assert.ok(!page.url().includes("sign-in"), "the code stays in the address");
    const [cookie] = await admin.cookies();
    assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, "Strict"]);
    const late = await tab(await context(), world.address.split("#")[1], /401/);
    await sees(late, "this address was used before, or is too old");
    await late.close();
  });

  await step("other sites cannot act in one's name", async () => {
    const cookie = (await admin.cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
    const drain = (headers) => fetch(`${world.url}/api/v1/nodes/gpu-2/drain`, { method: "POST", headers: { cookie, ...headers } });
    assert.equal((await drain({})).status, 403);
    assert.equal((await drain({ "landfall-board": "1", origin: "http://elsewhere.example" })).status, 403);
    const looked = await fetch(`${world.url}/api/v1/jobs`, { headers: { cookie, "sec-fetch-site": "same-site" } });
    assert.equal(looked.status, 403);
  });

  await step("overview: the map, why jobs wait, what wants attention", async () => {
    await page.locator(".map canvas").waitFor();
    await sees(page, "needs 16 GPUs; no node has them (the largest has 8)");
    await sees(page, "1 job can never start");
    await page.getByRole("radio", { name: "pool" }).focus();
    await page.keyboard.press("ArrowRight");
    await page.locator(".keys-row").getByText("vision").waitFor();
    // The map has all of them, this machine first, and is laid out: each key is heard before the next.
    await until(async () => (await world.get("/map")).nodes.some((node) => node.id === "workstation"), "this machine's agent");
    await page.getByRole("application", { name: /Map of 42 nodes/ }).focus();
    const chosen = page.locator(".map .sr");
    await until(async () => {
      await page.keyboard.press("ArrowRight");
      return /^workstation:/.test((await chosen.textContent()) ?? "");
    }, "the first node is chosen");
    await page.keyboard.press("ArrowDown");
    await chosen.getByText(/^gpu-1:/).waitFor({ state: "attached" });
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: /Node gpu-1 / }).waitFor();
  });

  await step("jobs: filters, search, pages", async () => {
    await go(page, "/jobs");
    await page.getByLabel("State", { exact: true }).selectOption("failed");
    await page.waitForFunction(() => {
      const states = [...document.querySelectorAll("main tbody tr .state")].map((state) => state.textContent);
      return states.length > 0 && states.every((state) => state.includes("failed"));
    });
    await page.locator("table.rows").getByText("lint").waitFor();
    await page.getByLabel("State", { exact: true }).selectOption("");
    await page.getByRole("searchbox", { name: "Search" }).fill("FINETUNE");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelectorAll("main tbody tr").length === 1);
    await page.getByRole("searchbox", { name: "Search" }).fill("");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelectorAll("main tbody tr").length === 50);
    const first = await page.locator("main tbody tr a").first().textContent();
    await page.getByRole("button", { name: "Older" }).click();
    await page.waitForFunction((first) => document.querySelector("main tbody tr a")?.textContent !== first, first);
  });

  await step("a job says why it waits, and that it can never start", async () => {
    await go(page, `/jobs/${jobs.never}`);
    await sees(page, "It can never start here.");
    await sees(page, "use a node with at least 16 GPUs");
  });

  await step("a log is followed while it is written", async () => {
    await go(page, `/jobs/${jobs.talks}`);
    await sees(page, "Why there");
    const log = page.getByRole("log");
    const lines = async () => ((await log.textContent()) ?? "").split("\n").length;
    await until(async () => (await lines()) > 3, "lines of the log");
    const before = await lines();
    await until(async () => (await lines()) > before + 3, "more lines of the log");
  });

  await step("cancel asks first, then shows the end without a reload", async () => {
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "No, leave it" }).click();
    assert.equal((await world.get(`/jobs/${jobs.talks}`)).state, "running");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Cancel it" }).click();
    await page.locator("h1 .state").getByText("cancelled").waitFor();
    await page.getByRole("button", { name: "Run again" }).waitFor();
  });

  await step("hold and release", async () => {
    await go(page, `/jobs/${jobs.held}`);
    await sees(page, "it is held back");
    await page.getByRole("button", { name: "Release" }).click();
    await page.getByRole("button", { name: "Release it" }).click();
    await page.locator("h1 .state").getByText("completed").waitFor();
  });

  await step("plan: a job that would wait, nodes that are lost", async () => {
    await go(page, "/plan");
    await page.getByLabel("GPUs", { exact: true }).fill("8");
    await page.getByLabel("Pool", { exact: true }).selectOption("gpu");
    await lookAhead(page);
    await page.getByRole("heading", { name: /would (wait|start now)/ }).first().waitFor();
    await page.getByLabel("What if", { exact: true }).selectOption("lose");
    await page.getByLabel("Nodes", { exact: true }).fill("gpu-1 gpu-2");
    await lookAhead(page);
    await page.getByRole("heading", { name: /would be stopped|would wait|On the map/ }).first().waitFor();
    await go(page, "/plan?change=policy&pool=gpu");
    await page.getByLabel("Policy", { exact: true }).selectOption("fit");
    await page.getByLabel("Pool", { exact: true }).selectOption("gpu");
    await lookAhead(page);
    await page.getByText(/would|Nothing would change/).first().waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  await step("plan: a job file as it is, and a tenant's quota", async () => {
    await go(page, "/plan?change=file");
    const file = page.getByLabel("What the job file says");
    assert.match(await file.inputValue(), /^name = "train"/);
    await file.fill('[[jobs]]\nkey = "a"\nneeds = { pool = "default" }\nrun = { command = ["true"] }\n[[jobs]]\ndepends_on = [{ on = "a" }]\nneeds = { pool = "default" }\nrun = { command = ["true"] }\n');
    await lookAhead(page);
    await page.getByRole("heading", { name: /would (wait|start now)/ }).first().waitFor();
    await file.fill("name = 'x'\nneds = 1\n");
    await provoking(page, /422/, 1, () => page.getByRole("button", { name: "Look ahead" }).click());
    await sees(page, /line 2/);
    await go(page, "/plan?change=tenant");
    await page.getByLabel("Tenant", { exact: true }).selectOption("vision");
    await page.getByLabel("GPUs at once").fill("0");
    await lookAhead(page);
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  await step("plan: nodes are added, and jobs that wait would start on them", async () => {
    await go(page, "/plan?change=add");
    await page.getByLabel("How many nodes").fill("2");
    await page.getByLabel("GPUs of each").fill("8");
    await page.getByLabel("GPU model").fill("A100");
    await page.getByLabel("Pool", { exact: true }).selectOption("gpu");
    await lookAhead(page);
    await page.getByRole("heading", { name: /would start now/ }).waitFor();
    await sees(page, "added-1");
    await page.getByRole("application", { name: /Map of 44 nodes/ }).waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  await step("two policies on the present queue", async () => {
    await go(page, "/policies?pool=hpc");
    await page.getByLabel("Against").selectOption("hpc-batch");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByText(/that wait would change places/).waitFor();
  });

  await step("who waits for whom is drawn, and leads from job to job", async () => {
    await go(page, `/jobs/${jobs.last}`);
    const graph = page.getByRole("region", { name: "Graph of dependencies" });
    await graph.locator(".graph-job").nth(3).waitFor();
    assert.equal(await graph.locator("path.edge").count(), 4);
    await graph.getByRole("link", { name: new RegExp(`^${jobs.first} `) }).click();
    await page.locator("h1", { hasText: `Job ${jobs.first}` }).waitFor();
  });

  await step("an alarm is acknowledged", async () => {
    await go(page, "/");
    const alarms = page.getByRole("list", { name: "Alarms" });
    await alarms.getByRole("button", { name: "Acknowledge" }).first().click();
    await alarms.getByText(/seen by/).first().waitFor();
    assert.ok((await world.get("/alarms")).items.some((alarm) => alarm.acknowledged_by));
  });

  await step("what if last week: a stretch of the journal under another policy, and its report", async () => {
    await go(page, "/replays?pool=gpu");
    await page.getByLabel("Stretch").selectOption("1");
    await page.getByLabel("Against").selectOption("fit");
    await page.getByRole("button", { name: "Replay" }).click();
    await page.getByRole("heading", { level: 1, name: "as it was against fit in pool gpu" }).waitFor();
    const report = page.frameLocator("iframe.report");
    await report.getByText("fit").first().waitFor({ timeout: 120_000 });
    const [made] = await world.get("/replays");
    assert.deepEqual([made.state, made.policies], ["done", ["own", "fit"]]);
  });

  await step("a report that was made elsewhere is shown, and can do nothing", async () => {
    await go(page, "/replays");
    const evil = `<!doctype html><title>x</title><style>p { color: rgb(1, 2, 3) }</style><p>made elsewhere</p><script>document.body.textContent = "a script ran"</script>`;
    // The browser says that it kept the script from running.
    await provoking(page, /Blocked script execution|Content Security Policy/, 1, async () => {
      await page.getByLabel("From a file").setInputFiles({ name: "report.html", mimeType: "text/html", buffer: Buffer.from(evil) });
      const text = page.frameLocator("iframe.report").getByText("made elsewhere");
      await text.waitFor();
      assert.equal(await text.evaluate((found) => getComputedStyle(found).color), "rgb(1, 2, 3)");
    });
    await page.getByRole("button", { name: "Remove" }).click();
    await page.getByRole("button", { name: "Remove it" }).click();
    await page.locator("h1", { hasText: "What if last week" }).waitFor();
  });

  await step("a node is drained and comes back", async () => {
    await go(page, "/nodes/gpu-3");
    await page.getByRole("button", { name: "Drain" }).click();
    await page.getByLabel("Why, for those whose jobs wait").fill("a fan is loud");
    await page.getByRole("button", { name: "Drain it" }).click();
    await page.locator("h1 .state").getByText(/drain/).waitFor();
    await sees(page, "Out of service: a fan is loud");
    await page.locator(".life").getByText("it was taken out of service: a fan is loud").waitFor();
    await page.getByRole("button", { name: "Return" }).click();
    await page.getByRole("button", { name: "Return it" }).click();
    await page.locator("h1 .state").getByText("ready").waitFor();
    await sees(page, "What it is good for");
    await page.locator("table.rows").getByText("render").waitFor();
  });

  await step("a rule's pop-up says what it does", async () => {
    await go(page, "/policies?pool=gpu");
    await page.getByRole("button", { name: "gpu-utilisation" }).click();
    await page.locator(".tip-box:popover-open").getByText(/GPU memory/).waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await page.locator(".tip-box:popover-open").count(), 0);
  });

  await step("a decision arrives live and opens its breakdown", async () => {
    await go(page, "/decisions");
    await sees(page, /decisions? since the page was opened/);
    await world.submit("just-now", { cpu_milli: 100 }, ["true"]);
    const row = page.locator("tr", { hasText: "just-now" });
    await row.waitFor();
    await row.getByRole("button").click();
    await page.locator("tr.detail .terms").first().waitFor();
  });

  await step("decisions of one pool, and those that chose nobody", async () => {
    await page.getByLabel("Pool", { exact: true }).selectOption("hpc");
    await page.waitForFunction(() => {
      const nodes = [...document.querySelectorAll("main tbody tr:not(.detail) td:nth-child(4)")].map((cell) => cell.textContent);
      return nodes.length > 0 && nodes.every((text) => text.startsWith("hpc-"));
    });
    await page.getByRole("radio", { name: "chose nobody" }).click();
    await page.locator("main tbody tr").getByText("nobody was chosen").or(page.getByText("No decision is like that")).first().waitFor();
  });

  await step("a job that failed twice shows every attempt, and is submitted again as it was", async () => {
    await go(page, `/jobs/${jobs.tries}`);
    await page.locator("h1 .state").getByText("failed").waitFor();
    await page.locator(".life").getByText("attempt 3:").waitFor();
    assert.equal(await page.locator(".life").getByText("it went back to the queue").count(), 2);
    await page.getByRole("button", { name: "Run again" }).click();
    await page.getByRole("button", { name: "Run it again" }).click();
    await page.waitForFunction((before) => !location.hash.endsWith(`/${before}`), jobs.tries);
    const again = (await page.evaluate(() => location.hash)).split("/").pop();
    const [was, is] = await Promise.all([jobs.tries, again].map((id) => world.get(`/jobs/${id}/request`)));
    assert.deepEqual([is.needs, is.run, is.name], [was.needs, was.run, was.name]);
  });

  await step("what stands between a job and a node, and what was beside the winner", async () => {
    await go(page, `/jobs/${jobs.never}`);
    await page.getByText("Why not on a certain node?").click();
    await page.getByLabel("Node", { exact: true }).fill("gpu-5");
    await page.getByRole("button", { name: "Ask" }).click();
    await sees(page, "It may not start there now:");
    await go(page, `/jobs/${jobs.wide}`);
    await page.getByRole("heading", { name: "Why there" }).waitFor();
    await sees(page, "The winner and those that came next");
    await page.getByText(/What it rests on/).click();
  });

  await step("who lent what to whom", async () => {
    assert.equal((await world.get(`/jobs/${jobs.lent}`)).state, "running");
    await go(page, "/tenants");
    const loans = page.getByRole("region", { name: "Loans" }).locator("tbody tr");
    await loans.getByRole("link", { name: jobs.lent, exact: true }).waitFor();
    assert.match(await loans.first().textContent(), /^hpclab2speech/);
    await sees(page, "lends 2 of up to 3 nodes");
    await loans.getByRole("link", { name: /^hpc-/ }).first().click();
    await sees(page, "pool hpc lent it to another one");
  });

  await step("what happened while the line was down is caught up", async () => {
    const line = await front(world.url);
    const away = await context();
    await away.request.post(`${line.url}/api/v1/session`, { data: { token: world.admin } });
    const tab = await away.newPage();
    await tab.goto(`${line.url}/#/jobs`);
    await tab.locator("main tbody tr").first().waitFor();
    line.cut(true);
    await sees(tab, "not heard");
    await world.submit("while-away", { cpu_milli: 100 }, ["true"]);
    line.cut(false);
    await tab.locator("main tbody tr", { hasText: "while-away" }).waitFor({ timeout: 30_000 });
    await away.close();
  });

  await step("a workload is submitted, and its job ends", async () => {
    await go(page, "/workloads");
    await page.locator(".card", { hasText: "render" }).getByRole("button", { name: "Submit" }).click();
    await page.getByRole("button", { name: "Submit it" }).click();
    await page.locator("h1 .state").getByText("completed").waitFor();
    await page.getByRole("log").getByText("rendered").waitFor();
  });

  await step("an array shows its progress", async () => {
    await go(page, `/jobs/${jobs.array}`);
    await page.getByRole("heading", { name: "Array of 400 jobs" }).waitFor();
    await sees(page, "1 to 400");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "No, leave it" }).click();
  });

  await step("timeline, tenants, capacity", async () => {
    await go(page, "/timeline?pool=hpc");
    await page.locator(".gantt-bar.running").first().waitFor();
    await page.locator(".gantt-bar.reserved").first().waitFor();
    // Dragged by a bar it looks ahead, and the bar is not opened.
    const bar = await page.locator("a.gantt-bar").first().boundingBox();
    await page.mouse.move(bar.x + bar.width - 4, bar.y + 6);
    await page.mouse.down();
    await page.mouse.move(bar.x + bar.width - 150, bar.y + 8, { steps: 5 });
    await page.mouse.up();
    await page.getByRole("button", { name: "Back to now" }).click();
    assert.match(await page.evaluate(() => location.hash), /^#\/timeline/);
    await go(page, "/tenants");
    await sees(page, /its share is 50 %/);
    await sees(page, /GPUs: \d+ of 120/);
    await sees(page, /spent: [\d.]+ of 20/);
    await world.put("/caps", { power_w: 60_000 });
    await world.put("/providers/northern", { class: "bulk", shape: { gpus: 8, vram_mib: "80GiB", cpu_milli: 64_000, ram_mib: "512GiB" } });
    await go(page, "/capacity");
    await sees(page, "lease-7");
    await sees(page, /^[\d,]+ W of 60,000 W$/);
    await sees(page, /^[\d.]+ [KMG]?i?B\/s/);
    await page.getByRole("region", { name: "Providers" }).getByText("whole nodes only").waitFor();
    await sees(page, "This server is no peer");
  });

  await step("a machine that is cut into slices, and what its agent estimates", async () => {
    const performance_estimates = { gpu_bandwidth_gb_s: 2039, estimated_llm_tok_s: 114, max_concurrent_containers: 8, wasm_memory_limit_mb: 4096, supported_runtimes: ["process"] };
    const gpus = [0, 1].map((index) => ({ index, model: "NVIDIA A100-SXM4-80GB", vram_mib: 81920, sliced: index === 0 }));
    await world.put("/nodes/cut/registration", { pool: "gpu", heartbeat: { epoch: 1, seq: 1, agent_version: "0.1.0", platform: "desktop", cpu_milli: 8000, ram_mib: 65536, accepting: true, gpus, performance_estimates } });
    for (const gpu_slice of ["3g.40gb", "2g.20gb"]) await world.submit("slice", { pool: "gpu", gpu_slice });
    await go(page, "/nodes/cut");
    await page.locator("td .chip", { hasText: "3g@" }).waitFor();
    await sees(page, "2039 GB/s (estimated)");
    await sees(page, "114 tokens/s (estimated)");
    if (shots) await page.screenshot({ path: `${shots}/slices.png`, fullPage: true });
  });

  await step("keys: go to a page, find, move through rows, help", async () => {
    await go(page, "/");
    await page.locator("h1", { hasText: "Overview" }).waitFor();
    // The second key has to follow soon, which a busy machine may miss.
    await until(async () => {
      await page.keyboard.press("g");
      await page.keyboard.press("j");
      return page.locator("h1", { hasText: "Jobs" }).waitFor({ timeout: 2000 }).then(() => true, () => false);
    }, "g and j lead to the jobs");
    await page.locator("main tbody tr").first().waitFor();
    await until(async () => {
      await page.keyboard.press("j");
      return page.evaluate(() => !!document.activeElement?.closest("main tbody tr"));
    }, "j moves to a row");
    await page.keyboard.press("Enter");
    // Not the list, which is still there for a moment: what is typed next belongs to the page of the job.
    await page.locator("h1", { hasText: /^Job \d/ }).waitFor();
    await page.keyboard.press("/");
    await page.waitForFunction(() => document.activeElement?.id === "find");
    await page.keyboard.type("gpu-7");
    await page.keyboard.press("Enter");
    await page.locator("h1", { hasText: "Node gpu-7" }).waitFor();
    await page.keyboard.press("?");
    await page.getByRole("heading", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
  });

  await step("who may not, cannot: a submitter sees its own and steers nothing else", async () => {
    const made = await world.post("/tokens", { name: "ana", role: "submitter", tenant: "vision" });
    const own = await context();
    const ana = await tab(own);
    await ana.getByLabel("Token").fill(made.secret);
    await ana.getByRole("button", { name: "Sign in" }).click();
    await sees(ana, "submitter of vision");
    await go(ana, "/nodes/gpu-1");
    await sees(ana, "Devices");
    assert.equal(await ana.getByRole("button", { name: "Drain" }).count(), 0);
    await go(ana, "/jobs");
    await ana.locator("main tbody tr").first().waitFor();
    assert.ok((await ana.locator("main tbody tr").count()) < 30);
    const refused = await provoking(ana, /40[34]/, 4, () => ana.evaluate(async ([gang, lent]) => {
      const asked = [["/nodes/gpu-1/drain", "POST"], [`/jobs/${gang}`, "GET"], ["/replays", "GET"], [`/jobs/${lent}/life`, "GET"]];
      return Promise.all(asked.map(async ([path, method]) => (await fetch(`/api/v1${path}`, { method, headers: { "landfall-board": "1" } })).status));
    }, [jobs.gang, jobs.lent]));
    assert.deepEqual(refused, [403, 404, 403, 404]);
    await go(ana, "/replays");
    await sees(ana, "Operators replay what a server has lived through");
    await go(ana, `/jobs/${jobs.wide}`);
    await sees(ana, "finetune-70b");
    await own.close();
  });

  await step("an operator drains a node, and makes no tokens", async () => {
    const made = await world.post("/tokens", { name: "bo", role: "operator" });
    const own = await context();
    const bo = await tab(own);
    await bo.getByLabel("Token").fill(made.secret);
    await bo.getByRole("button", { name: "Sign in" }).click();
    await go(bo, "/nodes/gpu-4");
    await bo.getByRole("button", { name: "Drain" }).click();
    await bo.getByRole("button", { name: "Drain it" }).click();
    await bo.locator("h1 .state").getByText(/drain/).waitFor();
    const ask = () => bo.evaluate(async () => {
      const body = JSON.stringify({ name: "mine", role: "admin" });
      return (await fetch("/api/v1/tokens", { method: "POST", headers: { "landfall-board": "1", "content-type": "application/json" }, body })).status;
    });
    assert.equal(await provoking(bo, /403/, 1, ask), 403);
    await bo.getByRole("button", { name: "Return" }).click();
    await bo.getByRole("button", { name: "Return it" }).click();
    await bo.locator("h1 .state").getByText("ready").waitFor();
    await own.close();
  });

  let among;
  const bought = {};
  await step("a peer: who else there is and how far it is trusted, and what was offered for a job", async () => {
    const { id } = await far.get("/peer");
    await near.put(`/peers/${id}`, { note: "the lab upstairs" });
    await far.hollow(3, "--cpus", "8", "--memory", "16GiB", "--task-time", "100ms");
    await until(async () => (await near.get("/peers")).some((peer) => peer.connected && peer.facts?.cpu_milli === 24_000), "the other peer has told what it has");
    bought.done = await near.submit("render", { cpu_milli: 1000, ram_mib: 512 }, ["true"]);
    bought.none = await near.submit("huge", { cpu_milli: 32_000 }, ["true"]);
    among = await context();
    const page = await tab(among, near.address.split("#")[1], NOTHING, near);
    await sees(page, "live");
    await go(page, "/capacity");
    const row = page.getByRole("region", { name: "Peers" }).locator("tbody tr");
    await row.getByText("the lab upstairs").waitFor();
    assert.match(await row.textContent(), /connected.*0\.[25]/s);
    await row.getByText("24 of 24 cores").waitFor();
    await go(page, `/jobs/${bought.done}`);
    await page.locator("h1 .state").getByText("completed").waitFor();
    await page.getByRole("region", { name: "Offers of peers" }).locator("tbody tr", { hasText: "won" }).waitFor();
    await go(page, `/jobs/${bought.none}`);
    await page.locator("h1 .state").getByText("failed").waitFor();
    await sees(page, /Declined: .*does not fit/);
    // An end is no reason to forget what was offered.
    await page.reload();
    await sees(page, /Declined: .*does not fit/);
    await page.close();
  });

  await step("every page: nothing serious for axe, in light and dark; nothing wider than 390, 1280 and 2560 pixels", async () => {
    const places = [...PAGES, `/jobs/${jobs.wide}`, `/jobs/${jobs.done}`, `/jobs/${jobs.array}`, "/nodes/gpu-1", "/policies?pool=hpc", `/jobs/${jobs.last}`, `/jobs/${jobs.tries}`, "/plan?change=file", "/replays/1"];
    const ofPeers = ["/", "/capacity", `/jobs/${bought.done}`, `/jobs/${bought.none}`];
    const looked = [[world, await admin.storageState(), [...places, "/nodes/cut"], ""], [near, await among.storageState(), ofPeers, "-peer"]];
    for (const [at, storageState, places, name] of looked) await Promise.all([["light", 1280], ["dark", 390], ["light", 390], ["dark", 2560]].map(async ([colorScheme, width]) => {
      const looks = await context({ colorScheme, storageState, viewport: { width, height: width < 500 ? 844 : 1000 } });
      const page = await tab(looks, "/", NOTHING, at);
      for (const place of places) {
        await go(page, place);
        await page.locator("h1").waitFor();
        await page.waitForFunction(() => !document.querySelector(".loading"));
        if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
        await inspect(page, `${place} (${colorScheme}, ${width})`);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${place} is ${over} pixels too wide at ${width}`);
        if (shots) await page.screenshot({ path: `${shots}/${width}-${colorScheme}${name}${place.replace(/[^a-z0-9]+/gi, "-")}.png` });
      }
      await looks.close();
    }));
  });

  if (prometheus.child)
    await step("Prometheus: every expression of dashboards and alerts gives data, or nothing for a reason", async () => {
      const number = await prometheus.check();
      console.log(`                ${number} expressions`);
    });

  await step("signing out ends it", async () => {
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Token").waitFor();
    const { status } = await admin.request.get(`${world.url}/api/v1/jobs`).then((answer) => ({ status: answer.status() }));
    assert.equal(status, 401);
  });
  assert.deepEqual(troubles, [], "what the console says");
}

try {
  await walk();
  console.log(`all of it in ${((Date.now() - began) / 1000).toFixed(0)} s`);
} catch (error) {
  console.error(error);
  if (troubles.length) console.error("the console said:", troubles);
  process.exitCode = 1;
} finally {
  await browser?.close();
  await prometheus.end();
  for (const one of [far, near, world]) await one?.end();
}
process.exit();
