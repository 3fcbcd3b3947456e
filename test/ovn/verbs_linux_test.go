package ovn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	plugin "porthole.dev/porthole/cni/ovn"
	"porthole.dev/porthole/internal/ovnet"
	"porthole.dev/porthole/internal/platform"
)

// verbConf is a configuration of CNI 1.1, which has all verbs.
const verbConf = `{"cniVersion": "1.1.0", "name": "net", "type": "ovn_cni", "bridge": "%s", "ipam": {"type": "host-local", "subnet": "10.244.1.0/24"}, "ovsdb": "unix:%s"%s}`

// ports returns the containers of the pods' ports in the node's Open vSwitch, sorted.
func (w *world) ports(n *node) []string {
	w.t.Helper()
	sw, err := plugin.OpenSwitch(w.t.Context(), "unix:"+n.host.Socket())
	w.must(err)
	defer sw.Close()
	all, err := sw.Sandboxes(w.t.Context())
	w.must(err)
	return slices.Sorted(maps.Values(all))
}

// does runs the plugin for a pod with a configuration, and wants its output to have text, and to fail if that is not
// empty.
func (w *world) does(verb string, p *pod, conf, text string) {
	w.t.Helper()
	again := *p
	again.conf = conf
	out, err := w.cni(verb, &again)
	if (err != nil) != (text != "") || !strings.Contains(string(out), text) {
		w.t.Errorf("%s of %s: %v: %s; want %q", verb, p.Name, err, out, text)
	}
}

// TestVerbs drives the plugin's verbs beside ADD: each says what is wrong, and may be repeated.
func TestVerbs(t *testing.T) {
	w := newWorld(t)
	n := w.addNode("one", "10.99.0.11", "10.244.1.0/24")
	w.sync()
	a, b := w.addPod("a", "one"), w.addPod("b", "one")
	conf := func(bridge, more string) string { return fmt.Sprintf(verbConf, bridge, n.host.Socket(), more) }
	right := conf("br-int", "")
	idOf := func(p *pod) string { return "sandbox-" + string(p.UID) }
	hold := func(want ...string) {
		t.Helper()
		slices.Sort(want)
		if got := w.ports(n); !slices.Equal(got, want) {
			t.Errorf("ports of %v, want %v", got, want)
		}
	}

	w.does("STATUS", a, right, "")
	w.does("STATUS", a, conf("br-none", ""), "bridge br-none is not in Open vSwitch")
	w.does("STATUS", a, fmt.Sprintf(verbConf, "br-int", "/nowhere.sock", ""), "/nowhere.sock")
	w.does("CHECK", a, right, "")
	hold(idOf(a), idOf(b))

	sw, err := plugin.OpenSwitch(t.Context(), "unix:"+n.host.Socket())
	w.must(err)
	defer sw.Close()
	port := ovnet.PodLink(idOf(a), "eth0")
	w.must(sw.DeletePort(t.Context(), port))
	w.does("CHECK", a, right, "bridge br-int has no port "+port+" for pod default/a")
	if out, err := w.cni("ADD", a); err != nil { // again, over what is left of it
		t.Errorf("ADD of a pod without its port: %v: %s", err, out)
	}
	w.does("CHECK", a, right, "")
	n.space.Do(func() error { return platform.DeleteLink(port) })
	w.does("CHECK", a, right, port) // Open vSwitch may say so before the plugin does, in words of its own

	valid := fmt.Sprintf(`, "cni.dev/valid-attachments": [{"containerID": "%s", "ifname": "eth0"}]`, idOf(b))
	for range 2 {
		w.does("GC", a, conf("br-int", valid), "")
		hold(idOf(b))
	}
	w.does("CHECK", b, right, "")
	for range 2 {
		w.does("DEL", b, right, "")
		hold()
	}
	n.space.Do(func() error {
		there, err := platform.LinkExists(ovnet.PodLink(idOf(b), "eth0"))
		if there {
			t.Error("DEL left the pod's interface")
		}
		return err
	})
}
