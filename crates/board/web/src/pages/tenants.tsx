// Tenants: what each may have and what it has, now and over the last hours.
import type { JSX } from "preact";
import { get, seg, type Pool, type Schemas } from "../lib/api";
import { tint } from "../lib/colour";
import { cores, count, plural, score } from "../lib/format";
import { useData } from "../lib/live";
import { link } from "../lib/router";
import { Card, Empty, JobLink, Loading, Meter, NodeLink, Page, Wrong } from "../parts/basics";
import { Plot, type Line } from "../parts/plot";

type Tenant = Schemas["TenantView"];
type Usage = Schemas["TenantUsage"];
type Loan = Schemas["LoanView"];

const has = (number: number | null | undefined): number is number => number !== null && number !== undefined;

/** What it holds of what it may hold at once, or use up. */
function Bounds({ set, usage, number }: { set: Record<string, unknown>; usage: Usage; number: number }): JSX.Element {
  const quota = (set["quota"] ?? {}) as Record<string, number | null>;
  const budget = (set["budget"] ?? {}) as Record<string, number | null>;
  const hours = quota["gpu_hours_cap"] ?? budget["gpu_hours"];
  const all: [string, number, number | null | undefined, (value: number) => string][] = [
    ["GPUs", usage.gpus, quota["max_gpus"], count],
    ["nodes", usage.nodes, quota["max_nodes"], (value) => score(+value.toFixed(1))],
    ["cores", usage.cpu_milli ?? 0, quota["max_cpu_milli"], cores],
    ["jobs", usage.jobs, quota["max_jobs"], count],
    ["GPU hours", usage.gpu_hours_used, hours, (value) => score(+value.toFixed(1))],
    ["node hours", usage.node_hours_used, budget["node_hours"], (value) => score(+value.toFixed(1))],
    ["spent", usage.spent ?? 0, usage.budget, (value) => score(+value.toFixed(2))],
  ];
  const bound = all.filter(([, , most]) => has(most));
  if (!bound.length) return <p class="dim">No quota and no budget binds it.</p>;
  return <>{bound.map(([name, used, most, show]) => <div key={name} class="share"><Meter used={used} total={most!} hue={used >= most! ? "var(--bad)" : tint(number)} text={`${name}: ${show(used)} of ${show(most!)}${used >= most! ? ", none left" : ""}`} /></div>)}</>;
}

function One({ tenant, usage, number }: { tenant: Tenant; usage: Usage | undefined; number: number }): JSX.Element {
  const set = tenant.tenant as Record<string, unknown>;
  const share = Number(set["share"] ?? 0);
  const burst = Number(set["burst"] ?? 1);
  const shares = Object.entries((usage?.shares ?? {}) as Record<string, number>).filter(([, used]) => used > 0);
  const per = (part: number): string => `${+(part * 100).toFixed(0)} %`;
  return (
    <Card title={<><span class="swatch" style={{ background: tint(number) }} aria-hidden="true" /> {tenant.id}</>} aside={<><span class="dim">{share ? `its share is ${per(share)}` : "no share is set"}{burst > 1 ? `, up to ${+burst.toFixed(1)} times that of what is idle` : ""}</span><a href={link("/jobs", { tenant: tenant.id })}>Jobs</a></>}>
      {usage ? (
        <div class="pool-row">
          <span class="big"><b>{count(usage.gpus)}</b> <span>GPUs</span></span>
          <span class="big"><b>{score(+usage.nodes.toFixed(1))}</b> <span>nodes</span></span>
          <span class="big"><b>{count(usage.jobs)}</b> <span>jobs not ended</span></span>
          <span class="big"><b>{score(+usage.gpu_hours_used.toFixed(1))}</b> <span>GPU hours used{has(usage.gpu_hours_left) ? `, ${score(+usage.gpu_hours_left.toFixed(1))} left` : ""}</span></span>
          {(usage.spent || has(usage.budget)) && <span class="big"><b>{score(usage.spent ?? 0)}</b> <span>spent{has(usage.budget) ? ` of ${score(usage.budget)}` : ""}</span></span>}
        </div>
      ) : <Loading />}
      <h3>Held of each pool{share ? ", and its share" : ""}</h3>
      {shares.length ? shares.map(([pool, used]) => (
        <div key={pool} class="against-share">
          <span>{pool}</span>
          <span class="track" aria-hidden="true"><span class="fill" style={{ width: `${Math.min(100, used * 100)}%`, background: tint(number) }} />{share > 0 && <span class="mark" style={{ left: `${Math.min(100, share * 100)}%` }} />}</span>
          <span class="num">{per(used)}</span>
          <span class="dim" title={used > share + 0.005 ? "of what others leave" : undefined}>{!share ? "" : used > share + 0.005 ? `${per(used - share)} above` : used < share - 0.005 ? `${per(share - used)} below` : "as agreed"}</span>
        </div>
      )) : <p class="dim">{usage ? "It holds nothing." : ""}</p>}
      <h3>Quota and budget</h3>
      {usage && <Bounds set={set} usage={usage} number={number} />}
      {tenant.warnings?.map((warning) => <p key={warning} class="note">{warning}</p>)}
    </Card>
  );
}

