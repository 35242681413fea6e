// Decisions as they are made; each opens its breakdown.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, type Schemas } from "../lib/api";
import { clock, plural, score, span } from "../lib/format";
import { onChange, useData } from "../lib/live";
import { place, setParams } from "../lib/router";
import { Empty, JobLink, Loading, NodeLink, Other, Page, Wrong } from "../parts/basics";
import { Terms } from "../parts/terms";

type Glance = Schemas["DecisionGlance"];
type Decision = Schemas["DecisionView"];

const KEPT = 300;
const KINDS: Record<string, string> = { start: "in order", backfill: "filled a gap", preempt: "others made room" };

/** What was looked at beside the winner, and how old the facts were. */
function Beside({ made }: { made: Decision }): JSX.Element {
  const { runners_up: next = [], against = [] } = made;
  return (
    <>
      <Terms terms={made.terms} total={made.total} />
      {next.length > 0 && <p>Next best: {next.map((other, place) => <span key={other.candidate}>{place ? ", " : ""}<Other id={other.candidate} /> {score(other.total)}</span>)}</p>}
      {against.length > 0 && <p>Against the others: {against.map((it) => `${it.reason} (${it.candidates})`).join(", ")}</p>}
      {typeof made.heard_ms === "number" && <p class="dim">The node had last spoken {span(made.heard_ms)} before.</p>}
    </>
  );
}

function Breakdown({ seq, job }: { seq: number; job: string }): JSX.Element {
  const { data, error } = useData((signal) => get<Schemas["Paged_DecisionView"]>("/decisions", { job, limit: 50 }, signal), [seq]);
  const found = data?.items.find((made) => made.seq === seq);
  if (error) return <Wrong error={error} />;
  if (!data) return <Loading />;
  return found ? <Beside made={found} /> : <p class="dim">The journal no longer has it.</p>;
}

function Row({ made }: { made: Glance | Decision }): JSX.Element {
  const [open, setOpen] = useState(false);
  const nodes = made.nodes.map((on) => (typeof on === "string" ? on : on.node));
  // Lists have only decisions that chose a job.
  const job = made.job ?? "";
  return (
    <>
      <tr class={open ? "open" : ""}>
        <td><button type="button" class="plain disclose" aria-expanded={open} aria-label={`Breakdown of decision ${made.seq} about job ${job}`} onClick={() => setOpen(!open)}><span aria-hidden="true">{open ? "▾" : "▸"}</span></button></td>
        <td class="nowrap"><time>{clock(made.at_ms)}</time></td>
        <td><JobLink id={job} />{"name" in made && made.name ? <span class="dim"> {made.name}</span> : null}</td>
        <td class="wraps">{nodes.slice(0, 3).map((id, place) => <span key={id}>{place ? ", " : ""}<NodeLink id={id} /></span>)}{nodes.length > 3 ? ` and ${nodes.length - 3} more` : ""}</td>
        <td class="opt">{KINDS[made.kind] ?? made.kind}</td>
        <td class="num opt">{score(made.total)}</td>
        <td class="opt">{made.runner_up ? <Other id={made.runner_up} /> : ""}</td>
      </tr>
      {open && <tr class="detail"><td /><td colSpan={6}>{"terms" in made ? <Beside made={made} /> : <Breakdown seq={made.seq} job={job} />}</td></tr>}
    </>
  );
}

export function DecisionRows({ decisions }: { decisions: (Glance | Decision)[] }): JSX.Element {
  return (
    <div class="scroll">
      <table class="rows">
        <thead><tr><th scope="col"><span class="sr">Open</span></th><th scope="col">When</th><th scope="col">Job</th><th scope="col">Went to</th><th scope="col" class="opt">How</th><th scope="col" class="num opt">Score</th><th scope="col" class="opt">Next best</th></tr></thead>
        <tbody>{decisions.map((made) => <Row key={made.seq} made={made} />)}</tbody>
      </table>
    </div>
  );
}

export function Decisions(): JSX.Element {
  const { params } = place.value;
  const filter = { job: params.get("job") ?? "", node: params.get("node") ?? "", pool: params.get("pool") ?? "" };
  const key = `${filter.job} ${filter.node}`;
  const [live, setLive] = useState<Glance[]>([]);
  const [paused, setPaused] = useState(false);
  const [left, setLeft] = useState(false);
  const past = useData((signal) => get<Schemas["Paged_DecisionView"]>("/decisions", { job: filter.job, node: filter.node, limit: 100 }, signal), [key]);
  useEffect(() => setLive([]), [key]);
  useEffect(() => {
    if (paused) return;
    return onChange((change) => {
      if (change.decisions.length) setLive((known) => [...[...change.decisions].reverse(), ...known].slice(0, KEPT));
      if (change.more && change.decisions.length) setLeft(true);
      // After a gap the journal has what was not heard.
      if (change.more && !change.decisions.length) void past.reload();
    });
  }, [paused, past.reload]);
  const heard = live.filter((made) => (!filter.job || made.job === filter.job) && (!filter.node || made.nodes.includes(filter.node)) && (!filter.pool || made.pool === filter.pool));
  const oldest = heard.length ? Math.min(...heard.map((made) => made.seq)) : Infinity;
  const known = new Set(heard.map((made) => made.seq));
  // Decisions of the past do not say their pool, so they are left out where one is asked for.
  const before = filter.pool ? [] : (past.data?.items ?? []).filter((made) => !known.has(made.seq) && (made.seq < oldest || !known.size));
  const shown = [...heard, ...before].slice(0, KEPT);
  return (
    <Page title="Decisions" aside={<button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>{paused ? "Go on" : "Pause"}</button>}>
      <form class="filters" role="search" aria-label="Filter decisions" onSubmit={(event) => event.preventDefault()}>
        {(["job", "node", "pool"] as const).map((name) => (
          <label key={name} class="field"><span>{name[0]!.toUpperCase() + name.slice(1)}</span><input type="search" value={filter[name]} onChange={(event) => setParams({ [name]: event.currentTarget.value.trim() })} /></label>
        ))}
      </form>
      <Wrong error={past.error} />
      {left && <p class="note">More was decided at once than can be shown; the newest is here, the rest in <code>landfall decisions</code>.</p>}
      {filter.pool && <p class="dim small">By pool only what is decided from now on.</p>}
      {!past.data ? !past.error && <Loading /> : shown.length ? <DecisionRows decisions={shown} /> : <Empty>Nothing was decided yet.</Empty>}
      <p class="dim small" aria-live="polite">{paused ? "Paused." : `${plural(heard.length, "decision")} since the page was opened.`}</p>
    </Page>
  );
}
