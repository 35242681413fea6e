// The fleet as a map: a tile a node, a cell a device, drawn on one canvas so that thousands stay smooth.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Schemas } from "../lib/api";
import { css, isDark, ofName, tint } from "../lib/colour";
import { byId, plural } from "../lib/format";
import { at, go } from "../lib/router";

export type ColourBy = "pool" | "tenant" | "job";

/** The map as the page keeps it: answers name only what changed. */
export interface Fleet {
  version: number;
  pools: string[];
  nodes: Map<string, MapNode>;
}

export interface MapNode {
  id: string;
  pool: string;
  state: string;
  model: string;
  cpu: number;
  ram: number;
  gpus: number[];
  by: number[];
  jobs: string[];
  tenants: string[];
}

/** Takes an answer into the map. */
export function merged(before: Fleet | undefined, answer: Schemas["MapView"]): Fleet {
  const nodes = answer.whole || !before ? new Map<string, MapNode>() : new Map(before.nodes);
  for (const row of answer.nodes)
    nodes.set(row.id, {
      id: row.id,
      pool: answer.pools[row.pool] ?? "",
      state: answer.states[row.state] ?? "",
      model: row.model === null || row.model === undefined ? "" : (answer.models[row.model] ?? ""),
      cpu: row.cpu,
      ram: row.ram,
      gpus: row.gpus,
      by: row.by,
      jobs: row.jobs,
      tenants: row.tenants.map((tenant) => answer.tenants[tenant] ?? ""),
    });
  for (const id of answer.gone) nodes.delete(id);
  return { version: answer.version, pools: answer.pools, nodes };
}

interface Tile {
  node: MapNode;
  x: number;
  y: number;
  w: number;
  h: number;
}

interface Drawing {
  tiles: Tile[];
  heads: { text: string; y: number }[];
  height: number;
  cell: number;
}

const HEAD = 22;

function columns(gpus: number): number {
  if (gpus <= 1) return 1;
  return gpus <= 4 ? 2 : Math.ceil(gpus / 2) > 8 ? 8 : Math.ceil(gpus / 2);
}

/** Nodes of each pool, in order. */
type Grouped = Map<string, MapNode[]>;

function grouped(fleet: Fleet): Grouped {
  const byPool: Grouped = new Map(fleet.pools.map((pool) => [pool, []]));
  for (const node of byId(fleet.nodes.values())) byPool.get(node.pool)?.push(node);
  return byPool;
}

function lay(byPool: Grouped, width: number, cell: number): Drawing {
  const gap = cell >= 7 ? 1.5 : 1;
  const between = cell >= 7 ? 6 : 3;
  const tiles: Tile[] = [];
  const heads: Drawing["heads"] = [];
  let y = 0;
  for (const [pool, nodes] of byPool) {
    if (!nodes.length) continue;
    const gpus = nodes.reduce((sum, node) => sum + node.gpus.length, 0);
    heads.push({ text: `${pool}   ${plural(nodes.length, "node")}${gpus ? `, ${plural(gpus, "GPU")}` : ""}`, y });
    y += HEAD;
    let x = 0;
    let tallest = 0;
    for (const node of nodes) {
      const across = columns(node.gpus.length);
      const down = Math.max(1, Math.ceil(node.gpus.length / across));
      const w = node.gpus.length ? across * (cell + gap) + gap : cell * 2 + gap;
      const h = down * (cell + gap) + gap;
      if (x > 0 && x + w > width) {
        x = 0;
        y += tallest + between;
        tallest = 0;
      }
      tiles.push({ node, x, y, w, h });
      x += w + between;
      tallest = Math.max(tallest, h);
    }
    y += tallest + 14;
  }
  return { tiles, heads, height: y, cell };
}

/** The largest cells with which everything is seen at once. */
function fitted(fleet: Fleet, width: number, room: number): Drawing {
  const nodes = grouped(fleet);
  const sizes = [18, 15, 12, 10, 8, 7, 6, 5];
  for (const cell of sizes) {
    const drawing = lay(nodes, width, cell);
    if (drawing.height <= room) return drawing;
  }
  return lay(nodes, width, 4);
}

