// Package serve runs the rules of package hnsd as a daemon: it decodes what the emulated host's DLLs send, applies a
// rule to the objects of a store, and answers.
//
//	serveConn ─▶ answer: decoded, counted ─▶ underFaults ─▶ inTime ─▶ carryOut
//	                                                                     ├─▶ objects.Change(rule) ─▶ carried
//	                                                                     ├─▶ handles
//	                                                                     └─▶ ipstack: no part of HNS
//
// Beside it are what makes calls and objects go wrong (faultcall.go, lose.go, reboot.go, lifecycle.go, scenario.go),
// and the control interface on a Unix socket.
//
// Each store has a lock of its own. They are held in this order, and no other: that of changes of objects, carried;
// the locks of handles, latency and the IP stack are taken last. It is a third level because hnsd itself must stay
// free of effects.
package serve
