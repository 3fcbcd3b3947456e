package testkit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"porthole.dev/porthole/internal/platform"
)

type object = map[string]any

// EtcdURL is where every control plane has its etcd: at the loopback of its network namespace.
const EtcdURL = "http://127.0.0.1:2379"

// ControlPlane says how `kube controlplane` (bundle/controlplane) runs for a test: etcd and an API server, and
// whatever else it is given.
type ControlPlane struct {
	// Dir holds all state: certificates, keys, etcd's files. Required.
	Dir string
	// Address is that of the API server, in the control plane's network namespace; its port is 6443.
	Address string
	// Services are the ranges of cluster IPs, comma-separated.
	Services string
	// Users are lines of the API server's token file: token, user, uid, "groups".
	Users []string
	// APIServer are flags beside those that every API server has here.
	APIServer []string
	// Others are the flags of further programs by their key in the configuration, such as "scheduler".
	Others map[string][]string
}

// Path is a file below Dir.
func (c ControlPlane) Path(name string) string { return filepath.Join(c.Dir, name) }

// Write writes what the program reads, and returns the path of its configuration.
func (c ControlPlane) Write() (config string, err error) {
	if err := os.MkdirAll(c.Path("certs"), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(c.Path("tokens.csv"), []byte(strings.Join(c.Users, "\n")+"\n"), 0o600); err != nil {
		return "", err
	}
	if err := writeKey(c.Path("sa.key")); err != nil {
		return "", err
	}

	doc := object{
		"etcd": object{"dataDir": c.Path("etcd"), "clientURL": EtcdURL, "peerURL": "http://127.0.0.1:2380"},
		"apiServer": append([]string{
			"--advertise-address=" + c.Address, "--secure-port=6443", "--etcd-servers=" + EtcdURL,
			"--service-cluster-ip-range=" + c.Services,
			"--cert-dir=" + c.Path("certs"), "--token-auth-file=" + c.Path("tokens.csv"),
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + c.Path("sa.key"), "--service-account-signing-key-file=" + c.Path("sa.key"),
		}, c.APIServer...),
	}
	for program, flags := range c.Others {
		doc[program] = flags
	}
	return c.Path("config.json"), WriteJSON(c.Path("config.json"), doc)
}

// Client is a client of the API server for the user of a token, who connects from within a network namespace.
func (c ControlPlane) Client(netns, token string) (kubernetes.Interface, error) {
	config := &rest.Config{Host: "https://" + c.Address + ":6443", BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Dial: DialIn(netns)}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return kubernetes.NewForConfig(config)
}

// DialIn makes connections from within a network namespace.
func DialIn(netns string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = platform.InNetns(netns, func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
}

// tokenOf is the bearer token of a user. Nobody outside the World's namespace can reach the API server.
func tokenOf(user string) string { return "token-of-" + user }

// controlPlane is the World's: users with the rights that they have in a cluster, and what pods need.
func (w *World) controlPlane() ControlPlane {
	const services = "10.96.0.0/16"
	users := []string{
		tokenOf("admin") + `,admin,admin,"system:masters"`,
		tokenOf("controllers") + `,system:kube-controller-manager,controllers,""`,
		tokenOf("scheduler") + `,system:kube-scheduler,scheduler,""`,
	}
	for _, n := range w.o.Nodes {
		users = append(users, fmt.Sprintf("%s,system:node:%s,%s,\"system:nodes\"", tokenOf(n), n, n))
	}

	c := ControlPlane{Dir: w.Path("controlplane"), Address: NodeIP, Services: services, Users: users,
		APIServer: append([]string{"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"},
			w.o.APIServer...)}
	// There is one of each component, so that no leader is elected.
	as := func(user string) []string {
		file := w.kubeconfig(user)
		return []string{"--kubeconfig=" + file, "--authentication-kubeconfig=" + file,
			"--authorization-kubeconfig=" + file,
			"--leader-elect=false", "--bind-address=127.0.0.1"}
	}
	c.Others = map[string][]string{
		"scheduler": as("scheduler"),
		"controllerManager": append(as("controllers"),
			"--allocate-node-cidrs=false", "--service-cluster-ip-range="+services,
			"--root-ca-file="+c.Path("certs/apiserver.crt"), "--service-account-private-key-file="+c.Path("sa.key"),
			"--use-service-account-credentials=true",
			"--controllers=serviceaccount-controller,root-ca-certificate-publisher-controller,namespace-controller",
			"--cert-dir="+c.Path("certs")),
	}
	return c
}

func (w *World) writeControlPlane() error {
	for _, user := range append([]string{"controllers", "scheduler"}, w.o.Nodes...) {
		if err := w.writeKubeconfig(user); err != nil {
			return err
		}
	}
	_, err := w.controlPlane().Write()
	return err
}

func (h *home) kubeconfig(user string) string { return h.Path("controlplane", user+".kubeconfig") }

func (h *home) writeKubeconfig(user string) error {
	return WriteJSON(h.kubeconfig(user), object{
		"apiVersion": "v1", "kind": "Config", "current-context": "world",
		"clusters": []object{{"name": "world",
			"cluster": object{"server": "https://" + NodeIP + ":6443", "insecure-skip-tls-verify": true}}},
		"users":    []object{{"name": user, "user": object{"token": tokenOf(user)}}},
		"contexts": []object{{"name": "world", "context": object{"cluster": "world", "user": user}}},
	})
}

// writeKey makes a private key for service account tokens.
func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// WriteJSON writes a document, making its folder.
func WriteJSON(path string, doc any) error {
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// accountReady returns nil when pods can be made in a namespace: its service account and the root certificate are
// there.
func (w *World) accountReady(ctx context.Context, namespace string) error {
	if _, err := w.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	_, err := w.Client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	return err
}