function draw(pen: CanvasRenderingContext2D, drawing: Drawing, fleet: Fleet, by: ColourBy, tenants: string[], mark: Map<string, "gain" | "loss"> | undefined): void {
  const colours = { text: css("--dim"), free: css("--cell"), bad: css("--bad"), warn: css("--warn"), off: css("--line-strong"), good: css("--good"), busy: css("--busy") };
  pen.font = "600 12px system-ui, sans-serif";
  pen.fillStyle = colours.text;
  for (const head of drawing.heads) pen.fillText(head.text, 0, head.y + 14);
  const known = new Map<string, string>();
  const colour = (key: string, make: () => string): string => {
    let found = known.get(key);
    if (found === undefined) known.set(key, (found = make()));
    return found;
  };
  const pools = new Map(fleet.pools.map((pool, place) => [pool, tint(place)]));
  const { cell } = drawing;
  const gap = cell >= 7 ? 1.5 : 1;
  for (const tile of drawing.tiles) {
    const { node } = tile;
    const hue = (job: number): string => {
      if (by === "pool") return pools.get(node.pool) ?? colours.busy;
      const name = (by === "tenant" ? node.tenants[job] : node.jobs[job]) ?? "";
      if (!name) return by === "tenant" ? colours.busy : colours.off;
      return colour(name, () => (by === "tenant" ? tint(Math.max(0, tenants.indexOf(name))) : ofName(name)));
    };
    const lost = node.state === "down";
    pen.globalAlpha = lost || node.state === "drained" ? 0.45 : 1;
    if (!node.gpus.length) {
      pen.fillStyle = colours.free;
      pen.fillRect(tile.x + gap, tile.y + gap, tile.w - gap * 2, cell);
      if (node.cpu > 0) {
        pen.fillStyle = hue(0);
        pen.fillRect(tile.x + gap, tile.y + gap, ((tile.w - gap * 2) * node.cpu) / 100, cell);
      }
    }
    const across = columns(node.gpus.length);
    node.gpus.forEach((part, device) => {
      const x = tile.x + gap + (device % across) * (cell + gap);
      const y = tile.y + gap + Math.floor(device / across) * (cell + gap);
      if (part < 100) {
        pen.fillStyle = colours.free;
        pen.fillRect(x, y, cell, cell);
      }
      if (part > 0) {
        const tall = Math.max(1, (cell * part) / 100);
        pen.fillStyle = hue(node.by[device] ?? -1);
        pen.fillRect(x, y + cell - tall, cell, tall);
      }
    });
    pen.globalAlpha = 1;
    const marked = mark?.get(node.id);
    const edge = marked ? (marked === "gain" ? colours.good : colours.bad) : lost ? colours.bad : ["unknown", "degraded", "draining"].includes(node.state) ? colours.warn : node.state === "drained" ? colours.off : undefined;
    if (edge) {
      pen.lineWidth = marked ? 2 : 1.25;
      pen.strokeStyle = edge;
      pen.strokeRect(tile.x - 0.5, tile.y - 0.5, tile.w + 1, tile.h + 1);
    }
  }
}

function describe(node: MapNode): string {
  const used = node.gpus.reduce((sum, part) => sum + part, 0) / 100;
  const parts = [`${node.id}: ${node.state}`, node.gpus.length ? `${+used.toFixed(1)} of ${plural(node.gpus.length, "GPU")} in use` : `CPU ${node.cpu} % in use`];
  parts.push(plural(node.jobs.length, "job"));
  return parts.join(", ");
}

