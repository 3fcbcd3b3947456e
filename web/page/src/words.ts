export function ago(time: string | Date | undefined, now = Date.now()): string {
  if (!time) return "";
  const s = Math.max(0, Math.round((now - new Date(time).getTime()) / 1000));
  if (s < 120) return `${s} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} days`;
}

export function clock(time: string | Date | undefined): string {
  return time ? new Date(time).toLocaleTimeString([], { hour12: false }) : "";
}

export function count(n: number, one: string): string {
  return n === 1 ? `1 ${one}` : `${n} ${one}s`;
}

export const stateWords = { right: "as it should be", making: "being made", wrong: "wrong", unknown: "not known" } as const;

// What Windows Server of a build is called, for those that are supported now (internal/winbuild has all).
export function release(build: string | undefined): string {
  const names: Record<string, string> = { "10.0.17763": "2019", "10.0.20348": "2022", "10.0.26100": "2025" };
  return build ? (names[build] ? `Windows Server ${names[build]}` : `Windows ${build}`) : "";
}
