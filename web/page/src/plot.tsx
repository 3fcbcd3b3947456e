// Plots of time series, by Observable Plot, which is loaded with the first plot: it is larger than the rest of the page.
import { useEffect, useRef } from "preact/hooks";

export interface Series { label: string; unit: string; data: { at: string; y: number; z: string }[] }

export function TimePlot({ s, log }: { s: Series; log?: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let over = false;
    void import("@observablehq/plot").then((Plot) => {
      if (!place.current || over) return; // nothing to draw yet, or any more
      const data = s.data.map((d) => ({ ...d, at: new Date(d.at) }));
      const plot = Plot.plot({
        width: Math.max(260, place.current.clientWidth), height: 190, marginLeft: 46, className: "timeplot",
        ariaLabel: s.label, x: { type: "time", label: null, ticks: 4, domain: [new Date(Math.min(Date.now() - 60000, ...data.map((d) => d.at.getTime()))), new Date()] }, y: { label: s.unit, grid: true, ...(log ? { type: "log" as const, tickFormat: "~s" } : { domain: [0, Math.max(1, ...data.map((d) => d.y))], ticks: 4 }) },
        color: { legend: false, scheme: "Tableau10" },
        marks: [Plot.lineY(data, { x: "at", y: "y", z: "z", stroke: "z", strokeWidth: 1.6, curve: "step-after" }), Plot.dot(data, { x: "at", y: "y", fill: "z", r: 1.8 }),
          Plot.text(data, Plot.selectLast({ x: "at", y: "y", z: "z", text: "z", dy: -8, textAnchor: "end", fill: "currentColor" }))],
      });
      plot.classList.add("drawing");
      plot.setAttribute("role", "img");
      for (const g of plot.querySelectorAll("g[aria-label]")) g.removeAttribute("aria-label"); // names of groups, which an image has none of
      place.current.replaceChildren(plot);
    });
    return () => { over = true; };
  }, [s]);
  return <figure class="plot"><figcaption>{s.label}</figcaption>{s.data.length === 0 ? <p class="faint">Nothing happened yet while this was watched.</p> : <div ref={place} />}</figure>;
}
