// The page's copy of the cluster, kept by server-sent events.
import type { Cluster, Document, Node, Patch, Pod, Service } from "./types";

// A server that is there says so each two seconds (web/serve, live.go).
const silence = 7000;

export type Link = { live: boolean; since: Date; why: string };

type Listener = (changed: Set<string>) => void;

export class Store {
  objects = new Map<string, unknown>();
  nodes = new Map<string, Node>();
  pods = new Map<string, Pod>();
  services = new Map<string, Service>();
  cluster: Cluster | null = null;
  link: Link = { live: false, since: new Date(), why: "connecting" };
  updated: Date | null = null;

  private listeners = new Set<Listener>();
  private pending = new Set<string>();
  private frame = 0;
  private heard = Date.now();
  private events: EventSource | null = null;

  connect() {
    this.events?.close();
    const events = new EventSource("api/live");
    this.events = events;
    const on = (name: string, take: (data: never) => void) =>
      events.addEventListener(name, (e) => {
        this.heard = Date.now();
        if (!this.link.live) this.setLink(true, "");
        take(JSON.parse((e as MessageEvent<string>).data) as never);
      });
    on("all", (d: Document) => this.replace(d));
    on("patch", (p: Patch) => this.apply(p));
    on("beat", () => {});
    events.onerror = () => {
      this.setLink(false, "porthole web does not answer");
      // A browser gives up after an answer that is no stream: the session ended with the server.
      if (events.readyState === EventSource.CLOSED) setTimeout(() => this.connect(), 2000);
    };
  }

  watchSilence() {
    setInterval(() => {
      if (this.link.live && Date.now() - this.heard > silence) this.setLink(false, "porthole web says nothing any more");
    }, 1000);
  }

  replace(d: Document) {
    for (const key of [...this.objects.keys()]) if (!(key in d)) this.drop(key);
    for (const [key, value] of Object.entries(d)) this.put(key, value);
    this.changed("cluster");
  }

  apply(p: Patch) {
    for (const [key, value] of Object.entries(p.set ?? {})) this.put(key, value);
    for (const key of p.gone ?? []) this.drop(key);
  }

  listen(f: Listener): () => void {
    this.listeners.add(f);
    return () => this.listeners.delete(f);
  }

  // document is all that the page knows, as the server sent it.
  document(): Document {
    return Object.fromEntries([...this.objects].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  private put(key: string, value: unknown) {
    this.objects.set(key, value);
    if (key === "cluster") this.cluster = value as Cluster;
    else if (key.startsWith("node/")) this.nodes.set(key.slice(5), value as Node);
    else if (key.startsWith("pod/")) this.pods.set(key.slice(4), value as Pod);
    else if (key.startsWith("service/")) this.services.set(key.slice(8), value as Service);
    this.changed(key);
  }

  private drop(key: string) {
    this.objects.delete(key);
    this.nodes.delete(key.replace("node/", ""));
    this.pods.delete(key.replace("pod/", ""));
    this.services.delete(key.replace("service/", ""));
    this.changed(key);
  }

  private setLink(live: boolean, why: string) {
    if (this.link.live === live && this.link.why === why) return;
    this.link = { live, why, since: live === this.link.live ? this.link.since : new Date(live ? Date.now() : this.heard) };
    this.changed("link");
  }

  // changed gathers what changed until the browser draws the next time.
  private changed(key: string) {
    this.pending.add(key);
    this.updated = new Date();
    if (this.frame) return;
    const run = () => {
      this.frame = 0;
      const keys = this.pending;
      this.pending = new Set();
      for (const f of this.listeners) f(keys);
    };
    // A hidden tab draws nothing, and must not gather for ever.
    this.frame = document.hidden ? window.setTimeout(run, 500) : requestAnimationFrame(run);
  }
}

export const store = new Store();
