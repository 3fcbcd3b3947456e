package lab

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/internal/testkit/wait"
)

// TestWindowsFirewall switches the inbound firewall of a Windows node on, as `porthole up --windows-firewall` does.
// Without a rule for it the control plane does not reach the kubelet; with the rules that porthole.exe makes it does.
func TestWindowsFirewall(t *testing.T) {
	long(t)
	const node, name = "win02", "walled"
	windowsPod(t, name, "[serve, --http, ':8080']", "  nodeName: "+node, "")
	exec := func() error {
		_, err := kubectlErr("exec", "--request-timeout=3s", name, "--", "testapp", "id")
		return err
	}
	wait.NoError(t, podWait, "exec before the firewall is on", exec)

	turn := func(state string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := control.Do(ctx, filepath.Join(dir, "hosts", node), "POST", "/firewall",
			[]byte(`{"on": `+state+`}`)); err != nil {
			t.Fatal(err)
		}
	}
	firewall := func(verb string) {
		t.Helper()
		if _, err := command(time.Minute, porthole, "host", "run", "--dir", dir, node, "--", `C:\k\porthole.exe`,
			"firewall", verb); err != nil {
			t.Fatal(err)
		}
	}
	turn("true")
	t.Cleanup(func() {
		turn("false")
		firewall("remove")
	})
	if err := dialKubelet(node); err == nil {
		t.Error("the kubelet's port is open without a rule")
	}
	if err := exec(); err == nil {
		t.Error("kubectl exec works without a rule")
	}

	firewall("add")
	if err := dialKubelet(node); err != nil {
		t.Errorf("with a rule: %v", err)
	}
	if err := exec(); err != nil {
		t.Errorf("kubectl exec with a rule: %v", err)
	}
	kubectl(t, "logs", name)
}

// dialKubelet connects to a node's kubelet from the node of the control plane: the API server itself may hold
// connections from before.
func dialKubelet(node string) error {
	return platformInNetns("porthole-lin01", func() error {
		conn, err := net.DialTimeout("tcp4", fmt.Sprintf("%s:10250", nodeAddresses[node]), 2*time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
