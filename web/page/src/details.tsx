// What is beside the map: the chosen object, or what is wrong anywhere.
import { ChainView } from "./chain";
import { useClock, useStore } from "./hooks";
import { matches } from "./map";
import { Dot, Empty, Facts, ProblemBox, To } from "./parts";
import { go } from "./place";
import { store } from "./store";
import type { Node, Pod, Problem, Service } from "./types";
import { ago, clock, count, release } from "./words";

const shownAtOnce = 60;

export function Details({ sel, find }: { sel: string; find: string }) {
  useStore(() => true);
  useClock(5000);
  const [kind, ...rest] = sel.split("/");
  const name = rest.join("/");
  const node = kind === "node" ? store.nodes.get(name) : undefined;
  const pod = kind === "pod" ? store.pods.get(name) : undefined;
  return <aside class="details" aria-label="Details">
    {sel && <button class="close quiet" onClick={() => go({ sel: "" })} aria-label="Close the details">✕</button>}
    {node ? <NodeDetails n={node} /> : pod ? <PodDetails p={pod} /> : sel ? <Empty title="It is not there">There is no {kind} {name} in this cluster now.</Empty>
      : find ? <Found find={find} /> : <Overview />}
  </aside>;
}

function Found({ find }: { find: string }) {
  const text = find.toLowerCase();
  const nodes = [...store.nodes.values()].filter((n) => n.name.includes(text) || n.addresses.some((a) => a.startsWith(text)));
  const pods = [...store.pods.values()].filter((p) => matches(p, text));
  if (nodes.length + pods.length === 0) return <Empty title="Nothing found">No node or pod has “{find}” in its name, namespace, address, phase or image.</Empty>;
  return <><h2>{count(nodes.length + pods.length, "result")}</h2><ul class="list">
    {nodes.map((n) => <li key={n.name}><Dot state={n.state} /> <To view="map" sel={"node/" + n.name}>{n.name}</To> <span class="faint">node</span></li>)}
  </ul><PodList pods={pods} /></>;
}

function Overview() {
  const nodes = [...store.nodes.values()];
  const list: { about: string; view: string; sel: string; p: Problem }[] = [];
  for (const n of nodes) for (const p of n.problems ?? []) list.push({ about: n.name, view: "map", sel: "node/" + n.name, p });
  for (const s of store.services.values()) for (const p of s.problems ?? []) list.push({ about: s.key, view: "services", sel: s.key, p });
  for (const o of store.pods.values()) if (o.problem && o.state === "wrong") list.push({ about: o.key, view: "map", sel: "pod/" + o.key, p: o.problem });
  const rank = { wrong: 0, unknown: 1, making: 2, right: 3 };
  list.sort((a, b) => rank[a.p.state] - rank[b.p.state]);
  const windows = nodes.filter((n) => n.os === "windows").length;

  return <>
    <h2>Cluster</h2>
    <Facts rows={[["Nodes", `${nodes.filter((n) => n.ready).length} of ${nodes.length} ready, ${windows} with Windows`], ["Pods", store.pods.size], ["Services", store.services.size],
      ["Pod network", store.cluster?.modes.join(", ") || "not known"]]} />
    <h2>{list.length === 0 ? "Nothing is wrong" : `What is not right (${list.length})`}</h2>
    {list.length === 0 && <p class="faint">Nodes, routes, services and pods are as they should be.</p>}
    {list.slice(0, shownAtOnce).map(({ about, view, sel, p }) => <ProblemBox key={about + p.text} p={p} about={<To view={view} sel={sel}>{about}</To>} />)}
    {list.length > shownAtOnce && <p class="faint">and {list.length - shownAtOnce} more</p>}
  </>;
}

