// Package kubelet holds the tests of our kubelet on a real control plane and a real containerd, without a cluster around
// them: what pods do, and what is left after kills and deletions. Everything is in a network namespace and a folder of its
// own.
//
// They need what `make build` builds. PORTHOLE=FILE tests another build of porthole.
package kubelet
