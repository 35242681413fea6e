// The table of jobs: filters and search in the address, pages from the server.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, isOperator, type Job, type Pool, type Schemas } from "../lib/api";
import { count, nodes, span } from "../lib/format";
import { now, useData } from "../lib/live";
import { at, link, place, setParams } from "../lib/router";
import { Ago, Empty, JobLink, Loading, NodeLink, Page, Select, State, Wrong } from "../parts/basics";

const PAGE = 50;
const STATES = ["live", "pending", "running", "suspended", "ended", "completed", "failed", "cancelled"];

/** What a job asks for, in a few characters. */
export function asks(job: Job): string {
  const needs = job.needs as Record<string, unknown>;
  const parts: string[] = [];
  const number = nodes(needs["nodes"]);
  if (number !== "1") parts.push(`${number} ×`);
  if (needs["gpu_count"]) parts.push(`${needs["gpu_count"]} GPU`);
  else if (needs["gpu_milli"]) parts.push(`${Number(needs["gpu_milli"]) / 1000} GPU`);
  if (typeof needs["cpu_milli"] === "number") parts.push(`${+(needs["cpu_milli"] / 1000).toFixed(1)} cores`);
  return parts.join(" ") || "–";
}

export function where(job: Job): JSX.Element | string {
  const on = job.nodes ?? [];
  if (on.length) return <>{on.slice(0, 2).map(({ node }, place) => <span key={node}>{place ? ", " : ""}<NodeLink id={node} /></span>)}{on.length > 2 ? ` and ${on.length - 2} more` : ""}</>;
  return job.why ?? job.reason ?? "";
}

/** `onNode`: all of them are on one node, so where they are goes without saying. `brief`: all are of one kind, so what it is goes without saying. */
export function JobRows({ jobs, onNode = false, brief = false }: { jobs: Job[]; onNode?: boolean; brief?: boolean }): JSX.Element {
  const lasted = (job: Job): string => (job.started_at_ms ? span((job.ended_at_ms ?? now.value) - job.started_at_ms) : "");
  return (
    <div class="scroll">
      <table class="rows">
        <thead>
          <tr><th scope="col">Job</th>{!brief && <th scope="col">Name</th>}<th scope="col">State</th>{!onNode && !brief && <th scope="col" class="opt">Pool</th>}{!brief && <><th scope="col" class="opt">Tenant</th><th scope="col" class="opt">Needs</th></>}{!onNode && <th scope="col">Where, or why it waits</th>}<th scope="col" class="num opt">Ran</th><th scope="col" class="num opt">Submitted</th></tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <tr key={job.id}>
              <td><JobLink id={job.id} />{job.elements ? <span class="dim"> ×{count(job.elements)}</span> : null}</td>
              {!brief && <td class="name">{job.name ?? ""}</td>}
              <td><State of={job.held && job.state === "pending" ? "held" : job.state} title={job.reason ?? undefined} />{job.exit_code ? <span class="dim"> exit {job.exit_code}</span> : null}</td>
              {!onNode && !brief && <td class="opt">{job.pool}</td>}
              {!brief && <><td class="opt">{job.tenant ?? ""}</td><td class="opt">{asks(job)}</td></>}
              {!onNode && <td class="why">{where(job)}</td>}
              <td class="num opt">{lasted(job)}</td>
              <td class="num opt"><Ago at={job.submitted_at_ms} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Jobs(): JSX.Element {
  const { params } = place.value;
  const filter = { state: params.get("state") ?? "", pool: params.get("pool") ?? "", tenant: params.get("tenant") ?? "", search: params.get("search") ?? "", array: params.get("array") ?? "", node: params.get("node") ?? "" };
  const key = JSON.stringify(filter);
  // The way back: cursors of the pages before this one.
  const [trail, setTrail] = useState<string[]>([]);
  const [text, setText] = useState(filter.search);
  useEffect(() => setTrail([]), [key]);
  useEffect(() => setText(filter.search), [filter.search]);
  const cursor = trail[trail.length - 1];
  const { data, error } = useData(
    (signal) => get<Schemas["Paged_JobView"]>("/jobs", { ...filter, limit: PAGE, cursor }, signal),
    [key, cursor],
    { jobs: "any", atMost: 2000 },
  );
  const pools = useData((signal) => get<Pool[]>("/pools", {}, signal), []);
  const tenants = useData((signal) => get<Schemas["TenantView"][]>("/tenants", {}, signal), []);
  const all = { value: "", text: "all" };
  return (
    <Page title="Jobs" aside={filter.array ? <span>elements of array <a href={at("jobs", filter.array)}>{filter.array}</a> <a class="clear" href={link("/jobs")}>show all</a></span> : undefined}>
      <form class="filters" role="search" aria-label="Filter jobs" onSubmit={(event) => { event.preventDefault(); setParams({ search: text.trim() }); }}>
        <label class="field"><span>Search</span><input type="search" value={text} placeholder="id or part of a name" onInput={(event) => setText(event.currentTarget.value)} onBlur={() => text !== filter.search && setParams({ search: text.trim() })} /></label>
        <Select name="State" value={filter.state} onChange={(value) => setParams({ state: value })} choices={[all, ...STATES.map((state) => ({ value: state, text: state }))]} />
        <Select name="Pool" value={filter.pool} onChange={(value) => setParams({ pool: value })} choices={[all, ...(pools.data ?? []).map(({ id }) => ({ value: id, text: id }))]} />
        {isOperator() && <Select name="Tenant" value={filter.tenant} onChange={(value) => setParams({ tenant: value })} choices={[all, ...(tenants.data ?? []).map(({ id }) => ({ value: id, text: id }))]} />}
        {filter.node && <span class="chip">on {filter.node} <button type="button" class="plain" aria-label="Show jobs on all nodes" onClick={() => setParams({ node: null })}>✕</button></span>}
      </form>
      <Wrong error={error} />
      {!data ? !error && <Loading /> : data.items.length ? <JobRows jobs={data.items} /> : <Empty>{Object.values(filter).some(Boolean) ? "No job is like that." : <>No jobs yet. <code>landfall submit --wait -- echo hello</code> runs one.</>}</Empty>}
      <div class="pager">
        <button type="button" disabled={!trail.length} onClick={() => setTrail(trail.slice(0, -1))}>Newer</button>
        <button type="button" disabled={!data?.next} onClick={() => data?.next && setTrail([...trail, data.next])}>Older</button>
        <span class="dim">{data ? `${count(data.items.length)} shown, newest first` : ""}</span>
      </div>
    </Page>
  );
}
