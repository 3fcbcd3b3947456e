// Package runtime tests the container runtime of a Windows node as it ships: containerd.exe and
// containerd-shim-runhcs-v1.exe, unmodified, on an emulated host (`porthole host create --runtime containerd.exe`). It
// has tests only.
//
// They talk CRI to containerd's named pipe. Pipes of Wine exist between Windows programs only, so a small program of
// the host relays:
//
//	test ──TCP, in the host's network namespace──▶ relay.exe ──\\.\pipe\containerd-containerd──▶ containerd.exe
//
// TestCRISuite runs containerd's own tests of its CRI, a Windows program of the host, and compares its results with
// docs/evidence/cri-tests.md.
//
// TestUpstreamKubelet runs upstream's kubelet.exe beside containerd.exe. TestKubeletsAgree has it and ours run the
// same pods, one kubelet after the other, and compares what came of each: ours must do what it does.
//
// TestRandomKills kills programs at moments that differ in each run, PORTHOLE_RUNTIME_KILLS=30 times.
//
// But for the quick tests of TestCRISuite they run with PORTHOLE_RUNTIME=long only (`make test-runtime`). With
// PORTHOLE_RUNTIME_BIN=FOLDER they take the programs that `make build` put there, an absolute path, and build none.
package runtime
