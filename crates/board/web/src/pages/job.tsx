// One job: where it stands and why, what it needs, what it wrote, what can be done about it.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, maySteer, post, seg, type Job as JobView, type Schemas } from "../lib/api";
import { ago, bytes, clock, count, label, mib, need, plural, score, span } from "../lib/format";
import { now, useData } from "../lib/live";
import { at, go, link } from "../lib/router";
import { Ago, Card, Empty, Facts, JobLink, Loading, NodeLink, Other, Page, say, State, Wrong, act, ask } from "../parts/basics";
import { Graph } from "../parts/graph";
import { Log } from "../parts/log";
import { Terms } from "../parts/terms";

type Explanation = Schemas["Explanation"];
type Array = Schemas["ArrayView"];

const ENDED = ["completed", "failed", "cancelled"];

/** What it costs, where the server says so. */
function price(job: JobView): string | undefined {
  const said = (job as { price?: unknown }).price;
  if (typeof said === "number") return score(said);
  if (!said || typeof said !== "object") return undefined;
  return Object.entries(said).filter(([, value]) => value !== null).map(([name, value]) => `${label(name)} ${typeof value === "number" ? score(value) : String(value)}`).join(", ");
}

/** The submission that a job came from. */
function again(job: JobView): object {
  return { name: job.name ?? undefined, needs: job.needs, run: job.run, ...(job.array ? { array: { first: job.array.index, last: job.array.index, step: 1 } } : {}) };
}

function Orders({ job }: { job: JobView }): JSX.Element | null {
  if (!maySteer(job)) return null;
  const order = (what: string) => () => post<Schemas["Acted"]>(`/jobs/${seg(job.id)}/${what}`);
  const named = job.name ? `${job.id} (${job.name})` : job.id;
  const ended = ENDED.includes(job.state);
  const resubmit = async (): Promise<void> => {
    if (!(await ask(`Run job ${named} again?`, "It is submitted once more as it was, under a new id.", "Run it again"))) return;
    try {
      const made = await post<Schemas["Submitted"]>("/jobs", again(job));
      say(`submitted as job ${made.id}`);
      go(at("jobs", made.id));
    } catch (wrong) {
      say("that did not work", wrong as never);
    }
  };
  return (
    <div class="buttons">
      {job.state === "pending" && !job.held && <button type="button" onClick={() => void act(`Hold job ${named}?`, "It keeps its place and does not start until it is released.", "Hold it", false, order("hold"), `job ${job.id} is held`)}>Hold</button>}
      {job.held && job.state === "pending" && <button type="button" onClick={() => void act(`Release job ${named}?`, "It may start from now on.", "Release it", false, order("release"), `job ${job.id} may start`)}>Release</button>}
      {job.state === "running" && <button type="button" onClick={() => void act(`Suspend job ${named}?`, "It is asked to save its work and leaves its nodes.", "Suspend it", false, order("suspend"), `job ${job.id} is asked to save its work`)}>Suspend</button>}
      {job.state === "suspended" && <button type="button" onClick={() => void act(`Resume job ${named}?`, "It goes back to the queue and continues from what it saved.", "Resume it", false, order("resume"), `job ${job.id} waits to go on`)}>Resume</button>}
      {!ended && <button type="button" class="danger" onClick={() => void act(`Cancel job ${named}?`, job.state === "pending" ? "It leaves the queue." : "It is stopped; what it did not save is lost.", "Cancel it", true, order("cancel"), `job ${job.id} is taken back`)}>Cancel</button>}
      {ended && <button type="button" onClick={() => void resubmit()}>Run again</button>}
    </div>
  );
}

/** Reasons that are said in the same words are one to people. */
function said(reasons: Explanation["reasons"]): { why: Schemas["Why"]; names: string[] }[] {
  const groups = new Map<string, { why: Schemas["Why"]; names: string[] }>();
  for (const why of reasons) {
    const known = groups.get(why.detail);
    if (known) known.names.push(why.reason);
    else groups.set(why.detail, { why, names: [why.reason] });
  }
  return [...groups.values()];
}

