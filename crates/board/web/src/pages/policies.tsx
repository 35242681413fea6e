// Policies: which rules admit and which give points, with what each does.
import type { JSX } from "preact";
import { get, seg, type Pool, type Schemas } from "../lib/api";
import { score } from "../lib/format";
import { useData } from "../lib/live";
import { link, place, setParams } from "../lib/router";
import { Card, Loading, Page, Select, Tip, Wrong } from "../parts/basics";

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
          <Rules title="Who may run what" rules={of((rule) => rule.class === "filter")} />
          <Rules title="What gives points" rules={of((rule) => rule.class !== "filter")} />
          {chosenPool && <p class="dim">What another policy would do to the present queue: <a href={link("/plan", { change: "policy", pool: chosenPool })}>Plan</a>.</p>}
          {data.text && <details><summary>As a file</summary><pre class="file" tabIndex={0}>{data.text}</pre></details>}
        </>
      )}
    </Page>
  );
}
