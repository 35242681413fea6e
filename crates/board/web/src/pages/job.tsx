// One job: where it stands and why, what it needs, what it wrote, what can be done about it.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, isOperator, maySteer, post, seg, session, type Job as JobView, type Problem, type Schemas } from "../lib/api";
import { ago, bytes, clock, count, label, mib, need, plural, score, span } from "../lib/format";
import { now, useData } from "../lib/live";
import { at, go, link } from "../lib/router";
import { Ago, Card, Empty, Facts, JobLink, Loading, NodeLink, Other, Page, say, shortPeer, State, Wrong, act, ask } from "../parts/basics";
import { Graph } from "../parts/graph";
import { Log } from "../parts/log";
import { Terms } from "../parts/terms";
import { Beside } from "./decisions";
import { JobRows } from "./jobs";

type Explanation = Schemas["Explanation"];
type Array = Schemas["ArrayView"];

const ENDED = ["completed", "failed", "cancelled"];

function Orders({ job }: { job: JobView }): JSX.Element | null {
  if (!maySteer(job)) return null;
  const order = (what: string) => () => post<Schemas["Acted"]>(`/jobs/${seg(job.id)}/${what}`);
  const named = job.name ? `${job.id} (${job.name})` : job.id;
  const ended = ENDED.includes(job.state);
  const resubmit = async (): Promise<void> => {
    if (!(await ask(`Run job ${named} again?`, "It is submitted once more as it was, under a new id.", "Run it again"))) return;
    try {
      // What was submitted, with all that the page does not show.
      const made = await post<Schemas["Submitted"]>("/jobs", await get<Schemas["JobRequest"]>(`/jobs/${seg(job.id)}/request`));
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
  const sure: Record<string, string> = { exact: "planned to the job", coarse: "only roughly planned" };
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
      <Against id={found.job} />
      {estimate && (
        <p class="estimate">
          {start ? <><strong>Likely start {ago(start, now.value)}</strong> <span class="dim">({clock(start)})</span></> : <strong>No start can be told</strong>}
          {estimate.range_ms?.length === 2 && <span class="dim">, in eight of ten cases between {clock(estimate.range_ms[0])} and {clock(estimate.range_ms[1])}</span>}
          {!start && estimate.reason && <span class="dim">: {estimate.reason}</span>}
          {start && <span class="dim">. How sure: {[sure[estimate.precision], estimate.reason].filter(Boolean).join(", ")}{estimate.counts_on?.length ? `; it counts on ${estimate.counts_on.map((what) => what.replace(/_/g, " ")).join(", ")}` : ""}.</span>}
        </p>
      )}
    </Card>
  );
}

/** Where it is and what made it so: the newest decision about it says what was looked at beside the winner. */
function Where({ placed, made }: { placed: NonNullable<Explanation["placed"]>; made: Schemas["DecisionView"] | undefined }): JSX.Element {
  const kinds: Record<string, string> = { start: "started in order", backfill: "filled a gap", preempt: "others made room" };
  const same = made && made.at_ms === placed.committed_at_ms;
  const lent = placed.nodes.some((on) => on.lender);
  return (
    <Card title="Why there" aside={<span class="dim">{kinds[placed.kind] ?? placed.kind} at {clock(placed.committed_at_ms)}</span>}>
      <div class="scroll">
        <table class="rows">
          <thead><tr><th scope="col">Node</th><th scope="col">GPUs</th><th scope="col">Phase</th>{lent && <th scope="col">Lent by</th>}</tr></thead>
          <tbody>{placed.nodes.map((on) => <tr key={on.node}><td><NodeLink id={on.node} /></td><td>{on.gpus.join(", ") || "–"}</td><td>{on.phase}</td>{lent && <td>{on.lender ? `pool ${on.lender}` : ""}</td>}</tr>)}</tbody>
        </table>
      </div>
      {same ? <Beside made={made} /> : (
        <>
          <Terms terms={placed.why.terms} total={placed.why.total} />
          {placed.why.runner_up && <p class="dim">The next best was <Other id={placed.why.runner_up} />.</p>}
        </>
      )}
      {placed.ends_at_ms && <p>Its walltime is over {ago(placed.ends_at_ms, now.value)} <span class="dim">({clock(placed.ends_at_ms)})</span>.</p>}
    </Card>
  );
}

/** What stands between the job and one node that somebody has in mind. */
function Against({ id }: { id: string }): JSX.Element {
  const [node, setNode] = useState("");
  const [found, setFound] = useState<Schemas["WhyNot"]>();
  const [error, setError] = useState<Problem>();
  const look = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!node.trim()) return;
    setError(undefined);
    setFound(undefined);
    try {
      setFound(await get<Schemas["WhyNot"]>(`/jobs/${seg(id)}/explain`, { node: node.trim() }));
    } catch (wrong) {
      setError(wrong as Problem);
    }
  };
  const refused = [...(found?.verdict.refusals ?? []).map((one) => ({ reason: one.reason, help: one.remedy ?? "" })), ...(found?.ledger ?? []).map((reason) => ({ reason, help: "" }))];
  return (
    <details class="against">
      <summary>Why not on a certain node?</summary>
      <form class="plan" onSubmit={(event) => void look(event)}>
        <label class="field"><span>Node</span><input type="text" value={node} placeholder="gpu-7" onInput={(event) => setNode(event.currentTarget.value)} /></label>
        <button type="submit">Ask</button>
      </form>
      <Wrong error={error} />
      {found && (
        <div aria-live="polite">
          <p><NodeLink id={found.node} /> <State of={found.node_state} /> {found.placed_here ? "It is placed there." : refused.length ? "It may not start there now:" : "Nothing stands against it there; another node is better, or its turn has not come."}</p>
          <ul class="plain-list">{refused.map((one) => <li key={one.reason}><code class="reason">{one.reason}</code> {one.help && <span class="help">{one.help}</span>}</li>)}</ul>
          {found.kept_for && <p class="dim">The whole node is kept for <JobLink id={found.kept_for} />.</p>}
          {found.occupants.length > 0 && <p class="dim">On it: {found.occupants.slice(0, 12).map((other, place) => <span key={other}>{place ? ", " : ""}<JobLink id={other} /></span>)}{found.occupants.length > 12 ? ` and ${found.occupants.length - 12} more` : ""}</p>}
        </div>
      )}
    </details>
  );
}

