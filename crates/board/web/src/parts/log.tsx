// What a job writes, as it writes it. Only the last lines are kept in the page.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { lines, seg, type Schemas } from "../lib/api";

const KEPT = 5000;
// Colours and movements of terminals.
const ESCAPES = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007]*\u0007/g;

interface Line {
  text: string;
  error: boolean;
  number: number;
}

export function Log({ job, over, stay }: { job: string; over: boolean; stay: boolean }): JSX.Element {
  const [shown, setShown] = useState<Line[]>([]);
  const [state, setState] = useState<"reading" | "end" | "broken">("reading");
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const own = new AbortController();
    const parts = new Map<string, { decoder: TextDecoder; rest: string }>();
    let all: Line[] = [];
    let number = 0;
    let frame = 0;
    const show = (): void => {
      frame = 0;
      setShown([...all, ...[...parts.entries()].filter(([, part]) => part.rest).map(([name, part]) => ({ text: part.rest, error: name.endsWith("stderr"), number: number + 1 }))]);
    };
    const read = async (): Promise<void> => {
      for await (const chunks of lines<Schemas["LogChunk"]>(`/jobs/${seg(job)}/logs`, { follow: "true", tail: KEPT }, own.signal)) {
        for (const chunk of chunks) {
          const name = `${chunk.node} ${chunk.stream}`;
          const part = parts.get(name) ?? { decoder: new TextDecoder(), rest: "" };
          parts.set(name, part);
          const bytes = Uint8Array.from(atob(chunk.data), (letter) => letter.charCodeAt(0));
          const found = (part.rest + part.decoder.decode(bytes, { stream: true })).split("\n");
          part.rest = found.pop() ?? "";
          for (const text of found) all.push({ text: text.replace(ESCAPES, "").replace(/^.*\r(?=.)/, ""), error: chunk.stream === "stderr", number: ++number });
        }
        if (all.length > KEPT) all = all.slice(-KEPT);
        frame ||= requestAnimationFrame(show);
      }
      show();
      setState("end");
    };
    read().catch(() => !own.signal.aborted && setState("broken"));
    return () => {
      own.abort();
      cancelAnimationFrame(frame);
    };
  }, [job]);
  useEffect(() => {
    if (stay && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown, stay]);
  return (
    <>
      <pre ref={box} class="log" tabIndex={0} role="log" aria-label={`What job ${job} wrote`}>
        {shown.map((line) => <span key={line.number} class={line.error ? "err" : undefined}>{line.text}{"\n"}</span>)}
      </pre>
      <p class="dim small">{state === "broken" ? "The log broke off; the page was not reached." : state === "end" || over ? (shown.length ? "The end." : "It wrote nothing.") : "Follows as it is written."}</p>
    </>
  );
}
