// Prometheus as people run it, scraping the live server: every expression of dashboards and alerts has to give data, or be empty for a reason.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { until } from "./world.mjs";

const DASHBOARDS = new URL("../../../../dashboards", import.meta.url).pathname;

/** What gives nothing on a healthy cluster in which this did not happen; the name is part of the expression. */
const EMPTY_FOR_A_REASON = {
  landfall_requeues_total: "no job went back to the queue",
  landfall_preemptions_total: "nobody had to leave",
  landfall_preemption_checkpoint_seconds_bucket: "nobody had to save work and leave",
  landfall_reservations_moved_total: "no promise was moved",
  landfall_scale_steps_total: "no service runs that grows and shrinks",
  landfall_run_time_ratio: "only batch pools in which jobs ended know it",
  landfall_node_faults_total: "no node did wrong",
  landfall_placement_messages_rejected_total: "no peer sent what cannot be accepted",
  'result="rejected"': "the ledger refused nothing",
  'state="failed"': "alerts look at shares of many ends",
};

async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await new Promise((done) => probe.once("listening", done));
  const { port } = probe.address();
  await new Promise((done) => probe.close(done));
  return port;
}

export function present() {
  return existsSync("/usr/bin/prometheus");
}

export class Prometheus {
  /** Scrapes servers; the files are kept where the first one is. */
  async begin(...worlds) {
    const [world] = worlds;
    for (const args of [["check", "rules", "alerts.yml"], ["check", "config", "prometheus.yml"], ["test", "rules", "alerts.test.yml"]]) {
      const done = spawnSync("promtool", args, { cwd: DASHBOARDS, encoding: "utf8" });
      if (done.status !== 0) throw new Error(`promtool ${args.join(" ")}: ${done.stdout}${done.stderr}`);
    }
    // The settings that people get, with these servers' addresses and quicker, so that a test sees something.
    const settings = readFileSync(join(DASHBOARDS, "prometheus.yml"), "utf8");
    const own = settings.replace('"127.0.0.1:7878"', worlds.map(({ url }) => `"${url.replace("http://", "")}"`).join(", ")).replaceAll(/_interval: 15s/g, "_interval: 1s").replace("alerts.yml", join(DASHBOARDS, "alerts.yml"));
    const file = join(world.dir, "prometheus.yml");
    writeFileSync(file, own);
    this.port = await freePort();
    this.child = spawn("prometheus", [`--config.file=${file}`, `--storage.tsdb.path=${join(world.dir, "prometheus")}`, `--web.listen-address=127.0.0.1:${this.port}`, "--log.level=warn"], { stdio: ["ignore", "ignore", "inherit"] });
  }

  async ask(expression) {
    const answer = await fetch(`http://127.0.0.1:${this.port}/api/v1/query?query=${encodeURIComponent(expression)}`);
    const said = await answer.json();
    if (said.status !== "success") throw new Error(`${expression}: ${said.error}`);
    return said.data.result;
  }

  /** Every expression, with where it stands. */
  expressions() {
    const all = [];
    for (const name of readdirSync(DASHBOARDS).filter((name) => name.endsWith(".json")))
      for (const panel of JSON.parse(readFileSync(join(DASHBOARDS, name), "utf8")).panels)
        for (const target of panel.targets) all.push([`${name}: ${panel.title}`, target.expr.replaceAll("$instance", ".*").replaceAll("$__rate_interval", "1m")]);
    return all;
  }

  async check() {
    await until(async () => (await this.ask("count_over_time(landfall_engine_steps_total[2m]) > 4").catch(() => [])).length > 0, "five scrapes", 90);
    const empty = [];
    const all = this.expressions();
    for (const [where, expression] of all) {
      if ((await this.ask(expression)).length) continue;
      if (!Object.keys(EMPTY_FOR_A_REASON).some((part) => expression.includes(part))) empty.push(`${where}: ${expression}`);
    }
    if (empty.length) throw new Error(`no data, and no reason why:\n${empty.join("\n")}`);
    const rules = await fetch(`http://127.0.0.1:${this.port}/api/v1/rules`).then((answer) => answer.json());
    const bad = rules.data.groups.flatMap((group) => group.rules).filter((rule) => rule.health === "err");
    if (bad.length) throw new Error(`rules that cannot be evaluated: ${JSON.stringify(bad)}`);
    return all.length;
  }

  async end() {
    if (!this.child || this.child.exitCode !== null) return;
    const ended = new Promise((done) => this.child.once("exit", done));
    this.child.kill("SIGTERM");
    await ended;
  }
}
