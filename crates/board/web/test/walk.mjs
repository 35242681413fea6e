// Walks every page in a real browser against a live server: LANDFALL_PROGRAM=…/landfall node test/walk.mjs [DIRECTORY FOR SCREENSHOTS]
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { mkdirSync } from "node:fs";
import { launch } from "./browser.mjs";
import { front } from "./front.mjs";
import { Prometheus, present as prometheusIsThere } from "./prometheus.mjs";
import { World, until } from "./world.mjs";

const shots = process.argv[2];
if (shots) mkdirSync(shots, { recursive: true });
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const PAGES = ["/", "/jobs", "/nodes", "/timeline", "/decisions", "/policies", "/plan", "/replays", "/workloads", "/tenants", "/capacity"];

const began = Date.now();
const world = new World(process.env.LANDFALL_PROGRAM ?? "landfall");
const prometheus = new Prometheus();
let browser;
const troubles = [];
let expected = /(?!)/;

/** A tab whose mistakes count. */
async function tab(context, path = "/") {
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  page.on("console", (message) => message.type() === "error" && !expected.test(message.text()) && troubles.push(`${page.url()}: ${message.text()}`));
  page.on("pageerror", (error) => troubles.push(`${page.url()}: ${error.message}`));
  await page.goto(`${world.url}/#${path}`);
  return page;
}

