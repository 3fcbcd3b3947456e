// The drawing of the cluster. It is SVG: sharp at each zoom, coloured by the style sheet, and saved as it is.
import { select, type Selection } from "d3-selection";
import { zoom, zoomIdentity, type ZoomBehavior } from "d3-zoom";
import { at, groupOf, layout, size, Slots, type Card, type Group, type Layout } from "./layout";
import type { Store } from "./store";
import type { Node, Pod } from "./types";
import { release } from "./words";

type Svg = Selection<SVGSVGElement, unknown, null, undefined>;
type Place = Selection<SVGGElement, unknown, null, undefined>;

export interface MapOptions { group: Group; find: string; selected: string; choose: (key: string) => void }

// PodPlace is where a pod is drawn.
interface PodPlace { card: Card; slot: number; element: PodElement; group: SVGGElement }

type PodElement = SVGGElement & { __was?: string };

export class ClusterMap {
  private svg: Svg;
  private world: Place;
  private zoomer: ZoomBehavior<SVGSVGElement, unknown>;
  private slots = new Slots();
  private drawn: Layout | null = null;
  private places = new Map<string, PodPlace>();
  private fitted = false;
  private shape = "";
  private options: MapOptions = { group: "node", find: "", selected: "", choose: () => {} };

  constructor(element: SVGSVGElement, private store: Store) {
    this.svg = select(element);
    this.world = this.svg.append("g");
    for (const layer of ["network", "cards", "routes"]) this.world.append("g").attr("class", layer);
    this.zoomer = zoom<SVGSVGElement, unknown>().scaleExtent([0.1, 8]).on("zoom", (e) => {
      this.world.attr("transform", e.transform.toString());
      this.fitted = this.fitted && e.sourceEvent === null;
    });
    this.svg.call(this.zoomer).on("dblclick.zoom", null);
    this.svg.on("click", (e: MouseEvent) => this.clicked(e));
    this.svg.on("keydown", (e: KeyboardEvent) => this.key(e));
  }

  set(options: MapOptions) {
    const regroup = options.group !== this.options.group;
    this.options = options;
    this.draw();
    if (regroup) this.fit();
  }

  // changed brings the drawing up to date with what changed in the store. Pods that keep their place are most of it: then nothing else is looked at.
  changed(keys: Set<string>) {
    const pods: [Pod, PodPlace][] = [];
    for (const key of keys) {
      if (key === "link" || key.startsWith("service/")) continue;
      const pod = key.startsWith("pod/") ? this.store.pods.get(key.slice(4)) : undefined;
      const place = pod && this.places.get(pod.key);
      if (!place || groupOf(pod, this.store.nodes, this.options.group) !== place.card.id) return this.draw();
      pods.push([pod, place]);
    }
    const find = this.options.find.toLowerCase();
    for (const [pod, p] of pods) {
      p.card.pods[p.slot] = pod;
      drawPod(p.element, pod, p, this.options.selected, find);
      if (!p.card.node) p.group.setAttribute("class", this.cardClass(p.card));
    }
  }

  // draw brings the drawing up to date. What did not change is not touched.
  draw() {
    const box = this.svg.node()!.getBoundingClientRect();
    const aspect = box.height > 0 ? Math.max(0.4, box.width / box.height) : 1.6;
    // The number of columns depends on the window; it is kept while only pods come and go.
    const l = layout(this.store.nodes, this.store.pods, this.options.group, this.slots, aspect);
    this.drawn = l;
    this.drawNetwork(l);
    this.drawCards(l);
    this.drawRoutes(l);
    const shape = l.cards.map((c) => c.id).join(" ") + box.width + "x" + box.height;
    if (shape !== this.shape && (this.fitted || this.shape === "")) this.fit();
    this.shape = shape;
    if (l.cards.length > 0 && !performance.getEntriesByName("drawn").length) performance.mark("drawn");
  }