/** What peers offered for it. */
function Offers({ id }: { id: string }): JSX.Element | null {
  const { data } = useData((signal) => get<Schemas["PlacementView"]>(`/jobs/${seg(id)}/placement`, {}, signal), [id], { jobs: [id], every: 5000 });
  const told = data?.negotiation;
  if (!told) return null;
  return (
    <Card title="What peers offered" aside={<span class="dim">{told.state}, round {told.round}{told.price !== null && told.price !== undefined ? `, price ${count(told.price)}` : ""}</span>}>
      {told.offers.length ? (
        <div class="scroll" tabIndex={0} role="region" aria-label="Offers of peers">
          <table class="rows">
            <thead><tr><th scope="col">Peer</th><th scope="col">Status</th><th scope="col" class="num">Score</th><th scope="col" class="num">Costs</th><th scope="col" class="num">Starts in</th><th scope="col">Why not</th></tr></thead>
            <tbody>{told.offers.map((offer) => <tr key={`${offer.round} ${offer.peer}`}><td class="id" title={offer.peer}>{shortPeer(offer.peer)}</td><td>{offer.status}</td><td class="num">{score(offer.score)}</td><td class="num">{count(offer.cost)}</td><td class="num">{span(offer.start_delay_ms)}</td><td class="why">{offer.reason?.replace(/_/g, " ") ?? ""}</td></tr>)}</tbody>
          </table>
        </div>
      ) : <Empty>{told.state === "failed" ? "No peer made an offer." : "No peer has made an offer yet."}</Empty>}
      {told.declines.length > 0 && <p class="dim">Declined: {[...new Set(told.declines.map((one) => `${shortPeer(one.peer)} (${one.reasons.join(", ").replace(/_/g, " ")})`))].join(", ")}</p>}
    </Card>
  );
}

