package routes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/testkit/bubble"
	"porthole.dev/porthole/routes/adapters"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/podnet"
)

// mustHaveConf fails the test unless there is, or is not, a CNI configuration.
func (w *testNode) mustHaveConf(t *testing.T, want bool) {
	t.Helper()
	_, err := os.Stat(filepath.Join(w.conf, podnet.WindowsConfName))
	if want != (err == nil) || !want && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a CNI configuration: %v, want %v", err, want)
	}
}

// bootRecord returns the agent's file of the boot record.
func (w *testNode) bootRecord() string { return filepath.Join(w.o.StateDir, bootrecord.Network) }

// mustSay fails the test unless the boot record is of boot 7 and of that phase.
func (w *testNode) mustSay(t *testing.T, phase bootrecord.Phase, podCIDR string) {
	t.Helper()
	if r, err := bootrecord.Read(w.bootRecord()); err != nil || r.BootID != "7" || r.Phase != phase ||
		r.PodCIDR != podCIDR {
		t.Errorf("the boot record is %+v, %v; want %s", r, err, phase)
	}
}

// bootsAgain makes the node's folder look as an earlier run of that boot left it.
func (w *testNode) bootsAgain(t *testing.T, boot string) {
	t.Helper()
	err := os.WriteFile(filepath.Join(w.conf, podnet.WindowsConfName), []byte("{}"), 0o644)
	if err = errors.Join(err,
		bootrecord.Write(w.bootRecord(), bootrecord.Record{BootID: boot, Phase: bootrecord.Ready})); err != nil {
		t.Fatal(err)
	}
}

// After a reboot there is no CNI configuration until the pod network is right, so that no pod starts on a broken one.
func TestConfOfAnEarlierBoot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{BootID: "7"})
		w.bootsAgain(t, "6")
		hnstest.Host{Fake: w.hns}.WithoutAdapters(true)
		w.start(t)
		later(20 * time.Second)
		w.mustHaveConf(t, false)
		w.mustSay(t, bootrecord.Waiting, "")
		if conditions, _ := w.cluster.written(); conditions != "True NotMadeInThisBoot" {
			t.Errorf("conditions %q", conditions)
		}

		hnstest.Host{Fake: w.hns}.WithoutAdapters(false)
		later(time.Minute)
		w.mustBeRight(t)
		if conditions, _ := w.cluster.written(); !strings.HasSuffix(conditions, "False RoutesReady") {
			t.Errorf("conditions %q", conditions)
		}
		w.mustSay(t, bootrecord.Ready, "10.244.1.0/24")
	})
}

// The kubelet is told of the boot when the pod network is right, not before; also while the API server takes no
// writes, and once.
func TestKubeletIsTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{BootID: "7"})
		hnstest.Host{Fake: w.hns}.WithoutAdapters(true)
		w.start(t)
		later(20 * time.Second)
		w.mustSay(t, bootrecord.Waiting, "")

		w.cluster.refuseAll(errors.New("away"))
		hnstest.Host{Fake: w.hns}.WithoutAdapters(false)
		later(time.Minute)
		w.mustSay(t, bootrecord.Ready, "10.244.1.0/24")
		before, err := os.Stat(w.bootRecord())
		w.cluster.refuseAll(nil)
		later(10 * time.Minute)
		if after, again := os.Stat(w.bootRecord()); errors.Join(err, again) != nil || !os.SameFile(before, after) {
			t.Errorf("the record was written again: %v", errors.Join(err, again))
		}
	})
}

// A boot record that cannot be written keeps the kubelet waiting, and is a problem that the status names.
func TestNoBootRecord(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{BootID: "7"})
		if err := os.Mkdir(w.bootRecord(), 0o755); err != nil {
			t.Fatal(err)
		}
		w.start(t)
		later(20 * time.Second)
		if got := w.status().Network; !strings.Contains(got, "writing the boot record") {
			t.Errorf("the status says %q", got)
		}
	})
}

// A mere restart of the program takes no configuration away, even while the API server does not answer.
func TestConfOfThisBoot(t *testing.T) {
	for _, boot := range []string{"7", ""} { // "": this system does not say which boot it is
		bubble.Test(t, func(t *testing.T) {
			w := newTestNode(t, Options{BootID: boot})
			w.bootsAgain(t, "7")
			w.cluster.set()
			w.start(t)
			later(20 * time.Second)
			w.mustHaveConf(t, true)
		})
	}
}

// Without a folder for the CNI configuration the program says at its start that the node will not become ready, and
// which folders the runtime may read. It says nothing where a folder is given, or where the runtime needs no
// configuration of ours.
func TestNoFolderForTheConf(t *testing.T) {
	for name, c := range map[string]struct {
		maker maker
		dir   string
		warns bool
	}{
		"Windows, no folder": {maker: hnsMaker{}, warns: true},
		"Windows, a folder":  {maker: hnsMaker{}, dir: `C:\etc\cni\net.d`},
		"no conf of ours":    {maker: keepsConf{}},
	} {
		var log bytes.Buffer
		ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))))
		newAgent(Options{ConfDir: c.dir}, nil, c.maker).warnNoConf(ctx)
		for _, word := range []string{"--cni-conf-dir", `C:\\Program Files\\containerd\\cni\\conf`,
			`C:\\etc\\cni\\net.d`, "does not become ready"} {
			if strings.Contains(log.String(), word) != c.warns {
				t.Errorf("%s: the log must name %s: %v, it is %q", name, word, c.warns, log.String())
			}
		}
	}
}

