// A score as bars: what each term gave.
import type { JSX } from "preact";
import { score } from "../lib/format";
import { Tip } from "./basics";
import { termText } from "../lib/catalogue";

export interface Term {
  term: string;
  points: number;
  raw?: number;
  weight?: number;
}

function Name({ term }: { term: Term }): JSX.Element {
  return (
    <Tip word={term.term}>
      <strong>{term.term}</strong>
      <p>{termText(term.term) || "No description."}</p>
      {term.raw !== undefined && <p class="dim">It was {score(term.raw)}{term.weight !== undefined ? `, times ${score(term.weight)}` : ""}.</p>}
    </Tip>
  );
}

export function Terms({ terms, total }: { terms: Term[]; total?: number | null | undefined }): JSX.Element {
  // Those that gave nothing are named in one line.
  const idle = terms.filter((term) => term.points === 0);
  const folded = idle.length > 1 && idle.length < terms.length;
  const sorted = terms.filter((term) => !folded || term.points !== 0).sort((a, b) => Math.abs(b.points) - Math.abs(a.points));
  const most = Math.max(1e-9, ...sorted.map((term) => Math.abs(term.points)));
  const negative = sorted.some((term) => term.points < 0);
  if (!sorted.length) return <p class="dim">The policy of this pool gives no points; the first node that fits is taken.</p>;
  return (
    <table class="terms">
      <thead class="sr"><tr><th scope="col">Term</th><th scope="col">Bar</th><th scope="col">Points</th></tr></thead>
      <tbody>
        {sorted.map((term) => {
          const part = (Math.abs(term.points) / most) * (negative ? 50 : 100);
          const left = !negative ? 0 : term.points < 0 ? 50 - part : 50;
          return (
            <tr key={term.term}>
              <th scope="row"><Name term={term} /></th>
              <td class="bar">{term.points !== 0 && <span class={term.points < 0 ? "minus" : "plus"} style={{ left: `${left}%`, width: `${Math.max(part, 0.5)}%` }} />}</td>
              <td class="num">{score(term.points)}</td>
            </tr>
          );
        })}
        {folded && <tr><td colSpan={3} class="dim idle">Nothing from {idle.map((term, place) => <span key={term.term}>{place ? ", " : ""}<Name term={term} /></span>)}</td></tr>}
      </tbody>
      {total !== undefined && total !== null && <tfoot><tr><th scope="row">total</th><td /><td class="num"><strong>{score(total)}</strong></td></tr></tfoot>}
    </table>
  );
}
