package proxylab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

type object = map[string]any

// token is an administrator's. Nobody outside the Lab's namespaces can reach its API server.
const token = "token-of-the-lab"

var apiServer = netip.AddrPortFrom(routerAddr, 6443)

// startControlPlane starts etcd and kube-apiserver in the switch's namespace and waits until they answer.
func (l *Lab) startControlPlane(ctx context.Context) error {
	at := func(name string) string { return filepath.Join(l.Dir, "controlplane", name) }
	if err := os.MkdirAll(at("certs"), 0o755); err != nil {
		return err
	}
	if err := errors.Join(os.WriteFile(at("tokens.csv"), []byte(token+`,admin,admin,"system:masters"`+"\n"), 0o600), testkit.WriteKey(at("sa.key"))); err != nil {
		return err
	}
	const etcd = etcdURL
	config := object{
		"etcd": object{"dataDir": at("etcd"), "clientURL": etcd, "peerURL": "http://127.0.0.1:2380"},
		"apiServer": []string{
			"--advertise-address=" + routerAddr.String(), fmt.Sprintf("--secure-port=%d", apiServer.Port()), "--etcd-servers=" + etcd,
			"--service-cluster-ip-range=" + ServiceRange.String() + "," + ServiceRange6.String(), "--service-node-port-range=30000-32767",
			"--cert-dir=" + at("certs"), "--token-auth-file=" + at("tokens.csv"),
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + at("sa.key"), "--service-account-signing-key-file=" + at("sa.key"),
			"--authorization-mode=AlwaysAllow", "--disable-admission-plugins=ServiceAccount", "--profiling=false",
			"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
		},
	}
	if err := testkit.WriteJSON(at("config.json"), config); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(l.Dir, "controlplane.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(l.o.Bin, "bundle", "kube"), "controlplane", "--config", at("config.json"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := platform.StartInNetns(l.netns("sw"), cmd); err != nil {
		return fmt.Errorf("starting the control plane: %w", err)
	}
	l.control = newProcess("controlplane", log.Name(), cmd)
	client := &rest.Config{Host: "https://" + apiServer.String(), BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Dial: dialIn(l.netns("sw"))}
	client.ContentType = "application/vnd.kubernetes.protobuf"
	if l.Client, err = kubernetes.NewForConfig(client); err != nil {
		return err
	}
	return wait.For(ctx, 90*time.Second, "the API server", func(ctx context.Context) error {
		_, err := l.Client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		return err
	})
}

func dialIn(netns string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = platform.InNetns(netns, func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
}

// kubeconfig is for a program that reaches the API server through the API at addr.
func kubeconfig(addr netip.AddrPort) object {
	return object{
		"apiVersion": "v1", "kind": "Config", "current-context": "lab",
		"clusters": []object{{"name": "lab", "cluster": object{"server": "http://" + addr.String()}}},
		"users":    []object{{"name": "admin", "user": object{}}},
		"contexts": []object{{"name": "lab", "context": object{"cluster": "lab", "user": "admin"}}},
	}
}
