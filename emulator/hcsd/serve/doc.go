// Package serve is hcsd, the Host Compute Service of an emulated host: what package hcsd decides, carried out.
//
//	vmcompute.dll ──TCP──▶ call.go ──▶ hcsd.Systems     what is answered
//	      ▲                   │
//	      │                   ├──▶ runc                 containers and their programs (container_linux.go, program_linux.go)
//	      └─ notifications ◀──┤
//	                          └──▶ overlay mounts       layers (layer_linux.go)
//
// Everything is below hcs/ in the host's folder:
//
//	state.json                        the systems and processes, for the next hcsd
//	runc/                             runc's state
//	layers/<GUID>/                    of a layer: diff or upper, work, merged
//	systems/<id>/                     of a container: a bundle of runc, its Wine prefix
//	systems/<id>/run/N.{in,out,err}   the standard streams of a program
//
// A container is a PID namespace whose first process is its wineserver. It lives until the system is shut down;
// programs come and go in it.
package serve
