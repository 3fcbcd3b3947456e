// A packet's way: both ends, each hop with the rule that decides, and the first that is wrong.
import dagre from "@dagrejs/dagre";
import { useState } from "preact/hooks";
import { ask, useAsk } from "../hooks";
import { Command, Dot, Empty } from "../parts";
import { go } from "../place";
import { store } from "../store";

interface Hop { at: string; what: string; decides: string; wrong?: { found: string; should: string; who: string }; unknown?: string }
interface Way { backend?: string; hops: Hop[] | null; answer?: Hop[]; via: string[] }
interface Sighting { at: string; interface: string; out: boolean; from: string; to: string; micros: number; answer?: boolean }
interface Probe { sent: string; answer?: string; sightings: Sighting[]; way: number; hop: number; lost?: string; answerLost?: string }
interface Result { from: string; to: string; ways: Way[]; first?: Hop; unknown?: string; probe?: Probe }

export function PacketView({ place }: { place: Record<string, string> }) {
  const [from, to, protocol] = [place.from ?? "", place.to ?? "", place.protocol ?? "tcp"];
  const [again, setAgain] = useState(0);
  const ready = from !== "" && to !== "";
  const asked = useAsk<Result>(ready ? `path?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}&protocol=${protocol}` : "", 0, again);
  // What a probe found is shown in place of what was computed, until something else is asked for.
  const key = [from, to, protocol, again].join(" ");
  const [probed, setProbed] = useState<{ key: string; busy: boolean; value?: Result; error?: string }>({ key: "", busy: false });
  const mine = probed.key === key ? probed : undefined;
  const probe = async () => {
    setProbed({ key, busy: true });
    setProbed({ key, busy: false, ...(await ask<Result>(`path?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}&protocol=${protocol}`, {})) });
  };
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const data = new FormData(e.currentTarget as HTMLFormElement);
    go({ from: String(data.get("from")), to: String(data.get("to")), protocol: String(data.get("protocol")) });
    setAgain(again + 1);
  };

  return <section class="scroll" aria-label="A packet’s way">
    <form class="ask" onSubmit={submit}>
      <label>From <input name="from" list="ends" value={from} placeholder="pod, node or address" required /></label>
      <label>To <input name="to" list="ends" value={to} placeholder="pod, service:port, node or address" required /></label>
      <label>Protocol <select name="protocol" value={protocol}><option>tcp</option><option>udp</option><option>sctp</option></select></label>
      <button class="primary" type="submit" disabled={asked.busy}>{asked.busy ? "Asking the machines…" : "Follow"}</button>
      {store.cluster?.local && <button type="button" disabled={!ready || mine?.busy} onClick={probe}>{mine?.busy ? "Sending…" : "Send a probe"}</button>}
      <datalist id="ends">{ends().map((name) => <option key={name} value={name} />)}</datalist>
    </form>
    {!ready && <Empty title="Follow a packet">Choose two ends. Each machine is asked for its routes, neighbours, load balancers and rules; the way is computed from them, and nothing is sent. In a local cluster a probe can be sent besides: one packet, watched on every machine.</Empty>}
    {asked.error && <div class="problem s-wrong" role="alert"><p><Dot state="wrong" /> {asked.error}</p></div>}
    {mine?.error && <div class="problem s-wrong" role="alert"><p><Dot state="wrong" /> No probe was sent: {mine.error}</p></div>}
    {(mine?.value ?? asked.value) && <Ways r={(mine?.value ?? asked.value)!} />}
  </section>;
}

function ends(): string[] {
  const list = [...store.nodes.keys(), ...[...store.services.values()].flatMap((s) => s.ports.map((p) => `${s.key}:${p.port}`)), ...store.pods.keys()];
  return list.slice(0, 1500);
}

function Ways({ r }: { r: Result }) {
  const first = r.first;
  return <>
    <h2>{r.from} → {r.to}</h2>
    {r.unknown && <div class="problem s-unknown"><p><Dot state="unknown" /> {r.unknown}</p></div>}
    {first ? <div class="problem s-wrong"><p><Dot state="wrong" /> The first hop that is wrong is at {first.at} ({first.what}): {first.wrong!.found}. It should be: {first.wrong!.should}. Who makes it: {first.wrong!.who}.</p>
      <Command text={`porthole path ${r.from.replace(/ .*/, "")} ${r.to.replace(/ .*/, "")}`} /></div>
      : <div class="problem s-right"><p><Dot state="right" /> Nothing is wrong{r.ways.some((w) => all(w).some((h) => h.unknown)) ? " as far as it is known" : ""}.</p></div>}
    {r.probe && <ProbeBox p={r.probe} />}
    {r.ways.map((w, i) => <WayDrawing key={i} w={w} probe={r.probe?.way === i ? r.probe : undefined} n={r.ways.length > 1 ? `way ${i + 1} of ${r.ways.length}` : ""} />)}
  </>;
}