const context = (options = {}) => browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
const go = (page, path) => page.evaluate((path) => (location.hash = path), path);
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
  if (prometheusIsThere()) await prometheus.begin(world);
  else console.log("SKIPPED: prometheus is not installed, so nobody scrapes the server");
  const jobs = await world.furnish();
  browser = await launch();

  const admin = await context();
  let page;
  await step("nobody is let in without a token, and a wrong one is refused in words", async () => {
    const stranger = await tab(await context());
    await stranger.getByLabel("Token").fill("lf_wrong_token");
    expected = /401/;
    await stranger.getByRole("button", { name: "Sign in" }).click();
    await sees(stranger, "the token is not valid");
    expected = /(?!)/;
    await stranger.close();
  });

  await step("the address that `landfall up` prints signs in, once", async () => {
    page = await tab(admin, world.address.split("#")[1]);
    await sees(page, "live");
    assert.ok(!page.url().includes("sign-in"), "the code stays in the address");
    const [cookie] = await admin.cookies();
    assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, "Strict"]);
    expected = /401/;
    const late = await tab(await context(), world.address.split("#")[1]);
    await sees(late, "this address was used before, or is too old");
    expected = /(?!)/;
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
    await page.getByRole("radio", { name: "tenant" }).click();
    await page.locator(".keys-row").getByText("vision").waitFor();
    await page.locator(".map").focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: /Node gpu-1 / }).waitFor();
  });

  await step("jobs: filters, search, pages", async () => {
    await go(page, "/jobs");
    await page.getByLabel("State", { exact: true }).selectOption("failed");
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
    await page.getByRole("button", { name: "Look ahead" }).click();
    await page.getByRole("heading", { name: /would (wait|start now)/ }).first().waitFor();
    await page.getByLabel("What if", { exact: true }).selectOption("lose");
    await page.getByLabel("Nodes", { exact: true }).fill("gpu-1 gpu-2");
    await page.getByRole("button", { name: "Look ahead" }).click();
    await page.getByRole("heading", { name: /would be stopped|would wait|On the map/ }).first().waitFor();
    await go(page, "/plan?change=policy&pool=gpu");
    await page.getByLabel("Policy", { exact: true }).selectOption("fit");
    await page.getByLabel("Pool", { exact: true }).selectOption("gpu");
    await page.getByRole("button", { name: "Look ahead" }).click();
    await page.getByText(/would|Nothing would change/).first().waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  await step("plan: nodes are added, and jobs that wait would start on them", async () => {
    await go(page, "/plan?change=add");
    await page.getByLabel("How many nodes").fill("2");
    await page.getByLabel("GPUs of each").fill("8");
    await page.getByLabel("GPU model").fill("A100");
    await page.getByLabel("Pool", { exact: true }).selectOption("gpu");
    await page.getByRole("button", { name: "Look ahead" }).click();
    await page.getByRole("heading", { name: /would start now/ }).waitFor();
    await sees(page, "added-1");
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
    expected = /Blocked script execution|Content Security Policy/;
    await page.getByLabel("From a file").setInputFiles({ name: "report.html", mimeType: "text/html", buffer: Buffer.from(evil) });
    const text = page.frameLocator("iframe.report").getByText("made elsewhere");
    await text.waitFor();
    assert.equal(await text.evaluate((found) => getComputedStyle(found).color), "rgb(1, 2, 3)");
    expected = /(?!)/;
    await page.getByRole("button", { name: "Remove" }).click();
    await page.getByRole("button", { name: "Remove it" }).click();
    await page.locator("h1", { hasText: "What if last week" }).waitFor();
  });

  await step("a node is drained and comes back", async () => {
    await go(page, "/nodes/gpu-3");
    await page.getByRole("button", { name: "Drain" }).click();
    await page.getByRole("button", { name: "Drain it" }).click();
    await page.locator("h1 .state").getByText(/drain/).waitFor();
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

  let seen;
  await step("a decision arrives live and opens its breakdown", async () => {
    await go(page, "/decisions");
    await sees(page, "0 decisions since the page was opened");
    seen = await world.submit("just-now", { cpu_milli: 100 }, ["true"]);
    const row = page.locator("tr", { hasText: "just-now" });
    await row.waitFor();
    await row.getByRole("button").click();
    await page.locator("tr.detail .terms").waitFor();
  });

  await step("what happened while the line was down is caught up", async () => {
    const line = await front(world.url);
    const away = await context();
    await away.request.post(`${line.url}/api/v1/session`, { data: { token: world.admin } });
    expected = /ERR_|Failed to load/;
    const tab = await away.newPage();
    await tab.goto(`${line.url}/#/jobs`);
    await tab.locator("main tbody tr").first().waitFor();
    line.cut(true);
    await sees(tab, "not heard");
    await world.submit("while-away", { cpu_milli: 100 }, ["true"]);
    line.cut(false);
    await tab.locator("main tbody tr", { hasText: "while-away" }).waitFor({ timeout: 20_000 });
    expected = /(?!)/;
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
  });

  await step("timeline, tenants, capacity", async () => {
    await go(page, "/timeline?pool=hpc");
    await page.locator(".gantt-bar.running").first().waitFor();
    await page.locator(".gantt-bar.reserved").first().waitFor();
    await go(page, "/tenants");
    await sees(page, /its share is 50 %/);
    await go(page, "/capacity");
    await sees(page, "lease-7");
    await sees(page, "This server is no peer");
  });

  await step("keys: go to a page, find, move through rows, help", async () => {
    await go(page, "/");
    await page.locator("h1", { hasText: "Overview" }).waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("j");
    await page.locator("h1", { hasText: "Jobs" }).waitFor();
    await page.locator("main tbody tr").first().waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    // Not the list, which is still there for a moment: what is typed next belongs to the page of the job.
    await page.locator("h1", { hasText: /^Job \d/ }).waitFor();
    await page.keyboard.press("/");
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
    expected = /40[34]/;
    const drained = await ana.evaluate(async () => (await fetch("/api/v1/nodes/gpu-1/drain", { method: "POST", headers: { "landfall-board": "1" } })).status);
    const foreign = await ana.evaluate(async (id) => (await fetch(`/api/v1/jobs/${id}`)).status, jobs.gang);
    const replays = await ana.evaluate(async () => (await fetch("/api/v1/replays")).status);
    assert.deepEqual([drained, foreign, replays], [403, 404, 403]);
    expected = /(?!)/;
    await go(ana, "/replays");
    await sees(ana, "Operators replay what a server has lived through");
    await go(ana, `/jobs/${jobs.wide}`);
    await sees(ana, "finetune-70b");
    await own.close();
  });

  await step("every page: nothing serious for axe, in light and dark; nothing wider than 390, 1280 and 2560 pixels", async () => {
    const places = [...PAGES, `/jobs/${jobs.wide}`, `/jobs/${jobs.done}`, `/jobs/${jobs.array}`, "/nodes/gpu-1", "/policies?pool=hpc", `/jobs/${jobs.last}`, "/replays/1"];
    const state = await admin.storageState();
    await Promise.all([["light", 1280], ["dark", 390], ["light", 390], ["dark", 2560]].map(async ([colorScheme, width]) => {
      const looks = await context({ colorScheme, storageState: state, viewport: { width, height: width < 500 ? 844 : 1000 } });
      const page = await tab(looks);
      for (const place of places) {
        await go(page, place);
        await page.locator("h1").waitFor();
        await page.waitForFunction(() => !document.querySelector(".loading"));
        if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
        await inspect(page, `${place} (${colorScheme}, ${width})`);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${place} is ${over} pixels too wide at ${width}`);
        if (shots) await page.screenshot({ path: `${shots}/${width}-${colorScheme}${place.replace(/[^a-z0-9]+/gi, "-")}.png` });
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
  await world.end();
}
process.exit();
