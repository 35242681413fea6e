// Nodes over time: what runs, until when, what is promised. Drag, or use the arrow keys, to look ahead and back.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Pool, type Schemas } from "../lib/api";
import { behind } from "../lib/colour";
import { byId, clock, span } from "../lib/format";
import { now, useData } from "../lib/live";
import { at, place, setParams } from "../lib/router";
import { Empty, Loading, NodeLink, Page, Segments, Select, Wrong } from "../parts/basics";

type Bar = Schemas["TimelineBar"];
type Row = Schemas["TimelineRow"];

const HOUR = 3_600_000;
const WINDOWS = [{ value: "1", text: "1 h" }, { value: "6", text: "6 h" }, { value: "24", text: "1 d" }, { value: "168", text: "7 d" }];
const STEPS = [60_000, 300_000, 900_000, HOUR, 3 * HOUR, 6 * HOUR, 24 * HOUR];

/** Bars that overlap lie below each other. */
function lanes(bars: Bar[]): { bar: Bar; lane: number }[] {
  const ends: number[] = [];
  return [...bars].sort((a, b) => a.start_ms - b.start_ms).map((bar) => {
    let lane = ends.findIndex((end) => end <= bar.start_ms);
    if (lane < 0) lane = ends.length;
    ends[lane] = bar.end_ms ?? Infinity;
    return { bar, lane };
  });
}

function shown(bar: Bar): string {
  return `${bar.name ?? bar.job ?? "other"}${bar.width > 1 ? ` ×${bar.width}` : ""}`;
}

function describe(bar: Bar): string {
  const who = bar.job ? `job ${bar.job}${bar.name ? ` (${bar.name})` : ""}` : "somebody else's job";
  const ends = bar.end_ms ? `has to end by ${clock(bar.end_ms)}` : "has no end";
  const expected = bar.expected_end_ms ? `, expected to end ${clock(bar.expected_end_ms)}` : "";
  const nodes = bar.width > 1 ? `, ${bar.width} nodes` : "";
  return `${who}, ${bar.kind} from ${clock(bar.start_ms)}, ${ends}${expected}${nodes}`;
}

function Line({ row, from, to }: { row: Row; from: number; to: number }): JSX.Element {
  const placed = lanes(row.bars);
  const deep = Math.max(1, ...placed.map(({ lane }) => lane + 1));
  const x = (time: number): number => Math.max(0, Math.min(100, ((time - from) / (to - from)) * 100));
  return (
    <div class="gantt-row" role="row">
      <div class="gantt-name" role="rowheader">{row.node ? <NodeLink id={row.node} /> : <span class="dim">promised in {row.pool}</span>}</div>
      <div class="gantt-bars" role="cell" style={{ height: `${Math.min(deep, 8) * 18 + 4}px` }}>
        {placed.filter(({ bar, lane }) => lane < 8 && bar.start_ms < to && (bar.end_ms ?? Infinity) > from).map(({ bar, lane }, place) => {
          const left = x(bar.start_ms);
          const hue = bar.job ? behind(bar.tenant ?? bar.job) : undefined;
          const style = { left: `${left}%`, width: `max(3px, ${x(bar.end_ms ?? to) - left}%)`, top: `${lane * 18 + 2}px`, ...(hue && bar.kind === "running" ? { background: hue } : {}) };
          const inside = (
            <>
              {bar.expected_end_ms && bar.end_ms && bar.expected_end_ms < bar.end_ms && <span class="band" style={{ left: `${((bar.expected_end_ms - Math.max(bar.start_ms, from)) / (Math.min(bar.end_ms, to) - Math.max(bar.start_ms, from))) * 100}%` }} />}
              <span class="gantt-text">{shown(bar)}</span>
            </>
          );
          return bar.job ? <a key={place} class={`gantt-bar ${bar.kind}`} href={at("jobs", bar.job)} title={describe(bar)} aria-label={`${shown(bar)}: ${describe(bar)}`} draggable={false} style={style}>{inside}</a> : <span key={place} class={`gantt-bar other ${bar.kind}`} title={describe(bar)} style={style}>{inside}</span>;
        })}
        {row.until_ms && row.until_ms > from && row.until_ms < to && <span class="gantt-end" title={`its lease, or its time until maintenance, ends ${clock(row.until_ms)}`} style={{ left: `${x(row.until_ms)}%` }} />}
      </div>
    </div>
  );
}

