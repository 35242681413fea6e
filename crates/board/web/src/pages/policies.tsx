// Policies: which rules admit and which give points, with what each does.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, seg, type Pool, type Problem, type Schemas } from "../lib/api";
import { ago, count, plural, score } from "../lib/format";
import { now, useData } from "../lib/live";
import { link, place, setParams } from "../lib/router";
import { Card, JobLink, Loading, Page, Select, Tip, Wrong } from "../parts/basics";

type Policy = Schemas["PolicyView"];
type Rule = Schemas["RuleView"];

const CLASSES: Record<string, string> = { filter: "admits or refuses", soft: "gives points", disqualifier: "rules out", mixed: "gives points, or rules out", multiplier: "multiplies the sum" };

function Rules({ rules, title }: { rules: Rule[]; title: string }): JSX.Element | null {
  if (!rules.length) return null;
  const most = Math.max(1e-9, ...rules.map((rule) => Math.abs(parseFloat(rule.weight ?? "0")) || 0));
  const weighed = rules.some((rule) => rule.weight);
  return (
    <Card title={title}>
      <div class="scroll">
        <table class="rows">
          <thead><tr><th scope="col">Rule</th><th scope="col">What it does</th>{weighed && <><th scope="col">Weight</th><th scope="col" class="num">Range</th></>}</tr></thead>
          <tbody>
            {rules.map((rule) => (
              <tr key={`${rule.class}${rule.name}`} class={rule.enabled ? "" : "off"}>
                <td><Tip word={rule.name}><strong>{rule.name}</strong> <span class="dim">{CLASSES[rule.class] ?? rule.class}</span><p>{rule.description}</p>{rule.weight && <p class="dim">Weight {rule.weight}{rule.min !== null && rule.min !== undefined ? `, values from ${score(rule.min)}${rule.max !== null && rule.max !== undefined ? ` to ${score(rule.max)}` : " up"}` : ""}.</p>}</Tip>{!rule.enabled && <span class="dim"> off</span>}</td>
                <td class="does">{rule.description}</td>
                {weighed && (
                  <>
                    <td class="weight"><span class="reason-bar" style={{ width: `${(Math.abs(parseFloat(rule.weight ?? "0")) / most) * 100}%` }} aria-hidden="true" /><span>{rule.weight}</span></td>
                    <td class="num">{rule.min !== null && rule.min !== undefined ? `${score(rule.min)} to ${rule.max !== null && rule.max !== undefined ? score(rule.max) : "∞"}` : ""}</td>
                  </>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

/** The present queue under two policies: who would start sooner, and who later. */
function Compare({ pool, names }: { pool: string; names: string[] }): JSX.Element {
  const [other, setOther] = useState("");
  const [view, setView] = useState<Schemas["RanksView"]>();
  const [error, setError] = useState<Problem>();
  const [one, setOne] = useState("");
  const [busy, setBusy] = useState(false);
  const choices = names.map((name) => ({ value: name, text: name }));
  const look = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      setView(await get<Schemas["RanksView"]>(`/pools/${seg(pool)}/ranks`, { one, other }));
    } catch (wrong) {
      setView(undefined);
      setError(wrong as Problem);
    }
    setBusy(false);
  };
  const start = (standing: Schemas["Standing"]): JSX.Element => <td class="num">{standing.rank}<span class="dim"> {standing.start_ms ? ago(standing.start_ms, now.value) : "no start can be told"}</span></td>;
  return (
    <Card title="Two policies on the present queue" aside={<span class="dim">nothing is changed</span>}>
      <form class="plan" onSubmit={look}>
        <Select name="Policy" value={one} onChange={setOne} choices={[{ value: "", text: "the one in force" }, ...choices]} />
        <Select name="Against" value={other} onChange={setOther} choices={[{ value: "", text: "choose" }, ...choices]} />
        <button type="submit" disabled={busy || !other || one === other}>{busy ? "Looking …" : "Compare"}</button>
      </form>
      <Wrong error={error} />
      {view && (view.jobs.length ? (
        <>
          <p>{plural(view.moved, "job")} of {count(view.waiting)} that wait would change places.</p>
          <div class="scroll" tabIndex={0} role="region" aria-label="Places under both policies">
            <table class="rows">
              <thead><tr><th scope="col">Job</th><th scope="col">Name</th><th scope="col" class="opt">Tenant</th><th scope="col" class="num">{view.one}</th><th scope="col" class="num">{view.other}</th><th scope="col" class="num">Moves</th></tr></thead>
              <tbody>
                {view.jobs.slice(0, 100).map((job) => {
                  const by = job.one.rank - job.other.rank;
                  return <tr key={job.job}><td><JobLink id={job.job} /></td><td class="name">{job.name ?? ""}</td><td class="opt">{job.tenant ?? ""}</td>{start(job.one)}{start(job.other)}<td class="num">{by > 0 ? <span class="up">▲ {by} sooner</span> : by < 0 ? <span class="down">▼ {-by} later</span> : "–"}</td></tr>;
                })}
              </tbody>
            </table>
          </div>
        </>
      ) : <p class="dim">Nothing waits in this pool.</p>)}
    </Card>
  );
}

export function Policies(): JSX.Element {
  const { params } = place.value;
  const [pool, name] = [params.get("pool"), params.get("policy")];
  const pools = useData((signal) => get<Pool[]>("/pools", {}, signal), [], { settings: true });
  const all = useData((signal) => get<Policy[]>("/policies", {}, signal), []);
  const chosenPool = pool ?? (name ? null : (pools.data?.[0]?.id ?? null));
  const { data, error } = useData(
    async (signal) => (chosenPool ? get<Policy>(`/pools/${seg(chosenPool)}/policy`, {}, signal) : name ? get<Policy>(`/policies/${seg(name)}`, {}, signal) : undefined),
    [chosenPool, name],
    { settings: true },
  );
  const of = (filter: (rule: Rule) => boolean): Rule[] => data?.rules?.filter(filter) ?? [];
  return (
    <Page title="Policies" aside={chosenPool && data && <span class="dim">in force in pool {chosenPool}</span>}>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <Select name="In force in pool" value={chosenPool ?? ""} onChange={(value) => setParams({ pool: value, policy: null })} choices={[{ value: "", text: "–" }, ...(pools.data ?? []).map(({ id }) => ({ value: id, text: id }))]} />
        <Select name="Or any policy" value={chosenPool ? "" : (name ?? "")} onChange={(value) => setParams({ policy: value, pool: null })} choices={[{ value: "", text: "–" }, ...(all.data ?? []).map((policy) => ({ value: policy.name, text: policy.name }))]} />
      </form>
      <Wrong error={error} />
      {!data ? !error && <Loading /> : (
        <>
          <p class="lead"><strong>{data.name}</strong>: {data.description}</p>
          {chosenPool && <Compare key={chosenPool} pool={chosenPool} names={(all.data ?? []).map((policy) => policy.name)} />}
          <Rules title="Who may run what" rules={of((rule) => rule.class === "filter")} />
          <Rules title="What gives points" rules={of((rule) => rule.class !== "filter")} />
          {chosenPool && <p class="dim">What another policy would start or stop right now: <a href={link("/plan", { change: "policy", pool: chosenPool })}>Plan</a>. What it would have done: <a href={link("/replays", { pool: chosenPool })}>What if last week</a>.</p>}
          {data.text && <details><summary>As a file</summary><pre class="file" tabIndex={0}>{data.text}</pre></details>}
        </>
      )}
    </Page>
  );
}