function Why({ found, estimate }: { found: Explanation; estimate: Schemas["Estimate"] | undefined }): JSX.Element {
  const start = estimate?.likely_start_ms ?? estimate?.planned_start_ms;
  const sure: Record<string, string> = { exact: "planned to the job", coarse: "roughly", none: "nobody can tell" };
  return (
    <Card title="Why it waits" aside={found.queue && <span class="dim">place {count(found.queue.position)} of {count(found.queue.of)}{found.queue.ahead ? <>, behind <JobLink id={found.queue.ahead} /></> : ""}</span>}>
      {found.never && <p class="note bad"><strong>It can never start here.</strong> No node of the pool could run it, whatever ends.</p>}
      <ol class="whys">
        {said(found.reasons).map(({ why, names }) => (
          <li key={why.detail}>
            <p><strong>{why.detail}</strong> {names.map((name) => <code key={name} class="reason">{name}</code>)}</p>
            {why.until_ms && <p>Until {clock(why.until_ms)} ({ago(why.until_ms, now.value)}).</p>}
            {why.help && <p class="help">{why.help}</p>}
            {!!why.jobs?.length && <p class="dim">In the way: {why.jobs.slice(0, 12).map((id, place) => <span key={id}>{place ? ", " : ""}<JobLink id={id} /></span>)}{why.jobs.length > 12 ? ` and ${why.jobs.length - 12} more` : ""}</p>}
          </li>
        ))}
      </ol>
      {found.nodes.length > 0 && (
        <div class="scroll">
          <table class="rows">
            <caption>What keeps it off nodes</caption>
            <thead><tr><th scope="col">Reason</th><th scope="col" class="num">Nodes</th><th scope="col" class="num opt">For that alone</th><th scope="col">Such as</th><th scope="col">What would change it</th></tr></thead>
            <tbody>{found.nodes.map((row) => (
              <tr key={`${row.reason}${row.example}`}><td><code class="reason">{row.reason}</code></td><td class="num">{count(row.nodes)}</td><td class="num opt">{count(row.alone)}</td><td><NodeLink id={row.example} /></td><td class="why">{row.remedy}</td></tr>
            ))}</tbody>
          </table>
        </div>
      )}
      {estimate && (
        <p class="estimate">
          {start ? <><strong>Likely start {ago(start, now.value)}</strong> <span class="dim">({clock(start)}), {sure[estimate.precision] ?? ""}</span></> : <strong>No start can be told</strong>}
          {estimate.range_ms?.length === 2 && <span class="dim">, between {clock(estimate.range_ms[0])} and {clock(estimate.range_ms[1])}</span>}
          {estimate.reason && <span class="dim">, {estimate.reason}</span>}
          {!!estimate.counts_on?.length && <span class="dim">. It counts on {estimate.counts_on.map((what) => what.replace(/_/g, " ")).join(", ")}.</span>}
        </p>
      )}
    </Card>
  );
}

function Where({ placed }: { placed: NonNullable<Explanation["placed"]> }): JSX.Element {
  const kinds: Record<string, string> = { start: "started in order", backfill: "filled a gap", preempt: "others made room" };
  return (
    <Card title="Why there" aside={<span class="dim">{kinds[placed.kind] ?? placed.kind} at {clock(placed.committed_at_ms)}</span>}>
      <div class="scroll">
        <table class="rows">
          <thead><tr><th scope="col">Node</th><th scope="col">GPUs</th><th scope="col">Phase</th><th scope="col">Lent by</th></tr></thead>
          <tbody>{placed.nodes.map((on) => <tr key={on.node}><td><NodeLink id={on.node} /></td><td>{on.gpus.join(", ") || "–"}</td><td>{on.phase}</td><td>{on.lender ?? ""}</td></tr>)}</tbody>
        </table>
      </div>
      <Terms terms={placed.why.terms} total={placed.why.total} />
      {placed.why.runner_up && <p class="dim">The next best was <Other id={placed.why.runner_up} />.</p>}
      {placed.ends_at_ms && <p>Its walltime is over {ago(placed.ends_at_ms, now.value)} <span class="dim">({clock(placed.ends_at_ms)})</span>.</p>}
    </Card>
  );
}

