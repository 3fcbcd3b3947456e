import { Dot, Empty, To } from "../parts";
import { useStore } from "../hooks";
import { matches } from "../map";
import { store } from "../store";
import { ago } from "../words";

const shownAtOnce = 300;

export function PodsView({ place }: { place: Record<string, string> }) {
  useStore((key) => key.startsWith("pod/"));
  const find = (place.find ?? "").toLowerCase();
  const rank = { wrong: 0, unknown: 1, making: 2, right: 3 };
  const list = [...store.pods.values()].filter((p) => !find || matches(p, find)).sort((a, b) => rank[a.state] - rank[b.state] || (a.key < b.key ? -1 : 1));
  return <section class="scroll" aria-label="Pods" tabIndex={0}>
    {list.length === 0 ? <Empty title="No pods">{find ? `None has “${find}” in its name, node, address, phase or image.` : "The cluster has none yet."}</Empty> :
      <table class="rows"><thead><tr><th>Pod</th><th>Phase</th><th>Node</th><th>Address</th><th>Age</th></tr></thead><tbody>
        {list.slice(0, shownAtOnce).map((p) => <tr key={p.key}><td><Dot state={p.state} /> <To view="map" sel={"pod/" + p.key}>{p.name}</To><br /><span class="faint">{p.ns}</span></td>
          <td>{p.phase}{p.problem && <><br /><span class="faint">{p.problem.text}</span></>}</td><td>{p.node ?? "–"}</td><td>{p.ip ?? "–"}</td><td>{ago(p.created)}</td></tr>)}
      </tbody></table>}
    {list.length > shownAtOnce && <p class="faint">and {list.length - shownAtOnce} more: find them by name</p>}
  </section>;
}
