// Where everything on the map is: pure, so that a drawing of the same cluster is the same drawing.
import type { Node, Pod } from "./types";
import { release } from "./words";

export type Group = "node" | "namespace" | "build";

export interface Card {
  id: string; title: string; node?: Node; pods: (Pod | null)[];
  x: number; y: number; w: number; h: number; chips: boolean; row: number;
}

export interface Layout { cards: Card[]; rows: { y: number; x: number; w: number }[]; width: number; height: number }

export const size = { card: 292, gapX: 34, gapY: 62, head: 62, headSmall: 34, pad: 12, chip: 20, dot: 15, chips: 12, bus: 26 };

// groupOf returns the card of a pod.
export function groupOf(p: Pod, nodes: Map<string, Node>, by: Group): string {
  if (by === "namespace") return p.ns;
  if (by === "node") return p.node ?? "";
  const n = nodes.get(p.node ?? "");
  return n ? (n.os === "windows" ? release(n.build) : n.osImage || "Linux") : "";
}

// groups sorts pods into cards. A node without pods has a card as well.
export function groups(nodes: Map<string, Node>, pods: Map<string, Pod>, by: Group): { id: string; title: string; node?: Node; pods: Pod[] }[] {
  const out = new Map<string, { id: string; title: string; node?: Node; pods: Pod[] }>();
  if (by === "node") for (const n of nodes.values()) out.set(n.name, { id: n.name, title: n.name, node: n, pods: [] });
  for (const p of pods.values()) {
    const id = groupOf(p, nodes, by);
    let g = out.get(id);
    if (!g) out.set(id, (g = { id, title: id || "no node yet", pods: [] }));
    g.pods.push(p);
  }
  return [...out.values()].sort((a, b) => (a.id === "" ? 1 : b.id === "" ? -1 : a.id < b.id ? -1 : 1));
}

// Slots keep the place of a pod in its card: a new one takes the first that is free, and nothing moves when one ends.
export class Slots {
  private cards = new Map<string, (string | null)[]>();

  place(card: string, pods: Pod[]): (Pod | null)[] {
    const byKey = new Map(pods.map((p) => [p.key, p]));
    let slots = this.cards.get(card);
    if (!slots) this.cards.set(card, (slots = []));
    for (let i = 0; i < slots.length; i++) {
      const key = slots[i];
      if (key && !byKey.has(key)) slots[i] = null;
    }
    const placed = new Set(slots);
    for (const key of [...byKey.keys()].sort()) {
      if (placed.has(key)) continue;
      const free = slots.indexOf(null);
      if (free < 0) slots.push(key);
      else slots[free] = key;
    }
    while (slots.length > 0 && slots[slots.length - 1] === null) slots.pop();
    return slots.map((k) => (k ? byKey.get(k)! : null));
  }
}

export function layout(nodes: Map<string, Node>, pods: Map<string, Pod>, by: Group, slots: Slots, aspect: number): Layout {
  const cards: Card[] = groups(nodes, pods, by).map((g) => {
    const placed = slots.place(by + "/" + g.id, g.pods);
    const chips = placed.length <= size.chips;
    const perRow = chips ? 2 : Math.floor((size.card - 2 * size.pad) / size.dot);
    const lines = Math.ceil(placed.length / perRow);
    const head = g.node ? size.head : size.headSmall;
    return { ...g, pods: placed, chips, x: 0, y: 0, row: 0, w: size.card, h: head + Math.max(1, lines) * (chips ? size.chip : size.dot) + size.pad };
  });
  if (cards.length === 0) return { cards, rows: [], width: size.card, height: 200 };

  const columns = bestColumns(cards, aspect);
  const rows: Layout["rows"] = [];
  let y = 0;
  for (let i = 0; i < cards.length; i += columns) {
    const line = cards.slice(i, i + columns);
    line.forEach((c, j) => Object.assign(c, { x: j * (size.card + size.gapX), y: y + size.bus, row: rows.length }));
    rows.push({ y, x: 0, w: line.length * (size.card + size.gapX) - size.gapX });
    y += size.bus + Math.max(...line.map((c) => c.h)) + size.gapY - size.bus;
  }
  return { cards, rows, width: columns * (size.card + size.gapX) - size.gapX, height: y - size.gapY + size.bus };
}

// bestColumns returns the number of columns with which the cards are largest in a window of so many times its height.
function bestColumns(cards: Card[], aspect: number): number {
  let best = 1, scale = 0;
  for (let columns = 1; columns <= cards.length; columns++) {
    let height = 0;
    for (let i = 0; i < cards.length; i += columns) height += Math.max(...cards.slice(i, i + columns).map((c) => c.h)) + size.gapY;
    const fits = Math.min(aspect / (columns * (size.card + size.gapX)), 1 / height);
    if (fits > scale) [best, scale] = [columns, fits];
  }
  return best;
}

// at returns where a slot is inside its card.
export function at(card: Card, slot: number): { x: number; y: number; w: number; h: number } {
  const head = card.node ? size.head : size.headSmall;
  if (card.chips) {
    const w = (card.w - 2 * size.pad) / 2;
    return { x: size.pad + (slot % 2) * w, y: head + Math.floor(slot / 2) * size.chip, w: w - 4, h: size.chip - 4 };
  }
  const perRow = Math.floor((card.w - 2 * size.pad) / size.dot);
  return { x: size.pad + (slot % perRow) * size.dot, y: head + Math.floor(slot / perRow) * size.dot, w: size.dot - 3, h: size.dot - 3 };
}