function NodeDetails({ n }: { n: Node }) {
  const pods = [...store.pods.values()].filter((p) => p.node === n.name);
  return <>
    <h2><Dot state={n.state} /> {n.name}</h2>
    {(n.problems ?? []).map((p) => <ProblemBox key={p.text} p={p} />)}
    <Facts rows={[["System", n.os === "windows" ? `${release(n.build)} (${n.build})` : n.osImage], ["Addresses", n.addresses.join(", ")], ["Pod range", n.podCIDR],
      ["Kubelet", n.kubelet], ["Runtime", n.runtime], ["Pod network", n.routes.mode], ["Routes", routes(n)], ["Services", proxy(n)]]} />
    {(n.routes.wrong ?? []).length > 0 && <><h3>Routes that are not right</h3><table><thead><tr><th>To</th><th>Through</th><th>State</th></tr></thead><tbody>
      {n.routes.wrong!.map((r) => <tr key={r.to}><td>{r.node}<br /><span class="faint">{r.to}</span></td><td>{r.nextHop || "–"}</td><td>{r.state}<br /><span class="faint">{r.reason}</span></td></tr>)}
    </tbody></table></>}
    {(n.peers ?? []).length > 0 && <><h3>BGP sessions</h3><table><thead><tr><th>Peer</th><th>Session</th><th>Learnt</th></tr></thead><tbody>
      {n.peers!.map((p) => <tr key={p.address}><td>{p.address}<br /><span class="faint">AS {p.as}</span></td><td>{p.up ? "established" : "none"} <span class="faint">{p.since && ago(p.since)}</span></td><td>{p.learnt}</td></tr>)}
    </tbody></table></>}
    <h3>Step by step</h3><ChainView kind="node" name={n.name} />
    <h3>{count(pods.length, "pod")}</h3><PodList pods={pods} />
  </>;
}

function routes(n: Node) {
  if (n.routes.none) return "no agent of Porthole";
  if (!n.routes.known) return "not known yet";
  return `${n.routes.present} of ${n.routes.wanted} present` + old(n.routes) + (n.routes.repairs ? `, ${n.routes.repairs} put back` : "");
}

function proxy(n: Node) {
  if (n.proxy.none) return "kept by another program than Porthole’s service proxy";
  if (!n.proxy.known) return "not known yet";
  return `${n.proxy.programmed} of ${n.proxy.wanted} frontends programmed` + old(n.proxy);
}

function old(p: { error?: string; at?: string }): string {
  return p.error ? ` at ${clock(p.at)}, ${ago(p.at)} ago` : "";
}

function PodDetails({ p }: { p: Pod }) {
  const services = [...store.services.values()].filter((s: Service) => s.pods?.includes(p.key));
  return <>
    <h2><Dot state={p.state} /> {p.name}</h2>
    {p.problem && <ProblemBox p={p.problem} />}
    <Facts rows={[["Namespace", p.ns], ["Phase", p.phase], ["Node", p.node ? <To view="map" sel={"node/" + p.node}>{p.node}</To> : "none yet"], ["Address", p.ip], ["Made", `${ago(p.created)} ago`],
      ["Restarts", p.restarts || ""], ["Images", <>{p.images.map((i) => <span class="break" key={i}>{i}<br /></span>)}</>],
      ["Services", services.length ? <>{services.map((s) => <><To view="services" sel={s.key}>{s.key}</To><br /></>)}</> : ""]]} />
    <h3>From bind to ready</h3><ChainView kind="pod" name={p.key} />
  </>;
}

export function PodList({ pods }: { pods: Pod[] }) {
  const rank = { wrong: 0, unknown: 1, making: 2, right: 3 };
  const sorted = [...pods].sort((a, b) => rank[a.state] - rank[b.state] || (a.key < b.key ? -1 : 1));
  return <><ul class="list">{sorted.slice(0, shownAtOnce).map((p) => <li key={p.key}><Dot state={p.state} /> <To view="map" sel={"pod/" + p.key}>{p.name}</To> <span class="faint">{p.ns}{p.state !== "right" && " · " + p.phase}</span></li>)}</ul>
    {sorted.length > shownAtOnce && <p class="faint">and {sorted.length - shownAtOnce} more: find them by name</p>}</>;
}
