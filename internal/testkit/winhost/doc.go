// Package winhost gives tests and benchmarks an emulated Windows host with containerd.exe and what a node has beside
// it: images, a network of pods, a control plane, and a kubelet, ours or upstream's.
//
//	test ──TCP, in the host's network namespace──▶ relay.exe ──\\.\pipe\containerd-containerd──▶ containerd.exe
//	                                                          kubelet.exe ──the same pipe──▶
//
// Pipes of Wine exist between Windows programs only, hence the relay. All is done with the program porthole and the
// network namespace of the host, so that this package knows nothing of the emulator.
package winhost
