// The registry of workloads: what each needs, where it could run, and a button that submits it.
import type { JSX } from "preact";
import { get, Problem, post, seg, type Schemas } from "../lib/api";
import { count, label, need, score } from "../lib/format";
import { useData } from "../lib/live";
import { at, go, place } from "../lib/router";
import { ask, Card, Empty, Facts, Loading, Page, say, Wrong } from "../parts/basics";

type Workload = Schemas["WorkloadView"];

const LEVELS = ["perfect", "good", "marginal", "too_tight"];

async function submit(id: string): Promise<void> {
  if (!(await ask(`Submit ${id}?`, "A job is made from the workload as it is stored.", "Submit it"))) return;
  try {
    const made = await post<Schemas["Submitted"]>("/jobs", { workload: id });
    say(`submitted as job ${made.id}`);
    go(at("jobs", made.id));
  } catch (wrong) {
    say("that did not work", wrong as Problem);
  }
}

function One({ workload, open }: { workload: Workload; open: boolean }): JSX.Element {
  const { data, error } = useData((signal) => get<Schemas["Availability"]>(`/workloads/${seg(workload.id)}/availability`, {}, signal), [workload.id, workload.version], { nodes: "any", settings: true, every: 30000, atMost: 5000 });
  const needs = Object.entries((workload.template.needs ?? {}) as Record<string, unknown>).filter(([, value]) => value !== null);
  const levels = LEVELS.filter((level) => data?.levels[level]);
  const all = levels.reduce((sum, level) => sum + data!.levels[level]!, 0);
  const kinds: Record<string, string> = { perfect: "done", good: "good", marginal: "warn", too_tight: "off" };
  return (
    <Card title={workload.id} aside={<button type="button" onClick={() => void submit(workload.id)}>Submit</button>} class={open ? "chosen" : ""}>
      <Wrong error={error} />
      {data ? (
        <>
          <div class="pool-row">
            <span class="big"><b>{count(data.ready)}</b> <span>{data.ready === 1 ? "node ready" : "nodes ready"}</span></span>
            <span class="big"><b>{data.best_level?.replace(/_/g, " ") ?? "–"}</b> <span>best level</span></span>
            <span class="big"><b>{score(data.best_score)}</b> <span>best score</span></span>
            {data.estimated_throughput !== null && data.estimated_throughput !== undefined && <span class="big"><b>{score(data.estimated_throughput)}</b> <span>estimated throughput</span></span>}
          </div>
          {all > 0 && <><div class="lifeline" role="img" aria-label={levels.map((level) => `${data.levels[level]} nodes ${level.replace(/_/g, " ")}`).join(", ")}>{levels.map((level) => <span key={level} class={kinds[level]} style={{ width: `${(data.levels[level]! / all) * 100}%` }} />)}</div><p class="keys-row dim">{levels.map((level) => <span key={level} class="key"><b>{count(data.levels[level]!)}</b> {level.replace(/_/g, " ")}</span>)}</p></>}
          {Object.keys(data.filtered).length > 0 && <p class="dim small">Kept out: {Object.entries(data.filtered).map(([reason, number]) => `${count(number)} by ${reason.replace(/_/g, " ")}`).join(", ")}.</p>}
        </>
      ) : !error && <Loading />}
      <details open={open}>
        <summary>What it needs</summary>
        <Facts rows={[...needs.map(([name, value]): [string, string] => [label(name), need(name, value)]), ["command", workload.template.run?.command?.length ? <code>{workload.template.run.command.join(" ")}</code> : undefined]]} />
      </details>
    </Card>
  );
}

export function Workloads(): JSX.Element {
  const open = place.value.params.get("open");
  const { data, error } = useData((signal) => get<Workload[]>("/workloads", {}, signal), [], { every: 30000 });
  return (
    <Page title="Workloads">
      <Wrong error={error} />
      {!data ? !error && <Loading /> : data.length ? <div class="grid cards">{[...data].sort((a, b) => Number(b.id === open) - Number(a.id === open)).map((workload) => <One key={workload.id} workload={workload} open={workload.id === open} />)}</div> : <Empty>No workload is stored. <code>landfall workloads set NAME</code> stores a job under a name, for everybody to submit.</Empty>}
    </Page>
  );
}
