// The cluster at a glance: the map, why jobs wait, how it went, what wants attention.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { get, isOperator, post, type Problem, type Schemas } from "../lib/api";
import { tint } from "../lib/colour";
import { count, percent, plural } from "../lib/format";
import { useData } from "../lib/live";
import { link, place, setParams } from "../lib/router";
import { Ago, Card, Empty, JobLink, Loading, Meter, Page, say, Segments, Wrong } from "../parts/basics";
import { FleetMap, merged, type ColourBy, type Fleet } from "../parts/map";
import { Plot, type Line } from "../parts/plot";

type Overviewed = Schemas["OverviewView"];
type PoolGlance = Schemas["PoolGlance"];

/** The map, with only what changed fetched each time. */
export function useFleet(): { fleet: Fleet | undefined; error: ReturnType<typeof useData>["error"] } {
  const known = useRef<Fleet | undefined>(undefined);
  const { data, error } = useData(
    async (signal) => {
      const answer = await get<Schemas["MapView"]>("/map", { since: known.current?.version }, signal);
      known.current = merged(known.current, answer);
      return known.current;
    },
    [],
    { jobs: "any", nodes: "any", settings: true, every: 15000, atMost: 1000 },
  );
  return { fleet: data, error };
}

function Alarms({ alarms }: { alarms: Overviewed["alarms"] }): JSX.Element | null {
  if (!alarms.length) return null;
  return (
    <ul class="alarms" aria-label="What wants attention">
      {alarms.map((alarm) => (
        <li key={alarm.text} class={alarm.level}>
          <span class="alarm-sign" aria-hidden="true">{alarm.level === "bad" ? "✕" : "▲"}</span>
          <span><strong>{alarm.text}</strong> <span class="dim">{alarm.hint}</span></span>
          {alarm.page && <a href={`#${alarm.page}`}>Look</a>}
        </li>
      ))}
    </ul>
  );
}

