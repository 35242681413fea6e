// What if last week: a stretch of the journal under other policies, and reports that were made elsewhere.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { get, isOperator, post, Problem, remove, seg, type Pool, type Schemas } from "../lib/api";
import { clock, percent, span } from "../lib/format";
import { useData } from "../lib/live";
import { at, go, place } from "../lib/router";
import { act, Ago, Card, Empty, Loading, Meter, Page, say, Select, Wrong } from "../parts/basics";

type Replay = Schemas["ReplayView"];

const HOUR = 3_600_000;
const STRETCHES = [["1", "the last hour"], ["6", "the last 6 hours"], ["24", "the last day"], ["168", "the last week"], ["", "from … to …"]].map(([value, text]) => ({ value: value!, text: text! }));

/** A time of this browser for a field, and back. */
const local = (ms: number): string => new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 16);
const ms = (text: string): number => new Date(text).getTime();

function title(replay: Replay): string {
  if (replay.name) return replay.name;
  return `${(replay.policies ?? []).map((name) => (name === "own" ? "as it was" : name)).join(" against ")} in pool ${replay.pool}`;
}

function Progress({ replay }: { replay: Replay }): JSX.Element {
  const text = replay.progress === null || replay.progress === undefined ? "reading the journal" : `${percent(replay.progress, 1)} %`;
  return <Meter used={replay.progress ?? 0} total={1} text={text} />;
}

async function wrongly(what: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (wrong) {
    say(what, wrong instanceof Problem ? wrong : new Problem(0, "", String(wrong)));
  }
}

function Ask({ running, done }: { running: boolean; done: () => Promise<void> }): JSX.Element {
  const pools = useData((signal) => get<Pool[]>("/pools", {}, signal), [], { settings: true });
  const policies = useData((signal) => get<Schemas["PolicyView"][]>("/policies", {}, signal), []);
  const [fields, setFields] = useState({ pool: place.value.params.get("pool") ?? "", stretch: "24", since: local(Date.now() - 24 * HOUR), until: local(Date.now()), one: "own", other: "" });
  const set = (name: keyof typeof fields) => (value: string) => setFields({ ...fields, [name]: value });
  const pool = fields.pool || pools.data?.[0]?.id || "";
  const names = (policies.data ?? []).map(({ name }) => ({ value: name, text: name }));
  const begin = (event: Event): void => {
    event.preventDefault();
    void wrongly("it did not begin", async () => {
      const stretch = fields.stretch ? { since_ms: Date.now() - Number(fields.stretch) * HOUR } : { since_ms: ms(fields.since), until_ms: ms(fields.until) };
      const made = await post<Replay>("/replays", { ...stretch, pool, policies: [fields.one, fields.other] });
      await done();
      go(at("replays", String(made.id)));
    });
  };
  return (
    <Card title="What if" aside={<span class="dim">a child of low priority replays it: one at a time, one core, 4 GiB and half an hour at most</span>}>
      <form class="plan" onSubmit={begin}>
        <Select name="Pool" value={pool} onChange={set("pool")} choices={(pools.data ?? []).map(({ id }) => ({ value: id, text: id }))} />
        <Select name="Stretch" value={fields.stretch} onChange={set("stretch")} choices={STRETCHES} />
        {!fields.stretch && (
          <>
            <label class="field"><span>From</span><input type="datetime-local" value={fields.since} onInput={(event) => set("since")(event.currentTarget.value)} /></label>
            <label class="field"><span>To</span><input type="datetime-local" value={fields.until} onInput={(event) => set("until")(event.currentTarget.value)} /></label>
          </>
        )}
        <Select name="Policy" value={fields.one} onChange={set("one")} choices={[{ value: "own", text: "as it was" }, ...names]} />
        <Select name="Against" value={fields.other} onChange={set("other")} choices={[{ value: "", text: "choose" }, { value: "own", text: "as it was" }, ...names]} />
        <button type="submit" class="primary" disabled={running || !fields.other || fields.one === fields.other}>{running ? "One is under way" : "Replay"}</button>
      </form>
    </Card>
  );
}

