import { Dot, Empty, Facts, ProblemBox, To } from "../parts";
import { useStore } from "../hooks";
import { go } from "../place";
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
    {(s.onNodes ?? []).length > 0 && <><h3>Not as wanted on</h3><table><thead><tr><th>Node</th><th>Why</th><th>For</th></tr></thead><tbody>
      {s.onNodes!.map((o) => <tr key={o.node + o.text}><td><Dot state={o.state} /> {o.node}</td><td>{o.text}</td><td>{ago(o.since)}</td></tr>)}</tbody></table></>}
    <h3>Pods behind it</h3>
    <ul class="list">{(s.pods ?? []).map((k) => <li key={k}><Dot state={store.pods.get(k)?.state ?? "unknown"} /> <To view="map" sel={"pod/" + k}>{k}</To> <span class="faint">{store.pods.get(k)?.node} {store.pods.get(k)?.ip}</span></li>)}</ul>
  </>;
}
