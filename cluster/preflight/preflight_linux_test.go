package preflight

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"porthole.dev/porthole/cluster/config"
	"porthole.dev/porthole/cluster/layout"
	"porthole.dev/porthole/internal/testkit"
)

// TestPreflightNamesThingAndCure: on a machine where nothing is built or installed, each message of porthole up names
// the missing program or package, and the command that brings it.
func TestPreflightNamesThingAndCure(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run as root: the check for root comes first")
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	t.Setenv("PATH", t.TempDir())
	c := config.Default()
	c.LinuxKubelet = config.KubeletUpstream
	c.APIPort = busy.Addr().(*net.TCPAddr).Port
	l := layout.Layout{Dir: filepath.Join(t.TempDir(), "state"), Bin: t.TempDir()}
	err = Check(t.Context(), l, c)
	if err == nil {
		t.Fatal("an empty machine passed")
	}

	for _, want := range []string{"bundle/containerd is missing: `make build`",
		"bundle/kubelet, for --linux-kubelet upstream, is missing: `make upstream-kubelet`",
		"runc is missing: apt-get install runc", "nft is missing: apt-get install nftables", "--api-port"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message lacks %q:\n%v", want, err)
		}
	}
	if _, err := os.Stat(l.Dir); err == nil {
		t.Error("the check made the state folder")
	}
}

// TestPreflightUnfitWine: a Wine that cannot be mended is named, and no cluster without Windows nodes is in need of
// one.
func TestPreflightUnfitWine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run as root: the check for root comes first")
	}
	l := layout.Layout{Dir: filepath.Join(t.TempDir(), "state"), Bin: t.TempDir()}
	if err := testkit.UnfitDLLs("../..", filepath.Join(l.Bin, "windows", "dll")); err != nil {
		t.Skip(err)
	}
	c := config.Default()
	for nodes, want := range map[int]bool{2: true, 0: false} {
		c.WindowsNodes = nodes
		err := Check(t.Context(), l, c)
		if !errors.Is(err, ErrNotReady) || strings.Contains(err.Error(), "registry ("+testkit.Unfit+")") != want {
			t.Errorf("%d Windows nodes: %v", nodes, err)
		}
	}
	if _, err := os.Stat(l.Dir); err == nil {
		t.Error("the check made the state folder")
	}
}

// TestListenElsewhere: an address that the machine has not is named, with the flag.
func TestListenElsewhere(t *testing.T) {
	err := portFree("--api-port", "203.0.113.1:6443")
	if err == nil || !strings.Contains(err.Error(), "203.0.113.1 is no address of this machine: --listen") {
		t.Error(err)
	}
}
