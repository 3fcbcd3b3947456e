import { useEffect, useReducer, useState } from "preact/hooks";
import { read, type Place } from "./place";
import { store } from "./store";

// useStore draws a component again when one of the keys that it looks at changes.
export function useStore(cares: (key: string) => boolean) {
  const [, again] = useReducer((n: number) => n + 1, 0);
  useEffect(() => store.listen((changed) => {
    for (const key of changed) if (cares(key)) return again(null);
  }), []);
}

export function usePlace(): Place {
  const [place, set] = useState(read());
  useEffect(() => {
    const moved = () => set(read());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return place;
}

// useClock draws a component again each so many milliseconds, for texts such as "since 12 s".
export function useClock(period = 1000) {
  const [, again] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const timer = setInterval(() => again(null), period);
    return () => clearInterval(timer);
  }, [period]);
}

// answers are those that the view on the page has now, for saving.
const answers = new Map<string, unknown>();

export function lastAnswers(): Record<string, unknown> {
  return Object.fromEntries(answers);
}

export interface Asked<T> { value?: T; error?: string; busy: boolean; at?: Date }

// useAsk asks the server, again each period (0: once) and whenever the path changes. The last answer stays while a new one is asked for.
export function useAsk<T>(path: string, period = 0, again: unknown = 0): Asked<T> {
  const [state, set] = useState<Asked<T> & { path: string }>({ busy: path !== "", path });
  useEffect(() => {
    if (!path) return;
    let over = false;
    let timer = 0;
    const run = async () => {
      const next = await ask<T>(path);
      if (over) return;
      if (next.value !== undefined) answers.set(path, next.value);
      set((old) => (next.error !== undefined && old.path === path ? { ...old, busy: false, error: next.error } : { ...next, busy: false, path, at: new Date() }));
      if (period) timer = window.setTimeout(run, document.hidden ? 5 * period : period);
    };
    set((old) => (old.path === path ? { ...old, busy: true } : { busy: true, path }));
    void run();
    return () => {
      over = true;
      answers.delete(path);
      clearTimeout(timer);
    };
  }, [path, period, again]);
  return state.path === path ? state : { busy: true };
}

export async function ask<T>(path: string, body?: unknown): Promise<{ value?: T; error?: string }> {
  try {
    const response = await fetch("api/" + path, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
    const value = (await response.json()) as T & { error?: string };
    return response.ok ? { value } : { error: value.error ?? response.statusText };
  } catch (e) {
    return { error: "porthole web does not answer: " + (e as Error).message };
  }
}
