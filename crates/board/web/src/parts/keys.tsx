// Keys that work on every page, and the list of them.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { go } from "../lib/router";

export interface Jump {
  path: string;
  text: string;
  key: string;
}

const open = signal(false);

function typing(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

/** Moves the focus through the rows of the page's table. */
function move(step: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main table.rows tbody tr a, main ol.rows > li a")].filter((link, place, all) => all.findIndex((other) => other.closest("tr, li") === link.closest("tr, li")) === place);
  const here = rows.indexOf(document.activeElement as HTMLElement);
  rows[Math.max(0, Math.min(rows.length - 1, here + step))]?.focus();
}

export function useKeys(jumps: Jump[]): void {
  useEffect(() => {
    let going = 0;
    const press = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event) || document.querySelector("dialog[open]")) return;
      const jump = performance.now() - going < 1200 && jumps.find(({ key }) => key === event.key);
      going = 0;
      if (jump) go(`#/${jump.path}`);
      else if (event.key === "g") going = performance.now();
      else if (event.key === "/") document.getElementById("find")?.focus();
      else if (event.key === "?") open.value = true;
      else if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

export function Help({ pages }: { pages: Jump[] }): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open.value && !box.current?.open) box.current?.showModal();
  }, [open.value]);
  return (
    <dialog ref={box} class="confirm" aria-labelledby="keys-title" onClose={() => (open.value = false)}>
      <h2 id="keys-title">Keys</h2>
      <table class="keys">
        <tbody>
          <tr><th scope="row"><kbd>/</kbd></th><td>find a job or a node</td></tr>
          <tr><th scope="row"><kbd>j</kbd> <kbd>k</kbd></th><td>next and previous row; Enter opens it</td></tr>
          <tr><th scope="row"><kbd>?</kbd></th><td>this list</td></tr>
          {pages.map((page) => <tr key={page.path}><th scope="row"><kbd>g</kbd> <kbd>{page.key}</kbd></th><td>{page.text}</td></tr>)}
        </tbody>
      </table>
      <div class="buttons"><button type="button" onClick={() => box.current?.close()}>Close</button></div>
    </dialog>
  );
}
