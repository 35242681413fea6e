// Jobs that wait for each other, as a graph: what is waited for on the left, who waits on the right.
import type { JSX } from "preact";
import { get, seg, type Schemas } from "../lib/api";
import { useData } from "../lib/live";
import { at } from "../lib/router";
import { Card, State } from "./basics";

type View = Schemas["GraphView"];
type GraphJob = Schemas["GraphJob"];

const [WIDE, HIGH, GAP_X, GAP_Y] = [150, 44, 46, 12];
const WORDS: Record<string, string> = { success: "after it succeeded", any: "after it ended", failure: "after it failed", mutex: "not at the same time", corresponding: "element by element" };

/** The column of each job: one behind the last that it waits for. */
function columns(view: View): Map<string, number> {
  const before = new Map<string, string[]>();
  for (const edge of view.edges) if (edge.kind !== "mutex") before.set(edge.job, [...(before.get(edge.job) ?? []), edge.on]);
  const known = new Map<string, number>();
  const of = (id: string, depth: number): number => {
    const found = known.get(id);
    if (found !== undefined || depth > view.jobs.length) return found ?? 0;
    const column = Math.max(0, ...(before.get(id) ?? []).map((on) => of(on, depth + 1) + 1));
    known.set(id, column);
    return column;
  };
  for (const job of view.jobs) of(job.id, 0);
  return known;
}

function drawn(view: View): { places: Map<string, { x: number; y: number }>; width: number; height: number } {
  const column = columns(view);
  const filled: number[] = [];
  const places = new Map<string, { x: number; y: number }>();
  for (const job of view.jobs) {
    const x = column.get(job.id) ?? 0;
    const y = filled[x] ?? 0;
    filled[x] = y + 1;
    places.set(job.id, { x: x * (WIDE + GAP_X), y: y * (HIGH + GAP_Y) });
  }
  return { places, width: filled.length * (WIDE + GAP_X) - GAP_X, height: Math.max(...filled.map((number) => number ?? 0)) * (HIGH + GAP_Y) - GAP_Y };
}

function Box({ job, own, x, y }: { job: GraphJob; own: boolean; x: number; y: number }): JSX.Element {
  return (
    <foreignObject x={x} y={y} width={WIDE} height={HIGH}>
      <a class={`graph-job ${own ? "own" : ""}`} href={at("jobs", job.id)} aria-current={own ? "true" : undefined}>
        <span class="graph-name"><span class="id">{job.id}</span> {job.name ?? ""}</span>
        <State of={job.state} />
      </a>
    </foreignObject>
  );
}

/** A DAG is drawn as a whole, so that what has come true stays in sight. */
const WHOLE_MAX = 100;

function ofDag(dag: Schemas["DagView"]): View {
  const jobs = (dag.jobs ?? []).map(({ id, key, name, state }) => ({ id, name: name ?? key ?? null, state }));
  const edges = (dag.jobs ?? []).flatMap((job) => (job.depends_on ?? []).map(({ on, kind }) => ({ on, job: job.id, kind: kind ?? "success" })));
  return { jobs, edges, more: false };
}

export function Graph({ id, dag }: { id: string; dag?: string | null | undefined }): JSX.Element | null {
  const load = async (signal: AbortSignal): Promise<View> => {
    const whole = dag ? ofDag(await get<Schemas["DagView"]>(`/dags/${seg(dag)}`, {}, signal)) : undefined;
    return whole && whole.jobs.length <= WHOLE_MAX ? whole : get<View>(`/jobs/${seg(id)}/graph`, {}, signal);
  };
  const { data } = useData(load, [id, dag], { jobs: "any", atMost: 2000 });
  if (!data?.edges.length) return null;
  const { places, width, height } = drawn(data);
  return (
    <Card title="Who waits for whom" aside={data.more ? <span class="dim">the nearest 100 of more</span> : undefined}>
      <div class="scroll graph" tabIndex={0} role="region" aria-label="Graph of dependencies">
        <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden={false} role="group">
          {data.edges.map((edge) => {
            const [from, to] = [places.get(edge.on), places.get(edge.job)];
            if (!from || !to) return null;
            const [x1, y1, x2, y2] = [from.x + WIDE, from.y + HIGH / 2, to.x, to.y + HIGH / 2];
            return <path key={`${edge.on} ${edge.job}`} class={`edge ${edge.kind}`} d={`M${x1} ${y1} C${x1 + GAP_X / 2} ${y1} ${x2 - GAP_X / 2} ${y2} ${x2} ${y2}`}><title>{`${edge.job} starts ${WORDS[edge.kind] ?? edge.kind}: ${edge.on}`}</title></path>;
          })}
          {data.jobs.map((job) => <Box key={job.id} job={job} own={job.id === id} {...(places.get(job.id) ?? { x: 0, y: 0 })} />)}
        </svg>
      </div>
      <ul class="sr">{data.edges.map((edge) => <li key={`${edge.on} ${edge.job}`}>{edge.job} starts {WORDS[edge.kind] ?? edge.kind}: {edge.on}</li>)}</ul>
    </Card>
  );
}
