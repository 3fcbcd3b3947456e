// Emulated hosts: what HNS has and does, how slow it is made, faults, and what happened then.
import { useState } from "preact/hooks";
import { ask, useAsk } from "../hooks";
import { Dot, Empty, To } from "../parts";
import type { State } from "../types";
import { clock, stateWords } from "../words";

interface Objects { networks?: unknown[]; endpoints?: unknown[]; namespaces?: unknown[]; loadBalancers?: unknown[]; routes?: unknown[] }
interface Host {
  name: string; error?: string;
  parts?: {
    stats: { calls?: Record<string, number>; errors?: Record<string, number>; seconds?: number; writes?: number }; latency: { profile?: string };
    faults: { function: string; action?: string; hits: number; seen: number; delayMs?: number }[] | null; service: { state: string; restarts?: number };
    scenarios: { name: string; what: string; needs?: string }[]; dump: Objects;
  };
}
interface Change { at: string; key: string; from?: State; to?: State; text?: string; lasted?: number }

// Rules of hnsd: each is one that operators have met (docs/windows-facts.md names the reports).
const rules: { name: string; act: string; body: unknown; text: string }[] = [
  { name: "Calls that make load balancers fail", act: "faults", body: [{ function: "HcnCreateLoadBalancer", action: "fail", code: 2151350291 }], text: "each call that makes a load balancer fails" },
  { name: "Every call takes 2 s", act: "faults", body: [{ function: "Hcn*", delayMs: 2000 }], text: "each call takes 2 s" },
  { name: "Half of all calls fail", act: "faults", body: [{ function: "Hcn*", action: "fail", code: 2151350291, probability: 0.5, seed: 1 }], text: "half of all calls fail" },
  { name: "Load balancers vanish", act: "lose", body: { kind: "LoadBalancer" }, text: "all load balancers are lost, and nobody is told" },
  { name: "Load balancers are listed, but carry nothing", act: "lose", body: { kind: "LoadBalancer", planeOnly: true }, text: "load balancers stay listed and carry no packets" },
  { name: "HNS restarts and loses what it can lose", act: "service", body: { state: "running", keep: "none" }, text: "HNS restarts and loses load balancers, remote endpoints and routes" },
  { name: "HNS is away for 10 s", act: "service", body: { state: "stopped", forMs: 10000 }, text: "HNS is stopped for 10 s" },
];

export function HostsView({ place }: { place: Record<string, string> }) {
  const asked = useAsk<{ allowed: boolean; none?: boolean; hosts: Host[] }>("hosts", 2000);
  const wall = useAsk<Change[]>("wall", 1000);
  if (asked.error && !asked.value) return <Empty title="The hosts cannot be asked">{asked.error}</Empty>;
  if (!asked.value) return <Empty title="Asking the hosts">Each emulated host is asked for its HNS.</Empty>;
  if (asked.value.none || asked.value.hosts.length === 0) return <Empty title="No emulated hosts">Only local clusters have emulated Windows hosts.</Empty>;
  const find = (place.find ?? "").toLowerCase();
  return <div class="split list-first">
    <section class="scroll cards" aria-label="Emulated hosts" tabIndex={0}>
      {!asked.value.allowed && <p class="faint">This page only reads. <code>porthole web --allow-faults</code> lets it make HNS fail.</p>}
      {asked.value.hosts.filter((h) => h.name.includes(find)).map((h) => <HostCard key={h.name} h={h} allowed={asked.value!.allowed} />)}
    </section>
    <aside class="details" aria-label="What happened"><h2>What happened</h2><Wall list={wall.value ?? []} /></aside>
  </div>;
}

function HostCard({ h, allowed }: { h: Host; allowed: boolean }) {
  const [said, say] = useState("");
  const [rule, choose] = useState("0");
  if (h.error || !h.parts) return <article><h2><Dot state="unknown" /> {h.name}</h2><p>{h.error}</p></article>;
  const p = h.parts;
  const faults = p.faults ?? [];
  const run = async (act: string, body: unknown, text: string) => {
    say("…");
    const { error } = await ask("hosts/do", { host: h.name, act, body, text });
    say(error ?? "done: " + text);
  };
  const calls = Object.entries(p.stats.calls ?? {}).sort((a, b) => b[1] - a[1]).slice(0, 8);
  const number = (list: unknown[] | undefined) => (list ?? []).length;

  return <article>
    <h2><Dot state={p.service.state === "running" && faults.length === 0 ? "right" : "making"} /> {h.name} <span class="faint">HNS is {p.service.state} · latencies: {p.latency.profile ?? "none"}</span></h2>
    <p>{number(p.dump.networks)} networks · {number(p.dump.endpoints)} endpoints · {number(p.dump.loadBalancers)} load balancers · {number(p.dump.namespaces)} namespaces · {number(p.dump.routes)} routes</p>
    <div class="wide"><table><thead><tr><th>Call</th><th>Number</th><th>Failed</th></tr></thead><tbody>
      {calls.map(([name, n]) => <tr key={name}><td>{name}</td><td>{n}</td><td>{p.stats.errors?.[name] ?? 0}</td></tr>)}</tbody></table></div>
    {faults.length > 0 && <ul class="list">{faults.map((f, i) => <li key={i}><Dot state="wrong" /> {f.function}: {[f.action, f.delayMs && `${f.delayMs} ms later`].filter(Boolean).join(", ")} <span class="faint">· hit {f.hits} times</span></li>)}</ul>}
    {allowed && <div class="acts">
      <label>Fault <select value={rule} onChange={(e) => choose(e.currentTarget.value)}>
        <optgroup label="Rules">{rules.map((r, i) => <option key={r.name} value={String(i)}>{r.name}</option>)}</optgroup>
        <optgroup label="Known failures of HNS">{p.scenarios.map((s) => <option key={s.name} value={s.name}>{s.name}: {s.what.slice(0, 80)}</option>)}</optgroup>
      </select></label>
      <button onClick={() => { const r = rules[Number(rule)]; void (r ? run(r.act, r.body, r.text) : run("scenario", { name: rule }, "scenario " + rule)); }}>Make it happen</button>
      <button onClick={async () => { await run("faults", [], "all rules end"); await run("repair", {}, "all rules end, packets are carried again"); }}>End faults</button>
      <span role="status" class="faint">{said}</span>
    </div>}
  </article>;
}

// The wall: what broke, and how long it stayed so.
function Wall({ list }: { list: Change[] }) {
  if (list.length === 0) return <p class="faint">Nothing changed since porthole web was started.</p>;
  return <ul class="list events">{list.slice().reverse().slice(0, 120).map((c, i) => {
    const [kind, ...rest] = c.key.split("/");
    const name = rest.join("/");
    return <li key={c.at + c.key + i}><span class="faint">{clock(c.at)}</span> {c.to ? <Dot state={c.to} /> : "·"} <To view={kind === "service" ? "services" : "map"} sel={kind === "service" ? name : c.key}>{name}</To>{" "}
      {c.to ? `is ${stateWords[c.to]}` : c.from ? "is gone" : ""}{c.to === "right" && c.lasted ? <span class="faint"> after {c.lasted < 10 ? c.lasted.toFixed(1) : Math.round(c.lasted)} s</span> : ""}{c.text ? <span class="faint break">: {c.text}</span> : ""}</li>;
  })}</ul>;
}
