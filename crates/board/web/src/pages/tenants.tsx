// Tenants: what each may have and what it has, now and over the last hours.
import type { JSX } from "preact";
import { get, seg, type Schemas } from "../lib/api";
import { tint } from "../lib/colour";
import { count, label, need, score } from "../lib/format";
import { useData } from "../lib/live";
import { link } from "../lib/router";
import { Card, Empty, Facts, Loading, Meter, Page, Wrong } from "../parts/basics";
import { Plot, type Line } from "../parts/plot";

type Tenant = Schemas["TenantView"];
type Usage = Schemas["TenantUsage"];

const has = (number: number | null | undefined): number is number => number !== null && number !== undefined;

function One({ tenant, usage, number }: { tenant: Tenant; usage: Usage | undefined; number: number }): JSX.Element {
  const set = tenant.tenant as Record<string, unknown>;
  const quota = Object.entries((set["quota"] ?? {}) as Record<string, unknown>).filter(([, value]) => value !== null);
  const share = Number(set["share"] ?? 0);
  const shares = Object.entries((usage?.shares ?? {}) as Record<string, number>);
  return (
    <Card title={<><span class="swatch" style={{ background: tint(number) }} aria-hidden="true" /> {tenant.id}</>} aside={<a href={link("/jobs", { tenant: tenant.id })}>Jobs</a>}>
      {usage ? (
        <div class="pool-row">
          <span class="big"><b>{count(usage.gpus)}</b> <span>GPUs</span></span>
          <span class="big"><b>{score(+usage.nodes.toFixed(1))}</b> <span>nodes</span></span>
          <span class="big"><b>{count(usage.jobs)}</b> <span>jobs not ended</span></span>
          <span class="big"><b>{score(+usage.gpu_hours_used.toFixed(1))}</b> <span>GPU hours used{has(usage.gpu_hours_left) ? `, ${score(+usage.gpu_hours_left.toFixed(1))} left` : ""}</span></span>
          {(usage.spent || has(usage.budget)) && <span class="big"><b>{score(usage.spent ?? 0)}</b> <span>spent{has(usage.budget) ? ` of ${score(usage.budget)}` : ""}</span></span>}
        </div>
      ) : <Loading />}
      {shares.map(([pool, used]) => (
        <div key={pool} class="share">
          <Meter used={used} total={Math.max(1, used, share)} hue={tint(number)} text={`${pool}: holds ${(used * 100).toFixed(0)} %${share ? ` of the pool, its share is ${(share * 100).toFixed(0)} %` : " of the pool"}`} />
        </div>
      ))}
      <Facts rows={[["share", share ? `${(share * 100).toFixed(0)} %` : "none set"], ["burst", set["burst"] ? need("burst", set["burst"]) : undefined], ...quota.map(([name, value]): [string, string] => [label(name), need(name, value)])]} />
      {tenant.warnings?.map((warning) => <p key={warning} class="note">{warning}</p>)}
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
  return (
    <Page title="Tenants">
      <Wrong error={error} />
      {!data ? !error && <Loading /> : !data.length ? <Empty>No tenant yet. <code>landfall tenants set NAME --share 0.5</code> makes one; without tenants everybody shares everything.</Empty> : (
        <>
          {history.data && history.data.at.length > 1 && drawn.length > 0 && (
            <Card title="Use over time"><div class="plots"><Plot name="GPUs held" at={history.data.at} lines={lines((series) => series.gpus_used)} /><Plot name="Node units held" at={history.data.at} lines={lines((series) => series.running)} /></div></Card>
          )}
          <div class="grid cards">{data.slice(0, 60).map((tenant, number) => <One key={tenant.id} tenant={tenant} usage={usage.data?.get(tenant.id)} number={number} />)}</div>
          {data.length > 60 && <p class="dim">and {count(data.length - 60)} more: <code>landfall tenants</code></p>}
        </>
      )}
    </Page>
  );
}