  fit() {
    const box = this.svg.node()!.getBoundingClientRect();
    if (!this.drawn || box.width === 0) return;
    // Above are the buttons, below is the legend.
    const margin = { side: 36, top: 84, bottom: 34 };
    const k = Math.min((box.width - 2 * margin.side) / this.drawn.width, (box.height - margin.top - margin.bottom) / this.drawn.height, 1.5);
    const x = (box.width - k * this.drawn.width) / 2;
    this.svg.call(this.zoomer.transform, zoomIdentity.translate(x, margin.top).scale(k));
    this.fitted = true;
  }

  zoomBy(factor: number) {
    this.fitted = false;
    this.svg.call(this.zoomer.scaleBy, factor);
  }

  // The pod network: a line above each row of nodes, and a drop to each node with the routes that it has.
  private drawNetwork(l: Layout) {
    const on = this.options.group === "node";
    const layer = this.world.select<SVGGElement>("g.network");
    const rows = on ? l.rows : [];
    layer.selectAll<SVGPathElement, unknown>("path.bus").data(rows.length ? [rows] : []).join("path").attr("class", "bus")
      .attr("d", (r) => r.map((row) => `M${-16} ${row.y}H${row.w - size.card / 2}`).join("") + `M-16 ${r[0]!.y}V${r[r.length - 1]!.y}`);
    const modes = this.store.cluster?.modes ?? [];
    layer.selectAll<SVGTextElement, string>("text.mode").data(on ? [modes.join(", ") || "mode of the network not known"] : []).join("text").attr("class", "mode")
      .attr("x", -8).attr("y", -8).text((d) => "pod network: " + d);

    const drops = on ? l.cards.filter((c) => c.node) : [];
    layer.selectAll<SVGPathElement, Card>("path.drop").data(drops, (c) => c.id).join("path")
      .attr("class", (c) => "drop s-" + routeState(c.node!)).attr("d", (c) => `M${c.x + c.w / 2} ${c.y - size.bus}V${c.y}`);
    layer.selectAll<SVGTextElement, Card>("text.drop").data(drops, (c) => c.id).join("text")
      .attr("class", (c) => "drop s-" + routeState(c.node!)).attr("x", (c) => c.x + c.w / 2 + 7).attr("y", (c) => c.y - 7).text((c) => routeText(c.node!));
  }

  private drawCards(l: Layout) {
    const find = this.options.find.toLowerCase();
    const cards = this.world.select<SVGGElement>("g.cards").selectAll<SVGGElement, Card>("g.card").data(l.cards, (c) => c.id)
      .join((enter) => {
        const g = enter.append("g").attr("tabindex", 0).attr("role", "button");
        g.append("rect").attr("class", "plate").attr("rx", 8);
        g.append("rect").attr("class", "edge").attr("rx", 2);
        for (const line of ["title", "sub", "facts"]) g.append("text").attr("class", line);
        g.append("text").attr("class", "mark");
        g.append("g").attr("class", "pods");
        return g;
      });
    cards.attr("class", (c) => this.cardClass(c))
      .attr("data-key", (c) => (c.node ? "node/" + c.id : null))
      .attr("aria-label", (c) => `${c.title}: ${c.node ? c.node.state + ", " : ""}${c.pods.filter(Boolean).length} pods`)
      .attr("transform", (c) => `translate(${c.x},${c.y})`);
    cards.select("rect.plate").attr("width", (c) => c.w).attr("height", (c) => c.h);
    cards.select("rect.edge").attr("width", 4).attr("height", (c) => c.h - 16).attr("x", 0).attr("y", 8);
    cards.select("text.title").attr("x", 14).attr("y", 21).text((c) => cut(c.title, 32));
    cards.select("text.mark").attr("x", (c) => c.w - 12).attr("y", 21).text((c) => mark(c));
    cards.select("text.sub").attr("x", 14).attr("y", 37).text((c) => (c.node ? subtitle(c.node) : ""));
    cards.select("text.facts").attr("x", 14).attr("y", 52).text((c) => (c.node ? factsLine(c) : ""));

    const options = this.options;
    this.places.clear();
    const places = this.places;
    cards.each(function (card) {
      drawPods(select(this).select<SVGGElement>("g.pods"), card, options.selected, find, (pod, slot, element) => places.set(pod.key, { card, slot, element, group: this }));
    });
  }