function Life({ job, decisions }: { job: JobView; decisions: Schemas["DecisionView"][] }): JSX.Element {
  type Step = { at: number; text: JSX.Element | string; kind: string };
  const steps: Step[] = [{ at: job.submitted_at_ms, text: `submitted${job.submitter ? ` by ${job.submitter}` : ""}`, kind: "wait" }];
  const attempts = [...decisions].sort((a, b) => a.seq - b.seq);
  attempts.forEach((made, place) => {
    const nodes = made.nodes.map((granted) => granted.node);
    steps.push({
      at: made.at_ms, kind: "busy",
      text: <>{attempts.length > 1 ? `attempt ${place + 1} ` : ""}placed on {nodes.slice(0, 3).map((id, place) => <span key={id}>{place ? ", " : ""}<NodeLink id={id} /></span>)}{nodes.length > 3 ? ` and ${nodes.length - 3} more` : ""}</>,
    });
  });
  if (job.started_at_ms) steps.push({ at: job.started_at_ms, text: "running on all its nodes", kind: "good" });
  if (job.ended_at_ms) steps.push({ at: job.ended_at_ms, text: `${job.state}${job.exit_code !== null && job.exit_code !== undefined ? `, exit ${job.exit_code}` : ""}${job.reason && job.state !== "completed" ? `: ${job.reason}` : ""}`, kind: job.state === "completed" ? "done" : job.state === "failed" ? "bad" : "off" });
  steps.sort((a, b) => a.at - b.at);
  const waited = (job.started_at_ms ?? job.ended_at_ms ?? now.value) - job.submitted_at_ms;
  const ran = job.started_at_ms ? (job.ended_at_ms ?? now.value) - job.started_at_ms : 0;
  const whole = Math.max(1, waited + ran);
  return (
    <Card title="Life" aside={<span class="dim">waited {span(waited)}{ran ? `, ${job.ended_at_ms ? "ran" : "runs for"} ${span(ran)}` : ""}</span>}>
      <div class="lifeline" role="img" aria-label={`Waited ${span(waited)}${ran ? `, ran ${span(ran)}` : ""}`}>
        <span class="wait" style={{ width: `${Math.max(1, (waited / whole) * 100)}%` }} />
        {ran > 0 && <span class={job.state === "failed" ? "bad" : "good"} style={{ width: `${(ran / whole) * 100}%` }} />}
      </div>
      <ol class="life">{steps.map((step, place) => <li key={place} class={step.kind}><time>{clock(step.at)}</time><span>{step.text}</span></li>)}</ol>
    </Card>
  );
}

function ArrayCard({ array }: { array: Array }): JSX.Element {
  const parts: [string, number, string][] = [["completed", array.completed, "done"], ["running", array.running, "good"], ["failed", array.failed, "bad"], ["cancelled", array.cancelled, "off"], ["pending", array.pending, "wait"]];
  return (
    <Card title={`Array of ${plural(array.total, "job")}`} aside={<a href={link("/jobs", { array: array.id })}>Show its elements</a>}>
      <div class="lifeline tall" role="img" aria-label={parts.map(([name, number]) => `${number} ${name}`).join(", ")}>
        {parts.filter(([, number]) => number).map(([name, number, kind]) => <span key={name} class={kind} style={{ width: `${(number / Math.max(1, array.total)) * 100}%` }} />)}
      </div>
      <p class="keys-row">{parts.map(([name, number]) => <a key={name} class="key" href={link("/jobs", { array: array.id, state: name })}><b>{count(number)}</b> {name}</a>)}</p>
      {array.why && <p>{array.why}</p>}
    </Card>
  );
}

function ArrayPage({ id }: { id: string }): JSX.Element {
  const { data, error } = useData((signal) => get<Array>(`/arrays/${seg(id)}`, {}, signal), [id], { jobs: "any", atMost: 1000 });
  return (
    <Page title={<>Array {id} {data?.name && <span class="dim">{data.name}</span>}</>}>
      <Wrong error={error} />
      {data && <ArrayCard array={data} />}
      <Graph id={id} />
    </Page>
  );
}

/** A job or an array: both have numbers of one row. */
export function Job({ id }: { id: string }): JSX.Element {
  const { data, error } = useData((signal) => get<Schemas["FoundView"]>("/find", { id }, signal), [id]);
  if (data?.kind === "array") return <ArrayPage id={id} />;
  if (data?.kind === "job") return <OneJob id={id} />;
  return <Page title={`Job ${id}`}><Wrong error={error} />{data ? <Empty>There is no such job, or it is not yours to see.</Empty> : !error && <Loading />}</Page>;
}

