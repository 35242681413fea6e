// A plot over time, with a legend that is text.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { css, isDark } from "../lib/colour";

export interface Line {
  label: string;
  colour: string;
  values: number[];
  /** Filled, or dashed for a limit. */
  style?: "area" | "limit";
}

function short(value: number): string {
  if (Math.abs(value) >= 1e6) return `${+(value / 1e6).toFixed(1)} M`;
  if (Math.abs(value) >= 1e4) return `${+(value / 1e3).toFixed(0)} k`;
  return `${+value.toFixed(1)}`;
}

export function Plot({ at, lines, height = 130, name, unit = "" }: { at: number[]; lines: Line[]; height?: number; name: string; unit?: string }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const shape = `${lines.map((line) => `${line.label}${line.colour}`).join()}${isDark.value}${height}`;
  useEffect(() => {
    const grid = { stroke: css("--line"), width: 1 };
    const axis = { stroke: css("--dim"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const made = new uPlot(
      {
        width: box.current!.clientWidth,
        height,
        cursor: { y: false, points: { size: 6 } },
        legend: { show: false },
        scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.08)] } },
        axes: [{ ...axis, incrs: [60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600], space: 60, size: 24, values: (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })) }, { ...axis, size: 44, space: 34, values: (_, ticks) => ticks.map(short) }],
        series: [{}, ...lines.map((line) => ({
          label: line.label, stroke: line.colour, width: line.style === "limit" ? 1 : 1.6, points: { show: false },
          ...(line.style === "area" ? { fill: `color-mix(in srgb, ${line.colour} 18%, transparent)` } : {}),
          ...(line.style === "limit" ? { dash: [4, 4] } : {}),
        }))],
      },
      [[], ...lines.map(() => [])] as unknown as uPlot.AlignedData,
      box.current!,
    );
    plot.current = made;
    const size = new ResizeObserver(() => box.current && made.setSize({ width: box.current.clientWidth, height }));
    size.observe(box.current!);
    return () => {
      size.disconnect();
      made.destroy();
    };
  }, [shape]);
  useEffect(() => plot.current?.setData([at, ...lines.map((line) => line.values)] as uPlot.AlignedData), [at, lines, shape]);
  const last = (line: Line): string => (line.values.length ? `${short(line.values[line.values.length - 1]!)}${unit}` : "–");
  return (
    <figure class="plot">
      <figcaption>
        <span class="plot-name">{name}</span>
        {lines.filter((line) => line.style !== "limit").map((line) => (
          <span key={line.label} class="key"><span class="swatch" style={{ background: line.colour }} aria-hidden="true" /> {line.label} <b>{last(line)}</b></span>
        ))}
      </figcaption>
      <div ref={box} style={{ height: `${height}px` }} aria-hidden="true" />
    </figure>
  );
}