  private cardClass(c: Card): string {
    return `card s-${cardState(c)}${this.options.selected === "node/" + c.id ? " chosen" : ""}`;
  }

  // Routes that are wrong are always drawn, those of the chosen node all.
  private drawRoutes(l: Layout) {
    const lines: { id: string; from: Card; to: Card; state: string }[] = [];
    const cards = new Map(l.cards.map((c) => [c.id, c]));
    if (this.options.group === "node") {
      for (const c of l.cards) {
        if (!c.node) continue;
        const wrong = new Map((c.node.routes.wrong ?? []).map((r) => [r.node, r]));
        const chosen = this.options.selected === "node/" + c.id;
        for (const to of l.cards) {
          const r = wrong.get(to.id);
          if (!to.node || to === c || (!r && !chosen)) continue;
          const state = r ? (r.state === "waiting" ? "making" : "wrong") : !c.node.routes.known || c.node.routes.error ? "unknown" : "right";
          lines.push({ id: c.id + ">" + to.id, from: c, to: cards.get(to.id)!, state });
        }
      }
    }
    const layer = this.world.select<SVGGElement>("g.routes");
    layer.selectAll<SVGPathElement, (typeof lines)[0]>("path").data(lines, (d) => d.id).join("path").attr("class", (d) => "route s-" + d.state).attr("d", (d) => along(d.from, d.to, l));
    const lost = new Map<Card, string[]>();
    for (const d of lines) if (d.state === "wrong") lost.set(d.to, [...(lost.get(d.to) ?? []), d.from.id]);
    layer.selectAll<SVGTextElement, [Card, string[]]>("text").data([...lost], ([c]) => c.id).join("text").attr("class", "route")
      .attr("x", ([c]) => c.x + c.w / 2 - 8).attr("y", ([c]) => c.y - 7).text(([, from]) => "no route from " + (from.length > 1 ? `${from.length} nodes` : from[0]));
  }

  private clicked(e: MouseEvent) {
    const hit = (e.target as Element).closest("[data-key]");
    this.options.choose(hit?.getAttribute("data-key") ?? "");
  }

  // The keyboard: arrows go from card to card, Enter chooses, + and - zoom, 0 shows all.
  private key(e: KeyboardEvent) {
    const cards = [...this.svg.node()!.querySelectorAll<SVGGElement>("g.card")];
    const now = cards.indexOf(document.activeElement as unknown as SVGGElement);
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns(), ArrowUp: -this.columns() }[e.key];
    if (step !== undefined && now >= 0) cards[Math.min(cards.length - 1, Math.max(0, now + step))]?.focus();
    else if (e.key === "Enter" || e.key === " ") this.options.choose(cards[now]?.getAttribute("data-key") ?? "");
    else if (e.key === "+" || e.key === "=") this.zoomBy(1.3);
    else if (e.key === "-") this.zoomBy(1 / 1.3);
    else if (e.key === "0") this.fit();
    else if (e.key === "Escape") this.options.choose("");
    else return;
    e.preventDefault();
  }

  private columns(): number {
    return this.drawn?.cards.filter((c) => c.row === 0).length ?? 1;
  }
}

function drawPods(layer: Selection<SVGGElement, unknown, null, undefined>, card: Card, selected: string, find: string, placed: (pod: Pod, slot: number, element: PodElement) => void) {
  const present: { pod: Pod; slot: number }[] = [];
  card.pods.forEach((pod, slot) => pod && present.push({ pod, slot }));
  const pods = layer.selectAll<SVGGElement, (typeof present)[0]>("g.pod").data(present, (d) => d.pod.key).join((enter) => {
    const g = enter.append("g");
    g.append("rect").attr("rx", 3);
    return g;
  });
  pods.each(function (d) {
    drawPod(this, d.pod, { card, slot: d.slot }, selected, find);
    placed(d.pod, d.slot, this);
  });
}

