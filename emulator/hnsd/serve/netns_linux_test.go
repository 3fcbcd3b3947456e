package serve

import (
	"fmt"
	"os"
	"testing"

	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/platform"
)

// TestNamespaceEndsWithItsNetns: a pod that goes while the service is stopped leaves its HCN namespace, because containerd
// ignores that the pod's network could not be removed. It is deleted once the service runs again; no other namespace is.
func TestNamespaceEndsWithItsNetns(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	s := startServer(t, 20348)
	s.s.netnsGone = netnsGone
	watch := s.connect("kube-proxy.exe", 7)
	bind := func(path string) (id string) {
		t.Helper()
		var bound struct{ ID string }
		s.control("POST", "/netns", fmt.Sprintf(`{"path":%q}`, path), &bound)
		return bound.ID
	}
	var names, ids []string
	for i := range 2 {
		name := fmt.Sprintf("hnsd-end-%d-%d", os.Getpid(), i)
		must(t, platform.CreateNetns(name))
		t.Cleanup(func() { must(t, platform.DeleteNetns(name)) })
		names, ids = append(names, name), append(ids, bind(platform.NetnsPath(name)))
	}
	bind("/proc/self/ns/net")
	namespaces := func(when string, want int) {
		t.Helper()
		must(t, s.s.removeEndedNamespaces(t.Context()))
		var d Dump
		s.control("GET", "/dump", "", &d)
		if len(d.Namespaces) != want || len(d.Netns) != want-1 {
			t.Errorf("%s: %d namespaces, %v, want %d", when, len(d.Namespaces), d.Netns, want)
		}
	}

	namespaces("while every pod is there", 4)
	s.control("POST", "/service", `{"state":"stopped"}`, nil)
	must(t, platform.DeleteNetns(names[0]))
	namespaces("while the service is stopped", 4)
	s.control("POST", "/service", `{"state":"running"}`, nil)
	watch.good(wire.Notify, 0, "")
	namespaces("once it runs again", 3)

	if a, err := watch.receive(); err != nil || a.result != wire.NamespaceDelete || a.text != fmt.Sprintf(`{"ID":%q}`, ids[0]) {
		t.Errorf("notification %d %s, %v", a.result, a.text, err)
	}
	s.control("DELETE", "/netns/"+ids[0], "", nil) // the pod's CNI call, if it comes after all
	namespaces("at the end", 3)
}
