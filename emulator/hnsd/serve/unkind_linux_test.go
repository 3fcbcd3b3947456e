package serve

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/wait"
)

// testService lets kube-proxy.exe serve a service whose only backend is a pod: the host reaches it at its cluster IP.
func testService(t *testing.T, h *bridgeHost, pod string) {
	h.serveAPI("10.99.7.1:6444", map[string]string{
		"/api/v1/services": `{"apiVersion": "v1", "kind": "ServiceList", "metadata": {"resourceVersion": "1"}, "items": [
 {"metadata": {"namespace": "default", "name": "web", "resourceVersion": "1"}, "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.20",
  "clusterIPs": ["10.96.0.20"], "ipFamilies": ["IPv4"], "ports": [{"name": "http", "protocol": "TCP", "port": 80}]}}]}`,
		"/apis/discovery.k8s.io/v1/endpointslices": `{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSliceList", "metadata": {"resourceVersion": "1"}, "items": [
 {"metadata": {"namespace": "default", "name": "web-1", "resourceVersion": "1", "labels": {"kubernetes.io/service-name": "web"}},
  "addressType": "IPv4", "endpoints": [{"addresses": ["10.244.7.3"], "nodeName": "win01", "conditions": {"ready": true}}],
  "ports": [{"name": "http", "protocol": "TCP", "port": 8080}]}]}`,
		"/api/v1/nodes": `{"apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "win01", "resourceVersion": "1"},
 "status": {"addresses": [{"type": "InternalIP", "address": "10.99.7.21"}]}}]}`,
	})
	c := h.prefix.DriveC()
	must(t, os.Link(filepath.Join(c, "porthole.exe"), filepath.Join(c, "kube-proxy.exe")))
	writeKubeconfig(t, h, "proxy.kubeconfig", "10.99.7.1:6444")

	var l net.Listener
	must(t, platform.InNetns(pod, func() (err error) {
		l, err = net.Listen("tcp4", "10.244.7.3:8080")
		return err
	}))
	defer l.Close()
	out, _ := h.start(`C:\kube-proxy.exe`, `--kubeconfig=C:\proxy.kubeconfig`, "--hostname-override=win01",
		"--proxy-mode=kernelspace", "--network-name=porthole")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", out)
		}
	})
	wait.NoError(t, 30*time.Second, "the cluster IP", func() error {
		return platform.InNetns(h.path, func() error {
			conn, err := net.DialTimeout("tcp4", "10.96.0.20:80", time.Second)
			if err != nil {
				return err
			}
			return conn.Close()
		})
	})
}
