// Package kubelet runs the pods of one node. It is the same on Windows and Linux.
//
//	API watch ─┐                        ┌─> status slots ─> senders ─> PATCH/DELETE
//	CRI events ┼─> Kubelet ─> actor(uid)┼─> CRI calls (runtime, image)
//	probes     ┤   (router)     ▲   │   └─> volumes, cgroups
//	auditor    ┘                │   └─> published view (what the HTTP server reads)
//	                       facts only
//
// Each pod has one actor that owns its state. Others post facts to it and never wait. The actor asks pod.Reconcile what
// to do and runs each action in a goroutine of its own, whose outcome is again a fact.
package kubelet
