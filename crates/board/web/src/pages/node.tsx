// One node: what it is, what it has, what it is good for, what can be done about it.
import type { JSX } from "preact";
import { get, isOperator, post, seg, type Node as NodeView, type Schemas } from "../lib/api";
import { ago, clock, cores, count, mib, percent, plural, score } from "../lib/format";
import { now, useData } from "../lib/live";
import { link } from "../lib/router";
import { act, Ago, Card, Empty, type Extra, Facts, JobLink, Loading, Meter, Page, State, Wrong } from "../parts/basics";
import { endOf, type Block } from "./capacity";
import { JobRows } from "./jobs";
import { DecisionRows } from "./decisions";

const known = (value: number | null | undefined): value is number => value !== null && value !== undefined;

const LEVELS: Record<string, string> = { perfect: "good", good: "good", marginal: "warn", too_tight: "off" };

const WHEN_AND_WHY: Extra[] = [
  { name: "why", text: "Why, for those whose jobs wait", kind: "text", hint: "new memory" },
  { name: "at", text: "From when on; now if left empty", kind: "datetime-local" },
];

function Orders({ node }: { node: NodeView }): JSX.Element | null {
  if (!isOperator()) return null;
  const order = (what: string) => () => post<Schemas["Acted"]>(`/nodes/${seg(node.id)}/${what}`);
  const drain = ({ why, at }: Record<string, string>) => post<Schemas["Acted"]>(`/nodes/${seg(node.id)}/drain`, { why: why?.trim() || null, at_ms: at ? new Date(at).getTime() : null });
  const out = ["draining", "drained"].includes(node.state);
  return (
    <div class="buttons">
      {node.approval !== "approved" && <button type="button" class="primary" onClick={() => void act(`Approve ${node.id}?`, "It takes part from now on.", "Approve it", false, order("approve"), `${node.id} takes part`)}>Approve</button>}
      {(out || node.state === "degraded" || node.drifted) && <button type="button" onClick={() => void act(`Return ${node.id}?`, "It takes work again, and its configuration counts as right.", "Return it", false, order("return"), `${node.id} takes work`)}>Return</button>}
      {!out && <button type="button" onClick={() => void act(`Drain ${node.id}?`, `It finishes ${node.jobs.length ? `the ${plural(node.jobs.length, "job")} it has` : "what it has"} and takes nothing new; until a later time, if one is given, it takes what ends before.`, "Drain it", false, drain, `${node.id} finishes what it has`, WHEN_AND_WHY)}>Drain</button>}
      {node.approval === "approved" && <button type="button" onClick={() => void act(`Keep ${node.id} out?`, "It takes nothing new until somebody approves it again.", "Keep it out", false, order("suspend"), `${node.id} takes no part`)}>Keep out</button>}
      {!node.connected && <button type="button" class="danger" onClick={() => void act(`Remove ${node.id}?`, "It is taken out for good; its jobs are started elsewhere where that is allowed.", "Remove it", true, order("leave"), `${node.id} is gone`)}>Remove</button>}
    </div>
  );
}

/** `2g@4` is two compute slices whose memory begins at the fourth slice. */
function Slices({ taken }: { taken: string[] }): JSX.Element {
  return taken.length ? <>{taken.map((slice) => <span key={slice} class="chip" title={`${slice.replace("g@", " compute slices, from memory slice ")} on`}>{slice}</span>)}</> : <span class="dim">in slices, all free</span>;
}

