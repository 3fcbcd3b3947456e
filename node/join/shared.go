package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"porthole.dev/porthole/join/preflight"
	"porthole.dev/porthole/kubelet/runtime"
)

// strangersConfig reads a kubelet.conf that another program wrote.
func strangersConfig(path string) *preflight.Joined {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var k struct {
		Clusters []struct{ Cluster struct{ Server string } }
		Users    []struct{ Name string }
	}
	if yaml.Unmarshal(text, &k) != nil || len(k.Clusters) == 0 {
		// A kubelet.conf that cannot be read still says that this machine is a node of something.
		return &preflight.Joined{Node: "?", Server: "another cluster (" + path + ")"}
	}
	j := &preflight.Joined{Node: "?", Server: k.Clusters[0].Cluster.Server}
	if len(k.Users) > 0 {
		j.Node = strings.TrimPrefix(k.Users[0].Name, "system:node:")
	}
	return j
}

// links returns the ranges of addresses that this machine reaches without a router.
func links() (list []netip.Prefix) {
	addrs, _ := net.InterfaceAddrs() // none: nothing is said about other nodes
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() {
			list = append(list, p.Masked())
		}
	}
	return list
}

// runtimeTime is how long the container runtime may take to answer.
const runtimeTime = 5 * time.Second

// askRuntime returns what the runtime at an endpoint says of itself, or in Err why it says nothing.
func askRuntime(ctx context.Context, endpoint string) preflight.Runtime {
	r := preflight.Runtime{Endpoint: endpoint}
	if path, isUnix := strings.CutPrefix(endpoint, "unix://"); isUnix { // gRPC would try for all of the time
		if _, err := os.Stat(path); err != nil {
			r.Err = err
			return r
		}
	}
	conn, err := runtime.Dial(endpoint)
	if err != nil {
		r.Err = err
		return r
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, runtimeTime)
	defer cancel()
	v, err := runtime.New(conn, runtime.Options{RequestTimeout: runtimeTime}).Version(ctx)
	if err != nil {
		r.Err = err
		return r
	}
	// The form is that of a Node's containerRuntimeVersion.
	r.Version = v.Name + "://" + strings.TrimPrefix(v.Version, "v")
	return r
}

// removeSandboxes ends and removes all pods that the runtime has. It goes on after what fails.
func removeSandboxes(ctx context.Context, endpoint string) error {
	ids, err := runtime.SandboxIDs(ctx, endpoint)
	if err != nil {
		return err
	}
	conn, err := runtime.Dial(endpoint)
	if err != nil {
		return err
	}
	defer conn.Close()
	r := runtime.New(conn, runtime.Options{})
	for _, id := range ids {
		err = errors.Join(err, r.StopSandbox(ctx, id), r.RemoveSandbox(ctx, id))
	}
	return err
}

// readPatches returns the merge patches of a folder for the kubelet's configuration; none for "".
func readPatches(dir string) (patches [][]byte, err error) {
	if dir == "" {
		return nil, nil
	}
	found, err := filepath.Glob(filepath.Join(dir, "kubeletconfiguration*"))
	// No file is an error too: the user named a folder for it.
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("--patches %s: there is no file kubeletconfiguration*.yaml or .json", dir)
	}
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--patches: %w", err)
		}
		patches = append(patches, text)
	}
	return patches, nil
}

// refusedSettings is the error of a kubelet-config that the kubelet would not take.
func refusedSettings(why string) error {
	return fmt.Errorf(
		"the kubelet would not take the cluster's kubelet-config: %s → kubectl -n kube-system edit configmap kubelet-config, or mend it for this node with --patches", why)
}
