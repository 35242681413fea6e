// Figures as people read them.

export function count(number: number): string {
  return number.toLocaleString("en-GB");
}

const order = new Intl.Collator("en", { numeric: true });

/** Things by their id, as people count: gpu-2 before gpu-10. */
export function byId<T extends { id: string }>(things: Iterable<T>): T[] {
  return [...things].sort((a, b) => order.compare(a.id, b.id));
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** 90000 → `1 min 30 s`, the two largest units. */
export function span(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const parts: [number, string][] = [
    [Math.floor(seconds / 86400), "d"],
    [Math.floor((seconds % 86400) / 3600), "h"],
    [Math.floor((seconds % 3600) / 60), "min"],
    [seconds % 60, "s"],
  ];
  const first = parts.findIndex(([number]) => number > 0);
  return parts
    .slice(first, first + 2)
    .filter(([number]) => number > 0)
    .map(([number, unit]) => `${number} ${unit}`)
    .join(" ");
}

export function ago(ms: number | null | undefined, now: number): string {
  if (ms === null || ms === undefined) return "–";
  const since = now - ms;
  if (since < -1500) return `in ${coarse(-since)}`;
  if (since < 5000) return "just now";
  return `${coarse(since)} ago`;
}

/** One unit is enough for an age. */
export function coarse(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export function clock(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  const at = new Date(ms);
  const time = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date().toDateString() ? time : `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

export function cores(milli: number): string {
  return `${+(milli / 1000).toFixed(milli % 1000 ? 1 : 0)}`;
}

export function mib(amount: number): string {
  if (amount >= 1024 * 1024) return `${+(amount / 1048576).toFixed(1)} TiB`;
  if (amount >= 1024) return `${+(amount / 1024).toFixed(amount >= 10240 ? 0 : 1)} GiB`;
  return `${amount} MiB`;
}

export function bytes(amount: number): string {
  if (amount >= 1 << 20) return mib(Math.round(amount / (1 << 20)));
  return amount >= 1024 ? `${Math.round(amount / 1024)} KiB` : `${amount} B`;
}

export function percent(part: number, whole: number): number {
  return whole > 0 ? Math.round((part / whole) * 100) : 0;
}

export function score(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return String(+value.toFixed(Math.abs(value) < 10 ? 3 : 2));
}

/** A need's value in words: sizes and spans by the name of their field. */
export function need(name: string, value: unknown): string {
  if (typeof value === "number") {
    if (name.endsWith("_mib")) return mib(value);
    if (name === "cpu_milli") return `${cores(value)} ${value === 1000 ? "core" : "cores"}`;
    if (name === "gpu_milli") return `${value / 1000} GPU`;
    if (name.endsWith("_ms")) return span(value);
  }
  if (name === "nodes" && value && typeof value === "object") return nodes(value as { min: number; max: number });
  if (Array.isArray(value)) return value.map((item) => (typeof item === "object" ? JSON.stringify(item) : String(item))).join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** How many nodes a job asks for: a number, or from one to another. */
export function nodes(asked: unknown): string {
  if (asked && typeof asked === "object") {
    const { min, max } = asked as { min: number; max: number };
    return min === max ? String(min) : `${min} to ${max}`;
  }
  return String(asked ?? 1);
}

/** `gpu_count` → `GPU count`. */
export function label(name: string): string {
  const words = name.replace(/_(ms|mib|milli)$/, "").replace(/_/g, " ");
  return words.replace(/\b(gpu|cpu|ram|vram|qos|io|numa)\b/g, (word) => word.toUpperCase());
}
