// The server's API, with types made from its OpenAPI document.
import { signal } from "@preact/signals";
import type { components } from "../gen/api";

export type Schemas = components["schemas"];
export type Job = Schemas["JobView"];
export type Node = Schemas["NodeView"];
export type Pool = Schemas["PoolView"];
export type Session = Schemas["SessionView"];

/** What went wrong, as the server says it. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint?: string,
    readonly field?: string,
  ) {
    super(message);
  }
}

/** Who is signed in; null: nobody; undefined: not known yet. */
export const session = signal<Session | null | undefined>(undefined);

export type Query = Record<string, string | number | undefined | null>;

function address(path: string, query?: Query): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {}))
    if (value !== undefined && value !== null && value !== "") params.set(name, String(value));
  const text = params.toString();
  return `/api/v1${path}${text ? `?${text}` : ""}`;
}

async function problem(response: Response): Promise<Problem> {
  try {
    const said = await response.json();
    return new Problem(response.status, said.code ?? "", said.message ?? response.statusText, said.hint, said.field);
  } catch {
    return new Problem(response.status, "", `the server answered ${response.status}`);
  }
}

async function send(method: string, path: string, query?: Query, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {};
  // Pages of other origins cannot send this; the server asks for it with every change.
  if (method !== "GET") headers["landfall-board"] = "1";
  if (body !== undefined) headers["content-type"] = "application/json";
  let response: Response;
  try {
    response = await fetch(address(path, query), { method, headers, body: body === undefined ? null : JSON.stringify(body), signal: signal ?? null });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, "unreachable", "the server does not answer", "it may be starting anew; the page tries again by itself");
  }
  if (response.ok) return response;
  const wrong = await problem(response);
  if (wrong.status === 401 && path !== "/session") session.value = null;
  throw wrong;
}

export async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return (await send("GET", path, query, undefined, signal)).json();
}

export async function post<T>(path: string, body?: unknown): Promise<T> {
  return (await send("POST", path, undefined, body)).json();
}

export async function put<T>(path: string, body: unknown): Promise<T> {
  return (await send("PUT", path, undefined, body)).json();
}

export async function remove<T>(path: string): Promise<T> {
  return (await send("DELETE", path)).json();
}

/** Lines of JSON as they arrive. */
export async function* lines<T>(path: string, query: Query, signal: AbortSignal): AsyncGenerator<T[]> {
  const response = await send("GET", path, query, undefined, signal);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    const found = parts.filter((line) => line.trim()).map((line) => JSON.parse(line) as T);
    if (found.length) yield found;
  }
}

export async function whoami(): Promise<void> {
  session.value = await get<Session | null>("/session");
}

export async function signIn(by: { code?: string; token?: string }): Promise<void> {
  session.value = await post<Session>("/session", by);
}

export async function signOut(): Promise<void> {
  await remove("/session");
  session.value = null;
}

export const isOperator = (): boolean => session.value?.role === "admin" || session.value?.role === "operator";

/** Whether one may steer a job. */
export const maySteer = (job: Job): boolean => isOperator() || (!!session.value?.tenant && session.value.tenant === job.tenant);

export const seg = encodeURIComponent;
