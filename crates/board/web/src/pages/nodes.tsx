// The nodes as a table, from the same data as the map; only rows that are seen are made.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { byId, count, plural } from "../lib/format";
import { place, setParams } from "../lib/router";
import { Empty, JobLink, Loading, Meter, NodeLink, Page, Select, State, Wrong } from "../parts/basics";
import type { MapNode } from "../parts/map";
import { useFleet } from "./overview";

const ROW = 33;

export function Nodes(): JSX.Element {
  const { fleet, error } = useFleet();
  const { params } = place.value;
  const [pool, state, text] = [params.get("pool") ?? "", params.get("state") ?? "", params.get("search") ?? ""];
  const all = useMemo(() => byId(fleet?.nodes.values() ?? []), [fleet]);
  const shown = all.filter((node) => (!pool || node.pool === pool) && (!state || node.state === state) && (!text || node.id.includes(text) || node.model.toLowerCase().includes(text.toLowerCase())));
  const states = [...new Set(all.map((node) => node.state))].sort();
  const choice = (values: string[]) => [{ value: "", text: "all" }, ...values.map((value) => ({ value, text: value }))];
  return (
    <Page title="Nodes" aside={fleet && <span class="dim">{count(shown.length)} of {plural(all.length, "node")}</span>}>
      <form class="filters" role="search" aria-label="Filter nodes" onSubmit={(event) => event.preventDefault()}>
        <label class="field"><span>Search</span><input type="search" value={text} placeholder="id or GPU model" onInput={(event) => setParams({ search: event.currentTarget.value })} /></label>
        <Select name="State" value={state} onChange={(value) => setParams({ state: value })} choices={choice(states)} />
        <Select name="Pool" value={pool} onChange={(value) => setParams({ pool: value })} choices={choice(fleet?.pools ?? [])} />
      </form>
      <Wrong error={error} />
      {!fleet ? !error && <Loading /> : shown.length ? <Rows nodes={shown} /> : <Empty>{all.length ? "No node is like that." : <>No nodes yet. <code>landfall agent</code> on a machine adds it.</>}</Empty>}
    </Page>
  );
}

function Rows({ nodes }: { nodes: MapNode[] }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ first: 0, last: 60 });
  const look = (): void => {
    const view = box.current!;
    // In steps of ten rows, so that most frames change nothing.
    const first = Math.max(0, Math.floor(view.scrollTop / ROW / 10) * 10 - 10);
    const last = Math.ceil((view.scrollTop + view.clientHeight) / ROW / 10) * 10 + 10;
    if (first !== range.first || last !== range.last) setRange({ first, last });
  };
  useEffect(look, [nodes.length]);
  // A row that is the same as before is not looked at again: while somebody scrolls only rows that come into sight are made.
  const made = useRef(new Map<string, { node: MapNode; row: JSX.Element }>());
  const rows = nodes.slice(range.first, range.last).map((node) => {
    const known = made.current.get(node.id);
    return known?.node === node ? known : { node, row: <Row node={node} key={node.id} /> };
  });
  made.current = new Map(rows.map((one) => [one.node.id, one]));
  return (
    <div class="scroll tall-scroll" ref={box} onScroll={look} tabIndex={0} role="region" aria-label="Nodes">
      <table class="rows fixed" aria-rowcount={nodes.length}>
        <thead><tr><th scope="col">Node</th><th scope="col">State</th><th scope="col" class="opt">Pool</th><th scope="col">GPUs</th><th scope="col">GPU use</th><th scope="col" class="opt">CPU</th><th scope="col" class="opt">Memory</th><th scope="col" class="opt">Jobs</th></tr></thead>
        <tbody>
          {range.first > 0 && <tr aria-hidden="true" style={{ height: `${range.first * ROW}px` }}><td colSpan={8} /></tr>}
          {rows.map(({ row }) => row)}
          {range.last < nodes.length && <tr aria-hidden="true" style={{ height: `${(nodes.length - range.last) * ROW}px` }}><td colSpan={8} /></tr>}
        </tbody>
      </table>
    </div>
  );
}

function Row({ node }: { node: MapNode }): JSX.Element {
  const used = node.gpus.reduce((sum, part) => sum + part, 0);
  return (
    <tr>
      <td><NodeLink id={node.id} /></td>
      <td><State of={node.state} /></td>
      <td class="opt">{node.pool}</td>
      <td>{node.gpus.length ? `${node.gpus.length} × ${node.model || "GPU"}` : "–"}</td>
      <td>{node.gpus.length ? <Meter used={used} total={node.gpus.length * 100} text={`${Math.round(used / node.gpus.length)} %`} /> : ""}</td>
      <td class="opt"><Meter used={node.cpu} total={100} text={`${node.cpu} %`} /></td>
      <td class="opt"><Meter used={node.ram} total={100} text={`${node.ram} %`} /></td>
      <td class="jobs-cell opt">{node.jobs.slice(0, 3).map((job, place) => <span key={place}>{place ? ", " : ""}{job ? <JobLink id={job} /> : "other"}</span>)}{node.jobs.length > 3 ? ` +${node.jobs.length - 3}` : ""}</td>
    </tr>
  );
}
