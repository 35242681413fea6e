// What all may draw and move; leased capacity: blocks with their ends and prices, who sells them, what energy costs; and peers with trust, offers
// and accounts.
import type { JSX } from "preact";
import { get, type Pool, type Schemas } from "../lib/api";
import { ago, bytes, clock, cores, count, mib, plural, span } from "../lib/format";
import { now, useData } from "../lib/live";
import { Card, Empty, Facts, Loading, Meter, Page, shortPeer, Wrong } from "../parts/basics";

export interface Block {
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

interface Provider {
  name: string;
  class: string;
  shape: { gpus: number; vram_mib: number; cpu_milli: number; ram_mib: number };
  lease_max_ms: number;
  enabled: boolean;
}

/** Money travels in millionths. */
function money(millionths: number): string {
  return (millionths / 1e6).toLocaleString("en-GB", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

/** When its nodes have to be empty. */
export function endOf(block: Block): number | undefined {
  return [block.end_at, block.drain_deadline].filter((at): at is number => typeof at === "number").sort((a, b) => a - b)[0];
}

/** What all pools together draw and move, beside the caps. */
function Caps(): JSX.Element {
  const { data, error } = useData((signal) => get<Schemas["CapsView"]>("/caps", {}, signal), [], { settings: true, nodes: "any", every: 10000, atMost: 5000 });
  const one = (used: number, cap: number | null | undefined, shown: (amount: number) => string): JSX.Element =>
    typeof cap === "number" ? <Meter used={used} total={cap} text={`${shown(used)} of ${shown(cap)}`} /> : <>{shown(used)} <span class="dim">(no cap)</span></>;
  return (
    <Card title="Caps of all pools together">
      <Wrong error={error} />
      {data ? <Facts rows={[["power drawn", one(data.drawn_w, data.power_w, (watts) => `${count(watts)} W`)], ["moved to and from storage", one(data.moved_bytes_s, data.io_bytes_s, (amount) => `${bytes(amount)}/s`)]]} /> : !error && <Loading />}
    </Card>
  );
}

/** Who sells blocks, and in which pieces. */
function Providers(): JSX.Element {
  const { data, error } = useData((signal) => get<Provider[]>("/providers", {}, signal), [], { settings: true });
  const HOW: Record<string, string> = { bulk: "whole nodes only", exact: "as many GPUs as are asked for" };
  return (
    <Card title="Providers">
      <Wrong error={error} />
      {!data ? !error && <Loading /> : data.length ? (
        <div class="scroll" tabIndex={0} role="region" aria-label="Providers">
          <table class="rows">
            <thead><tr><th scope="col">Provider</th><th scope="col">Sells</th><th scope="col">Largest node</th><th scope="col" class="num">Longest lease</th><th scope="col">In use</th></tr></thead>
            <tbody>{data.map(({ name, class: how, shape, lease_max_ms, enabled }) => <tr key={name} class={enabled ? "" : "off"}><td class="id">{name}</td><td>{HOW[how] ?? how}</td><td>{count(shape.gpus)} GPUs of {mib(shape.vram_mib)}, {cores(shape.cpu_milli)} cores, {mib(shape.ram_mib)}</td><td class="num">{span(lease_max_ms)}</td><td>{enabled ? "yes" : "no"}</td></tr>)}</tbody>
          </table>
        </div>
      ) : <Empty>Nobody who sells capacity was named. <code>landfall providers set NAME</code> names one.</Empty>}
    </Card>
  );
}

function Peers(): JSX.Element {
  const pools = useData((signal) => get<Pool[]>("/pools", {}, signal), [], { settings: true });
  if (!pools.data) return <Card title="Peers"><Wrong error={pools.error} />{!pools.error && <Loading />}</Card>;
  return pools.data.some(({ dispatch }) => dispatch === "negotiate") ? <Known /> : <Card title="Peers"><Empty>This server is no peer: none of its pools negotiates. <code>landfall up --peer</code> makes it one.</Empty></Card>;
}

/** What a peer has left: what it has none of is not named. */
function free(facts: NonNullable<Schemas["PeerView"]["facts"]>): string {
  const gpus = facts.gpus ? `${count(facts.gpus_free)} of ${plural(facts.gpus, "GPU")}, ` : "";
  const queued = facts.queued ? `, ${count(facts.queued)} queued` : "";
  return `${gpus}${count(Math.round(facts.cpu_free_milli / 1000))} of ${count(Math.round(facts.cpu_milli / 1000))} cores${queued}`;
}

function Known(): JSX.Element {
  const own = useData((signal) => get<Schemas["OwnPeer"]>("/peer", {}, signal), [], { settings: true });
  const { data: all, error } = useData((signal) => get<Schemas["PeerView"][]>("/peers", {}, signal), [], { settings: true, every: 5000 });
  // It is a peer to itself, and needs no line to it.
  const data = all?.filter((peer) => peer.id !== own.data?.id);
  return (
    <Card title="Peers" aside={own.data && <span class="dim" title={own.data.id}>this one negotiates for pool {own.data.pool}</span>}>
      <Wrong error={error} />
      {own.data && <Facts rows={[["this peer", <code class="long">{own.data.id}</code>], ["reached at", own.data.addresses.length ? <code class="long">{own.data.addresses[0]}</code> : undefined], ["invitation", own.data.invitation && <code class="long">{own.data.invitation}</code>]]} />}
      {!data ? !error && <Loading /> : data.length ? (
        <div class="scroll" tabIndex={0} role="region" aria-label="Peers">
          <table class="rows">
            <thead><tr><th scope="col">Peer</th><th scope="col">Trust</th><th scope="col">How near</th><th scope="col">Free</th><th scope="col" class="num">Round trip</th><th scope="col" class="num">Bought</th><th scope="col" class="num">Sold</th><th scope="col">Note</th></tr></thead>
            <tbody>
              {data.map((peer) => (
                <tr key={peer.id} class={peer.blocked ? "off" : ""}>
                  <td class="id" title={peer.id}>{shortPeer(peer.id)} <span class={`state ${peer.connected ? "good" : "off"}`}>{peer.connected ? "connected" : "not connected"}</span></td>
                  <td>{peer.trust !== null && peer.trust !== undefined ? <Meter used={peer.trust} total={1} text={peer.trust.toFixed(2)} /> : "nobody said"}{peer.trust_moved ? <span class="dim" title={Object.entries(peer.deeds ?? {}).map(([deed, times]) => `${deed.replace(/_/g, " ")} ${times}`).join(", ")}> {peer.trust_moved > 0 ? "+" : "−"}{Math.abs(peer.trust_moved).toFixed(2)} for what it did</span> : null}</td>
                  <td>{peer.scope}</td>
                  <td>{peer.facts ? free(peer.facts) : "said nothing yet"}</td>
                  <td class="num">{peer.rtt_ms !== null && peer.rtt_ms !== undefined ? `${peer.rtt_ms.toFixed(0)} ms` : ""}</td>
                  <td class="num">{peer.account?.bought ? `${plural(peer.account.bought, "job")} for ${count(peer.account.spent)}` : ""}</td>
                  <td class="num">{peer.account?.sold ? `${plural(peer.account.sold, "job")} for ${count(peer.account.earned)}` : ""}</td>
                  <td class="wraps">{peer.blocked ? "blocked. " : ""}{peer.note ?? ""}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : <Empty>No other peer is known yet. <code>landfall peers add ADDRESS</code> keeps in touch with one.</Empty>}
    </Card>
  );
}

export function Capacity(): JSX.Element {
  const { data, error } = useData((signal) => get<Block[]>("/blocks", {}, signal), [], { settings: true, every: 60000 });
  const nodes = useData((signal) => get<Schemas["CapacitySnapshot"]>("/capacity_snapshot", {}, signal), [], { nodes: "any", atMost: 10000 });
  const price = useData((signal) => get<Schemas["EnergyPrice"]>("/energy-price", {}, signal), [], { every: 60000 });
  const members = new Map<string, number>();
  for (const node of nodes.data?.nodes ?? []) if (node.block) members.set(node.block, (members.get(node.block) ?? 0) + 1);
  return (
    <Page title="Capacity and peers" aside={price.data?.price !== null && price.data?.price !== undefined && <span class="dim">energy costs {price.data.price} (0 is free, 1 is dear)</span>}>
      <Wrong error={error} />
      <Caps />
      <Card title="Blocks">
        {!data ? !error && <Loading /> : data.length ? (
          <div class="scroll" tabIndex={0} role="region" aria-label="Blocks">
            <table class="rows">
              <thead><tr><th scope="col">Block</th><th scope="col">Provider</th><th scope="col">Sold as</th><th scope="col">Tier</th><th scope="col">Status</th><th scope="col" class="num">Nodes</th><th scope="col">Ends</th><th scope="col" class="num">Per hour</th><th scope="col">May be taken back</th></tr></thead>
              <tbody>{data.map((block) => <tr key={block.id}><td class="id">{block.id}</td><td>{block.provider}</td><td>{block.instance_type ?? ""}</td><td>{block.tier}</td><td>{block.status}</td><td class="num">{count(members.get(block.id) ?? 0)}</td><td>{endOf(block) ? `${ago(endOf(block), now.value)} (${clock(endOf(block))})` : "never"}</td><td class="num">{block.cost_per_hour ? money(block.cost_per_hour) : ""}</td><td>{block.preemptible ? "yes" : "no"}</td></tr>)}</tbody>
            </table>
          </div>
        ) : <Empty>No leased capacity. A block in the settings file, or <code>PUT /api/v1/blocks/NAME</code>, tells Landfall when machines go and what they cost.</Empty>}
      </Card>
      <Providers />
      <Peers />
    </Page>
  );
}
