// Package serve runs the rules of package hnsd as a daemon: the wire that the emulated host's DLLs speak, the handles
// of each process, the journal on disk, call counters, faults, and the control interface on a Unix socket. By the same
// wire iphlpapi.dll changes and watches the routes of the host itself, which are not part of HNS. It is a third level
// because hnsd itself must stay free of effects.
package serve
