// The image table: builds of the images × builds of the nodes.
import { useAsk } from "../hooks";
import { Command, Dot, Empty } from "../parts";

interface Row { image: string; error?: string; hosts?: { node: string; build: number; release?: string; outcome: string; Reason?: string; reason?: string; variant?: Record<string, string> }[] }

export function ImagesView() {
  const asked = useAsk<Row[]>("images", 60000);
  if (asked.error && !asked.value) return <Empty title="The images cannot be looked up">{asked.error}</Empty>;
  if (!asked.value) return <Empty title="Looking up images">Their registries are asked for which builds of Windows they are.</Empty>;
  const rows = asked.value;
  if (rows.length === 0) return <Empty title="No images for Windows">No pod for Windows nodes is in this cluster.</Empty>;
  const nodes = rows.find((r) => r.hosts)?.hosts ?? [];
  return <section class="scroll" aria-label="Images" tabIndex={0}>
    <table class="rows"><thead><tr><th>Image</th>{nodes.map((h) => <th key={h.node}>{h.node}<br /><span class="faint">{h.release || h.build}</span></th>)}</tr></thead><tbody>
      {rows.map((r) => <tr key={r.image}><td class="break">{r.image}{r.error && <><br /><span class="faint">{r.error}</span></>}</td>
        {(r.hosts ?? []).map((h) => <td key={h.node}><Dot state={h.outcome === "runs" ? "right" : h.outcome === "unknown" ? "unknown" : "wrong"} /> {h.outcome}</td>)}
        {r.error && nodes.map((h) => <td key={h.node}><Dot state="unknown" /> not known</td>)}</tr>)}
    </tbody></table>
    {rows.some((r) => r.hosts?.some((h) => h.outcome === "does not run")) && <p>The rule that decides: <Command text={`porthole images check ${rows.find((r) => r.hosts?.some((h) => h.outcome === "does not run"))!.image}`} /></p>}
  </section>;
}
