package install

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"porthole.dev/porthole/join/credential"
)

// Certificate is the step of the node's client certificate. Kubelet, service proxy and routes share it, and the
// kubelet renews it.
type Certificate struct{ Node *Node }

type certificateValue struct {
	Path      string `json:"path"`
	User      string `json:"user"`
	Authority string `json:"authority"`
}

// ID returns the step's name.
func (Certificate) ID() string { return "certificate" }

// Wanted returns a certificate for the node by the cluster's authority.
func (c Certificate) Wanted() any {
	return certificateValue{Path: c.Node.Pair(), User: credential.NodeUser(c.Node.Name),
		Authority: c.Node.Cluster.CAHash}
}

// Observe returns the certificate that is there, or what is wrong with it.
func (c Certificate) Observe(context.Context) (any, error) {
	value, err := c.Node.certificate()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil && value == nil:
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	return value, nil
}

// Apply requests the certificate with the pending key and stores both. If the cluster does not approve by itself it
// waits, until ctx ends.
func (c Certificate) Apply(ctx context.Context) error {
	if c.Node.Bootstrap == nil {
		return errors.New("a token is needed for a new certificate: kubeadm token create --print-join-command")
	}
	pair, err := c.request(ctx)
	if errors.Is(err, credential.ErrUsedUp) { // the request of an earlier join: another key gives another one
		if err := Key(c).Apply(ctx); err != nil {
			return err
		}
		pair, err = c.request(ctx)
	}
	if err != nil {
		return err
	}
	if err := private(filepath.Dir(c.Node.Pair())); err != nil {
		return err
	}
	if err := storePair(c.Node.Pair(), pair); err != nil {
		return fmt.Errorf("storing the certificate: %w", err)
	}
	return remove(c.Node.PendingKey())
}

// request returns certificate and key as one PEM file.
func (c Certificate) request(ctx context.Context) ([]byte, error) {
	text, err := os.ReadFile(c.Node.PendingKey())
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	key, err := credential.ParseKey(text)
	if err != nil {
		return nil, err
	}
	cert, err := credential.Request{API: c.Node.Bootstrap, Node: c.Node.Name, Key: key,
		Waiting: c.Node.Waiting}.Get(ctx)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{bytes.TrimSpace(cert), bytes.TrimSpace(text), nil}, []byte("\n")), nil
}

// Undo removes the certificate, and those that the kubelet got later.
func (c Certificate) Undo(context.Context, []byte) error {
	dir := filepath.Dir(c.Node.Pair())
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing certificates: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if ours, _ := filepath.Match("kubelet*", e.Name()); ours && !e.IsDir() {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return errors.Join(remove(paths...), prune(dir))
}

// Client returns a client with the node's own certificate.
func (n *Node) Client() (*credential.API, error) {
	pair, err := tls.LoadX509KeyPair(n.Pair(), n.Pair())
	if err != nil {
		return nil, fmt.Errorf("reading the node's certificate: %w", err)
	}
	return n.Cluster.With(credential.Token{}, &pair)
}
