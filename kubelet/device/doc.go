// Package device gives containers the devices of device plugins (v1beta1): programs that know a kind of hardware,
// register over a socket with the kubelet, list their devices, and say what a container needs to use some of them.
//
//	plugin ── Register ──> kubelet.sock          node status: capacity, allocatable
//	   ▲                        │                        ▲
//	   └── ListAndWatch ◀───────┘ ── devices ──> table ──┘
//	                                              │ ▲
//	pod is admitted ── choose (pure) ── Allocate ─┘ │ checkpoint
//	container is made ── PreStartContainer, answer of Allocate ──> environment, mounts, devices, CDI
//
// A claim is what one container has of one resource. It is on disk before the pod is admitted, and ends with the pod.
// The file is upstream's (kubelet/checkpoint). Rules, words and times are those of upstream's
// pkg/kubelet/cm/devicemanager, 1.36.3, unless a comment says otherwise.
package device
