package kubelet

import (
	"os"
	"testing"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/kubelet/cgroup"
	"porthole.dev/porthole/kubelet/runtime"
	"porthole.dev/porthole/kubelet/runtime/runtimetest"
)

// testRuntimeSuite runs against containerd what kubelet/runtime/runtimetest runs against its fake. There is no kubelet
// meanwhile, which would end the sandboxes as orphans.
func testRuntimeSuite(t *testing.T, w *world) {
	w.kubelet.Stop()
	defer w.startKubelet()
	conn, err := runtime.Dial("unix://" + w.Path("containerd", "containerd.sock"))
	must(t, err)
	defer conn.Close()
	logs := w.Path("suite-logs")
	must(t, os.MkdirAll(logs, 0o700))
	parent := w.CgroupRoot() + "/suite"

	for _, b := range runtimetest.Suite() {
		t.Run(b.Name, func(t *testing.T) {
			b.Run(t, runtimetest.Host{Conn: conn, Image: testkit.TestImage, Program: "/testapp", LogDir: logs,
				CgroupParent: parent})
		})
	}
	t.Run("sweep of networks", func(t *testing.T) { testSweep(t, w, parent) })
	must(t, cgroup.Remove(parent))
}