// keepsConf is a system on which the CNI configuration may outlive a reboot, as on Linux.
type keepsConf struct{ hnsMaker }

func (keepsConf) heldBack() string { return "" }

// What somebody does to the host's adapters is put right, and stands in the status.
func TestAdapters(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{})
		w.start(t)
		const right = "Ethernet forwards, vEthernet (porthole_ep) forwards"
		if got := w.adapters.dump(); got != right {
			t.Errorf("adapters %s", got)
		}

		if err := w.adapters.change(1, func(a *adapters.Adapter) { a.Forwarding = false }); err != nil {
			t.Fatal(err)
		}
		if err := w.adapters.change(101,
			func(a *adapters.Adapter) { a.Defaults = []netip.Addr{netip.MustParseAddr("10.244.1.1")} }); err != nil {
			t.Fatal(err)
		}
		later(keep.DefaultPeriod)
		if got := w.adapters.dump(); got != right || w.status().Adapters.Repairs != 2 {
			t.Errorf("adapters %s, status %+v", got, w.status().Adapters)
		}

		// The node's address goes: that cannot be put right here, and the node says so.
		w.adapters.mu.Lock()
		w.adapters.list = w.adapters.list[1:]
		w.adapters.mu.Unlock()
		later(keep.DefaultPeriod)
		if s := w.status(); s.unhealthy(true) == "" ||
			!slices.Contains(s.Problems, "no adapter of this host has the node's address 10.99.0.21") {
			t.Errorf("status %+v", s)
		}
	})
}

// A new network is bound to the adapter with the node's address, whatever adapters there are besides, or to the one of
// --adapter.
func TestAdapterOfTheNetwork(t *testing.T) {
	for want, o := range map[string]Options{"Ethernet": {}, "Ethernet 2": {Adapter: "Ethernet 2"}} {
		bubble.Test(t, func(t *testing.T) {
			w := newTestNode(t, o)
			w.adapters.list = append(
				[]adapters.Adapter{{ID: 9, Name: "Storage", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.5")}}},
				w.adapters.list...)
			w.start(t)
			n, err := w.hns.NetworkByName(t.Context(), podnet.NetworkName)
			if err != nil || n.Adapter != want {
				t.Errorf("bound to %q, want %q: %v", n.Adapter, want, err)
			}
		})
	}
}

// An adapter that the host does not have is named with those that it has. The virtual adapter of a card stands for the
// card.
// Row 1.38.
func TestWrongAdapter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{Adapter: "Ethernet 7"})
		w.hns.Cards = []string{"Ethernet", "Storage"}
		w.adapters.list = append(w.adapters.list,
			adapters.Adapter{ID: 9, Name: "vEthernet (Storage)", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.5")}})
		w.start(t)
		if text := fmt.Sprint(w.status().Problems); !strings.Contains(text,
			`HNS knows no network adapter "Ethernet 7"; this host has "Ethernet", "Storage" (choose one with --adapter)`) {
			t.Error(text)
		}
	})
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{Adapter: "vEthernet (Ethernet)"})
		w.hns.Cards = []string{"Ethernet"}
		w.start(t)
		w.mustBeRight(t)
	})
}

// ACLs that somebody else put on the host's endpoint survive passes and restarts of the agent.
func TestPoliciesOfOthersSurvive(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{})
		w.start(t)
		acl := hns.Policy{Type: "ACL", Settings: json.RawMessage(`{"Action":"Block"}`)}
		w.hns.Edit(func(eps *[]hns.Endpoint, _ *[]hns.LoadBalancer, _ *[]hns.Network) {
			(*eps)[0].Policies = append((*eps)[0].Policies, acl)
		})
		w.changed(nil)
		later(10 * time.Minute)
		network, err := w.hns.NetworkByName(t.Context(), podnet.NetworkName)
		if err != nil {
			t.Fatal(err)
		}
		list, err := w.hns.Endpoints(t.Context(), network.ID)
		if err != nil || len(list) != 1 || len(list[0].Policies) != 1 || list[0].Policies[0].Type != "ACL" {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestPhysical(t *testing.T) {
	for name, want := range map[string]string{"Ethernet": "Ethernet", "vEthernet (Ethernet 2)": "Ethernet 2",
		"vEthernet (a (b))": "a (b)", "": ""} {
		if got := physical(name); got != want {
			t.Errorf("%q became %q, want %q", name, got, want)
		}
	}
}

// A host without a namespace of its own becomes right, in the order that Windows needs.
func TestFreshHost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newTestNode(t, Options{})
		w.hns.EditNamespaces(func(all *[]hns.Namespace) { *all = nil })
		w.start(t)
		w.mustBeRight(t)
	})
}
