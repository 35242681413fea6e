// Small parts that every page uses.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { Problem } from "../lib/api";
import { now } from "../lib/live";
import { ago, clock, percent } from "../lib/format";
import { at } from "../lib/router";

const STATE_KIND: Record<string, string> = {
  pending: "wait", suspended: "wait", staging: "busy", running: "good", checkpointing: "busy", stopping: "warn", completed: "done",
  failed: "bad", cancelled: "off", ready: "good", booting: "busy", degraded: "warn", unknown: "warn", draining: "warn", drained: "off", down: "bad",
};
const STATE_SIGN: Record<string, string> = { wait: "○", busy: "◐", good: "●", done: "✓", bad: "✕", warn: "▲", off: "–" };

export function State({ of, title }: { of: string; title?: string | undefined }): JSX.Element {
  const kind = STATE_KIND[of] ?? "off";
  return (
    <span class={`state ${kind}`} title={title}>
      <span aria-hidden="true">{STATE_SIGN[kind]}</span> {of}
    </span>
  );
}

export function Page({ title, aside, children }: { title: ComponentChildren; aside?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  return (
    <>
      <header class="page-head">
        <h1>{title}</h1>
        {aside && <div class="aside">{aside}</div>}
      </header>
      {children}
    </>
  );
}

export function Card({ title, aside, children, class: name = "" }: { title?: ComponentChildren; aside?: ComponentChildren; children: ComponentChildren; class?: string }): JSX.Element {
  const id = useId();
  return (
    <section class={`card ${name}`} aria-labelledby={title ? id : undefined}>
      {title && (
        <header>
          <h2 id={id}>{title}</h2>
          {aside && <div class="aside">{aside}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

export function Meter({ used, total, text, hue }: { used: number; total: number; text?: string; hue?: string }): JSX.Element {
  const part = percent(used, total);
  return (
    <span class="meter" role="img" aria-label={text ?? `${part} %`}>
      <span class="track"><span class="fill" style={{ width: `${part}%`, ...(hue ? { background: hue } : {}) }} /></span>
      {text && <span class="meter-text">{text}</span>}
    </span>
  );
}

export function Wrong({ error }: { error: Problem | undefined }): JSX.Element | null {
  if (!error) return null;
  return (
    <div class="note bad" role="alert">
      <strong>{error.message}</strong>
      {error.hint && <span> {error.hint}</span>}
    </div>
  );
}

export function Loading(): JSX.Element {
  return <p class="dim loading" role="status">Loading …</p>;
}

export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>;
}

export function Ago({ at: time }: { at: number | null | undefined }): JSX.Element {
  return <time title={clock(time)}>{ago(time, now.value)}</time>;
}

export function JobLink({ id }: { id: string }): JSX.Element {
  return <a class="id" href={at("jobs", id)}>{id}</a>;
}

/** A peer by the end of its id; a job that was placed on one is on machines of its own. */
function isPeer(id: string): boolean {
  return /^12D3Koo\w{45}$/.test(id);
}

export function shortPeer(id: string): string {
  return isPeer(id) ? `…${id.slice(-12)}` : id;
}

export function NodeLink({ id }: { id: string }): JSX.Element {
  if (isPeer(id)) return <a class="id" href="#/capacity" title={id}>peer {shortPeer(id)}</a>;
  return <a class="id" href={at("nodes", id)}>{id}</a>;
}

/** Who came second: a node, or in pull pools a job. */
export function Other({ id }: { id: string }): JSX.Element {
  return /^\d+(\.\d+)?$/.test(id) ? <JobLink id={id} /> : <NodeLink id={id} />;
}

export function Facts({ rows }: { rows: [ComponentChildren, ComponentChildren][] }): JSX.Element {
  return (
    <dl class="facts">
      {rows.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false).map(([name, value], place) => (
        <div key={place}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A word with its explanation in a pop-up beside it. */
export function Tip({ word, children }: { word: ComponentChildren; children: ComponentChildren }): JSX.Element {
  const id = useId();
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const place = (): void => {
    const from = button.current!.getBoundingClientRect();
    const tip = box.current!;
    const width = Math.min(360, innerWidth - 24);
    tip.style.width = `${width}px`;
    tip.style.left = `${Math.max(12, Math.min(from.left, innerWidth - width - 12))}px`;
    tip.style.top = `${Math.min(from.bottom + 6, innerHeight - 120)}px`;
  };
  return (
    <>
      <button ref={button} type="button" class="tip" popovertarget={id} onClick={place}>{word}</button>
      <div ref={box} id={id} popover="auto" class="tip-box" role="tooltip">{children}</div>
    </>
  );
}

export interface Choice {
  value: string;
  text: string;
}

export function Select({ name, value, choices, onChange }: { name: string; value: string; choices: Choice[]; onChange: (value: string) => void }): JSX.Element {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{name}</label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {choices.map((choice) => <option key={choice.value} value={choice.value} selected={choice.value === value}>{choice.text}</option>)}
      </select>
    </div>
  );
}

export function Segments({ name, value, choices, onChange }: { name: string; value: string; choices: Choice[]; onChange: (value: string) => void }): JSX.Element {
  // As with other radio buttons: Tab leads to the chosen one, arrows to the others.
  const move = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (choices.findIndex((choice) => choice.value === value) + step + choices.length) % choices.length;
    onChange(choices[next]!.value);
    (event.currentTarget as HTMLElement).querySelectorAll("button")[next]?.focus();
  };
  return (
    <div class="segments" role="radiogroup" aria-label={name} onKeyDown={move}>
      {choices.map((choice) => (
        <button key={choice.value} type="button" role="radio" aria-checked={choice.value === value} tabIndex={choice.value === value ? 0 : -1} onClick={() => onChange(choice.value)}>{choice.text}</button>
      ))}
    </div>
  );
}

/** Short word about something that was done, or could not be. */
export const toast = signal<{ text: string; hint?: string | undefined; bad: boolean } | null>(null);
let fading: ReturnType<typeof setTimeout> | undefined;

export function say(text: string, wrong?: Problem): void {
  toast.value = wrong ? { text: `${text}: ${wrong.message}`, hint: wrong.hint, bad: true } : { text, bad: false };
  clearTimeout(fading);
  fading = setTimeout(() => (toast.value = null), wrong ? 9000 : 4000);
}

export function Toast(): JSX.Element {
  const told = toast.value;
  return (
    <div class="toasts" role="status" aria-live="polite">
      {told && (
        <div class={`toast ${told.bad ? "bad" : ""}`}>
          {told.text}
          {told.hint && <small>{told.hint}</small>}
        </div>
      )}
    </div>
  );
}

/** Something that may be said with the answer. */
export interface Extra {
  name: string;
  text: string;
  kind: "text" | "datetime-local";
  hint?: string;
}

type Extras = Record<string, string>;

interface Question {
  title: string;
  text: string;
  yes: string;
  danger: boolean;
  extras: Extra[];
  answer: (said: Extras | undefined) => void;
}
const question = signal<Question | null>(null);

/** Asks before something is done; what was said beside it, or nothing if it shall not be done. */
export function ask(title: string, text: string, yes: string, danger = false, extras: Extra[] = []): Promise<Extras | undefined> {
  return new Promise((answer) => (question.value = { title, text, yes, danger, extras, answer }));
}

export function Confirm(): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const form = useRef<HTMLFormElement>(null);
  const asked = question.value;
  useEffect(() => {
    if (asked && !box.current?.open) box.current?.showModal();
  }, [asked]);
  const done = (yes: boolean): void => {
    const said = yes ? (Object.fromEntries(new FormData(form.current!)) as Extras) : undefined;
    question.value = null;
    box.current?.close();
    asked?.answer(said);
  };
  return (
    <dialog ref={box} class="confirm" aria-labelledby="confirm-title" onCancel={(event) => { event.preventDefault(); done(false); }}>
      {asked && (
        <form ref={form} onSubmit={(event) => { event.preventDefault(); done(true); }}>
          <h2 id="confirm-title">{asked.title}</h2>
          <p>{asked.text}</p>
          {asked.extras.map((extra) => <label key={extra.name} class="field"><span>{extra.text}</span>{extra.kind === "text" ? <input type="text" name={extra.name} placeholder={extra.hint ?? ""} maxLength={200} /> : <input type="datetime-local" name={extra.name} />}</label>)}
          <div class="buttons">
            <button type="button" autofocus onClick={() => done(false)}>No, leave it</button>
            <button type="submit" class={asked.danger ? "danger" : "primary"}>{asked.yes}</button>
          </div>
        </form>
      )}
    </dialog>
  );
}

/** Does something after asking, and says how it went. */
export async function act(title: string, text: string, yes: string, danger: boolean, work: (said: Extras) => Promise<{ ignored?: string | null }>, done: string, extras: Extra[] = []): Promise<void> {
  const said = await ask(title, text, yes, danger, extras);
  if (!said) return;
  try {
    const answer = await work(said);
    say(answer.ignored ? `nothing to do: ${answer.ignored}` : done);
  } catch (wrong) {
    say("that did not work", wrong instanceof Problem ? wrong : new Problem(0, "", String(wrong)));
  }
}
