// What would happen if: a job comes, nodes come or go, a share or a policy changes. Nothing is done.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, isOperator, post, Problem, type Pool, type Schemas } from "../lib/api";
import { ago, clock, count, plural, span } from "../lib/format";
import { now, useData } from "../lib/live";
import { place, setParams } from "../lib/router";
import { Card, Empty, JobLink, NodeLink, Other, Page, Select, State, Wrong } from "../parts/basics";
import { FleetMap, type Fleet } from "../parts/map";
import { Terms } from "../parts/terms";
import { useFleet } from "./overview";

type Answer = Schemas["PlanView"];

const CHANGES = [
  { value: "job", text: "a job is submitted", operator: false },
  { value: "file", text: "a job file is submitted", operator: false },
  { value: "cancel", text: "a job is cancelled", operator: false },
  { value: "lose", text: "nodes are lost", operator: true },
  { value: "add", text: "nodes are added", operator: true },
  { value: "tenant", text: "a tenant's share or quota changes", operator: true },
  { value: "policy", text: "a pool's policy changes", operator: true },
];

const EXAMPLE = `name = "train"

[needs]
gpu_count = 2
vram_mib = "24GiB"
walltime_ms = "2h"

[run]
command = ["./train"]
`;

interface Fields {
  gpus: string; vram: string; cpus: string; ram: string; nodes: string; walltime: string; pool: string; priority: string;
  file: string; job: string; lost: string; count: string; model: string; tenant: string; share: string; maxGpus: string; maxJobs: string; policy: string;
}

function wanted(change: string, fields: Fields, pools: Pool[]): object {
  const given = (entries: [string, string | number][]): object => Object.fromEntries(entries.filter(([, value]) => value !== ""));
  if (change === "file") return { file: fields.file };
  if (change === "cancel") return { cancel: fields.job.trim() };
  if (change === "lose") return { lose: fields.lost.split(/[\s,]+/).filter(Boolean) };
  if (change === "add") {
    const gpus = Array.from({ length: Number(fields.gpus) || 0 }, (_, index) => given([["index", index], ["model", fields.model], ["vram_mib", fields.vram]]));
    const node = given([["pool", fields.pool], ["cpu_milli", Math.round((Number(fields.cpus) || 8) * 1000)], ["ram_mib", fields.ram || "64GiB"]]);
    return { add: Array.from({ length: Math.min(1000, Number(fields.count) || 1) }, (_, number) => ({ id: `added-${number + 1}`, ...node, gpus })) };
  }
  if (change === "tenant") {
    // What is left out stays as it is.
    const quota = given([["max_gpus", fields.maxGpus === "" ? "" : Number(fields.maxGpus)], ["max_jobs", fields.maxJobs === "" ? "" : Number(fields.maxJobs)]]);
    return { set_tenant: { ...given([["id", fields.tenant], ["share", fields.share === "" ? "" : Number(fields.share) / 100]]), ...(Object.keys(quota).length ? { quota } : {}) } };
  }
  if (change === "policy") {
    const pool = pools.find(({ id }) => id === fields.pool);
    return { set_pool: { ...(pool?.pool as object | undefined), id: fields.pool, policy: fields.policy } };
  }
  const needs = given([
    ["gpu_count", fields.gpus === "" ? "" : Number(fields.gpus)], ["vram_mib", fields.vram], ["cpu_milli", fields.cpus === "" ? "" : Math.round(Number(fields.cpus) * 1000)],
    ["ram_mib", fields.ram], ["nodes", fields.nodes === "" ? "" : Number(fields.nodes)], ["walltime_ms", fields.walltime], ["pool", fields.pool], ["priority", fields.priority === "" ? "" : Number(fields.priority)],
  ]);
  return { submit: { needs, run: { command: ["true"] } } };
}

/** By how much a start moves; without end if there was none before, or is none then. */
function shift(moved: Schemas["Moved"]): number {
  const [before, after] = [moved.before, moved.after].map((estimate) => estimate.likely_start_ms ?? estimate.planned_start_ms);
  if (before && after) return after - before;
  return after ? -Infinity : before ? Infinity : 0;
}

function start(estimate: Schemas["Estimate"] | null | undefined): string {
  const at = estimate?.likely_start_ms ?? estimate?.planned_start_ms;
  return at ? `${ago(at, now.value)} (${clock(at)})` : "no start can be told";
}

interface Added { id: string; pool: string; gpus: unknown[]; model: string }

/** The map with nodes that are not there yet. */
function grown(fleet: Fleet | undefined, added: Added[], answer: Answer): Fleet | undefined {
  if (!fleet || !added.length) return fleet;
  const nodes = new Map(fleet.nodes);
  for (const { id, pool, gpus, model } of added) {
    const taken = new Set(answer.starts.flatMap((begun) => begun.nodes).filter((on) => on.node === id).flatMap((on) => on.gpus));
    const there = answer.starts.some((begun) => begun.nodes.some((on) => on.node === id));
    nodes.set(id, { id, pool, state: "ready", model, cpu: there ? 100 : 0, ram: 0, gpus: gpus.map((_, index) => (taken.has(index) ? 100 : 0)), by: gpus.map(() => -1), jobs: [], tenants: [] });
  }
  return { ...fleet, nodes };
}

