import { useEffect, useRef, useState } from "preact/hooks";
import { Details } from "../details";
import { useStore } from "../hooks";
import type { Group } from "../layout";
import { ClusterMap } from "../map";
import { go } from "../place";
import { store } from "../store";
import type { Pod } from "../types";

const groupNames: [Group, string][] = [["node", "Node"], ["namespace", "Namespace"], ["build", "System"]];

export function MapView({ place }: { place: Record<string, string> }) {
  const svg = useRef<SVGSVGElement>(null);
  const map = useRef<ClusterMap | null>(null);
  const group = (groupNames.find(([g]) => g === place.group)?.[0] ?? "node") as Group;
  const options = { group, find: place.find ?? "", selected: place.sel ?? "", choose: (key: string) => go({ sel: key }) };

  useEffect(() => {
    const m = new ClusterMap(svg.current!, store);
    map.current = m;
    m.set(options);
    const stop = store.listen((keys) => m.changed(keys));
    const sizes = new ResizeObserver(() => m.draw());
    sizes.observe(svg.current!);
    return () => {
      stop();
      sizes.disconnect();
    };
  }, []);
  useEffect(() => map.current?.set(options), [group, options.find, options.selected]);

  return <div class={"split" + (place.sel ? " chosen" : "")}>
    <section class="stage" aria-label="Map of the cluster">
      <div class="controls">
        <div class="segments" role="group" aria-label="Group by">
          {groupNames.map(([g, name]) => <button key={g} aria-pressed={g === group} onClick={() => go({ group: g === "node" ? "" : g })}>{name}</button>)}
        </div>
        <div class="segments" role="group" aria-label="Zoom">
          <button aria-label="Smaller" onClick={() => map.current?.zoomBy(1 / 1.4)}>−</button>
          <button aria-label="Show all" onClick={() => map.current?.fit()}>Fit</button>
          <button aria-label="Larger" onClick={() => map.current?.zoomBy(1.4)}>+</button>
        </div>
      </div>
      <svg ref={svg} class="map drawing" role="group" aria-label="Nodes and pods. Arrow keys go from one to the next, Enter chooses." />
      <Tip svg={svg} />
      <Legend />
    </section>
    <Details sel={place.sel ?? ""} find={options.find} />
  </div>;
}

// Tip names what the pointer is on.
function Tip({ svg }: { svg: { current: SVGSVGElement | null } }) {
  const [tip, set] = useState<{ x: number; y: number; pod: Pod } | null>(null);
  const last = useRef("");
  useEffect(() => {
    const element = svg.current!;
    const move = (e: PointerEvent) => {
      const key = (e.target as Element).closest(".pod")?.getAttribute("data-key") ?? "";
      if (key === last.current) return;
      last.current = key;
      const pod = store.pods.get(key.replace("pod/", ""));
      const box = element.parentElement!.getBoundingClientRect();
      set(pod ? { x: Math.min(e.clientX - box.left, box.width - 260), y: e.clientY - box.top + 16, pod } : null);
    };
    element.addEventListener("pointermove", move);
    return () => element.removeEventListener("pointermove", move);
  }, []);
  if (!tip) return null;
  return <div class="tip" style={{ left: tip.x + "px", top: tip.y + "px" }}>
    <strong>{tip.pod.name}</strong><br />{tip.pod.ns} · {tip.pod.phase}{tip.pod.ip && " · " + tip.pod.ip}
    {tip.pod.problem && <><br />{tip.pod.problem.text}</>}
  </div>;
}

function Legend() {
  useStore((key) => key.startsWith("pod/"));
  const n = { right: 0, making: 0, wrong: 0, unknown: 0 };
  for (const p of store.pods.values()) n[p.state]++;
  return <p class="legend">
    <span class="swatch s-right" /> {n.right} right <span class="swatch s-making" /> {n.making} being made <span class="swatch s-wrong" /> {n.wrong} wrong
    {n.unknown > 0 && <><span class="swatch s-unknown" /> {n.unknown} not known</>}
  </p>;
}
