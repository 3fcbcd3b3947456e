// Small parts that all views use.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { address } from "./place";
import type { Problem, State } from "./types";
import { ago, stateWords } from "./words";

// States differ in shape too, for those who see colours differently.
const signs: Record<State, string> = { right: "●", making: "◐", wrong: "▲", unknown: "?" };

export function Dot({ state }: { state: State }) {
  return <span class={`dot s-${state}`} role="img" aria-label={stateWords[state]} title={stateWords[state]}>{signs[state]}</span>;
}

export function Command({ text }: { text: string }) {
  const [copied, set] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return <button class="command" onClick={copy} aria-label={`Copy the command ${text}`}><code>{text}</code><span aria-live="polite">{copied ? "copied" : "copy"}</span></button>;
}

export function ProblemBox({ p, about }: { p: Problem; about?: ComponentChildren }) {
  return <div class={`problem s-${p.state}`}>
    <p><Dot state={p.state} /> {about && <>{about} · </>}{p.text}{p.since && !p.since.startsWith("0001") && <span class="faint"> · for {ago(p.since)}</span>}</p>
    {p.command && <Command text={p.command} />}
  </div>;
}

export function To({ view, sel, children, ...rest }: { view: string; sel?: string; children: ComponentChildren; class?: string }) {
  return <a href={address({ view, sel: sel ?? "" })} {...rest}>{children}</a>;
}

export function Facts({ rows }: { rows: [string, ComponentChildren][] }) {
  return <dl class="pairs">{rows.filter(([, v]) => v !== undefined && v !== "" && v !== null).map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}</dl>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><h2>{title}</h2><p>{children}</p></div>;
}
