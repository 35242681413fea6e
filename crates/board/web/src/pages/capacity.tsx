// Leased capacity: blocks with their ends and prices, and what energy costs.
import type { JSX } from "preact";
import { get, type Schemas } from "../lib/api";
import { ago, clock, count } from "../lib/format";
import { now, useData } from "../lib/live";
import { Card, Empty, Loading, Page, Wrong } from "../parts/basics";

interface Block {
  id: string;
  provider: string;
  instance_type?: string | null;
  tier: string;
  status: string;
  start_at?: number | null;
  end_at?: number | null;
  drain_deadline?: number | null;
  cost_per_hour?: number | null;
  preemptible: boolean;
}

export function Capacity(): JSX.Element {
  const { data, error } = useData((signal) => get<Block[]>("/blocks", {}, signal), [], { settings: true, every: 60000 });
  const nodes = useData((signal) => get<Schemas["CapacitySnapshot"]>("/capacity_snapshot", {}, signal), [], { nodes: "any", atMost: 10000 });
  const price = useData((signal) => get<Schemas["EnergyPrice"]>("/energy-price", {}, signal), [], { every: 60000 });
  const members = new Map<string, number>();
  for (const node of nodes.data?.nodes ?? []) if (node.block) members.set(node.block, (members.get(node.block) ?? 0) + 1);
  const ends = (block: Block): number | undefined => [block.end_at, block.drain_deadline].filter((at): at is number => typeof at === "number").sort((a, b) => a - b)[0];
  return (
    <Page title="Capacity" aside={price.data?.price !== null && price.data?.price !== undefined && <span class="dim">energy costs {price.data.price} (0 is free, 1 is dear)</span>}>
      <Wrong error={error} />
      <Card title="Blocks">
        {!data ? !error && <Loading /> : data.length ? (
          <div class="scroll" tabIndex={0} role="region" aria-label="Blocks">
            <table class="rows">
              <thead><tr><th scope="col">Block</th><th scope="col">Provider</th><th scope="col">Sold as</th><th scope="col">Tier</th><th scope="col">Status</th><th scope="col" class="num">Nodes</th><th scope="col">Ends</th><th scope="col" class="num">Per hour</th><th scope="col">May be taken back</th></tr></thead>
              <tbody>{data.map((block) => <tr key={block.id}><td class="id">{block.id}</td><td>{block.provider}</td><td>{block.instance_type ?? ""}</td><td>{block.tier}</td><td>{block.status}</td><td class="num">{count(members.get(block.id) ?? 0)}</td><td>{ends(block) ? `${ago(ends(block), now.value)} (${clock(ends(block))})` : "never"}</td><td class="num">{block.cost_per_hour ?? ""}</td><td>{block.preemptible ? "yes" : "no"}</td></tr>)}</tbody>
            </table>
          </div>
        ) : <Empty>No leased capacity. A block in the settings file, or <code>PUT /api/v1/blocks/NAME</code>, tells Landfall when machines go and what they cost.</Empty>}
      </Card>
    </Page>
  );
}
