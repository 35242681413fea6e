// What every term does, asked for once.
import { signal } from "@preact/signals";
import { get, type Schemas } from "./api";

const terms = signal<Map<string, Schemas["TermView"]>>(new Map());
let asked = false;

export function termText(name: string): string {
  if (!asked) {
    asked = true;
    get<Schemas["TermView"][]>("/terms").then(
      (all) => (terms.value = new Map(all.map((term) => [term.name, term]))),
      () => (asked = false),
    );
  }
  return terms.value.get(name)?.description ?? "";
}
