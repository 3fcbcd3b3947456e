package lab

import (
	"context"
	"net/netip"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
)

type object = map[string]any

// token is an administrator's. Nobody outside the Lab's namespaces can reach its API server.
const token = "token-of-the-lab"

var apiServer = netip.AddrPortFrom(routerAddr, 6443)

// startControlPlane starts etcd and kube-apiserver in the switch's namespace and waits until they answer.
func (l *Lab) startControlPlane(ctx context.Context) error {
	controlPlane := testkit.ControlPlane{Dir: filepath.Join(l.Dir, "controlplane"), Address: apiServer.Addr().String(),
		Services: ServiceRange.String() + "," + ServiceRange6.String(),
		Users:    []string{token + `,admin,admin,"system:masters"`},
		APIServer: []string{"--service-node-port-range=30000-32767",
			"--authorization-mode=AlwaysAllow", "--disable-admission-plugins=ServiceAccount", "--profiling=false",
			"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000"}}
	config, err := controlPlane.Write()
	if err != nil {
		return err
	}

	l.control, err = testkit.StartProcess("controlplane", l.netns("sw"), filepath.Join(l.Dir, "controlplane.log"),
		exec.Command(filepath.Join(l.o.Bin, "bundle", "kube"), "controlplane", "--config", config))
	if err != nil {
		return err
	}
	if l.Client, err = controlPlane.Client(l.netns("sw"), token); err != nil {
		return err
	}
	return wait.For(ctx, 90*time.Second, "the API server", func(ctx context.Context) error {
		_, err := l.Client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		return err
	})
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
