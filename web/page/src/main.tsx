import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { lastAnswers, useClock, usePlace, useStore } from "./hooks";
import { go } from "./place";
import { saveJSON, saveSVG } from "./save";
import { store } from "./store";
import { HostsView } from "./views/hosts";
import { ImagesView } from "./views/images";
import { MapView } from "./views/map";
import { PacketView } from "./views/packet";
import { PodsView } from "./views/pods";
import { ServicesView } from "./views/services";
import { ago, clock } from "./words";

const views: { id: string; title: string; show: (p: { place: Record<string, string> }) => preact.JSX.Element }[] = [
  { id: "map", title: "Map", show: MapView },
  { id: "services", title: "Services", show: ServicesView },
  { id: "packet", title: "Packet", show: PacketView },
  { id: "pods", title: "Pods", show: PodsView },
  { id: "images", title: "Images", show: ImagesView },
  { id: "hosts", title: "Hosts", show: HostsView },
];

function App() {
  const place = usePlace();
  useStore((key) => key === "cluster" || key === "link");
  const view = views.find((v) => v.id === place.view) ?? views[0]!;
  useEffect(() => { document.title = `${view.title} · Porthole`; }, [view.id]);
  useShortcuts();

  return <>
    <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")!.focus(); }}>Skip to the view</a>
    <header>
      <h1><img src="icon.svg" alt="" width="22" height="22" /> Porthole <span class="faint">{store.cluster?.name}</span></h1>
      <nav aria-label="Views">
        {views.map((v) => <a key={v.id} href={"#/" + v.id} aria-current={v === view ? "page" : undefined}>{v.title}</a>)}
      </nav>
      <div class="tools"><Find value={place.find ?? ""} /><SaveMenu view={view.id} /><Theme /></div>
    </header>
    <Freshness />
    <main id="main" tabIndex={-1}>
      {store.objects.size === 0 ? <Waiting /> : <view.show place={place} />}
    </main>
  </>;
}

// Freshness says since when what is shown is old, and why.
function Freshness() {
  useStore((key) => key === "cluster" || key === "link");
  useClock(1000);
  const api = store.cluster?.api;
  if (!store.link.live) {
    return <div class="banner s-wrong" role="alert">{store.link.why}. {store.objects.size > 0 ? `What is shown is of ${clock(store.link.since)}, ${ago(store.link.since)} ago.` : ""} It is tried again.</div>;
  }
  if (api?.error) {
    return <div class="banner s-wrong" role="alert">The API server does not answer since {clock(api.since)} ({ago(api.since)}): {api.error}. Pods and services are as they were then; nodes are asked directly.</div>;
  }
  return <div class="live" role="status"><span class="dot s-right">●</span> live</div>;
}

function Waiting() {
  return <div class="empty"><h2>{store.link.live ? "Reading the cluster" : "Not connected"}</h2>
    <p>{store.link.live ? "The first lists of nodes, pods and services are on their way." : "Is porthole web still running in its terminal?"}</p></div>;
}

function Find({ value }: { value: string }) {
  return <label class="find"><span class="hidden-text">Find</span>
    <input id="find" type="search" placeholder="Find  ( / )" value={value} onInput={(e) => go({ find: e.currentTarget.value })} /></label>;
}

function SaveMenu({ view }: { view: string }) {
  const menu = useRef<HTMLDetailsElement>(null);
  const [none, setNone] = useState(false);
  const close = () => menu.current?.removeAttribute("open");
  const svg = () => {
    const drawings = [...document.querySelectorAll<SVGSVGElement>("main svg.drawing")];
    drawings.forEach((d, i) => saveSVG(`porthole-${view}${i ? "-" + (i + 1) : ""}`, d));
    setNone(drawings.length === 0);
    if (drawings.length > 0) close();
  };
  const link = async () => {
    await navigator.clipboard.writeText(location.href);
    close();
  };
  return <details class="menu" ref={menu}><summary>Save</summary><div>
    <button onClick={svg}>Drawing as SVG</button>
    <button onClick={() => { saveJSON("porthole-" + view, shown(view)); close(); }}>Data as JSON</button>
    <button onClick={link}>Copy the address</button>
    <p role="status" class="faint">{none ? "This view has no drawing now." : ""}</p>
  </div></details>;
}

// shown is the data of a view: what it last asked for, or the part of the document that it shows.
function shown(view: string): unknown {
  const asked = lastAnswers();
  if (["packet", "images", "hosts"].includes(view)) return asked;
  const keys: Record<string, string> = { services: "service/", pods: "pod/" };
  const prefix = keys[view];
  return prefix ? Object.fromEntries(Object.entries(store.document()).filter(([k]) => k.startsWith(prefix))) : store.document();
}

function Theme() {
  const [theme, set] = useState(localStorage.getItem("theme") ?? "");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
  }, [theme]);
  const next = { "": "light", light: "dark", dark: "" }[theme] ?? "";
  const names: Record<string, string> = { "": "Auto", light: "Light", dark: "Dark" };
  return <button class="quiet" onClick={() => set(next)} aria-label={`Colours: ${names[theme]}. Change to ${names[next]}`}>{names[theme]}</button>;
}

// Keys that work everywhere but in a field: / finds, 1 to 9 are the views.
function useShortcuts() {
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.target instanceof HTMLInputElement || e.target instanceof HTMLSelectElement || e.ctrlKey || e.metaKey || e.altKey) return;
      const n = Number(e.key);
      if (e.key === "/") document.getElementById("find")?.focus();
      else if (n >= 1 && n <= views.length) go({ view: views[n - 1]!.id });
      else return;
      e.preventDefault();
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);
}

store.connect();
store.watchSilence();
render(<App />, document.getElementById("app")!);
