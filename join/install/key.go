package install

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"porthole.dev/porthole/join/credential"
)

// Key is the step of the private key of a certificate that is not there yet. The key is written before the request is
// sent, so that an interrupted join finds its request again.
type Key struct{ Node *Node }

// ID returns the step's name.
func (Key) ID() string { return "key" }

// Wanted returns a key as long as there is no certificate.
func (k Key) Wanted() any {
	if _, err := k.Node.certificate(); err == nil {
		return nil
	}
	return map[string]string{"path": k.Node.PendingKey(), "kind": "P-256"}
}

// certificate returns the one that is in use, or why it cannot be used.
func (n *Node) certificate() (value any, err error) {
	text, err := os.ReadFile(n.Pair())
	if err != nil {
		return nil, err
	}
	cert, err := credential.Usable(text, n.Name, n.Cluster.CA)
	if err != nil {
		return map[string]string{"path": n.Pair(), "problem": err.Error()}, err
	}
	return certificateValue{Path: n.Pair(), User: cert.Subject.CommonName, Authority: n.Cluster.CAHash}, nil
}

// Observe reports whether there is a key that can be used.
func (k Key) Observe(context.Context) (any, error) {
	text, err := os.ReadFile(k.Node.PendingKey())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	if _, err := credential.ParseKey(text); err != nil {
		return map[string]string{"path": k.Node.PendingKey(), "problem": err.Error()}, nil
	}
	return map[string]string{"path": k.Node.PendingKey(), "kind": "P-256"}, nil
}

// Apply makes the key, or removes it when there is a certificate.
func (k Key) Apply(context.Context) error {
	if k.Wanted() == nil {
		return remove(k.Node.PendingKey())
	}
	if err := private(filepath.Dir(k.Node.PendingKey())); err != nil {
		return err
	}
	text, err := credential.NewKey()
	if err != nil {
		return err
	}
	return write(k.Node.PendingKey(), text, 0o600)
}

// Undo removes the key.
func (k Key) Undo(context.Context, []byte) error {
	return errors.Join(remove(k.Node.PendingKey()), prune(filepath.Dir(k.Node.PendingKey())))
}
