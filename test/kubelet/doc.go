// Package kubelet holds the tests of our kubelet on a real control plane and a real containerd, without a cluster around
// them: what pods do, and what is left after kills and deletions. Everything is in a network namespace and a folder of its
// own.
//
// Whatever a test does, it fails when a kubelet reports a broken invariant or a panic. A proxy before containerd holds up
// calls about chosen pods.
//
// They need what `make build` builds. PORTHOLE=FILE tests another build of porthole, such as one made with `-tags debug`,
// in which a broken invariant ends the pod's turn. KILLS=100 kills the kubelet as often (3 without it), HANG=120s lets
// calls hang for that long.
package kubelet
