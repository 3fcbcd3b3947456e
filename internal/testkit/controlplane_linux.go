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
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type object = map[string]any

// tokenOf is the bearer token of a user. Nobody outside the World's namespace can reach the API server.
func tokenOf(user string) string { return "token-of-" + user }

// writeControlPlane writes what `kube controlplane` reads: users by token, the server's own certificate.
func (w *World) writeControlPlane() error {
	at := func(name string) string { return w.Path("controlplane", name) }
	if err := os.MkdirAll(at("certs"), 0o755); err != nil {
		return err
	}
	users := []string{
		tokenOf("admin") + `,admin,admin,"system:masters"`,
		tokenOf("controllers") + `,system:kube-controller-manager,controllers,""`,
		tokenOf("scheduler") + `,system:kube-scheduler,scheduler,""`,
	}
	for _, n := range w.o.Nodes {
		users = append(users, fmt.Sprintf("%s,system:node:%s,%s,\"system:nodes\"", tokenOf(n), n, n))
	}
	if err := os.WriteFile(at("tokens.csv"), []byte(strings.Join(users, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	for _, user := range append([]string{"controllers", "scheduler"}, w.o.Nodes...) {
		if err := w.writeKubeconfig(user); err != nil {
			return err
		}
	}
	if err := WriteKey(at("sa.key")); err != nil {
		return err
	}
	const etcd, services = "http://127.0.0.1:2379", "--service-cluster-ip-range=10.96.0.0/16"
	return WriteJSON(at("config.json"), object{
		"etcd": object{"dataDir": at("etcd"), "clientURL": etcd, "peerURL": "http://127.0.0.1:2380"},
		"apiServer": []string{
			"--advertise-address=" + NodeIP, "--secure-port=6443", "--etcd-servers=" + etcd, services,
			"--cert-dir=" + at("certs"), "--token-auth-file=" + at("tokens.csv"),
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + at("sa.key"), "--service-account-signing-key-file=" + at("sa.key"),
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		},
		"controllerManager": []string{
			"--kubeconfig=" + w.kubeconfig("controllers"), "--authentication-kubeconfig=" + w.kubeconfig("controllers"),
			"--authorization-kubeconfig=" + w.kubeconfig("controllers"), "--allocate-node-cidrs=false", services,
			"--root-ca-file=" + at("certs/apiserver.crt"), "--service-account-private-key-file=" + at("sa.key"),
			"--use-service-account-credentials=true", "--leader-elect=false", "--bind-address=127.0.0.1",
			"--controllers=serviceaccount-controller,root-ca-certificate-publisher-controller,namespace-controller",
			"--cert-dir=" + at("certs"),
		},
		"scheduler": []string{
			"--kubeconfig=" + w.kubeconfig("scheduler"), "--authentication-kubeconfig=" + w.kubeconfig("scheduler"),
			"--authorization-kubeconfig=" + w.kubeconfig("scheduler"), "--leader-elect=false", "--bind-address=127.0.0.1",
		},
	})
}

func (w *World) kubeconfig(user string) string { return w.Path("controlplane", user+".kubeconfig") }

func (w *World) writeKubeconfig(user string) error {
	return WriteJSON(w.kubeconfig(user), object{
		"apiVersion": "v1", "kind": "Config", "current-context": "world",
		"clusters": []object{{"name": "world", "cluster": object{"server": "https://" + NodeIP + ":6443", "insecure-skip-tls-verify": true}}},
		"users":    []object{{"name": user, "user": object{"token": tokenOf(user)}}},
		"contexts": []object{{"name": "world", "context": object{"cluster": "world", "user": user}}},
	})
}

// WriteKey makes a private key for service account tokens.
func WriteKey(path string) error {
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

// accountReady tells whether pods can be made in a namespace: its service account and the root certificate are there.
func (w *World) accountReady(ctx context.Context, namespace string) error {
	if _, err := w.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	_, err := w.Client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	return err
}
