package lab

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// rebooted is the node that TestReboot reboots.
const rebooted = "win01"

// TestReboot reboots a Windows node. HNS has lost everything afterwards, or lists it without what carries packets, or
// has kept it. The node is ready only with the pod network of this boot, its pods come back by themselves, and nothing
// of before is left.
// Rows 1.41, 1.116.
func TestReboot(t *testing.T) {
	profiles := []string{"default", "listed", "all"}
	if os.Getenv("PORTHOLE_LAB_REBOOTS") == "" {
		profiles = profiles[:1]
	}
	pods, clusterIP := echoPods(t)
	for _, profile := range profiles {
		flags := []string{"--profile", profile}
		if profile == "all" {
			flags = append(flags, "--dhcp-late", "5s") // programs start while the node has no address
		}
		t.Run(profile, func(t *testing.T) { pods = reboot(t, pods, clusterIP, flags...) })
	}
}

// reboot reboots the node and returns the echo pods of afterwards.
func reboot(t *testing.T, before map[string]v1.Pod, clusterIP string, flags ...string) map[string]v1.Pod {
	t.Helper()
	inventory := settledHNS(t)
	w := watchNode(t)
	refuseRoutes(t)
	started := time.Now()
	out, err := command(time.Minute, porthole, append([]string{"host", "reboot", rebooted, "--dir", dir}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f s: %s", time.Since(started).Seconds(), strings.Join(strings.Fields(out), " "))
	wait.NoError(t, 60*time.Second, "the node to say that it is not ready", w.unready)
	faults(t, rebooted, "[]")

	after := map[string]v1.Pod{}
	for node, pod := range before {
		after[node] = pod
	}
	wait.NoError(t, 90*time.Second, rebooted+" after its reboot", func() error {
		pod, err := getPod(before[rebooted].Name)
		if err != nil {
			return err
		}
		if err := isReady(pod); err != nil || containerOf(*pod) == containerOf(before[rebooted]) {
			return fmt.Errorf("%s has the container %s: %w", pod.Name, containerOf(*pod), err)
		}
		after[rebooted] = *pod
		if err := healthy(t, after, clusterIP); err != nil {
			return err
		}
		return reaches(after, clusterIP)
	})
	t.Logf("right again after %.1f s", time.Since(started).Seconds())
	w.check(t, before[rebooted].Name)
	wait.NoError(t, 30*time.Second, "HNS to have what it had", func() error {
		if now := inventoryHNS(t); now != inventory {
			return fmt.Errorf("before:\n%s\nafter:\n%s", inventory, now)
		}
		return nil
	})
	return after
}

// refuseRoutes has HNS refuse all calls of `porthole routes` on the node, so that a node that were ready without its
// pod network is seen.
func refuseRoutes(t *testing.T) {
	t.Helper()
	faults(t, rebooted, fmt.Sprintf(`[{"program": "porthole.exe", "action": "fail", "code": %d}]`, 0x803b0010))
	t.Cleanup(func() { faults(t, rebooted, "[]") })
}

func containerOf(pod v1.Pod) string {
	if len(pod.Status.ContainerStatuses) == 0 {
		return ""
	}
	return pod.Status.ContainerStatuses[0].ContainerID
}

// reaches returns an error unless packets pass to the rebooted node's pod and from it, and its services answer over
// TCP and UDP.
func reaches(pods map[string]v1.Pod, clusterIP string) error {
	own := pods[rebooted]
	type path struct {
		what string
		try  func() (string, error)
	}
	paths := []path{
		{"outside to NodePort", func() (string, error) {
			return curl(torNetns, "http://"+nodeAddresses[rebooted]+":30080/")
		}},
		{"its pod to the service over UDP",
			func() (string, error) { return fromPod(own, "/echo?network=udp&addr="+clusterIP+":7000") }},
		{"its pod to the service's name",
			func() (string, error) { return fromPod(own, fetch("http://echo.default.svc.cluster.local/")) }},
	}

	for node, pod := range pods {
		paths = append(paths,
			path{"pod on " + node + " to its pod",
				func() (string, error) { return fromPod(pod, fetch("http://"+own.Status.PodIP+":8080/")) }},
			path{"its pod to pod on " + node,
				func() (string, error) { return fromPod(own, fetch("http://"+pod.Status.PodIP+":8080/")) }},
			path{"pod on " + node + " to the service",
				func() (string, error) { return fromPod(pod, fetch("http://"+clusterIP+"/")) }})
	}
	for _, p := range paths {
		if _, err := p.try(); err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
	}
	return nil
}

// hnsDump is what `porthole host hns NAME dump -o json` prints.
type hnsDump struct {
	Networks, Endpoints, Namespaces, LoadBalancers, Routes []struct {
		ID, Name, Type, HostComputeNamespace string
		IPConfigurations                     []struct{ IPAddress string } `json:"IpConfigurations"`
		FrontendVIPs                         []string
		PortMappings                         []struct{ Protocol, ExternalPort int }
	}
}

// inventoryHNS lists what the rebooted node's HNS has, without ids and without the addresses of pods, which are others
// after a reboot.
func inventoryHNS(t *testing.T) string {
	t.Helper()
	out, err := command(20*time.Second, porthole, "host", "hns", "--dir", dir, rebooted, "dump", "-o", "json")
	if err != nil {
		return err.Error()
	}
	var d hnsDump
	if err := unmarshal(out, &d); err != nil {
		return err.Error()
	}

	lines := []string{fmt.Sprintf("%d routes", len(d.Routes))}
	for _, n := range d.Networks {
		lines = append(lines, "network "+n.Name)
	}
	attached := map[bool]int{}
	for _, e := range d.Endpoints {
		attached[strings.Trim(e.HostComputeNamespace, "0-") != ""]++
	}
	lines = append(lines, fmt.Sprintf("%d endpoints in namespaces, %d in none", attached[true], attached[false]))
	kinds := map[string]int{}
	for _, n := range d.Namespaces {
		kinds[n.Type]++
	}
	lines = append(lines, fmt.Sprint("namespaces ", kinds))
	for _, b := range d.LoadBalancers {
		lines = append(lines, fmt.Sprint("load balancer ", b.FrontendVIPs, b.PortMappings))
	}
	return sorted(lines)
}

// settledHNS returns the inventory once nothing has been written to the node's HNS for a while.
func settledHNS(t *testing.T) string {
	t.Helper()
	settledWrites(t, rebooted)
	return inventoryHNS(t)
}

// nodeWatch records how the rebooted node and the pods on it change.
type nodeWatch struct {
	mu      sync.Mutex
	changes []change
}

// change is one change, at the time when it was seen here.
type change struct {
	at   time.Time
	node *v1.Node
	pod  *v1.Pod
}

func watchNode(t *testing.T) *nodeWatch {
	t.Helper()
	w := &nodeWatch{}
	watch(t, "/api/v1/nodes?watch=1&fieldSelector=metadata.name="+rebooted, func(object json.RawMessage) error {
		c := change{at: time.Now(), node: new(v1.Node)}
		defer w.add(c)
		return json.Unmarshal(object, c.node)
	})
	watch(t, "/api/v1/pods?watch=1&fieldSelector=spec.nodeName="+rebooted, func(object json.RawMessage) error {
		c := change{at: time.Now(), pod: new(v1.Pod)}
		defer w.add(c)
		return json.Unmarshal(object, c.pod)
	})
	return w
}

func (w *nodeWatch) add(c change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, c)
}

// watch calls take for each object of a watch until the test ends.
func watch(t *testing.T, path string, take func(json.RawMessage) error) {
	t.Helper()
	cmd := exec.Command(porthole, "kubectl", "--dir", dir, "get", "--raw", path)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}

	done := make(chan error, 1)
	go func() {
		stream := json.NewDecoder(out)
		for {
			var event struct{ Object json.RawMessage }
			if err := stream.Decode(&event); err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
					done <- err
				}
				close(done)
				return
			}
			if err := take(event.Object); err != nil {
				done <- err
				close(done)
				return
			}
		}
	}()

	t.Cleanup(func() {
		cmd.Process.Kill()
		if err := <-done; err != nil {
			t.Errorf("watching %s: %v", path, err)
		}
		cmd.Wait()
	})
}

