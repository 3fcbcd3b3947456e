// Package runtime tests the container runtime of a Windows node as it ships: containerd.exe and containerd-shim-runhcs-v1.exe, unmodified,
// on an emulated host (`porthole host create --runtime containerd.exe`). It has tests only.
//
// They talk CRI to containerd's named pipe. Pipes of Wine exist between Windows programs only, so a small program of the host relays:
//
//	test ──TCP, in the host's network namespace──▶ relay.exe ──\\.\pipe\containerd-containerd──▶ containerd.exe
//
// They run with PORTHOLE_RUNTIME=long only (`make test-runtime`).
package runtime