export function FleetMap({ fleet, by, tenants, mark }: { fleet: Fleet; by: ColourBy; tenants: string[]; mark?: Map<string, "gain" | "loss"> }): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [chosen, setChosen] = useState(-1);
  const [pointed, setPointed] = useState<{ place: number; x: number; y: number }>();
  const room = Math.max(220, Math.min(innerHeight * 0.62, 760));
  const drawing = useMemo(() => (width ? fitted(fleet, width, room) : undefined), [fleet, width]);

  useEffect(() => {
    const size = new ResizeObserver(([entry]) => setWidth(Math.floor(entry!.contentRect.width)));
    size.observe(frame.current!);
    return () => size.disconnect();
  }, []);

  // The whole map is drawn once for each change of what it shows; scrolling and pointing copy from that.
  const sheet = useMemo(() => {
    if (!drawing || !width) return undefined;
    const ratio = devicePixelRatio || 1;
    const made = document.createElement("canvas");
    made.width = Math.max(1, Math.round(width * ratio));
    made.height = Math.max(1, Math.round(drawing.height * ratio));
    const pen = made.getContext("2d", { alpha: true })!;
    pen.scale(ratio, ratio);
    draw(pen, drawing, fleet, by, tenants, mark);
    return made;
  }, [drawing, by, tenants.join(), mark, isDark.value]);

  const paint = (): void => {
    const board = canvas.current;
    const view = frame.current;
    if (!board || !view || !drawing || !sheet) return;
    const shown = Math.min(drawing.height, room);
    const ratio = devicePixelRatio || 1;
    if (board.width !== Math.round(width * ratio) || board.height !== Math.round(shown * ratio)) {
      board.width = Math.round(width * ratio);
      board.height = Math.round(shown * ratio);
      board.style.height = `${shown}px`;
    }
    const pen = board.getContext("2d")!;
    const top = Math.round(view.scrollTop * ratio);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, board.width, board.height);
    pen.drawImage(sheet, 0, -top);
    pen.setTransform(ratio, 0, 0, ratio, 0, -top);
    pen.strokeStyle = css("--ink");
    pen.lineWidth = 2;
    for (const place of [chosen, pointed?.place ?? -1]) {
      const tile = drawing.tiles[place];
      if (tile) pen.strokeRect(tile.x - 0.5, tile.y - 0.5, tile.w + 1, tile.h + 1);
    }
  };

  useEffect(() => {
    const frameId = requestAnimationFrame(paint);
    return () => cancelAnimationFrame(frameId);
  });

  const find = (event: MouseEvent): number => {
    const box = canvas.current!.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top + frame.current!.scrollTop];
    return drawing?.tiles.findIndex((tile) => x >= tile.x - 2 && x <= tile.x + tile.w + 2 && y >= tile.y - 2 && y <= tile.y + tile.h + 2) ?? -1;
  };
  const keys = (event: KeyboardEvent): void => {
    if (!drawing?.tiles.length) return;
    const { tiles } = drawing;
    const here = tiles[chosen];
    let next = chosen;
    if (event.key === "ArrowRight") next = Math.min(tiles.length - 1, chosen + 1);
    else if (event.key === "ArrowLeft") next = Math.max(0, chosen - 1);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const down = event.key === "ArrowDown";
      const rows = tiles.map((tile, place) => ({ tile, place })).filter(({ tile }) => !here || (down ? tile.y > here.y : tile.y < here.y));
      const y = rows.length ? (down ? Math.min(...rows.map(({ tile }) => tile.y)) : Math.max(...rows.map(({ tile }) => tile.y))) : undefined;
      const row = rows.filter(({ tile }) => tile.y === y);
      row.sort((a, b) => Math.abs(a.tile.x - (here?.x ?? 0)) - Math.abs(b.tile.x - (here?.x ?? 0)));
      next = row[0]?.place ?? chosen;
    } else if (event.key === "Enter" && here) return go(at("nodes", here.node.id));
    else return;
    event.preventDefault();
    setChosen(next);
    const tile = tiles[next];
    const view = frame.current!;
    if (tile && (tile.y < view.scrollTop || tile.y + tile.h > view.scrollTop + view.clientHeight)) view.scrollTop = tile.y - 40;
  };

  const shownTile = pointed && drawing?.tiles[pointed.place];
  const all = [...fleet.nodes.values()];
  const gpus = all.reduce((sum, node) => sum + node.gpus.length, 0);
  const used = all.reduce((sum, node) => sum + node.gpus.reduce((part, one) => part + one, 0), 0) / 100;
  return (
    <div
      class="map" ref={frame} tabIndex={0} role="application" style={{ maxHeight: `${room}px` }}
      aria-label={`Map of ${plural(all.length, "node")}${gpus ? ` with ${plural(gpus, "GPU")}, ${Math.round(used)} in use` : ""}. Arrow keys move, Enter opens a node; the page Nodes has the same as a table.`}
      onScroll={paint} onKeyDown={keys} onBlur={() => setChosen(-1)}
    >
      <div class="map-size" style={{ height: `${drawing?.height ?? 0}px` }}>
        <canvas
          ref={canvas} aria-hidden="true" data-theme={isDark.value}
          onMouseMove={(event) => { const place = find(event); setPointed(place < 0 ? undefined : { place, x: event.clientX, y: event.clientY }); }}
          onMouseLeave={() => setPointed(undefined)}
          onClick={(event) => { const tile = drawing?.tiles[find(event)]; if (tile) go(at("nodes", tile.node.id)); }}
        />
      </div>
      <div class="sr" aria-live="polite">{drawing?.tiles[chosen] ? describe(drawing.tiles[chosen]!.node) : ""}</div>
      {shownTile && (
        <div class="hover" style={{ left: `${Math.min(pointed.x + 14, innerWidth - 270)}px`, top: `${pointed.y + 16}px` }}>
          <strong>{shownTile.node.id}</strong> <span class="dim">{shownTile.node.pool}</span>
          <div>{shownTile.node.state}{shownTile.node.model ? `, ${shownTile.node.gpus.length} × ${shownTile.node.model}` : ""}</div>
          <div>CPU {shownTile.node.cpu} %, memory {shownTile.node.ram} % given away</div>
          {shownTile.node.jobs.slice(0, 6).map((job, place) => <div key={place} class="dim">job {job || "of somebody else"}{shownTile.node.tenants[place] ? ` (${shownTile.node.tenants[place]})` : ""}</div>)}
          {shownTile.node.jobs.length > 6 && <div class="dim">and {shownTile.node.jobs.length - 6} more</div>}
        </div>
      )}
    </div>
  );
}
