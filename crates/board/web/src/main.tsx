// The frame around the pages: who is signed in, where one is, keys that work everywhere.
import { render, type ComponentType, type JSX } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import "./style.css";
import { session, signOut, whoami, type Schemas, get } from "./lib/api";
import { setTheme, theme, type Theme } from "./lib/colour";
import { connected, hush, listen, useData } from "./lib/live";
import { at, go, place } from "./lib/router";
import { Confirm, Toast } from "./parts/basics";
import { Help, useKeys } from "./parts/keys";
import { Capacity } from "./pages/capacity";
import { Decisions } from "./pages/decisions";
import { Job } from "./pages/job";
import { Jobs } from "./pages/jobs";
import { Node } from "./pages/node";
import { Nodes } from "./pages/nodes";
import { Overview } from "./pages/overview";
import { Plan } from "./pages/plan";
import { Policies } from "./pages/policies";
import { Replayed, Replays } from "./pages/replays";
import { SignIn } from "./pages/signin";
import { Tenants } from "./pages/tenants";
import { Timeline } from "./pages/timeline";
import { Workloads } from "./pages/workloads";

interface Entry {
  path: string;
  text: string;
  key: string;
  page: ComponentType;
  /** The page of one thing. */
  one?: ComponentType<{ id: string }>;
}

export const PAGES: Entry[] = [
  { path: "", text: "Overview", key: "o", page: Overview },
  { path: "jobs", text: "Jobs", key: "j", page: Jobs, one: Job },
  { path: "nodes", text: "Nodes", key: "n", page: Nodes, one: Node },
  { path: "timeline", text: "Timeline", key: "l", page: Timeline },
  { path: "decisions", text: "Decisions", key: "d", page: Decisions },
  { path: "policies", text: "Policies", key: "p", page: Policies },
  { path: "plan", text: "Plan", key: "w", page: Plan },
  { path: "replays", text: "Replays", key: "r", page: Replays, one: Replayed },
  { path: "workloads", text: "Workloads", key: "k", page: Workloads },
  { path: "tenants", text: "Tenants", key: "t", page: Tenants },
  { path: "capacity", text: "Capacity", key: "c", page: Capacity },
];

function ThemeChoice(): JSX.Element {
  const next: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
  const sign: Record<Theme, string> = { auto: "◐", light: "☀", dark: "☾" };
  return (
    <button type="button" class="plain" onClick={() => setTheme(next[theme.value])} aria-label={`Colours: ${theme.value}. Change`} title={`Colours: ${theme.value}`}>
      <span aria-hidden="true">{sign[theme.value]}</span>
    </button>
  );
}

/** Finds a job or a node by what is typed. */
function Find(): JSX.Element {
  const [text, setText] = useState("");
  const find = async (event: Event): Promise<void> => {
    event.preventDefault();
    const wanted = text.trim();
    if (!wanted) return;
    setText("");
    const { kind } = await get<Schemas["FoundView"]>("/find", { id: wanted });
    go(kind ? at(kind === "node" ? "nodes" : "jobs", wanted) : `#/jobs?search=${encodeURIComponent(wanted)}`);
  };
  return (
    <form class="find" role="search" onSubmit={find}>
      <input id="find" type="search" value={text} placeholder="Job or node  ( / )" aria-label="Find a job or a node" onInput={(event) => setText(event.currentTarget.value)} />
    </form>
  );
}

function Frame(): JSX.Element {
  const { path } = place.value;
  const entry = PAGES.find((page) => page.path === (path[0] ?? ""));
  const [open, setOpen] = useState(false);
  useKeys(PAGES.map(({ path, text, key }) => ({ path, text, key })));
  useEffect(() => {
    listen();
    return hush;
  }, []);
  // At once: a moment later somebody may be typing elsewhere.
  useLayoutEffect(() => {
    setOpen(false);
    document.title = `${entry?.text ?? "Landfall"}${path[1] ? ` ${path[1]}` : ""} · Landfall`;
    document.getElementById("content")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [path.join("/")]);
  const status = useData((signal) => get<Schemas["StatusView"]>("/status", {}, signal), [], { every: 60000 });
  const Shown = entry?.page;
  const One = entry?.one;
  return (
    <div class="frame">
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById("content")?.focus(); }}>Skip to the content</a>
      <header class="top">
        <button type="button" class="plain menu" aria-expanded={open} aria-controls="nav" onClick={() => setOpen(!open)}><span aria-hidden="true">☰</span><span class="sr">Menu</span></button>
        <a class="brand" href="#/"><img src="/favicon.svg" alt="" width="22" height="22" /> Landfall</a>
        <Find />
        <span class={`live ${connected.value ? "on" : ""}`} role="status" title={connected.value ? "Changes arrive as they happen" : "The server is not heard; what you see may be old"}>
          <span aria-hidden="true">●</span> {connected.value ? "live" : "not heard"}
        </span>
        <ThemeChoice />
      </header>
      <nav id="nav" class={open ? "open" : ""} aria-label="Pages">
        <ul>
          {PAGES.map((page) => (
            <li key={page.path}><a href={`#/${page.path}`} aria-current={page === entry ? "page" : undefined}>{page.text}<kbd aria-hidden="true">g {page.key}</kbd></a></li>
          ))}
        </ul>
        <footer>
          <div><strong>{session.value?.name}</strong></div>
          <div class="dim">{session.value?.role}{session.value?.tenant ? ` of ${session.value.tenant}` : ""}</div>
          <button type="button" class="plain small" onClick={() => void signOut()}>Sign out</button>
          <div class="dim small">{status.data ? `version ${status.data.version}` : ""}</div>
        </footer>
      </nav>
      <main id="content" tabIndex={-1}>
        {path.length > 1 && One ? <One key={path[1]} id={path[1]!} /> : Shown ? <Shown key={entry!.path} /> : <p class="empty">There is no such page. <a href="#/">Overview</a></p>}
      </main>
      <Help pages={PAGES.map(({ path, text, key }) => ({ path, text, key }))} />
      <Confirm />
      <Toast />
    </div>
  );
}

// Asked before anything is drawn. With a code in the address the person wants to be somebody else.
if (place.value.path[0] === "sign-in") session.value = null;
const asked = session.value === undefined ? whoami() : undefined;

function Board(): JSX.Element {
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    asked?.catch(() => { setFailed(true); setTimeout(() => whoami().then(() => setFailed(false), () => undefined), 3000); });
  }, []);
  if (session.value === undefined) return <p class="empty" role="status">{failed ? "The server does not answer; the page tries again." : ""}</p>;
  return session.value ? <Frame /> : <SignIn />;
}

render(<Board />, document.getElementById("board")!);