/** What the server wants somebody to look at, until it is over; whoever looks at it says so. */
function Kept(): JSX.Element | null {
  const { data, reload } = useData((signal) => get<Schemas["Paged_AlarmView"]>("/alarms", {}, signal), [], { jobs: "any", nodes: "any", settings: true, every: 15000, atMost: 3000 });
  if (!data?.items.length) return null;
  const seen = async (id: number): Promise<void> => {
    try {
      await post(`/alarms/${id}/acknowledge`);
      await reload();
    } catch (wrong) {
      say("that did not work", wrong as Problem);
    }
  };
  const open = data.items.filter((alarm) => !alarm.acknowledged_by).length;
  return (
    <Card title={`Alarms${open ? ` (${open})` : ""}`}>
      <ul class="alarms kept" aria-label="Alarms">
        {data.items.slice(0, 50).map((alarm) => (
          <li key={alarm.id} class={alarm.acknowledged_by ? "seen" : "warn"}>
            <span class="alarm-sign" aria-hidden="true">{alarm.acknowledged_by ? "✓" : "▲"}</span>
            <span><strong>{alarm.message}</strong> <span class="dim">{alarm.help}; since <Ago at={alarm.since_ms} />{alarm.acknowledged_by ? `, seen by ${alarm.acknowledged_by}` : ""}</span></span>
            {!alarm.acknowledged_by && <button type="button" onClick={() => void seen(alarm.id)}>Acknowledge</button>}
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Reasons({ pool }: { pool: PoolGlance }): JSX.Element {
  const most = Math.max(1, ...pool.reasons.map((reason) => reason.jobs), pool.unexplained);
  if (!pool.waiting && !pool.reasons.length) return <p class="dim">Nothing waits.</p>;
  return (
    <ul class="reasons">
      {pool.reasons.slice(0, 6).map((reason) => (
        <li key={reason.detail}>
          <span class="reason-bar" style={{ width: `${(reason.jobs / most) * 100}%` }} aria-hidden="true" />
          <span class="reason-count">{count(reason.jobs)}</span>
          <span class="reason-text">
            {reason.never && <b class="never">never </b>}
            {reason.detail}
            {reason.example && <span class="dim"> such as <JobLink id={reason.example} /></span>}
          </span>
        </li>
      ))}
      {pool.reasons.length > 6 && <li class="dim">and {plural(pool.reasons.length - 6, "more reason")}</li>}
      {pool.unexplained > 0 && <li><span class="reason-count">{count(pool.unexplained)}</span><span class="reason-text dim">more wait for reasons that were not looked up</span></li>}
    </ul>
  );
}

function PoolCard({ pool, number }: { pool: PoolGlance; number: number }): JSX.Element {
  return (
    <Card class="pool" title={<><span class="swatch" style={{ background: tint(number) }} aria-hidden="true" /> {pool.id}</>} aside={<span class="dim">{pool.dispatch}, policy <a href={link("/policies", { pool: pool.id })}>{pool.policy}</a></span>}>
      <div class="pool-row">
        <a class="big" href={link("/jobs", { pool: pool.id, state: "pending" })}><b>{count(pool.waiting)}</b> <span>waiting</span></a>
        <a class="big" href={link("/jobs", { pool: pool.id, state: "running" })}><b>{count(pool.running)}</b> <span>running</span></a>
        <a class="big" href={link("/nodes", { pool: pool.id })}><b>{count(pool.ready)}<small>/{count(pool.nodes)}</small></b> <span>nodes ready</span></a>
        <div class="meters">
          {pool.gpu_milli.total > 0 && <Meter {...pool.gpu_milli} hue={tint(number)} text={`GPU ${percent(pool.gpu_milli.used, pool.gpu_milli.total)} %`} />}
          <Meter {...pool.cpu_milli} hue={tint(number)} text={`CPU ${percent(pool.cpu_milli.used, pool.cpu_milli.total)} %`} />
          <Meter {...pool.ram_mib} hue={tint(number)} text={`memory ${percent(pool.ram_mib.used, pool.ram_mib.total)} %`} />
        </div>
      </div>
      <Reasons pool={pool} />
    </Card>
  );
}

function History({ pools }: { pools: PoolGlance[] }): JSX.Element {
  const [hours, setHours] = useState("3");
  const { data } = useData((signal) => get<Schemas["HistoryView"]>("/history", { hours }, signal), [hours], { every: 15000 });
  const names = pools.map((pool) => pool.id).filter((id) => data?.pools[id]);
  const gpus = pools.some((pool) => pool.gpu_milli.total > 0);
  const part = (id: string): number[] => {
    const of = data!.pools[id]!;
    return of.gpus.map((_, place) => (gpus ? percent(of.gpus_used[place]!, of.gpus[place]!) : percent(of.cpus_used[place]!, of.cpus[place]!)));
  };
  const hue = (id: string): string => tint(pools.findIndex((pool) => pool.id === id));
  const use: Line[] = data ? names.filter((id) => !gpus || data.pools[id]!.gpus.some(Boolean)).map((id) => ({ label: id, colour: hue(id), values: part(id), style: "area" })) : [];
  const queue: Line[] = data ? names.map((id) => ({ label: id, colour: hue(id), values: data.pools[id]!.waiting })) : [];
  const running: Line[] = data ? names.map((id) => ({ label: id, colour: hue(id), values: data.pools[id]!.running })) : [];
  return (
    <Card title="The last hours" aside={<Segments name="How far back" value={hours} onChange={setHours} choices={[{ value: "1", text: "1 h" }, { value: "3", text: "3 h" }, { value: "24", text: "24 h" }]} />}>
      {data && data.at.length > 1 ? (
        <div class="plots">
          <Plot name={gpus ? "GPUs given away" : "Cores given away"} unit=" %" at={data.at} lines={use} />
          <Plot name="Waiting jobs" at={data.at} lines={queue} />
          <Plot name="Running jobs" at={data.at} lines={running} />
        </div>
      ) : (
        <Empty>A point is noted every 15 seconds; the first line needs two.</Empty>
      )}
    </Card>
  );
}

export function Overview(): JSX.Element {
  const { data, error } = useData((signal) => get<Overviewed>("/overview", {}, signal), [], { jobs: "any", nodes: "any", settings: true, every: 10000, atMost: 1500 });
  const map = useFleet();
  const by = (place.value.params.get("by") ?? "pool") as ColourBy;
  const tenants = [...new Set([...(map.fleet?.nodes.values() ?? [])].flatMap((node) => node.tenants))].filter(Boolean).sort();
  const nodes = Object.values(data?.nodes ?? {}).reduce((sum, number) => sum + number, 0);
  return (
    <Page title="Overview" aside={data && <span class="dim">{plural(nodes, "node")}, {plural(data.agents_connected, "agent")} connected</span>}>
      <Wrong error={error ?? map.error} />
      {data && <Alarms alarms={data.alarms} />}
      {isOperator() && <Kept />}
      <Card
        title="Map"
        aside={
          <>
            <span class="legend dim">a tile is a node, a cell a GPU, filled as far as it is given away</span>
            <Segments name="Colour by" value={by} onChange={(value) => setParams({ by: value === "pool" ? null : value })} choices={[{ value: "pool", text: "pool" }, { value: "tenant", text: "tenant" }, { value: "job", text: "job" }]} />
          </>
        }
      >
        {!map.fleet ? <Loading /> : map.fleet.nodes.size ? <FleetMap fleet={map.fleet} by={by} tenants={tenants} /> : <Empty>No nodes yet. <code>landfall agent</code> on a machine adds it.</Empty>}
        {by === "tenant" && tenants.length > 0 && <div class="keys-row">{tenants.slice(0, 24).map((tenant, number) => <span key={tenant} class="key"><span class="swatch" style={{ background: tint(number) }} aria-hidden="true" /> {tenant}</span>)}</div>}
      </Card>
      <div class="grid pools">{data ? data.pools.map((pool, number) => <PoolCard key={pool.id} pool={pool} number={number} />) : <Loading />}</div>
      {data && <History pools={data.pools} />}
    </Page>
  );
}
