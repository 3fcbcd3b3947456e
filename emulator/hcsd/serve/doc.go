// Package serve is hcsd, the Host Compute Service of an emulated host: it reads calls, and hands each to the store that
// owns what the call is about.
//
//	vmcompute.dll ──TCP──▶ call_linux.go: reads, counts, faults
//	      ▲                   │
//	      │                operation_linux.go: what the texts of a call say
//	      │                   ├──▶ systems  ◀── runner_linux.go: starts, watches, kills ──▶ container: runc, launchers
//	      └─ notifications ◀──┘──▶ layers, silos, credentials
//
// Each store has a lock of its own. They are held in this order, and no other: layers, silos, systems, handles.
// The lock of layers is held while silos are ended and systems asked; that of systems while handles are counted.
//
// Everything is below hcs/ in the host's folder:
//
//	state.json                        the systems and processes, for the next hcsd
//	silos.json, credentials.json      the silos; the instances of Container Credential Guard
//	runc/                             runc's state
//	layers/<GUID>/                    of a layer: own or disk, merged
//	systems/<id>/                     of a container: a bundle of runc, its Wine prefix
//	systems/<id>/run/N.{in,out,err}   the standard streams of a program
package serve