function OneJob({ id }: { id: string }): JSX.Element {
  const watch = { jobs: [id], every: 20000, atMost: 700 };
  const { data: job, error } = useData((signal) => get<JobView>(`/jobs/${seg(id)}`, {}, signal), [id], watch);
  const why = useData((signal) => get<Explanation | JobView>(`/jobs/${seg(id)}/explain`, {}, signal), [id, job?.version], { ...watch, jobs: "any", atMost: 3000 });
  const waiting = job?.state === "pending";
  const estimate = useData(async (signal) => (waiting ? get<Schemas["Estimate"]>(`/jobs/${seg(id)}/estimate`, {}, signal) : undefined), [id, waiting], { jobs: "any", atMost: 5000 });
  const decisions = useData((signal) => get<Schemas["Paged_DecisionView"]>("/decisions", { job: id, limit: 20 }, signal), [id, job?.attempt, job?.state]);
  const [tail, setTail] = useState(true);
  if (!job) return <Page title={`Job ${id}`}><Wrong error={error} />{!error && <Loading />}</Page>;
  const found = why.data && "reasons" in why.data ? why.data : undefined;
  const needs = Object.entries(job.needs as Record<string, unknown>).filter(([name, value]) => value !== null && value !== false && name !== "pool" && name !== "tenant");
  return (
    <Page
      title={<>Job {job.id} {job.name && <span class="dim">{job.name}</span>} <State of={job.state} /></>}
      aside={<Orders job={job} />}
    >
      <Wrong error={error} />
      {job.note && <p class="note">{job.note}</p>}
      <div class="grid two">
        <div class="stack">
          {found && waiting && <Why found={found} estimate={estimate.data} />}
          {found?.placed && <Where placed={found.placed} />}
          <Graph id={job.id} />
          <Life job={job} decisions={decisions.data?.items ?? []} />
        </div>
        <div class="stack">
          <Card title="The job">
            <Facts
              rows={[
                ["pool", <a href={link("/jobs", { pool: job.pool })}>{job.pool}</a>],
                ["tenant", job.tenant],
                ["array", job.array && <a href={at("jobs", job.array.id)}>{job.array.id}, element {job.array.index}</a>],
                ["submitted", <><Ago at={job.submitted_at_ms} />{job.submitter ? ` by ${job.submitter}` : ""}</>],
                ["price", price(job)],
                ["attempt", job.attempt > 1 && String(job.attempt)],
                ["command", job.run.command?.length ? <code>{job.run.command.join(" ")}</code> : undefined],
                ["directory", job.run.cwd && <code>{job.run.cwd}</code>],
                ["image", job.run.image && <code>{job.run.image}</code>],
                ["files kept", job.files && <code>{job.files}</code>],
              ]}
            />
            <h3>Needs</h3>
            {needs.length ? <Facts rows={needs.map(([name, value]) => [label(name), need(name, value)])} /> : <p class="dim">Nothing in particular.</p>}
            {job.usage && (
              <>
                <h3>Used</h3>
                <Facts
                  rows={[
                    ["CPU time", job.usage.cpu_time_ms !== null && job.usage.cpu_time_ms !== undefined && span(job.usage.cpu_time_ms)],
                    ["peak memory", job.usage.peak_ram_mib !== null && job.usage.peak_ram_mib !== undefined && mib(job.usage.peak_ram_mib)],
                    ["disk", job.usage.disk_bytes && bytes(job.usage.disk_bytes)],
                    ["out of memory", job.usage.oom && "yes: it was stopped for it"],
                  ]}
                />
              </>
            )}
          </Card>
        </div>
      </div>
      <Card title="Log" aside={<label class="check"><input type="checkbox" checked={tail} onChange={(event) => setTail(event.currentTarget.checked)} /> stay at the end</label>}>
        {job.started_at_ms || job.attempt > 1 || ENDED.includes(job.state) ? <Log key={`${job.id}-${job.attempt}`} job={job.id} over={ENDED.includes(job.state)} stay={tail} /> : <Empty>It has not written anything: it has not started.</Empty>}
      </Card>
    </Page>
  );
}