// ProbeBox says what became of a probe, and where it was seen.
function ProbeBox({ p }: { p: Probe }) {
  const state = p.lost || p.answerLost ? "wrong" : "right";
  return <div class={`problem probe s-${state}`} role="status"><p><Dot state={state} /> A probe was sent: {p.sent}. {p.lost ? `It was lost: ${p.lost}.` : p.answerLost ? `It arrived; ${p.answerLost}.` : `It arrived; its sender got ${p.answer ?? "no answer"}.`}</p>
    <details><summary>Where it was seen</summary><div class="wide" tabIndex={0} role="region" aria-label="Where the probe was seen"><table><thead><tr><th>After</th><th>On</th><th>Interface</th><th>Packet</th></tr></thead><tbody>
      {p.sightings.map((s, i) => <tr key={i}><td>{s.micros} µs</td><td>{s.at}</td><td>{s.out ? "out" : "in"} {s.interface}</td><td>{s.from} → {s.to}{s.answer && <span class="faint"> the answer</span>}</td></tr>)}
    </tbody></table></div></details></div>;
}

function all(w: Way): Hop[] {
  return [...(w.hops ?? []), ...(w.answer ?? [])];
}

// The hops of a packet and of its answer as two rows of boxes, laid out from left to right.
function WayDrawing({ w, n, probe }: { w: Way; n: string; probe?: Probe }) {
  const passed = (id: string) => {
    const i = Number(id.slice(1));
    if (!probe || !id.startsWith("h")) return "";
    return probe.hop < 0 || i < probe.hop ? "seen ✓" : i === probe.hop ? "lost ✗" : "";
  };
  const g = new dagre.graphlib.Graph<{ hop: Hop; width: number; height: number; x?: number; y?: number }>();
  g.setGraph({ rankdir: "LR", ranksep: 34, nodesep: 22, marginx: 4, marginy: 8 });
  g.setDefaultEdgeLabel(() => ({}));
  const width = 208, height = 92;
  const row = (hops: Hop[], name: string) => hops.forEach((hop, i) => {
    g.setNode(name + i, { hop, width, height });
    if (i > 0) g.setEdge(name + (i - 1), name + i);
  });
  row(w.hops ?? [], "h");
  row(w.answer ?? [], "a");
  dagre.layout(g);
  const box = g.graph() as { width?: number; height?: number };
  const first = all(w).find((h) => h.wrong);

  return <figure class="way"><figcaption>{[n, w.backend && `to backend ${w.backend}`, w.via?.length && `by ${w.via.join(", ")}`].filter(Boolean).join(" · ")}</figcaption>
    <div class="wide" tabIndex={0} role="region" aria-label="The hops as a drawing">
      <svg class="drawing" width={box.width} height={box.height} viewBox={`0 0 ${box.width} ${box.height}`} role="img" aria-label={all(w).map((h) => `${h.at}: ${h.decides}`).join("; ")}>
        {g.edges().map((e) => {
          const points = (g.edge(e) as { points: { x: number; y: number }[] }).points;
          return <path key={e.v} class="step" d={"M" + points.map((p) => `${p.x} ${p.y}`).join("L")} />;
        })}
        {g.nodes().map((id) => {
          const node = g.node(id);
          const h = node.hop;
          const state = h.wrong ? "wrong" : h.unknown ? "unknown" : "right";
          return <g key={id} class={`hop s-${state}${h === first ? " first" : ""}`} transform={`translate(${node.x! - width / 2},${node.y! - height / 2})`}>
            <rect class="plate" width={width} height={height} rx="7" /><rect class="edge" y="8" width="4" height={height - 16} rx="2" />
            <text class="sub" x="14" y="19">{id.startsWith("a") ? "answer · " : ""}{h.what}</text><text class="title" x="14" y="36">{h.at.length > 25 ? h.at.slice(0, 24) + "…" : h.at}</text>
            <text class={"mark probe" + (passed(id).startsWith("lost") ? " lost" : "")} x={width - 10} y="19">{passed(id)}</text>
            {lines(h.wrong ? h.wrong.found : h.unknown ? "not known: " + h.unknown : h.decides).map((t, i) => <text key={i} class="facts" x="14" y={53 + i * 14}>{t}</text>)}
          </g>;
        })}
      </svg>
    </div>
    <details><summary>The hops as a list</summary><ol>{(w.hops ?? []).map((h, i) => <HopLine key={i} h={h} />)}</ol>{(w.answer ?? []).length > 0 && <><p>the answer:</p><ol>{w.answer!.map((h, i) => <HopLine key={i} h={h} />)}</ol></>}</details>
  </figure>;
}

function HopLine({ h }: { h: Hop }) {
  return <li><Dot state={h.wrong ? "wrong" : h.unknown ? "unknown" : "right"} /> <strong>{h.at}</strong> <span class="faint">{h.what}</span> {h.decides}
    {h.wrong && <><br />found: {h.wrong.found}; should be: {h.wrong.should}; made by: {h.wrong.who}</>}{h.unknown && <><br />not known: {h.unknown}</>}</li>;
}

// lines breaks a text into at most three lines of a box.
function lines(text: string): string[] {
  const out: string[] = [""];
  for (const word of text.split(" ")) {
    const last = out[out.length - 1]!;
    if ((last + " " + word).trim().length <= 31) out[out.length - 1] = (last + " " + word).trim();
    else out.push(word.length > 31 ? word.slice(0, 30) + "…" : word);
  }
  return out.length > 3 ? [...out.slice(0, 2), out[2]!.slice(0, 29) + "…"] : out;
}