function Devices({ node }: { node: NodeView }): JSX.Element {
  if (!node.gpus.length) return <Empty>It has no GPUs.</Empty>;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Devices">
      <table class="rows">
        <thead><tr><th scope="col">GPU</th><th scope="col" class="opt">Model</th><th scope="col">Compute</th><th scope="col">Memory</th><th scope="col">{node.gpus.some((gpu) => gpu.slices) ? "Job or slices" : "Job"}</th></tr></thead>
        <tbody>
          {node.gpus.map((gpu) => (
            <tr key={gpu.index}>
              <td>{gpu.index}</td>
              <td class="opt wraps">{gpu.model ?? "unknown"}</td>
              <td><Meter used={gpu.holder ? 1000 : gpu.milli_committed} total={1000} text={gpu.holder ? "whole" : `${gpu.milli_committed / 10} %`} /></td>
              <td><Meter used={gpu.vram_committed_mib} total={gpu.vram_mib ?? 0} text={`${mib(gpu.vram_committed_mib)} of ${gpu.vram_mib ? mib(gpu.vram_mib) : "?"}`} /></td>
              <td class="wraps">{gpu.slices ? <Slices taken={gpu.slices} /> : gpu.holder ? <JobLink id={gpu.holder} /> : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What happened to it, newest first. */
function History({ node }: { node: NodeView }): JSX.Element {
  const { data, error } = useData((signal) => get<Schemas["Paged_LifeStep"]>(`/nodes/${seg(node.id)}/life`, { limit: 30 }, signal), [node.id, node.state, node.since_ms, node.approval, node.why, node.lent_to]);
  if (error) return <Wrong error={error} />;
  if (!data) return <Loading />;
  if (!data.items.length) return <Empty>Nothing but jobs happened here, as far as the journal goes back.</Empty>;
  return <ol class="life">{data.items.map((step) => <li key={step.seq}><time title={new Date(step.at_ms).toISOString()}>{clock(step.at_ms)}</time><span>{step.text}{step.job ? <> for <JobLink id={step.job} /></> : ""}</span></li>)}</ol>;
}

/** Whether it is well, and what it is not sure about. */
function Health({ node }: { node: NodeView }): JSX.Element {
  const limits = node.limits;
  return (
    <Facts
      rows={[
        ["state", <><State of={node.state} /> since <Ago at={node.since_ms} /></>],
        ["why", node.why],
        ["out of service from", node.maintenance_at_ms && `${clock(node.maintenance_at_ms)} (${ago(node.maintenance_at_ms, now.value)})`],
        ["agent", node.connected ? "connected" : "not connected"],
        ["cooling down", node.cooldown_until_ms && `until ${clock(node.cooldown_until_ms)} (${ago(node.cooldown_until_ms, now.value)})`],
        ["accepts work", node.accepting ? "yes" : "no: its owner or its agent paused it"],
        ["approval", node.approval !== "approved" && node.approval],
        ["heat", node.thermal],
        ["battery", node.battery_pct !== null && node.battery_pct !== undefined && `${node.battery_pct} %${node.charging ? ", charging" : ""}`],
        ["power", node.power_w !== null && node.power_w !== undefined && `${node.power_w} W`],
        ["good service", node.karma !== 0 && String(node.karma)],
        ["conforms", node.drifted ? "no: its configuration is another than expected" : node.fingerprint ? <>yes <span class="dim">(<code>{node.fingerprint.slice(0, 16)}</code>)</span></> : "it does not say how it is configured"],
        ["cannot be true", !!node.doubted?.length && node.doubted.join(", ")],
        ["keeps jobs within", limits && (limits.cpu || limits.memory ? `their ${[limits.cpu && "CPU", limits.memory && "memory"].filter(Boolean).join(" and ")}` : `no limits: ${limits.how}`)],
      ]}
    />
  );
}

/** The lease that it belongs to, and when that ends. */
function Lease({ id }: { id: string }): JSX.Element {
  const { data } = useData((signal) => get<Block[]>("/blocks", {}, signal), [id], { settings: true, every: 60000 });
  const block = data?.find((one) => one.id === id);
  const end = block && endOf(block);
  return <><a href="#/capacity">{id}</a>{block && <span class="dim"> of {block.provider}, {end ? `ends ${ago(end, now.value)} (${clock(end)})` : "has no end"}</span>}</>;
}

function GoodFor({ id }: { id: string }): JSX.Element {
  const { data, error } = useData((signal) => get<Schemas["NodeWorkloads"]>(`/nodes/${seg(id)}/workloads`, {}, signal), [id], { nodes: [id], settings: true, atMost: 3000 });
  if (error) return <Wrong error={error} />;
  if (!data) return <Loading />;
  if (!data.workloads.length) return <Empty>No workload is stored. <code>landfall workloads set</code> stores one.</Empty>;
  return (
    <>
      {!data.dispatchable && <p class="note">It takes nothing right now{data.reasons?.length ? `: ${data.reasons.join(", ").replace(/_/g, " ")}` : ""}.</p>}
      <div class="scroll">
        <table class="rows">
          <thead><tr><th scope="col">Workload</th><th scope="col">Level</th><th scope="col" class="num">Score</th><th scope="col" class="num opt">Fit</th><th scope="col" class="num opt">Speed</th><th scope="col" class="num opt">Headroom</th><th scope="col" class="num">Estimate</th></tr></thead>
          <tbody>{data.workloads.map((row) => (
            <tr key={row.workload}><td><a href={link("/workloads", { open: row.workload })}>{row.workload}</a></td><td><span class={`state ${LEVELS[row.level] ?? "off"}`}>{row.level.replace(/_/g, " ")}</span></td><td class="num">{score(row.composite)}</td><td class="num opt">{score(row.fit)}</td><td class="num opt">{score(row.speed)}</td><td class="num opt">{score(row.headroom)}</td><td class="num">{score(row.estimate)}</td></tr>
          ))}</tbody>
        </table>
      </div>
    </>
  );
}

export function Node({ id }: { id: string }): JSX.Element {
  const { data: node, error } = useData((signal) => get<NodeView>(`/nodes/${seg(id)}`, {}, signal), [id], { nodes: [id], jobs: "any", every: 5000, atMost: 1000 });
  const jobs = useData((signal) => get<Schemas["Paged_JobView"]>("/jobs", { node: id, state: "live", limit: 50 }, signal), [id], { nodes: [id], jobs: "any", atMost: 2000 });
  const decisions = useData((signal) => get<Schemas["Paged_DecisionView"]>("/decisions", { node: id, limit: 15 }, signal), [id], { nodes: [id], atMost: 2000 });
  const estimates = node?.performance_estimates;
  if (!node) return <Page title={`Node ${id}`}><Wrong error={error} />{!error && <Loading />}</Page>;
  return (
    <Page title={<>Node {node.id} <State of={node.state} />{node.hollow && <span class="chip">simulated</span>}{!node.connected && <span class="chip">agent not connected</span>}</>} aside={<Orders node={node} />}>
      <Wrong error={error} />
      {node.why && <p class="note">{node.maintenance_at_ms ? `Out of service from ${clock(node.maintenance_at_ms)} on: ` : "Out of service: "}{node.why}</p>}
      {node.drifted && <p class="note">Its configuration differs from what is expected.</p>}
      {!!node.doubted?.length && <p class="note">It said things that cannot be true, which count as unknown: {node.doubted.join(", ")}.</p>}
      <div class="grid two">
        <div class="stack">
          <Card title="Devices"><Devices node={node} /></Card>
          <Card title="Jobs" aside={<a href={link("/jobs", { node: id })}>All jobs it had</a>}>
            {jobs.data ? jobs.data.items.length ? <JobRows jobs={jobs.data.items} onNode /> : <Empty>It runs nothing.</Empty> : <Loading />}
          </Card>
          <Card title="What it is good for"><GoodFor id={id} /></Card>
          <Card title="Decisions for it">{decisions.data ? decisions.data.items.length ? <DecisionRows decisions={decisions.data.items} /> : <Empty>Nothing was placed here as far as the journal goes back.</Empty> : <Loading />}</Card>
          <Card title="History"><History node={node} /></Card>
        </div>
        <div class="stack">
          <Card title="Given away">
            <Meter used={node.cpu_committed_milli} total={node.cpu_milli} text={`CPU ${cores(node.cpu_committed_milli)} of ${cores(node.cpu_milli)} cores`} />
            <Meter used={node.ram_committed_mib} total={node.ram_mib} text={`memory ${mib(node.ram_committed_mib)} of ${mib(node.ram_mib)}`} />
            {node.gpus.length > 0 && <Meter used={node.gpus.reduce((sum, gpu) => sum + (gpu.holder ? 1000 : gpu.milli_committed), 0)} total={node.gpus.length * 1000} text={`GPU ${percent(node.gpus.reduce((sum, gpu) => sum + (gpu.holder ? 1000 : gpu.milli_committed), 0), node.gpus.length * 1000)} % of ${node.gpus.length}`} />}
          </Card>
          <Card title="Health"><Health node={node} /></Card>
          <Card title="Facts" aside={<span class="dim">heard <Ago at={node.heard_at_ms} /></span>}>
            <Facts
              rows={[
                ["pool", <a href={link("/nodes", { pool: node.pool })}>{node.pool}</a>],
                ["lent to", node.lent_to && <>pool <a href="#/tenants">{node.lent_to}</a></>],
                ["region", node.region],
                ["block", node.block && <Lease id={node.block} />],
                ["network group", node.group],
                ["runtimes", node.runtimes.join(", ")],
                ["platform", node.platform],
                ["CPU load", node.cpu_usage_pct !== null && node.cpu_usage_pct !== undefined && `${node.cpu_usage_pct.toFixed(0)} %`],
                ["memory free", node.ram_free_mib !== null && node.ram_free_mib !== undefined && mib(node.ram_free_mib)],
                ["disk", node.disk_mb_s !== null && node.disk_mb_s !== undefined && `${score(node.disk_mb_s)} MB/s`],
                ["network", node.network_mbit_s !== null && node.network_mbit_s !== undefined && `${score(node.network_mbit_s)} Mbit/s`],
                ["GPU bandwidth", known(estimates?.gpu_bandwidth_gb_s) && `${score(estimates?.gpu_bandwidth_gb_s)} GB/s (estimated)`],
                ["language model", known(estimates?.estimated_llm_tok_s) && `${score(estimates?.estimated_llm_tok_s)} tokens/s (estimated)`],
                ["containers at once", !!estimates?.max_concurrent_containers && count(estimates.max_concurrent_containers)],
                ["memory for modules", !!estimates?.wasm_memory_limit_mb && `${count(estimates.wasm_memory_limit_mb)} MB`],
                ["warm workloads", node.cache?.join(", ")],
                ["images", node.images?.join(", ")],
                ["agent", node.agent_version],
              ]}
            />
          </Card>
        </div>
      </div>
    </Page>
  );
}
