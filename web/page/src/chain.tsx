// Why an object is as it is: its steps as a time line, and its events.
import { useAsk, useStore } from "./hooks";
import { useReducer } from "preact/hooks";
import { Command, Dot } from "./parts";
import type { State } from "./types";
import { ago, clock } from "./words";

interface Step { name: string; state: State; waits?: boolean; text?: string; from?: string; to?: string; tried?: string; do?: string[] }
export interface Chain {
  kind: string; name: string; state: State; text: string; steps: Step[];
  seen?: { at: string; warning?: boolean; reason: string; text: string; count?: number; who?: string }[];
}

export function ChainView({ kind, name }: { kind: string; name: string }) {
  const [changes] = useReducer((n: number) => n, 0);
  useStore((key) => key === `${kind}/${name}`);
  const asked = useAsk<Chain>(`why?kind=${kind}&name=${encodeURIComponent(name)}`, 1500, changes);
  if (asked.error && !asked.value) return <p class="faint">{asked.error}</p>;
  if (!asked.value) return <p class="faint">Asking…</p>;
  const c = asked.value;
  return <>
    <TimeLine c={c} />
    {(c.seen ?? []).length > 0 && <><h3>Events</h3><ul class="list events">{c.seen!.slice().reverse().slice(0, 30).map((e) => <li key={e.at + e.reason + e.text}>
      <span class="faint">{clock(e.at)}</span> <strong class={e.warning ? "warn" : ""}>{e.reason}</strong> {e.text}{(e.count ?? 0) > 1 && <span class="faint"> · {e.count} times</span>}</li>)}</ul></>}
  </>;
}

function TimeLine({ c }: { c: Chain }) {
  const times = c.steps.flatMap((s) => [s.from, s.to]).filter(Boolean).map((t) => new Date(t!).getTime());
  const open = c.steps.some((s) => s.state !== "right" && s.from);
  const start = Math.min(...times), end = Math.max(...times, open ? Date.now() : 0, start + 1000);
  const at = (t: string | undefined, otherwise: number) => (t ? ((new Date(t).getTime() - start) / (end - start)) * 100 : otherwise);
  return <ol class="steps">{c.steps.map((s) => {
    const left = at(s.from, s.to ? at(s.to, 0) : 0);
    const right = s.to ? at(s.to, 100) : s.state === "right" ? left : 100;
    return <li key={s.name} class={s.waits ? "waits" : ""}>
      <div><Dot state={s.waits ? "unknown" : s.state} /> {s.name} {s.to && s.state === "right" && <span class="faint">{took(s)}</span>}{s.state !== "right" && !s.waits && s.from && <span class="faint">for {ago(s.from)}</span>}</div>
      {times.length > 0 && (s.from || s.to) && <div class="track"><svg width="100%" height="6" aria-hidden="true"><rect class={`s-${s.state}`} x={`${left}%`} width={`${Math.max(1, right - left)}%`} height="6" rx="3" /></svg></div>}
      <div class="faint break">{s.waits ? "waits for the above" : s.text}{s.tried && <> · tried {s.tried}</>}</div>
      {s.state !== "right" && !s.waits && (s.do ?? []).map((d) => <Command key={d} text={d} />)}
    </li>;
  })}</ol>;
}

function took(s: Step): string {
  if (!s.from || !s.to) return clock(s.to);
  const seconds = (new Date(s.to).getTime() - new Date(s.from).getTime()) / 1000;
  return `${seconds < 10 ? seconds.toFixed(seconds < 1 ? 0 : 1).replace(".0", "") : Math.round(seconds)} s, ${clock(s.to)}`;
}
