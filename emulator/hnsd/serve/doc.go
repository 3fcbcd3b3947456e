// Package serve runs the rules of package hnsd as a daemon: the wire that the emulated host's DLLs speak, the handles
// of each process, the routes of the host itself (iphlpapi.dll), the journal on disk, call counters, faults, and the control interface on a Unix socket. It is a
// third level because hnsd itself must stay free of effects.
package serve