// drawPod draws one pod, unless it looks as it did.
function drawPod(g: PodElement, pod: Pod, { card, slot }: { card: Card; slot: number }, selected: string, find: string) {
  const hidden = find !== "" && !matches(pod, find);
  const chosen = selected === "pod/" + pod.key;
  const look = `${pod.state} ${slot} ${card.chips} ${chosen} ${hidden} ${card.node !== undefined}`;
  if (g.__was === look) return;
  g.__was = look;
  const place = at(card, slot);
  g.setAttribute("class", `pod s-${pod.state}${chosen ? " chosen" : ""}${hidden ? " hidden" : ""}${card.chips ? " chip" : ""}`);
  g.setAttribute("data-key", "pod/" + pod.key);
  g.setAttribute("transform", `translate(${place.x},${place.y})`);
  const rect = g.firstElementChild!;
  rect.setAttribute("width", String(place.w));
  rect.setAttribute("height", String(place.h));
  drawLabel(g, card.chips ? cut(pod.name, 20) : "");
}

function drawLabel(g: SVGGElement, text: string) {
  let label = g.querySelector("text");
  if (!text) {
    label?.remove();
    return;
  }
  if (!label) {
    label = document.createElementNS("http://www.w3.org/2000/svg", "text");
    label.setAttribute("x", "7");
    label.setAttribute("y", "11.5");
    g.append(label);
  }
  label.textContent = text;
}

export function matches(p: Pod, find: string): boolean {
  return p.key.toLowerCase().includes(find) || (p.node ?? "").toLowerCase().includes(find) || (p.ip ?? "").startsWith(find) || p.phase.toLowerCase().includes(find) || p.images.some((i) => i.toLowerCase().includes(find));
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : text.slice(0, length - 1) + "…";
}

function cardState(c: Card): string {
  if (c.node) return c.node.state;
  const states = c.pods.filter(Boolean).map((p) => p!.state);
  return states.includes("wrong") ? "wrong" : states.includes("unknown") ? "unknown" : states.includes("making") ? "making" : "right";
}

function mark(c: Card): string {
  const n = c.pods.filter(Boolean).length;
  return n === 1 ? "1 pod" : `${n} pods`;
}

function subtitle(n: Node): string {
  return cut([n.os === "windows" ? release(n.build) : n.osImage || n.os, n.addresses[0]].filter(Boolean).join("  ·  "), 46);
}

function factsLine(c: Card): string {
  const n = c.node!;
  const worst = n.problems?.find((p) => p.state === "wrong") ?? n.problems?.[0];
  if (worst) return cut(worst.text, 48);
  const parts = [n.podCIDR ? "pods " + n.podCIDR : ""];
  if (!n.proxy.none && n.proxy.known) parts.push(`${n.proxy.programmed}/${n.proxy.wanted} frontends`);
  return parts.filter(Boolean).join("  ·  ");
}

function routeState(n: Node): string {
  if (n.routes.none) return "unknown";
  if (!n.routes.known || n.routes.error) return "unknown";
  return n.routes.present === n.routes.wanted ? "right" : (n.routes.wrong ?? []).some((r) => r.state !== "waiting") ? "wrong" : "making";
}

function routeText(n: Node): string {
  if (n.routes.none || !n.routes.known) return "routes ?";
  return `${n.routes.present}/${n.routes.wanted} routes` + (n.routes.error ? " (old)" : "");
}

// along leads from one card to another over the drawn network. Each direction has a line of its own.
function along(a: Card, b: Card, l: Layout): string {
  const side = a.id < b.id ? -3 : 3;
  const [fromX, toX] = [a.x + a.w / 2 + side, b.x + b.w / 2 + side];
  const [fromY, toY] = [l.rows[a.row]!.y + side, l.rows[b.row]!.y + side];
  if (a.row === b.row) return `M${fromX} ${a.y}V${fromY}H${toX}V${b.y}`;
  return `M${fromX} ${a.y}V${fromY}H${-16 + side}V${toY}H${toX}V${b.y}`;
}
