import { Dot, Empty, Facts, ProblemBox, To } from "../parts";
import { useMemo } from "preact/hooks";
import { useAsk, useStore } from "../hooks";
import { go } from "../place";
import { TimePlot } from "../plot";
import { store } from "../store";
import type { Service } from "../types";
import { ago } from "../words";

const shownAtOnce = 300;

export function ServicesView({ place }: { place: Record<string, string> }) {
  useStore((key) => key.startsWith("service/"));
  const find = (place.find ?? "").toLowerCase();
  const list = [...store.services.values()].filter((s) => s.key.includes(find) || s.ips.some((ip) => ip.startsWith(find))).sort((a, b) => (a.key < b.key ? -1 : 1));
  const chosen = store.services.get(place.sel ?? "");
  return <div class={"split list-first" + (place.sel ? " chosen" : "")}>
    <section class="scroll" aria-label="Services" tabIndex={0}>
      {list.length === 0 ? <Empty title="No services">{find ? `None has “${find}” in its name or address.` : "The cluster has none yet."}</Empty> :
        <table class="rows"><thead><tr><th>Service</th><th>Addresses</th><th>Ports</th><th>Ready</th></tr></thead><tbody>
          {list.slice(0, shownAtOnce).map((s) => <tr key={s.key} aria-selected={s === chosen}>
            <td><Dot state={s.state} /> <To view="services" sel={s.key}>{s.name}</To><br /><span class="faint">{s.ns}</span></td>
            <td>{s.ips.join(", ") || s.type}</td><td>{ports(s)}</td><td>{s.ready}{s.unready > 0 && <span class="faint"> of {s.ready + s.unready}</span>}</td></tr>)}
        </tbody></table>}
      {list.length > shownAtOnce && <p class="faint">and {list.length - shownAtOnce} more: find them by name</p>}
    </section>
    <aside class="details" aria-label="Details">
      {place.sel && <button class="close quiet" onClick={() => go({ sel: "" })} aria-label="Close the details">✕</button>}
      {chosen ? <ServiceDetails s={chosen} /> : place.sel ? <Empty title="It is not there">There is no service {place.sel} in this cluster now.</Empty> : <Empty title="Services">Choose one to see its backends and what each node has of it.</Empty>}
    </aside>
  </div>;
}

function ports(s: Service): string {
  return s.ports.map((p) => `${p.port}/${p.protocol}` + (p.nodePort ? ` (node ${p.nodePort})` : "")).join(", ");
}

function ServiceDetails({ s }: { s: Service }) {
  return <>
    <h2><Dot state={s.state} /> {s.key}</h2>
    {(s.problems ?? []).map((p) => <ProblemBox key={p.text} p={p} />)}
    <Facts rows={[["Type", s.type], ["Addresses", s.ips.join(", ")], ["Outside", (s.external ?? []).join(", ")], ["Ports", ports(s)], ["Endpoints", `${s.ready} ready, ${s.unready} not ready, ${s.ending} ending`]]} />
    <OnNodes name={s.key} />
    <Plots />
    <h3>Pods behind it</h3>
    <ul class="list">{(s.pods ?? []).map((k) => <li key={k}><Dot state={store.pods.get(k)?.state ?? "unknown"} /> <To view="map" sel={"pod/" + k}>{k}</To> <span class="faint">{store.pods.get(k)?.node} {store.pods.get(k)?.ip}</span></li>)}</ul>
  </>;
}

interface OnNode { node: string; error?: string; none?: boolean; line?: { state?: string; frontends?: number; programmed?: number; reason?: string; message?: string; since?: string; failures?: number } }

// What each node has programmed, since when.
function OnNodes({ name }: { name: string }) {
  const asked = useAsk<OnNode[]>("service?name=" + encodeURIComponent(name), 1000);
  if (!asked.value) return <p class="faint">{asked.error ?? "Asking the nodes…"}</p>;
  const state = (o: OnNode) => (o.error || o.none || !o.line ? "unknown" : o.line.state === "programmed" ? "right" : o.line.state === "pending" ? "making" : "wrong");
  return <><h3>On the nodes</h3><table><thead><tr><th>Node</th><th>Frontends</th><th>For</th></tr></thead><tbody>
    {asked.value.map((o) => <tr key={o.node}><td><Dot state={state(o)} /> <To view="map" sel={"node/" + o.node}>{o.node}</To></td>
      <td>{o.none ? <span class="faint">kept by kube-proxy of Kubernetes</span> : o.error ? <span class="faint">{o.error}</span> : !o.line ? <span class="faint">nothing to program</span> :
        <>{o.line.programmed ?? 0} of {o.line.frontends ?? 0} programmed{(o.line.reason || o.line.message) && <><br /><span class="faint">{[o.line.reason, o.line.message].filter(Boolean).join(": ")}{o.line.failures ? ` · tried ${o.line.failures} times` : ""}</span></>}</>}</td>
      <td>{o.line?.since ? ago(o.line.since) : ""}</td></tr>)}
  </tbody></table></>;
}

interface Points { latency: { at: string; node: string; median: number; p99: number; count: number }[]; calls: { at: string; node: string; call: string; perSecond: number; failed: number; took: number }[] }

// How long changes take, and what HNS is asked for, over all services: HNS and the proxies count no single one.
function Plots() {
  const asked = useAsk<Points>("plots", 3000);
  const p = asked.value;
  const series = useMemo(() => p && {
    latency: { label: "From EndpointSlice to programmed, slowest 1 % by node", unit: "ms", data: p.latency.map((d) => ({ at: d.at, y: Math.max(1, d.p99), z: d.node })) },
    calls: { label: "Calls to HNS by node", unit: "per second", data: sum(p.calls) },
  }, [JSON.stringify(p)]);
  if (!series) return <p class="faint">{asked.error ?? ""}</p>;
  return <><TimePlot s={series.latency} log /><TimePlot s={series.calls} /></>;
}

function sum(calls: Points["calls"]) {
  const out = new Map<string, { at: string; y: number; z: string }>();
  for (const c of calls) {
    const key = c.at + c.node;
    const was = out.get(key);
    if (was) was.y += c.perSecond;
    else out.set(key, { at: c.at, y: c.perSecond, z: c.node });
  }
  return [...out.values()];
}