/** Who lent what to whom: nodes of one pool that work for another. */
function Loans(): JSX.Element | null {
  const { data, error } = useData((signal) => get<Loan[]>("/loans", {}, signal), [], { jobs: "any", nodes: "any", every: 15000, atMost: 2000 });
  const pools = useData((signal) => get<Pool[]>("/pools", {}, signal), [], { settings: true, every: 30000 });
  const lenders = (pools.data ?? []).filter((pool) => pool.dispatch === "batch").map((pool) => ({ pool, loans: ((pool.pool as Record<string, unknown>)["loans"] ?? {}) as Record<string, unknown> }));
  // Only batch pools lend and borrow.
  if (!data?.length && lenders.length < 2) return null;
  const pairs = new Map<string, Loan[]>();
  for (const loan of data ?? []) pairs.set(`${loan.from} ${loan.to}`, [...(pairs.get(`${loan.from} ${loan.to}`) ?? []), loan]);
  const lent = (id: string): number => (data ?? []).filter(({ from }) => from === id).length;
  return (
    <Card title="Who lent what to whom" aside={data && <span class="dim">{data.length ? `${plural(data.length, "node")} on loan between pools` : "nothing is lent now"}</span>}>
      <Wrong error={error} />
      {pairs.size > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Loans">
          <table class="rows">
            <thead><tr><th scope="col">Lent by</th><th scope="col">To</th><th scope="col" class="num">Nodes</th><th scope="col" class="num opt">GPUs</th><th scope="col">For</th><th scope="col">Jobs</th><th scope="col">Which</th></tr></thead>
            <tbody>
              {[...pairs.entries()].map(([key, loans]) => {
                const jobs = [...new Set(loans.flatMap((loan) => loan.jobs))];
                const tenants = [...new Set(loans.flatMap((loan) => loan.tenants))].sort();
                const gpus = loans.reduce((sum, loan) => sum + loan.gpus, 0);
                return (
                  <tr key={key}>
                    <td>{loans[0]!.from}</td><td>{loans[0]!.to}</td><td class="num">{count(loans.length)}</td><td class="num opt">{gpus ? count(gpus) : ""}</td>
                    <td>{tenants.join(", ") || "–"}</td>
                    <td class="wraps">{jobs.slice(0, 6).map((id, place) => <span key={id}>{place ? ", " : ""}<JobLink id={id} /></span>)}{jobs.length > 6 ? ` and ${jobs.length - 6} more` : ""}{jobs.length ? "" : <span class="dim">of others</span>}</td>
                    <td class="wraps">{loans.slice(0, 6).map((loan, place) => <span key={loan.node}>{place ? ", " : ""}<NodeLink id={loan.node} /></span>)}{loans.length > 6 ? ` and ${loans.length - 6} more` : ""}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      <p class="keys-row dim">
        {lenders.map(({ pool, loans }) => {
          const most = Math.floor(pool.nodes * Number(loans["lend_max_fraction"] ?? 0));
          return <span key={pool.id}><b>{pool.id}</b> {loans["lend"] && most > 0 ? `lends ${lent(pool.id)} of up to ${plural(most, "node")}` : "lends nothing"}{loans["borrow"] ? ", may borrow" : ", may not borrow"}</span>;
        })}
      </p>
    </Card>
  );
}

export function Tenants(): JSX.Element {
  const { data, error } = useData((signal) => get<Tenant[]>("/tenants", {}, signal), [], { settings: true });
  const ids = (data ?? []).slice(0, 60).map(({ id }) => id);
  const usage = useData(
    async (signal) => new Map((await Promise.all(ids.map((id) => get<Usage>(`/tenants/${seg(id)}/usage`, {}, signal)))).map((one) => [one.id, one])),
    [ids.join()],
    { jobs: "any", every: 15000, atMost: 3000 },
  );
  const history = useData((signal) => get<Schemas["HistoryView"]>("/history", { hours: 24 }, signal), [], { every: 15000 });
  const drawn = ids.filter((id) => history.data?.tenants[id]).slice(0, 12);
  const lines = (pick: (series: Schemas["Series"]) => number[]): Line[] => drawn.map((id) => ({ label: id, colour: tint(ids.indexOf(id)), values: pick(history.data!.tenants[id]!) }));
  // Against its share: how much of all GPUs it held, where there are any.
  const gpus = (history.data?.at ?? []).map((_, place) => Object.values(history.data!.pools).reduce((sum, pool) => sum + (pool.gpus[place] ?? 0), 0));
  const shareOf = (id: string): number => Number((data?.find((tenant) => tenant.id === id)?.tenant as Record<string, unknown> | undefined)?.["share"] ?? 0);
  const held = lines((series) => series.gpus_used.map((used, place) => (gpus[place] ? (used / gpus[place]!) * 100 : 0)));
  const agreed = drawn.slice(0, 5).filter((id) => shareOf(id) > 0).map((id): Line => ({ label: `share of ${id}`, colour: tint(ids.indexOf(id)), values: gpus.map(() => shareOf(id) * 100), style: "limit" }));
  return (
    <Page title="Tenants">
      <Wrong error={error} />
      {!data ? !error && <Loading /> : !data.length ? <Empty>No tenant yet. <code>landfall tenants set NAME --share 0.5</code> makes one; without tenants everybody shares everything.</Empty> : (
        <>
          {history.data && history.data.at.length > 1 && drawn.length > 0 && (
            <Card title="Use against share over time" aside={<span class="dim">dashed: what was agreed</span>}><div class="plots">{gpus.some(Boolean) && <Plot name="Of all GPUs" unit=" %" at={history.data.at} lines={[...held, ...agreed]} />}<Plot name="Nodes held" at={history.data.at} lines={lines((series) => series.running)} /><Plot name="Jobs not ended" at={history.data.at} lines={lines((series) => series.waiting)} /></div></Card>
          )}
          <Loans />
          <div class="grid cards">{data.slice(0, 60).map((tenant, number) => <One key={tenant.id} tenant={tenant} usage={usage.data?.get(tenant.id)} number={number} />)}</div>
          {data.length > 60 && <p class="dim">and {count(data.length - 60)} more: <code>landfall tenants</code></p>}
        </>
      )}
    </Page>
  );
}
