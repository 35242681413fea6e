// One stream per tab tells what changed; whatever shows something looks again when that is named.
import { signal } from "@preact/signals";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Problem, session, type Schemas } from "./api";

export type Change = Schemas["ChangeView"];

type Listener = (change: Change) => void;

const listeners = new Set<Listener>();
/** Whether the stream stands. */
export const connected = signal(false);
/** The last event that was heard of. */
export const seq = signal(0);

let source: EventSource | undefined;
let journal: string | undefined;
let opened = false;

function hear(message: MessageEvent<string>): void {
  const change = JSON.parse(message.data) as Change;
  // After a gap, and after the server was restored, everything may have changed.
  if (opened && (change.journal !== journal || change.seq < seq.value)) change.more = true;
  opened = true;
  journal = change.journal;
  seq.value = change.seq;
  connected.value = true;
  for (const listener of [...listeners]) listener(change);
}

/** Opens the stream, and keeps it open while somebody is signed in. */
export function listen(): void {
  if (source || !session.value) return;
  source = new EventSource("/api/v1/changes");
  source.onmessage = hear;
  source.onerror = () => {
    connected.value = false;
    // Browsers try again by themselves, unless the answer was a refusal.
    if (source?.readyState === EventSource.CLOSED) {
      source = undefined;
      setTimeout(listen, 3000 + Math.random() * 2000);
    }
  };
}

export function hush(): void {
  source?.close();
  source = undefined;
  connected.value = false;
}

export function onChange(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export interface Watch {
  /** Look again when one of these jobs changes; `any` for all. */
  jobs?: string[] | "any";
  nodes?: string[] | "any";
  settings?: boolean;
  /** Look again after so many milliseconds anyway. */
  every?: number;
  /** Look again no sooner than this. */
  atMost?: number;
}

export interface Data<T> {
  data: T | undefined;
  error: Problem | undefined;
  reload: () => Promise<void>;
}

function concerns(watch: Watch, change: Change): boolean {
  const named = (wanted: string[] | "any" | undefined, found: string[]): boolean =>
    wanted === "any" ? found.length > 0 : !!wanted && found.some((id) => wanted.includes(id));
  return change.more || named(watch.jobs, change.jobs) || named(watch.nodes, change.nodes) || (!!watch.settings && change.settings);
}

/**
 * Loads something, and loads it again when what it shows changes and somebody sees it. The first of `deps` says which thing it is; when only
 * others change, what is known stays until the new is there.
 */
export function useData<T>(load: (signal: AbortSignal) => Promise<T>, deps: unknown[], watch: Watch = {}): Data<T> {
  const [data, setData] = useState<T>();
  const [error, setError] = useState<Problem>();
  const latest = useRef({ load, watch });
  latest.current = { load, watch };
  const shown = useRef<unknown>(deps[0]);
  const running = useRef<AbortController | undefined>(undefined);

  const reload = useCallback(async () => {
    running.current?.abort();
    const own = new AbortController();
    running.current = own;
    try {
      const loaded = await latest.current.load(own.signal);
      if (own.signal.aborted) return;
      setData(() => loaded);
      setError(undefined);
    } catch (wrong) {
      if (!own.signal.aborted) setError(wrong instanceof Problem ? wrong : new Problem(0, "", String(wrong)));
    }
  }, []);

  useEffect(() => {
    let last = performance.now();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let missed = false;
    // What the server makes for everybody may be a second old: after a change it is asked once more.
    let settling: ReturnType<typeof setTimeout> | undefined;
    const again = (): void => {
      timer = undefined;
      last = performance.now();
      void reload();
      clearTimeout(settling);
      settling = setTimeout(() => void reload(), 1500 + (latest.current.watch.atMost ?? 1000));
    };
    const soon = (): void => {
      if (document.hidden) missed = true;
      else if (timer === undefined) {
        const atMost = latest.current.watch.atMost ?? 1000;
        // A little chance keeps many tabs from asking at the same instant.
        timer = setTimeout(again, Math.max(30, last + atMost - performance.now()) + Math.random() * 100);
      }
    };
    if (shown.current !== deps[0]) {
      shown.current = deps[0];
      setData(undefined);
    }
    setError(undefined);
    void reload();
    const quiet = onChange((change) => concerns(latest.current.watch, change) && soon());
    const beat = watch.every ? setInterval(soon, watch.every) : undefined;
    const seen = (): void => {
      if (!document.hidden && missed) {
        missed = false;
        soon();
      }
    };
    document.addEventListener("visibilitychange", seen);
    return () => {
      quiet();
      clearTimeout(timer);
      clearTimeout(settling);
      clearInterval(beat);
      document.removeEventListener("visibilitychange", seen);
      running.current?.abort();
    };
  }, deps);
  return { data, error, reload };
}

/** The time, a few times a minute, for "3 min ago". */
export const now = signal(Date.now());
setInterval(() => !document.hidden && (now.value = Date.now()), 5000);
