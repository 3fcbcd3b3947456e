package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// hostPortPod is a server on win01 with a host port of both protocols.
func hostPortPod(t *testing.T, name string, port int) {
	t.Helper()
	windowsPod(t, name, `[serve, --http, ":8080", --udp, ":7000"]`, "  nodeName: win01", fmt.Sprintf(
		"    ports: [{containerPort: 8080, hostPort: %d}, {containerPort: 7000, hostPort: %d, protocol: UDP}]", port,
		port))
}

// reachesHostPort asks a host port of win01 over TCP and UDP, from a namespace of the lab.
func reachesHostPort(from, pod string, port int) error {
	at := fmt.Sprintf("%s:%d", nodeAddresses["win01"], port)
	if out, err := curl(from, "http://"+at+"/"); err != nil || !strings.Contains(out, "hostname="+pod) {
		return fmt.Errorf("%s to %s over TCP: %v %q, want the pod %s", from, at, err, out, pod)
	}
	app := strings.TrimSuffix(porthole, "porthole") + "bundle/images/linux/testapp"
	if out, err := inNetns(5*time.Second, from, app, "udp", at, "ping"); err != nil || !strings.Contains(out, "ping") {
		return fmt.Errorf("%s to %s over UDP: %v %q", from, at, err, out)
	}
	return nil
}

// TestHostPorts: the host port of a Windows pod is reached over TCP and UDP from another node, from outside and by
// programs of the node itself. A port that is taken, by a pod or by the NodePort of a service, is told in an event of
// the pod that wants it. The port is free again when its pod is deleted, also when the kubelet is killed meanwhile.
// Row 1.71.
func TestHostPorts(t *testing.T) {
	const port, nodePort = 8085, 30085
	hostPortPod(t, "first", port)
	waitPod(t, "first", podWait, isReady)
	for _, from := range []string{"porthole-lin01", "porthole-win02", torNetns, "porthole-win01"} {
		wait.NoError(t, 10*time.Second, "the host port", func() error { return reachesHostPort(from, "first", port) })
	}

	// Past the scheduler, the kubelet knows which ports its pods have.
	hostPortPod(t, "second", port)
	waitPod(t, "second", podWait, func(p *v1.Pod) error {
		if p.Status.Phase != v1.PodFailed || p.Status.Reason != "NodePorts" {
			return fmt.Errorf("is %s: %s", p.Status.Phase, p.Status.Reason)
		}
		return nil
	})
	waitEvent(t, "second", "node(s) didn't have free ports")
	// A load balancer's port is known to HNS only.
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: taken}
spec: {type: NodePort, selector: {app: nobody}, ports: [{port: 80, nodePort: %d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: taken-1, labels: {kubernetes.io/service-name: taken}}
addressType: IPv4
ports: [{name: "", port: 8080, protocol: TCP}]
endpoints: [{addresses: [%q]}]
`, nodePort, podAddress(t, "first")))
	wait.NoError(t, 20*time.Second, "the service on win01", func() error {
		_, err := curl("porthole-lin01", fmt.Sprintf("http://%s:%d/", nodeAddresses["win01"], nodePort))
		return err
	})
	hostPortPod(t, "third", nodePort)
	waitEvent(t, "third", fmt.Sprintf("host ports %d/tcp, %d/udp is taken by a load balancer", nodePort, nodePort))

	kubelet := current(t, "win01/kubelet")
	kubectl(t, "delete", "pod", "first", "--wait=false")
	kill(t, kubelet.PID)
	kubectl(t, "delete", "pod", "second", "third", "--wait=true", "--timeout=50s")
	kubectl(t, "wait", "pod", "first", "--for=delete", "--timeout=50s")
	hostPortPod(t, "fourth", port)
	waitPod(t, "fourth", podWait, isReady)
	wait.NoError(t, 10*time.Second, "the host port",
		func() error { return reachesHostPort("porthole-lin01", "fourth", port) })
	if p := current(t, "win01/kubelet"); p.Restarts <= kubelet.Restarts {
		t.Errorf("the kubelet has not been restarted: %+v", p)
	}
}

func podAddress(t *testing.T, name string) string {
	t.Helper()
	p, err := getPod(name)
	if err != nil {
		t.Fatal(err)
	}
	return p.Status.PodIP
}
