// Package kubelet tests the kubelet with a real control plane and a real containerd, without a cluster: what only
// these show. What a fake runtime can show is tested in the folder kubelet, in bubbles. Everything is in its own
// network namespace and folder.
//
// Every test fails if a kubelet reports a broken invariant or a panic. A proxy before containerd delays calls about
// chosen pods.
//
// They need what `make build` builds. PORTHOLE=FILE tests another build of porthole, such as one made with `-tags
// debug`, in which a broken invariant ends the pod's turn. KILLS=100 is how often the kubelet is killed (default 3),
// HANG=120s how long calls hang.
package kubelet
