// A small cluster for tests and pictures: a real server with this machine's agent, simulated nodes with GPUs, tenants, jobs of all kinds.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { front } from "./front.mjs";

const SETTINGS = (dir, pools) => `
[server]
allow_hollow = true
[agent]
pool = "default"
node = "workstation"
data_dir = "${dir}/agent"
[[pools]]
id = "default"
dispatch = "push"
[[pools]]
id = "gpu"
dispatch = "push"
policy = "bin-pack"
[[pools]]
id = "hpc"
dispatch = "batch"
price = { base = 2.0, surge = true }
[[pools]]
id = "lab"
dispatch = "batch"
${pools}[[tenants]]
id = "vision"
share = 0.5
max_gpus = 120
[[tenants]]
id = "speech"
share = 0.3
[[tenants]]
id = "climate"
share = 0.2
money = 20.0
`;

/** Settings of a server that places jobs together with others, and of one that was invited by it. */
const PEER = (invitation) => `
[server]
allow_hollow = true
[peer]
${invitation ? `bootstrap = ["${invitation}"]\n` : ""}[[pools]]
id = "default"
dispatch = "negotiate"
`;

/** Two peers: one that asks, and one with machines. */
export async function peers(program) {
  const near = new World(program, "", PEER());
  await near.begin({ up: ["--no-agent"] });
  const far = new World(program, "", PEER(near.run("peer", "id").invitation));
  await far.begin({ up: ["--no-agent"] });
  return [near, far];
}

export class World {
  #children = [];

  constructor(program, pools = "", settings) {
    this.program = program;
    this.dir = mkdtempSync(join(tmpdir(), "landfall-board-"));
    this.data = join(this.dir, "data");
    this.env = { ...process.env, LANDFALL_CONFIG: join(this.dir, "settings.toml"), LANDFALL_DATA_DIR: this.data, NO_COLOR: "1" };
    for (const name of ["LANDFALL_SERVER", "LANDFALL_TOKEN", "LANDFALL_TOKEN_FILE"]) delete this.env[name];
    mkdirSync(this.data, { recursive: true });
    writeFileSync(this.env.LANDFALL_CONFIG, settings ?? SETTINGS(this.dir, pools));
  }

  /** Runs a command of Landfall and gives what it answered. */
  run(...args) {
    const done = spawnSync(this.program, ["--json", ...args], { env: this.env, encoding: "utf8", cwd: this.dir });
    if (done.status !== 0) throw new Error(`landfall ${args.join(" ")}: ${done.stderr || done.stdout}`);
    return done.stdout.trim() ? JSON.parse(done.stdout) : {};
  }

