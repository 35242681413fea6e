// Decisions as they are made; each opens its breakdown.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, type Pool, type Schemas } from "../lib/api";
import { clock, count, label, need, plural, score, span } from "../lib/format";
import { onChange, useData } from "../lib/live";
import { place, setParams } from "../lib/router";
import { Empty, Facts, JobLink, Loading, NodeLink, Other, Page, Segments, Select, Wrong } from "../parts/basics";
import { Terms } from "../parts/terms";

type Glance = Schemas["DecisionGlance"];
type Decision = Schemas["DecisionView"];

const KEPT = 300;
const KINDS: Record<string, string> = { start: "in order", backfill: "filled a gap", preempt: "others made room", none: "nobody was chosen" };

/** A fact's name and value in words: `gpu_milli_free` says 250 as a quarter of a GPU. */
function fact(name: string, value: unknown): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" && !name.includes("_") ? score(value) : need(name, typeof value === "number" ? +value.toFixed(3) : value);
}

/** What was looked at beside the winner: what its points rest on and how old that was, who came next, what stood against the rest. */
export function Beside({ made }: { made: Decision }): JSX.Element {
  const { runners_up: next = [], against = [], looked_at: looked = 0 } = made;
  const facts = Object.entries(made.facts ?? {});
  const won = made.nodes.length > 0;
  const ranked = [...(won && typeof made.total === "number" ? [{ candidate: made.nodes[0]!.node, total: made.total, won: true }] : []), ...next.map((other) => ({ ...other, won: false }))];
  const totals = ranked.map(({ total }) => total ?? 0);
  const [low, high] = [Math.min(0, ...totals), Math.max(1e-9, ...totals)];
  const best = made.total ?? totals[0] ?? 0;
  return (
    <>
      {won && <Terms terms={made.terms} total={made.total} />}
      {next.length > 0 && (
        <table class="terms ranked">
          <caption>{won ? "The winner and those that came next" : "Those that came nearest"}{looked > ranked.length ? ` of ${count(looked)} that were looked at` : ""}</caption>
          <tbody>
            {ranked.map((one) => (
              <tr key={one.candidate}>
                <th scope="row">{made.pool && one.won && made.nodes.length > 1 ? <>{plural(made.nodes.length, "node")} from </> : null}<Other id={one.candidate} /></th>
                <td class="bar"><span class={one.won ? "plus" : "next"} style={{ left: 0, width: `${Math.max(0.5, (((one.total ?? 0) - low) / (high - low)) * 100)}%` }} /></td>
                <td class="num">{score(one.total)}</td>
                <td class="num dim">{one.won ? "" : "vetoes" in one && one.vetoes?.length ? `ruled out by ${one.vetoes.join(", ")}` : won && typeof one.total === "number" ? score(one.total - best) : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {against.length > 0 && <p class="dim">Kept others out: {against.map((it, place) => <span key={it.reason}>{place ? ", " : ""}{count(it.candidates)} for <code class="reason">{it.reason}</code></span>)}</p>}
      {(facts.length > 0 || typeof made.heard_ms === "number") && (
        <details class="facts-of">
          <summary>What it rests on{typeof made.heard_ms === "number" ? `: told by the node ${made.heard_ms < 1000 ? "less than a second" : span(made.heard_ms)} before` : ""}</summary>
          {facts.length > 0 && <Facts rows={facts.map(([name, value]) => [label(name), fact(name, value)])} />}
        </details>
      )}
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
  const job = made.job ?? "";
  const asked = "asked" in made ? made.asked : undefined;
  return (
    <>
      <tr class={open ? "open" : ""}>
        <td><button type="button" class="plain disclose" aria-expanded={open} aria-label={`Breakdown of decision ${made.seq} about job ${job}`} onClick={() => setOpen(!open)}><span aria-hidden="true">{open ? "▾" : "▸"}</span></button></td>
        <td class="nowrap"><time>{clock(made.at_ms)}</time></td>
        <td>{job ? <JobLink id={job} /> : <span class="dim">no job</span>}{"name" in made && made.name ? <span class="dim"> {made.name}</span> : null}</td>
        <td class="wraps">{nodes.slice(0, 3).map((id, place) => <span key={id}>{place ? ", " : ""}<NodeLink id={id} /></span>)}{nodes.length > 3 ? ` and ${nodes.length - 3} more` : ""}{nodes.length ? "" : <span class="dim">nowhere{asked ? <>: <NodeLink id={asked} /> asked</> : ""}</span>}</td>
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
  const filter = { job: params.get("job") ?? "", node: params.get("node") ?? "", pool: params.get("pool") ?? "", chose: params.get("chose") ?? "" };
  const key = JSON.stringify(filter);
  const pools = useData((signal) => get<Pool[]>("/pools", {}, signal), []);
  const [live, setLive] = useState<Glance[]>([]);
  const [paused, setPaused] = useState(false);
  const [left, setLeft] = useState(false);
  const past = useData((signal) => get<Schemas["Paged_DecisionView"]>("/decisions", { ...filter, limit: 100 }, signal), [key], filter.chose ? { jobs: "any", nodes: "any", atMost: 3000 } : {});
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
  // Only decisions that chose somebody are told as they are made.
  const heard = filter.chose ? [] : live.filter((made) => (!filter.job || made.job === filter.job) && (!filter.node || made.nodes.includes(filter.node)) && (!filter.pool || made.pool === filter.pool));
  const oldest = heard.length ? Math.min(...heard.map((made) => made.seq)) : Infinity;
  const known = new Set(heard.map((made) => made.seq));
  const before = (past.data?.items ?? []).filter((made) => !known.has(made.seq) && (made.seq < oldest || !known.size));
  const shown = [...heard, ...before].slice(0, KEPT);
  return (
    <Page title="Decisions" aside={<button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>{paused ? "Go on" : "Pause"}</button>}>
      <form class="filters" role="search" aria-label="Filter decisions" onSubmit={(event) => event.preventDefault()}>
        {(["job", "node"] as const).map((name) => (
          <label key={name} class="field"><span>{name[0]!.toUpperCase() + name.slice(1)}</span><input type="search" value={filter[name]} onChange={(event) => setParams({ [name]: event.currentTarget.value.trim() })} /></label>
        ))}
        <Select name="Pool" value={filter.pool} onChange={(value) => setParams({ pool: value })} choices={[{ value: "", text: "all" }, ...(pools.data ?? []).map(({ id }) => ({ value: id, text: id }))]} />
        <Segments name="Which" value={filter.chose} onChange={(value) => setParams({ chose: value })} choices={[{ value: "", text: "placed" }, { value: "nobody", text: "chose nobody" }]} />
      </form>
      <Wrong error={past.error} />
      {left && <p class="note">More was decided at once than can be shown; the newest is here, the rest in <code>landfall decisions</code>.</p>}
      {!past.data ? !past.error && <Loading /> : shown.length ? <DecisionRows decisions={shown} /> : <Empty>{filter.job || filter.node || filter.pool || filter.chose ? "No decision is like that, as far as the journal goes back." : "Nothing was decided yet."}</Empty>}
      <p class="dim small" aria-live="polite">{filter.chose ? "" : paused ? "Paused." : `${plural(heard.length, "decision")} since the page was opened.`}</p>
    </Page>
  );
}