export function Timeline(): JSX.Element {
  const { params } = place.value;
  const [pool, hours] = [params.get("pool") ?? "", params.get("hours") ?? "6"];
  const [offset, setOffset] = useState(0);
  const [trail, setTrail] = useState<string[]>([]);
  const cursor = trail[trail.length - 1];
  useEffect(() => setTrail([]), [pool]);
  const pools = useData((signal) => get<Pool[]>("/pools", {}, signal), []);
  const { data, error } = useData((signal) => get<Schemas["TimelineView"]>("/timeline", { pool, limit: 60, cursor }, signal), [pool, cursor], { jobs: "any", nodes: "any", every: 15000, atMost: 2000 });
  // As people count them; promises stay on top.
  const rows = [...(data?.rows ?? []).filter(({ node }) => !node), ...byId((data?.rows ?? []).filter(({ node }) => node).map((row) => ({ ...row, id: row.node! })))];
  const tenants = [...new Set(rows.flatMap(({ bars }) => bars).filter(({ kind }) => kind === "running").flatMap(({ tenant }) => tenant ?? []))].sort().slice(0, 8);
  const wide = Number(hours) * HOUR;
  const from = now.value - wide * 0.25 + offset;
  const to = from + wide;
  const drag = useRef<{ x: number; offset: number; moved: boolean } | undefined>(undefined);
  const dragged = useRef(false);
  const box = useRef<HTMLDivElement>(null);
  const step = STEPS.find((size) => wide / size <= 9) ?? 24 * HOUR;
  const first = Math.ceil(from / step) * step;
  const ticks = Array.from({ length: Math.floor((to - first) / step) + 1 }, (_, place) => first + place * step);
  const x = (time: number): string => `${((time - from) / (to - from)) * 100}%`;
  const name = (tick: number): string => (step >= 24 * HOUR ? new Date(tick).toLocaleDateString("en-GB", { weekday: "short", day: "numeric" }) : new Date(tick).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }));
  return (
    <Page title="Timeline" aside={offset !== 0 && <button type="button" onClick={() => setOffset(0)}>Back to now</button>}>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <Select name="Pool" value={pool} onChange={(value) => setParams({ pool: value })} choices={[{ value: "", text: "all" }, ...(pools.data ?? []).map(({ id }) => ({ value: id, text: id }))]} />
        <Segments name="How wide" value={hours} choices={WINDOWS} onChange={(value) => { setOffset(0); setParams({ hours: value }); }} />
        <span class="keys-row dim">{tenants.map((tenant) => <span key={tenant} class="key"><span class="swatch" style={{ background: behind(tenant) }} aria-hidden="true" /> {tenant} runs</span>)}<span class="key"><span class="swatch reserved" aria-hidden="true" /> promised</span><span class="key"><span class="swatch kept" aria-hidden="true" /> kept</span><span class="key"><span class="swatch early" aria-hidden="true" /> may be over by then</span></span>
      </form>
      <Wrong error={error} />
      {!data ? !error && <Loading /> : data.rows.length ? (
        <div
          class="gantt" ref={box} tabIndex={0} role="grid" aria-label={`Nodes over ${span(wide)}; arrow keys look back and ahead`}
          onKeyDown={(event) => { if (event.target !== event.currentTarget) return; if (event.key === "ArrowRight") setOffset(offset + wide / 8); else if (event.key === "ArrowLeft") setOffset(offset - wide / 8); else return; event.preventDefault(); }}
          onPointerDown={(event) => { if (!event.button && !(event.target as HTMLElement).closest(".gantt-name")) drag.current = { x: event.clientX, offset, moved: false }; }}
          onPointerMove={(event) => {
            const from = drag.current;
            if (!from || (!from.moved && Math.abs(event.clientX - from.x) < 5)) return;
            // From here on it is no click on the bar where it began.
            if (!from.moved) box.current!.setPointerCapture(event.pointerId);
            from.moved = true;
            setOffset(from.offset - ((event.clientX - from.x) / Math.max(1, box.current!.clientWidth - 150)) * wide);
          }}
          onPointerUp={() => { dragged.current = !!drag.current?.moved; drag.current = undefined; }}
          onPointerCancel={() => (drag.current = undefined)}
          onPointerLeave={() => { if (!drag.current?.moved) drag.current = undefined; }}
          onClickCapture={(event) => { if (dragged.current) event.preventDefault(); dragged.current = false; }}
        >
          <div class="gantt-row head" role="row"><div class="gantt-name" role="columnheader">Node</div><div class="gantt-bars ticks" role="columnheader">{ticks.filter((tick) => tick > from + wide * 0.03 && tick < to - wide * 0.04).map((tick) => <span key={tick} style={{ left: x(tick) }}>{name(tick)}</span>)}</div></div>
          <div class="gantt-lines" aria-hidden="true">{ticks.map((tick) => <span key={tick} style={{ left: x(tick) }} />)}{now.value > from && now.value < to && <span class="now" style={{ left: x(now.value) }} />}</div>
          {rows.map((row, place) => <Line key={row.node ?? place} row={row} from={from} to={to} />)}
        </div>
      ) : <Empty>No nodes.</Empty>}
      <div class="pager">
        <button type="button" disabled={!trail.length} onClick={() => setTrail(trail.slice(0, -1))}>Back</button>
        <button type="button" disabled={!data?.next} onClick={() => data?.next && setTrail([...trail, data.next])}>More nodes</button>
      </div>
    </Page>
  );
}
