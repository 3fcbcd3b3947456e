package serve

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
)

// TestHostRoutes lets the routes' own test for Windows change and watch the host's table through the IP helper library,
// while the kernel is looked at from this side.
func TestHostRoutes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	h := startBridgeHost(t, 20348)
	exe := filepath.Join(h.prefix.DriveC(), "hostgw.test.exe")
	h.build(".", "go", "test", "-c", "-trimpath", "-o", exe, "porthole.dev/porthole/routes/hostgw")
	ns, err := netns.GetFromPath(h.path)
	must(t, err)
	defer ns.Close()
	updates, stop := make(chan netlink.RouteUpdate, 64), make(chan struct{})
	must(t, netlink.RouteSubscribeAt(ns, updates, stop))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := h.tools.Command(ctx, h.prefix, `C:\hostgw.test.exe`, "-test.v", "-test.run", "TestWindowsTable")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, platform.StartInNetns(h.path, cmd))
	exit := cmd.Wait()
	close(stop)
	added, deleted := 0, 0
	for u := range updates {
		switch {
		case u.Dst == nil || u.Dst.String() != "198.18.7.0/24" || u.Protocol != 201 || u.Gw.String() != "10.99.7.1":
		case u.Type == unix.RTM_NEWROUTE:
			added++
		default:
			deleted++
		}
	}
	if exit != nil || added != 2 || deleted != 2 {
		t.Errorf("the kernel saw %d adds and %d deletes: %v\n%s", added, deleted, exit, out.Bytes())
	}
	t.Logf("%s", out.Bytes())
}