// unready returns an error unless the node has said in another boot that it is not ready and has no network, and the
// pods on it are not ready any more.
func (w *nodeWatch) unready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var first, last *v1.Node
	pods := map[string]bool{} // ready
	for _, c := range w.changes {
		if c.node != nil {
			first, last = cmp.Or(first, c.node), c.node
		} else {
			pods[c.pod.Name] = isReady(c.pod) == nil && c.pod.DeletionTimestamp == nil
		}
	}
	if last == nil || last.Status.NodeInfo.BootID == first.Status.NodeInfo.BootID {
		return errors.New("it is in the boot of before")
	}

	if ready, unavailable := conditionOf(last, v1.NodeReady), conditionOf(last,
		v1.NodeNetworkUnavailable); ready != v1.ConditionFalse || unavailable != v1.ConditionTrue {
		return fmt.Errorf("ready %s, network unavailable %s", ready, unavailable)
	}
	for name, ready := range pods {
		if ready {
			return fmt.Errorf("pod %s is ready", name)
		}
	}
	return nil
}

// check fails the test unless the node, and each pod, was ready in the new boot only after the CNI configuration of
// that boot was written, which says that the pod network is right.
func (w *nodeWatch) check(t *testing.T, echo string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	conf, err := os.Stat(filepath.Join(driveC(rebooted), "etc/cni/net.d/10-porthole.conf"))
	if err != nil {
		t.Fatal(err)
	}
	network := conf.ModTime()
	var order []string
	note := func(at time.Time, what string) {
		if len(order) == 0 || !strings.HasSuffix(order[len(order)-1], " "+what) {
			order = append(order, fmt.Sprintf("%+.2f %s", at.Sub(network).Seconds(), what))
		}
	}

	first, boot := "", ""
	for _, c := range w.changes {
		if c.node != nil {
			boot = c.node.Status.NodeInfo.BootID
			first = cmp.Or(first, boot)
			ready, unavailable := conditionOf(c.node, v1.NodeReady), conditionOf(c.node, v1.NodeNetworkUnavailable)
			note(c.at, fmt.Sprintf("boot %s: ready %s, network unavailable %s", boot, ready, unavailable))
			if boot != first && ready == v1.ConditionTrue && c.at.Before(network) {
				t.Errorf("the node is ready %v before its pod network is", network.Sub(c.at))
			}
			continue
		}
		ready := isReady(c.pod) == nil
		if c.pod.Name == echo {
			note(c.at, fmt.Sprintf("pod: ready %v", ready))
		}
		if boot != first && ready && c.at.Before(network) {
			t.Errorf("pod %s is ready %v before the pod network is", c.pod.Name, network.Sub(c.at))
		}
	}
	t.Log("seconds from the moment at which the pod network of this boot was right:\n" +
		strings.Join(slices.Compact(order), "\n"))
}

func conditionOf(n *v1.Node, kind v1.NodeConditionType) v1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}
