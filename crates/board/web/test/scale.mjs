// How the board does with a large fleet: LANDFALL_PROGRAM=…/landfall node test/scale.mjs [NODES] [JOBS] [TABS]
import { launch } from "./browser.mjs";
import { World, until } from "./world.mjs";

const [nodes, jobs, tabs] = [5000, 100_000, 1000].map((usual, place) => Number(process.argv[2 + place] ?? usual));
const world = new World(process.env.LANDFALL_PROGRAM ?? "landfall");
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const began = Date.now();
let browser;

/** Jobs by the stream that takes many. */
async function submit(number, needs, name) {
  for (let done = 0; done < number; done += 10_000) {
    const line = JSON.stringify({ name, needs, run: { command: ["true"] } });
    const body = `${Array(Math.min(10_000, number - done)).fill(line).join("\n")}\n`;
    const answer = await fetch(`${world.url}/api/v1/jobs/stream`, { method: "POST", headers: { authorization: `Bearer ${world.admin}`, "content-type": "application/x-ndjson" }, body });
    await answer.text();
    if (!answer.ok) throw new Error(`the stream of jobs: ${answer.status}`);
  }
}

/** Frames a second while something is scrolled. */
const scrolled = (page, selector) => page.evaluate(async (selector) => {
  const box = document.querySelector(selector) ?? document.scrollingElement;
  const inside = box.scrollHeight - box.clientHeight > 50 ? box : document.scrollingElement;
  const times = [];
  let before = performance.now();
  for (let frame = 0; frame < 120; frame++) {
    inside.scrollTop = (frame * 97) % Math.max(1, inside.scrollHeight - inside.clientHeight);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - before);
    before = now;
  }
  times.sort((a, b) => a - b);
  return { median: 1000 / times[60], slowest: 1000 / times[118] };
}, selector);

/** Milliseconds that a small question to the driver takes. */
async function asked(number = 200) {
  const times = [];
  for (let place = 0; place < number; place++) {
    const from = performance.now();
    await world.get("/jobs/1/placement");
    times.push(performance.now() - from);
  }
  times.sort((a, b) => a - b);
  return { median: median(times), high: times[Math.floor(number * 0.99)] };
}

try {
  await world.begin({ up: ["--no-agent"] });
  console.log(`${nodes} nodes with 8 GPUs and ${jobs} jobs`);
  await world.submit("first", { pool: "gpu", gpu_count: 1 });
  await world.hollow(nodes, "--gpus", "8:A100:80GiB", "--pool", "gpu", "--prefix", "gpu", "--task-time", "20min..2h");
  await submit(Math.min(jobs, nodes * 4), { pool: "gpu", gpu_count: 2, walltime_ms: "4h" }, "fill");
  await submit(jobs - Math.min(jobs, nodes * 4), { pool: "gpu", gpu_count: 4, tenant: "speech", walltime_ms: "2h" }, "queue");
  await until(async () => (await world.get("/overview")).pools.some((pool) => pool.running >= Math.min(jobs, nodes * 4) * 0.9), "most of it runs", 240);
  console.log(`${((Date.now() - began) / 1000).toFixed(0)} s until all of it is there`);
  const quiet = await asked();

  browser = await launch();
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  await context.request.post(`${world.url}/api/v1/session`, { data: { token: world.admin } });
  const paints = [];
  let sent = 0;
  for (let round = 0; round < 5; round++) {
    const page = await context.newPage();
    const line = await context.newCDPSession(page);
    await line.send("Network.enable");
    await line.send("Network.setCacheDisabled", { cacheDisabled: true });
    sent = 0;
    line.on("Network.loadingFinished", ({ encodedDataLength }) => (sent += encodedDataLength));
    const from = performance.now();
    await page.goto(world.url, { waitUntil: "commit" });
    await page.locator(".map canvas[width]").waitFor();
    await page.locator(".reasons li").first().waitFor();
    paints.push(performance.now() - from);
    if (round < 4) await page.close();
  }
  const page = context.pages()[0];
  console.log(`first useful paint: ${median(paints).toFixed(0)} ms (median of 5; map and reasons are there), ${(sent / 1024).toFixed(0)} KiB transferred with data`);
  const map = await scrolled(page, ".map");
  console.log(`map: ${map.median.toFixed(0)} frames/s, slowest of 60: ${map.slowest.toFixed(0)}`);
  await page.evaluate(() => (location.hash = "/nodes"));
  await page.locator("main tbody tr").first().waitFor();
  const table = await scrolled(page, ".tall-scroll");
  console.log(`table of nodes: ${table.median.toFixed(0)} frames/s, slowest of 60: ${table.slowest.toFixed(0)}`);
  const lists = [];
  for (let round = 0; round < 5; round++) {
    const from = performance.now();
    await world.get("/jobs?limit=50");
    lists.push(performance.now() - from);
  }
  console.log(`a page of the table of jobs: ${median(lists).toFixed(0)} ms`);

  // Streams as tabs hold them open, while jobs end and start.
  await page.evaluate(() => (location.hash = "/"));
  const streams = [];
  for (let place = 0; place < tabs; place++) streams.push(fetch(`${world.url}/api/v1/changes`, { headers: { authorization: `Bearer ${world.admin}` } }));
  const open = await Promise.all(streams);
  open.forEach((stream) => void (async () => { for await (const _ of stream.body) void _; })().catch(() => undefined));
  const before = await page.evaluate(() => performance.memory.usedJSHeapSize);
  const churn = submit(Math.min(20_000, jobs), { pool: "gpu", gpu_count: 8, tenant: "climate" }, "churn");
  const busy = await asked();
  await churn;
  await page.waitForTimeout(5000);
  const after = await page.evaluate(() => performance.memory.usedJSHeapSize);
  console.log(`a small question: ${quiet.median.toFixed(1)} ms (99 of 100: ${quiet.high.toFixed(1)}) with nobody looking, ${busy.median.toFixed(1)} ms (${busy.high.toFixed(1)}) with ${tabs} streams open and jobs coming in`);
  console.log(`memory of a tab: ${(before / 1e6).toFixed(0)} MB before ${Math.min(20_000, jobs)} more jobs, ${(after / 1e6).toFixed(0)} MB after`);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await browser?.close();
  await world.end();
}
process.exit();
