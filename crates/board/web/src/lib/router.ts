// Where the page is: a path and parameters behind the number sign, so that the server knows one page only.
import { computed, signal } from "@preact/signals";

const hash = signal(location.hash);
addEventListener("hashchange", () => (hash.value = location.hash));

export interface Place {
  path: string[];
  params: URLSearchParams;
}

export const place = computed<Place>(() => {
  const [path = "", query = ""] = hash.value.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), params: new URLSearchParams(query) };
});

export function link(path: string, params: Record<string, string | undefined | null> = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value) query.set(name, value);
  const text = query.toString();
  return `#${path}${text ? `?${text}` : ""}`;
}

/** The way to a page of one thing: `/jobs/12`. */
export function at(kind: string, id: string): string {
  return `#/${kind}/${encodeURIComponent(id)}`;
}

export function go(to: string, replace = false): void {
  const target = to.startsWith("#") ? to : `#${to}`;
  if (!replace) location.hash = target;
  else {
    history.replaceState(null, "", target);
    hash.value = target;
  }
}

/** Changes parameters of the present page. */
export function setParams(changes: Record<string, string | undefined | null>): void {
  const { path, params } = place.value;
  const next: Record<string, string | undefined | null> = { ...Object.fromEntries(params), ...changes };
  go(link(`/${path.map(encodeURIComponent).join("/")}`, next), true);
}