function Outcome({ answer, lost, added }: { answer: Answer; lost: string[]; added: Added[] }): JSX.Element {
  const known = useFleet();
  const fleet = grown(known.fleet, added, answer);
  const planned = (id: string): boolean => id.startsWith("planned");
  const marks = new Map<string, "gain" | "loss">();
  for (const begun of answer.starts) for (const on of begun.nodes) marks.set(on.node, "gain");
  for (const { id } of added) marks.set(id, "gain");
  for (const id of lost) marks.set(id, "loss");
  const gone = new Set(answer.stopped.map((stopped) => stopped.job as string));
  for (const node of fleet?.nodes.values() ?? []) if (node.jobs.some((job) => gone.has(job)) && !marks.has(node.id)) marks.set(node.id, "loss");
  const nothing = !answer.refused && !answer.starts.length && !answer.stopped.length && !answer.waiting.length && !answer.moved.length;
  const Name = ({ id }: { id: string }): JSX.Element => (planned(id) ? <strong>this job</strong> : <JobLink id={id} />);
  return (
    <div class="stack" aria-live="polite">
      {answer.refused && <div class="note bad" role="alert"><strong>{answer.refused.message}</strong> {answer.refused.hint}</div>}
      {nothing && <p class="note">Nothing would change.</p>}
      {answer.starts.length > 0 && (
        <Card title={`${plural(answer.starts.length, "job")} would start now`}>
          {answer.starts.slice(0, 20).map((begun) => (
            <div key={begun.job} class="outcome">
              <p><Name id={begun.job} /> on {begun.nodes.slice(0, 6).map((on, place) => <span key={on.node}>{place ? ", " : ""}<NodeLink id={on.node} />{on.gpus.length ? <span class="dim"> GPU {on.gpus.join(" ")}</span> : null}</span>)}{begun.nodes.length > 6 ? ` and ${begun.nodes.length - 6} more` : ""}{begun.why.runner_up ? <span class="dim">; next best <Other id={begun.why.runner_up} /></span> : null}</p>
              {(planned(begun.job) || answer.starts.length === 1) && <Terms terms={begun.why.terms} total={begun.why.total} />}
            </div>
          ))}
        </Card>
      )}
      {answer.stopped.length > 0 && <Card title={`${plural(answer.stopped.length, "job")} would be stopped`}><ul class="plain-list">{answer.stopped.slice(0, 50).map((stopped) => <li key={stopped.job}><JobLink id={stopped.job} /> <State of={stopped.state} /> <span class="dim">{typeof stopped.cause === "string" ? stopped.cause : Object.keys(stopped.cause)[0]}</span></li>)}</ul></Card>}
      {answer.waiting.length > 0 && (
        <Card title={`${plural(answer.waiting_total, "job")} would wait`}>
          <ul class="plain-list">
            {answer.waiting.slice(0, 20).map((row) => <li key={row.job}><Name id={row.job} />: {row.explanation.reasons[0]?.detail ?? row.explanation.reason ?? "it waits"}{row.explanation.reasons[0]?.help && <div class="help">{row.explanation.reasons[0].help}</div>}<div class="dim">starts {start(row.estimate)}</div></li>)}
            {answer.waiting_total > 20 && <li class="dim">and {count(answer.waiting_total - Math.min(20, answer.waiting.length))} more</li>}
          </ul>
        </Card>
      )}
      {answer.moved.length > 0 && (
        <Card title={`${plural(answer.moved.length, "job")} would start at another time`}>
          <p class="keys-row"><span class="key up">▲ <b>{count(answer.moved.filter((moved) => shift(moved) < 0).length)}</b> sooner</span><span class="key down">▼ <b>{count(answer.moved.filter((moved) => shift(moved) > 0).length)}</b> later</span></p>
          <div class="scroll"><table class="rows"><thead><tr><th scope="col">Job</th><th scope="col">As it is</th><th scope="col">Then</th><th scope="col" class="num">Difference</th></tr></thead><tbody>{[...answer.moved].sort((a, b) => Math.abs(shift(b)) - Math.abs(shift(a))).slice(0, 100).map((moved) => <tr key={moved.job}><td><JobLink id={moved.job} /></td><td>{start(moved.before)}</td><td>{start(moved.after)}</td><td class="num">{shift(moved) === Infinity ? <span class="down">▼ no start any more</span> : shift(moved) === -Infinity ? <span class="up">▲ a start at all</span> : shift(moved) > 0 ? <span class="down">▼ {span(shift(moved))} later</span> : <span class="up">▲ {span(-shift(moved))} sooner</span>}</td></tr>)}</tbody></table></div>
        </Card>
      )}
      {fleet && marks.size > 0 && <Card title="On the map" aside={<span class="dim">green: gains work, red: loses it</span>}><FleetMap fleet={fleet} by="pool" tenants={[]} mark={marks} /></Card>}
    </div>
  );
}

