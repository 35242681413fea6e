// How the board does with a large fleet: LANDFALL_PROGRAM=…/landfall node test/scale.mjs [NODES] [JOBS] [TABS] [EVENTS] [SECONDS]
// Without TABS and without EVENTS those parts are left out. With SECONDS the events of the last part come evenly over that time, otherwise as fast as they can.
import { readFileSync } from "node:fs";
import { launch } from "./browser.mjs";
import { World, until } from "./world.mjs";

const [nodes, jobs, tabs, events, evenly] = [5000, 100_000, 1000, 200_000, 0].map((usual, place) => Number(process.argv[2 + place] ?? usual));
/** Tabs that are seen and fetch what they show; those behind others only hear. */
const SEEN = 20;
const world = new World(process.env.LANDFALL_PROGRAM ?? "landfall", `[[pools]]\nid = "quick"\ndispatch = "push"\n`);
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

/** Milliseconds that something takes, and that of a hundred the slowest takes. */
async function timed(work, number = 200) {
  const times = [];
  for (let place = 0; place < number; place++) {
    const from = performance.now();
    await work();
    times.push(performance.now() - from);
  }
  times.sort((a, b) => a - b);
  return { median: median(times), high: times[Math.floor(number * 0.99)] };
}
const told = ({ median, high }) => `${median.toFixed(1)} ms (99 of 100: ${high.toFixed(1)})`;
/** A small question to the driver. */
const asked = () => timed(() => world.get("/jobs/1/placement"));

/** Seconds of CPU that the server has used. */
function cpu() {
  const fields = readFileSync(`/proc/${world.server.pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Tabs as the server knows them: all hear what changes, some are seen and fetch. */
async function opened(number) {
  const end = new AbortController();
  const headers = { authorization: `Bearer ${world.admin}` };
  const look = async () => {
    for (let since; !end.signal.aborted; ) {
      since = (await world.get(`/map${since ? `?since=${since}` : ""}`)).version;
      await world.get("/overview");
      await new Promise((done) => setTimeout(done, 1500));
    }
  };
  const streams = await Promise.all(Array.from({ length: number }, () => fetch(`${world.url}/api/v1/changes`, { headers, signal: end.signal })));
  streams.forEach((stream) => void (async () => { for await (const _ of stream.body) void _; })().catch(() => undefined));
  for (let place = 0; place < Math.min(SEEN, number); place++) void look().catch(() => undefined);
  return () => end.abort();
}

/** Jobs a second from their submission to their end, and the server's CPU for each. */
async function scheduled(number) {
  const before = { at: performance.now(), cpu: cpu(), ended: await ended() };
  await submit(number, { pool: "quick", cpu_milli: 1000, tenant: "climate" }, "short");
  await until(async () => (await ended()) >= before.ended + number, "short jobs are over", 1200);
  const seconds = (performance.now() - before.at) / 1000;
  return { rate: number / seconds, cpu: ((cpu() - before.cpu) / number) * 1e6 };
}
async function ended() {
  const text = await (await fetch(`${world.url}/metrics`)).text();
  return Number(/^landfall_jobs_ended_total\{[^}]*pool="quick"[^}]*\} (\d+)/m.exec(text)?.[1] ?? 0);
}

try {
  await world.begin({ up: ["--no-agent"] });
  console.log(`${nodes} nodes with 8 GPUs and ${jobs} jobs`);
  await world.submit("first", { pool: "gpu", gpu_count: 1 });
  await world.hollow(40, "--cpus", "16", "--pool", "quick", "--prefix", "quick", "--task-time", "20ms..60ms");
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
  await page.evaluate(() => (location.hash = "/jobs"));
  await page.locator("h1", { hasText: "Jobs" }).waitFor();
  await page.locator("main tbody tr").first().waitFor();
  const older = await timed(async () => {
    const first = await page.locator("main tbody tr a").first().textContent();
    await page.getByRole("button", { name: "Older" }).click();
    await page.waitForFunction((first) => document.querySelector("main tbody tr a")?.textContent !== first, first);
  }, 20);
  const list = await scrolled(page, "main");
  console.log(`table of jobs: ${list.median.toFixed(0)} frames/s, slowest of 60: ${list.slowest.toFixed(0)}; the next page is there in ${told(older)}`);
  for (const [what, query] of [["", ""], [", only running", "&state=running"], [", a search that finds nothing", "&state=live&search=nowhere"]])
    console.log(`a page of the table of jobs${what}: ${told(await timed(() => world.get(`/jobs?limit=50${query}`), 20))}`);
  let searching = true;
  const searches = Array.from({ length: 4 }, async () => { while (searching) await world.get("/jobs?limit=50&state=live&search=nowhere"); });
  const during = await asked();
  searching = false;
  await Promise.all(searches);
  console.log(`a small question: ${told(quiet)} with nobody looking, ${told(during)} while four search all jobs without a pause`);

  if (tabs) {
    // The same work with nobody looking and with many tabs, in turn.
    const short = Math.max(2000, Math.floor(events / 60));
    const [alone, watched] = [[], []];
    for (let round = 0; round < 3; round++) {
      alone.push(await scheduled(short));
      const close = await opened(tabs);
      watched.push(await scheduled(short));
      close();
      await page.waitForTimeout(500);
    }
    const said = (all) => `${median(all.map(({ rate }) => rate)).toFixed(0)} jobs/s, ${median(all.map(({ cpu }) => cpu)).toFixed(0)} us of the server's CPU for each`;
    console.log(`${short} short jobs, three times in turn: ${said(alone)} with one tab open, ${said(watched)} with ${tabs} more, ${Math.min(SEEN, tabs)} of them seen`);
  }

  if (events) {
    // One tab through many events.
    await page.evaluate(() => (location.hash = "/"));
    const line = await context.newCDPSession(page);
    const heap = async () => {
      await line.send("HeapProfiler.collectGarbage");
      return (await page.evaluate(() => performance.memory.usedJSHeapSize)) / 1e6;
    };
    const seq = async () => (await world.get("/status")).seq;
    const [from, first, start] = [await seq(), await heap(), Date.now()];
    const sizes = [];
    for (let done = 0; done < events; done = (await seq()) - from) {
      await page.waitForTimeout(Math.max(0, start + (done / events) * evenly * 1000 - Date.now()));
      // Some five events a job; evenly means those of two seconds at once.
      await scheduled(evenly ? Math.ceil((2 * events) / evenly / 5) : Math.min(20_000, Math.max(1000, Math.floor((events - done) / 5))));
      sizes.push(await heap());
    }
    const number = (await seq()) - from;
    const seconds = (Date.now() - start) / 1000;
    const third = sizes.length > 2 ? Math.max(...sizes.slice(0, Math.ceil(sizes.length / 3))) : sizes[0];
    console.log(`memory of a tab over ${number} events in ${seconds.toFixed(0)} s (${(number / seconds).toFixed(0)} /s): ${first.toFixed(1)} MB before, at most ${third.toFixed(1)} MB in the first third, ${Math.max(...sizes).toFixed(1)} MB in all, ${sizes.at(-1).toFixed(1)} MB at the end`);
  }
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await browser?.close();
  await world.end();
}
process.exit();