const STEP_KINDS: Record<string, string> = { submitted: "wait", committed: "busy", started: "good", requeued: "warn", suspended: "warn", stopping: "warn", noticed: "warn", save_failed: "bad" };

/** Its whole life with every attempt, as the journal has it. */
function Life({ job }: { job: JobView }): JSX.Element {
  const { data, error } = useData((signal) => get<Schemas["Paged_LifeStep"]>(`/jobs/${seg(job.id)}/life`, { limit: 200 }, signal), [job.id, job.version]);
  const told = [...(data?.items ?? [])].reverse();
  // An element of an array came with the array, and the journal does not go back for ever.
  const came: Schemas["LifeStep"] = { seq: 0, at_ms: job.submitted_at_ms, kind: "submitted", text: "it was submitted" };
  const steps = told[0]?.kind === "submitted" ? told : [came, ...told];
  const placed = steps.filter(({ kind }) => kind === "committed");
  const ended = job.ended_at_ms ?? now.value;
  // Stretches between what changed where it stood.
  const kindAfter: Record<string, string> = { submitted: "wait", committed: "busy", started: "good", requeued: "wait", suspended: "wait", stopping: "warn" };
  const turns = steps.filter(({ kind }) => kindAfter[kind]);
  const whole = Math.max(1, ended - job.submitted_at_ms);
  const part = (from: number, to: number): string => `${(Math.max(0, to - from) / whole) * 100}%`;
  const waited = (job.started_at_ms ?? ended) - job.submitted_at_ms;
  const ran = job.started_at_ms ? ended - job.started_at_ms : 0;
  const summary = `Waited ${span(waited)}${ran ? `, ${job.ended_at_ms ? "ran" : "runs for"} ${span(ran)}` : ""}${placed.length > 1 ? `, in ${plural(placed.length, "attempt")}` : ""}`;
  return (
    <Card title="Life" aside={<span class="dim">{summary}</span>}>
      <Wrong error={error} />
      <div class="lifeline" role="img" aria-label={summary}>
        {turns.map((step, place) => {
          const until = turns[place + 1]?.at_ms ?? ended;
          const failed = place === turns.length - 1 && job.state === "failed" && step.kind === "started";
          return <span key={step.seq} class={failed ? "bad" : kindAfter[step.kind]} title={`${step.text}: ${span(until - step.at_ms)}`} style={{ width: part(step.at_ms, until) }} />;
        })}
      </div>
      <ol class="life">
        {steps.map((step, number) => {
          const attempt = placed.indexOf(step);
          return (
            <li key={step.seq} class={step.kind === "ended" ? (job.state === "completed" ? "done" : job.state === "failed" ? "bad" : "off") : (STEP_KINDS[step.kind] ?? "off")}>
              <time title={new Date(step.at_ms).toISOString()}>{clock(step.at_ms)}</time>
              <span>
                {attempt >= 0 && placed.length > 1 && !data?.next && <b>attempt {attempt + 1}: </b>}{step.text}
                {step.kind === "submitted" && job.submitter ? ` by ${job.submitter}` : ""}
                {step.nodes?.length ? <span class="dim"> {step.nodes.slice(0, 3).map((id, place) => <span key={id}>{place ? ", " : ""}<NodeLink id={id} /></span>)}{step.nodes.length > 3 ? ` and ${step.nodes.length - 3} more` : ""}</span> : null}
                {number === 0 && data?.next && <span class="dim">; what came between is in <code>landfall events</code></span>}
              </span>
            </li>
          );
        })}
      </ol>
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
  // Those that wait say nothing that the array does not say.
  const rows = useData(async (signal) => (await Promise.all(["running", "failed"].map((state) => get<Schemas["Paged_JobView"]>("/jobs", { array: id, state, limit: 15 }, signal)))).flatMap((page) => page.items), [id], { jobs: "any", atMost: 2000 });
  const left = data ? data.pending + data.running : 0;
  const cancel = (): void => void act(`Cancel array ${id}?`, `${plural(left, "job")} of it ${left === 1 ? "has" : "have"} not ended: what waits leaves the queue, what runs is stopped.`, "Cancel it", true, () => post<Schemas["Acted"]>(`/arrays/${seg(id)}/cancel`), `array ${id} is taken back`);
  const may = data && left > 0 && (isOperator() || (!!session.value?.tenant && session.value.tenant === data.tenant));
  return (
    <Page title={<>Array {id} {data?.name && <span class="dim">{data.name}</span>}</>} aside={may && <div class="buttons"><button type="button" class="danger" onClick={cancel}>Cancel</button></div>}>
      <Wrong error={error} />
      {data && (
        <div class="grid two">
          <div class="stack">
            <ArrayCard array={data} />
            <Graph id={id} />
            {rows.data && rows.data.length > 0 && <Card title="Running and failed" aside={<a href={link("/jobs", { array: id })}>All of them</a>}><JobRows jobs={rows.data} brief /></Card>}
          </div>
          <Card title="The array">
            <Facts
              rows={[
                ["pool", <a href={link("/jobs", { pool: data.pool })}>{data.pool}</a>],
                ["tenant", data.tenant],
                ["elements", `${data.range.first} to ${data.range.last}${data.range.step && data.range.step !== 1 ? ` in steps of ${data.range.step}` : ""}`],
                ["takes more", data.open && "yes, until it is closed"],
                ["submitted", <Ago at={data.submitted_at_ms} />],
                ["command", data.command?.length ? <code>{data.command.join(" ")}</code> : undefined],
              ]}
            />
          </Card>
        </div>
      )}
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
  const decisions = useData((signal) => get<Schemas["Paged_DecisionView"]>("/decisions", { job: id, limit: 1 }, signal), [id, job?.attempt, job?.state]);
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
          {found?.placed && <Where placed={found.placed} made={decisions.data?.items[0]} />}
          {(found ? found.dispatch === "negotiate" : ENDED.includes(job.state)) && <Offers id={job.id} />}
          <Graph id={job.id} dag={job.dag?.id} />
          <Life job={job} />
        </div>
        <div class="stack">
          <Card title="The job">
            <Facts
              rows={[
                ["pool", <a href={link("/jobs", { pool: job.pool })}>{job.pool}</a>],
                ["tenant", job.tenant],
                ["array", job.array && <a href={at("jobs", job.array.id)}>{job.array.id}, element {job.array.index}</a>],
                ["submitted", <><Ago at={job.submitted_at_ms} />{job.submitter ? ` by ${job.submitter}` : ""}</>],
                ["price", typeof job.price === "number" && score(job.price)],
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
                    ["ran", job.usage.wall_ms !== null && job.usage.wall_ms !== undefined && span(job.usage.wall_ms)],
                    ["CPU time", job.usage.cpu_time_ms !== null && job.usage.cpu_time_ms !== undefined && span(job.usage.cpu_time_ms)],
                    ["peak memory", job.usage.peak_ram_mib !== null && job.usage.peak_ram_mib !== undefined && mib(job.usage.peak_ram_mib)],
                    ["disk", job.usage.disk_bytes && bytes(job.usage.disk_bytes)],
                    ["network", !!job.usage.network_bytes_s && `${bytes(job.usage.network_bytes_s)}/s at most, one way`],
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