function addedBy(fields: Fields, pools: Pool[]): Added[] {
  const { add = [] } = wanted("add", fields, pools) as { add?: Added[] };
  return add.map((node) => ({ ...node, pool: node.pool ?? pools[0]?.id ?? "", model: fields.model }));
}

export function Plan(): JSX.Element {
  const { params } = place.value;
  const change = params.get("change") ?? "job";
  const pools = useData((signal) => get<Pool[]>("/pools", {}, signal), [], { settings: true });
  const tenants = useData((signal) => get<Schemas["TenantView"][]>("/tenants", {}, signal), [], { settings: true });
  const policies = useData((signal) => get<Schemas["PolicyView"][]>("/policies", {}, signal), []);
  const [fields, setFields] = useState<Fields>({ gpus: "1", vram: "", cpus: "", ram: "", nodes: "", walltime: "", pool: params.get("pool") ?? "", priority: "", file: EXAMPLE, job: "", lost: "", count: "1", model: "", tenant: "", share: "", maxGpus: "", maxJobs: "", policy: "" });
  const [answer, setAnswer] = useState<Answer>();
  const [error, setError] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  // What was answered was an answer to another question.
  useEffect(() => { setAnswer(undefined); setError(undefined); }, [change]);
  const set = (name: keyof Fields) => (value: string) => setFields({ ...fields, [name]: value });
  const input = (name: keyof Fields, text: string, hint = "", kind: "text" | "number" = "text"): JSX.Element => (
    <label class="field"><span>{text}</span><input type="text" inputMode={kind === "number" ? "decimal" : "text"} value={fields[name]} placeholder={hint} onInput={(event) => set(name)(event.currentTarget.value)} /></label>
  );
  const look = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    setAnswer(undefined);
    try {
      setAnswer(await post<Answer>("/plan", wanted(change, fields, pools.data ?? [])));
    } catch (wrong) {
      setError(wrong instanceof Problem ? wrong : new Problem(0, "", String(wrong)));
    }
    setBusy(false);
  };
  const pool = <Select name="Pool" value={fields.pool} onChange={set("pool")} choices={[{ value: "", text: change === "policy" ? "choose" : "the usual one" }, ...(pools.data ?? []).map(({ id }) => ({ value: id, text: id }))]} />;
  return (
    <Page title="Plan" aside={<span class="dim">nothing is done, only looked at</span>}>
      <Card>
        <form class="plan" onSubmit={look}>
          <Select name="What if" value={change} onChange={(value) => setParams({ change: value })} choices={CHANGES.filter((one) => !one.operator || isOperator())} />
          {change === "job" && <>{input("gpus", "GPUs", "0", "number")}{input("vram", "Memory of each GPU", "24GiB")}{input("cpus", "Cores", "1", "number")}{input("ram", "Memory", "8GiB")}{input("nodes", "Nodes", "1", "number")}{input("walltime", "Walltime", "2h")}{input("priority", "Priority", "", "number")}{pool}</>}
          {change === "file" && <label class="field wide"><span>What the job file says, in TOML or JSON</span><textarea rows={11} spellcheck={false} value={fields.file} onInput={(event) => set("file")(event.currentTarget.value)} /></label>}
          {change === "cancel" && input("job", "Job", "12")}
          {change === "lose" && input("lost", "Nodes", "gpu-1, gpu-2")}
          {change === "add" && <>{input("count", "How many nodes", "1", "number")}{input("gpus", "GPUs of each", "0", "number")}{input("model", "GPU model", "A100")}{input("vram", "Memory of each GPU", "80GiB")}{input("cpus", "Cores of each", "8", "number")}{input("ram", "Memory of each", "64GiB")}{pool}</>}
          {change === "tenant" && <><Select name="Tenant" value={fields.tenant} onChange={set("tenant")} choices={[{ value: "", text: "choose" }, ...(tenants.data ?? []).map(({ id }) => ({ value: id, text: id }))]} />{input("share", "Share in per cent", "as it is", "number")}{input("maxGpus", "GPUs at once", "as it is", "number")}{input("maxJobs", "Jobs at once", "as it is", "number")}</>}
          {change === "policy" && <>{pool}<Select name="Policy" value={fields.policy} onChange={set("policy")} choices={[{ value: "", text: "choose" }, ...(policies.data ?? []).map(({ name }) => ({ value: name, text: name }))]} /></>}
          <button type="submit" class="primary" disabled={busy}>{busy ? "Looking …" : "Look ahead"}</button>
        </form>
      </Card>
      <Wrong error={error} />
      {answer ? <Outcome answer={answer} lost={change === "lose" ? fields.lost.split(/[\s,]+/).filter(Boolean) : []} added={change === "add" ? addedBy(fields, pools.data ?? []) : []} /> : !error && <Empty>The answer comes from the engine that decides, on a copy of everything as it stands.</Empty>}
    </Page>
  );
}