/** A report from a file, or as text. */
function Open({ done }: { done: () => Promise<void> }): JSX.Element {
  const file = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const open = (name: string, html: string): Promise<void> =>
    wrongly("it cannot be opened", async () => {
      const made = await post<Replay>("/replays/reports", { name, html });
      setText("");
      await done();
      go(at("replays", String(made.id)));
    });
  const chosen = async (): Promise<void> => {
    const one = file.current?.files?.[0];
    if (one) await open(one.name, await one.text());
  };
  return (
    <Card title="Open a report" aside={<span class="dim">report.html of <code>landfall compare --out</code> or <code>landfall replay --out</code></span>}>
      <form class="plan" onSubmit={(event) => { event.preventDefault(); void open("pasted", text); }}>
        <label class="field"><span>From a file</span><input ref={file} type="file" accept=".html,text/html" onChange={() => void chosen()} /></label>
        <label class="field wide"><span>Or its text</span><textarea rows={2} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
        <button type="submit" disabled={!text.trim()}>Open</button>
      </form>
    </Card>
  );
}

function drop(replay: Replay, after: () => Promise<void>): void {
  const running = replay.state === "running";
  const work = async (): Promise<Schemas["Acted"]> => {
    const acted = await remove<Schemas["Acted"]>(`/replays/${replay.id}`);
    await after();
    return acted;
  };
  void act(running ? "Cancel this replay?" : `Remove ${title(replay)}?`, running ? "What it has found so far is lost." : "Its report goes with it.", running ? "Cancel it" : "Remove it", true, work, running ? "it is being ended" : "removed");
}

export function Replays(): JSX.Element {
  if (!isOperator()) return <Page title="What if last week"><Empty>Operators replay what a server has lived through: its journal tells about everybody's jobs.</Empty></Page>;
  return <All />;
}

function All(): JSX.Element {
  const { data, error, reload } = useData((signal) => get<Replay[]>("/replays", {}, signal), [], { every: 2000 });
  return (
    <Page title="What if last week">
      <Wrong error={error} />
      <Ask running={!!data?.some(({ state }) => state === "running")} done={reload} />
      <Card title="Replays and reports">
        {!data ? !error && <Loading /> : data.length ? (
          <div class="scroll" tabIndex={0} role="region" aria-label="Replays and reports">
            <table class="rows">
              <thead><tr><th scope="col">Report</th><th scope="col">State</th><th scope="col" class="opt">Stretch</th><th scope="col" class="opt">Asked for</th><th scope="col"><span class="sr">Orders</span></th></tr></thead>
              <tbody>
                {data.map((replay) => (
                  <tr key={replay.id}>
                    <td><a href={at("replays", String(replay.id))}>{title(replay)}</a></td>
                    <td>{replay.state === "running" ? <Progress replay={replay} /> : replay.state}</td>
                    <td class="opt">{replay.since_ms && replay.until_ms ? <span title={`${clock(replay.since_ms)} to ${clock(replay.until_ms)}`}>{span(replay.until_ms - replay.since_ms)} until <Ago at={replay.until_ms} /></span> : ""}</td>
                    <td class="opt"><Ago at={replay.began_at_ms} /> by {replay.by}</td>
                    <td class="num"><button type="button" class="plain" onClick={() => drop(replay, reload)}>{replay.state === "running" ? "Cancel" : "Remove"}</button></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        ) : <Empty>None yet. The newest 20 are kept.</Empty>}
      </Card>
      <Open done={reload} />
    </Page>
  );
}

export function Replayed({ id }: { id: string }): JSX.Element {
  const { data, error, reload } = useData((signal) => get<Replay>(`/replays/${seg(id)}`, {}, signal), [id], { every: 1000 });
  const gone = async (): Promise<void> => (data?.state === "running" ? reload() : go("#/replays"));
  return (
    <Page title={data ? title(data) : `Replay ${id}`} aside={data && <div class="buttons"><a class="button" href="#/replays">All</a><button type="button" class="danger" onClick={() => drop(data, gone)}>{data.state === "running" ? "Cancel" : "Remove"}</button></div>}>
      <Wrong error={error} />
      {!data ? !error && <Loading /> : (
        <>
          {data.since_ms && data.until_ms && <p class="lead">{clock(data.since_ms)} to {clock(data.until_ms)}, asked for by {data.by}</p>}
          {data.state === "running" && <Card title="Under way"><Progress replay={data} /><p class="dim">This page opens the report when it is done.</p></Card>}
          {data.state === "failed" && <div class="note bad" role="alert"><strong>It came to nothing.</strong> <span class="said">{data.error}</span></div>}
          {data.state === "cancelled" && <p class="note">It was cancelled.</p>}
          {(data.state === "done" || data.state === "opened") && <iframe class="report" title="Report" sandbox="" src={`/api/v1/replays/${seg(id)}/report`} />}
        </>
      )}
    </Page>
  );
}
