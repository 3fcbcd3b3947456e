// What is looked at: the part of the address behind #, so that an address can be sent to somebody and the browser's buttons work.

export interface Place { view: string; [key: string]: string }

export function read(): Place {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { ...Object.fromEntries(new URLSearchParams(query ?? "")), view: path || "map" };
}

export function address(p: Place): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(p)) if (key !== "view" && value) query.set(key, value);
  const text = query.toString();
  return "#/" + p.view + (text ? "?" + text : "");
}

// go changes the place. What is not named stays if the view stays.
export function go(change: Partial<Place>) {
  const now = read();
  const next = change.view && change.view !== now.view ? ({ ...change } as Place) : ({ ...now, ...change } as Place);
  location.hash = address(next);
}
