package hcn

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"time"

	shim "github.com/Microsoft/hcsshim/hcn"
)

// TestNotifications wants a host with HNS on which somebody restarts it when a line says "restart", and says with a
// line on standard input that it runs again. HNS_RESTARTS=1 says that there is such a body.
func TestNotifications(t *testing.T) {
	if os.Getenv("HNS_RESTARTS") == "" {
		t.Skip("nobody restarts HNS here")
	}
	changed := New(Options{}).Notifications(t.Context())
	network := func() {
		t.Helper()
		n, err := (&shim.HostComputeNetwork{Type: shim.L2Bridge, Name: "watched", SchemaVersion: shim.V2SchemaVersion(),
			Ipams: []shim.Ipam{{Type: "Static",
				Subnets: []shim.Subnet{{IpAddressPrefix: "10.251.0.0/24",
					Routes: []shim.Route{{NextHop: "10.251.0.1", DestinationPrefix: "0.0.0.0/0"}}}}}}}).Create()
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Delete(); err != nil {
			t.Fatal(err)
		}
	}

	told := func(within time.Duration) bool {
		select {
		case <-changed:
			return true
		case <-time.After(within):
			return false
		}
	}

	// A registration may still be under way: networks are made until one is reported.
	untilTold := func(what string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
			network()
			if told(500 * time.Millisecond) {
				return
			}
		}
		t.Fatalf("%s was not told", what)
	}

	untilTold("a network")
	for told(2 * time.Second) { // what else there was
	}
	fmt.Println("restart")
	if !told(30 * time.Second) {
		t.Fatal("the end of HNS was not told")
	}

	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for told(2 * time.Second) {
	}
	untilTold("a network after the restart")
}
