package runtime

import (
	"regexp"
	"strconv"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var bytesFree = regexp.MustCompile(`(\d+) bytes free`)

// testDisk gives a container a disk of 200 GiB, more than this machine has, and looks at it from inside. What is
// written there is gone with it.
func (w containers) testDisk(t *testing.T) {
	const size = 200 << 30
	w.write("var/log/pods/disk/.keep", "")
	p := w.runPod(t, "disk")
	id := w.run(t, p, asked{name: "sized", resources: &runtimeapi.WindowsContainerResources{RootfsSizeInBytes: size}},
		"serving HTTP")
	other := w.run(t, p, asked{name: "other",
		command: []string{`C:\testapp.exe`, "serve", "--http", ":8090", "--tcp", ":17", "--udp", ":17"}},
		"serving HTTP")

	free := func(container string) int64 {
		out := w.shell(t, container, `dir /-C C:\`)
		m := bytesFree.FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("dir says:\n%s", out)
		}
		n, err := strconv.ParseInt(m[1], 10, 64)
		check(t, err)
		return n
	}
	if n := free(other); n > size-300<<20 {
		t.Errorf("a container without a size has %d bytes", n)
	}
	if n := free(id); n > size || n < size-300<<20 {
		t.Errorf("a container with a disk of %d has %d bytes", size, n)
	}
	w.endPod(t, p)
}
