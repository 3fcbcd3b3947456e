// What the server sends: package web/model, in the words of TypeScript.

export type State = "right" | "making" | "wrong" | "unknown";

export interface Problem { state: State; text: string; command?: string; since?: string }

export interface Cluster { name: string; local: boolean; api: { error?: string; since?: string }; modes: string[] }

export interface Part { known: boolean; none?: boolean; error?: string; at?: string }

export interface Route { node: string; to: string; nextHop?: string; state: string; reason?: string }

export interface Peer { address: string; as: number; up: boolean; reason?: string; since?: string; learnt: number }

export interface Node {
  name: string; os: string; build?: string; osImage?: string; kubelet?: string; runtime?: string; addresses: string[]; podCIDR?: string;
  ready: boolean; state: State; problems?: Problem[]; peers?: Peer[];
  routes: Part & { mode?: string; wanted: number; present: number; repairs: number; wrong?: Route[] };
  proxy: Part & { wanted: number; programmed: number; services?: Record<string, number> };
}

export interface Pod {
  key: string; ns: string; name: string; node?: string; ip?: string; images: string[]; restarts?: number; state: State; phase: string;
  created: string; problem?: Problem;
}

export interface Service {
  key: string; ns: string; name: string; type: string; ips: string[]; external?: string[];
  ports: { name?: string; protocol: string; port: number; target?: string; nodePort?: number }[];
  ready: number; unready: number; ending: number; pods?: string[]; state: State; problems?: Problem[];
  onNodes?: { node: string; state: State; text: string; since?: string; retries?: number }[];
}

export type Document = Record<string, unknown>;

export interface Patch { set?: Document; gone?: string[] }