  #start(args) {
    const child = spawn(this.program, args, { env: this.env, cwd: this.dir, stdio: ["ignore", "pipe", "pipe"] });
    child.said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (child.said += text));
    this.#children.push(child);
    return child;
  }

  async begin({ up = [] } = {}) {
    const ready = join(this.dir, "url");
    const server = this.#start(["up", "--port", "0", "--data-dir", this.data, "--ready-file", ready, ...up]);
    await until(() => existsSync(ready) || server.exitCode !== null, "the server");
    if (server.exitCode !== null) throw new Error(`landfall up ended: ${server.said}`);
    this.url = readFileSync(ready, "utf8").trim();
    // What `up` prints for people is what they open.
    await until(() => /board +http/.test(server.said), "the address of the board");
    this.address = /board +(http\S+)/.exec(server.said)[1];
    if (process.env.LANDFALL_FRESH_PAGE) {
      this.url = (await front(this.url)).url;
      this.address = `${this.url}/#${this.address.split("#")[1]}`;
    }
    this.admin = readFileSync(join(this.data, "token"), "utf8").trim();
    this.server = server;
  }

  /** Simulated nodes join. */
  async hollow(nodes, ...args) {
    const before = (await this.get("/map")).nodes.length;
    this.#start(["hollow", "--nodes", String(nodes), ...args]);
    await until(async () => (await this.get("/map")).nodes.length >= before + nodes, `${nodes} simulated nodes`, 120);
  }

  async #ask(method, path, body, token = this.admin) {
    const answer = await fetch(`${this.url}/api/v1${path}`, { method, headers: { authorization: `Bearer ${token}`, ...(body ? { "content-type": "application/json" } : {}) }, body: body ? JSON.stringify(body) : undefined });
    const said = await answer.json();
    if (!answer.ok) throw new Error(`${method} ${path}: ${said.message} ${said.hint ?? ""}`);
    return said;
  }

  get(path) { return this.#ask("GET", path); }
  post(path, body) { return this.#ask("POST", path, body); }
  put(path, body) { return this.#ask("PUT", path, body); }

  async submit(name, needs, command = ["sleep", "3600"], more = {}) {
    return (await this.post("/jobs", { name, needs, run: { command }, ...more })).id;
  }

  /** Jobs of all kinds: running, waiting for many reasons, ended well and badly. */
  async furnish() {
    const jobs = {};
    await this.put("/workloads/llm-serve", { needs: { pool: "gpu", gpu_count: 2, vram_mib: "40GiB", walltime_ms: "4h" }, run: { command: ["./serve"] } });
    await this.put("/workloads/render", { needs: { pool: "default", cpu_milli: 500 }, run: { command: ["echo", "rendered"] } });
    await this.put("/blocks/lease-7", { provider: "northern", instance_type: "8xA100", cost_per_hour: 26_500_000, ends_in_ms: 40 * 60000 });
    // A machine that says what cannot be true is an alarm.
    await this.put("/nodes/odd/registration", { pool: "gpu", heartbeat: { epoch: 1, seq: 1, agent_version: "0.1.0", platform: "desktop", accepting: true, cpu_milli: 1000, ram_mib: 1024, power_w: 1e12 } });
    jobs.done = await this.submit("tests", { cpu_milli: 100 }, ["sh", "-c", "echo compiling; echo 42 tests passed"]);
    jobs.failed = await this.submit("lint", { cpu_milli: 100 }, ["sh", "-c", "echo 'src/main.c:7: missing semicolon' >&2; exit 3"]);
    // A pool without nodes of its own borrows; a job that fails is tried again, and again.
    jobs.lent = await this.submit("genome", { pool: "lab", nodes: 2, cpu_milli: 16000, tenant: "speech", walltime_ms: "2h", wait_for_capacity: true });
    jobs.tries = await this.submit("flaky", { cpu_milli: 100, requeue: "always", max_requeue: 2 }, ["sh", "-c", "echo try; exit 7"]);
    jobs.talks = await this.submit("train-small", { cpu_milli: 100, tenant: "vision" }, ["sh", "-c", "for i in $(seq 1 4000); do echo epoch $i loss 0.$((9000 - i)); sleep 0.3; done"]);
    jobs.held = await this.submit("nightly", { cpu_milli: 100 }, ["true"], { hold: true });
    jobs.after = await this.submit("report", { cpu_milli: 100, tenant: "vision" }, ["true"], { depends_on: [{ on: jobs.talks }] });
    jobs.first = await this.submit("fetch", { cpu_milli: 100, tenant: "vision" }, ["true"], { hold: true });
    const follows = (name, ...on) => this.submit(name, { cpu_milli: 100, tenant: "vision" }, ["true"], { depends_on: on.map((on) => ({ on })) });
    const [left, right] = [await follows("train-a", jobs.first), await follows("train-b", jobs.first)];
    jobs.last = await follows("evaluate", left, right);
    jobs.never = await this.submit("eight-node-dream", { pool: "gpu", gpu_count: 16, tenant: "vision" });
    for (const [tenant, gpus, number] of [["vision", 4, 18], ["speech", 2, 22], ["climate", 1, 13], ["speech", 1, 9]])
      for (let place = 0; place < number; place++) await this.submit(`${tenant}-${gpus}g`, { pool: "gpu", gpu_count: gpus, vram_mib: "30GiB", tenant, walltime_ms: `${1 + (place % 5)}h` });
    jobs.wide = await this.submit("finetune-70b", { pool: "gpu", gpu_count: 8, vram_mib: "70GiB", tenant: "vision", walltime_ms: "6h" });
    for (let place = 0; place < 6; place++) await this.submit("sweep", { pool: "gpu", gpu_count: 8, tenant: "climate", walltime_ms: "3h" });
    for (let place = 0; place < 5; place++) await this.submit("ocean", { pool: "hpc", nodes: 3, cpu_milli: 32000, tenant: "climate", walltime_ms: `${40 + place * 25}min` });
    jobs.gang = await this.submit("atmosphere", { pool: "hpc", nodes: 10, cpu_milli: 48000, tenant: "climate", walltime_ms: "2h" });
    jobs.array = await this.submit("grid", { pool: "hpc", cpu_milli: 16000, tenant: "speech", walltime_ms: "20min" }, ["true"], { array: { first: 1, last: 400, step: 1 } });
    return jobs;
  }

  /** Ends what was started, by its id. */
  async end() {
    for (const child of this.#children.reverse()) {
      if (child.exitCode !== null) continue;
      const ended = new Promise((done) => child.once("exit", done));
      child.kill("SIGINT");
      const late = setTimeout(() => child.kill("SIGKILL"), 8000);
      await ended;
      clearTimeout(late);
    }
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Waits until something is so. */
export async function until(is, what, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  while (!(await is())) {
    if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s`);
    await new Promise((done) => setTimeout(done, 50));
  }
}
