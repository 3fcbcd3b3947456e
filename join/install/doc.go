// Package install has the steps by which a machine becomes a node, one file each. Those without a system in their
// file's name are the same everywhere. What they do is in their Apply; what shall be is in their Wanted, so that
// package step can plan without acting.
package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/join/credential"
)

// Node is what the steps are told, and what they find. The fields that are not set yet are filled by the steps before.
type Node struct {
	Name string
	IP   string // "": the kubelet chooses
	// UUID is that of the machine, by which its Node object is told from that of another machine of the same name.
	UUID string

	Kubernetes string // folder: /etc/kubernetes
	Kubelet    string // folder: /var/lib/kubelet
	State      string // folder of node.json

	Cluster  *credential.Cluster
	Settings *credential.Settings
	// Bootstrap asks for the certificate; nil on a machine that has one.
	Bootstrap *credential.API
	// Waiting is told which request waits for approval.
	Waiting func(name string)
}

// Files of a node.
func (n *Node) PendingKey() string {
	return filepath.Join(n.Kubelet, "pki", "kubelet-client-pending.key")
}
func (n *Node) Pair() string       { return filepath.Join(n.Kubelet, "pki", "kubelet-client-current.pem") }
func (n *Node) CAFile() string     { return filepath.Join(n.Kubernetes, "pki", "ca.crt") }
func (n *Node) Kubeconfig() string { return filepath.Join(n.Kubernetes, "kubelet.conf") }
func (n *Node) Journal() string    { return filepath.Join(n.State, "node.json") }

// hash returns what a file's content is compared by.
func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:8])
}

// write replaces a file in one step, flushed to the disk, so that it is whole after a power failure. The error names
// the path and the number of bytes: a full disk is the usual cause.
func write(path string, content []byte, perm fs.FileMode) error {
	err := replace(path, content, perm)
	if err != nil {
		return fmt.Errorf("writing %s (%d bytes): %w", path, len(content), err)
	}
	return nil
}

func replace(path string, content []byte, perm fs.FileMode) (err error) {
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp) // a full disk is not made fuller
		}
	}()
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(perm), f.Sync())
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// private makes a folder that only administrators may read.
func private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating a folder: %w", err)
	}
	return platform.Protect(dir)
}

// remove deletes files, and then their folders as long as these are empty and below one of keep's folders. What is
// gone is no error.
func remove(paths ...string) error {
	var failed []error
	for _, p := range paths {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, fmt.Errorf("removing a file: %w", err))
		}
	}
	return errors.Join(failed...)
}

// wait calls look until it reports that all is done, an error that is final, or ctx ends. The error is then the last
// that look gave before: what a look says that the end of ctx cut short is not what was waited for.
func wait(ctx context.Context, look func() (done bool, err error)) error {
	var last error
	for {
		done, err := look()
		if done || errors.Is(err, errFinal) {
			return err
		}
		if err != nil && (last == nil || ctx.Err() == nil) {
			last = err
		}
		select {
		case <-ctx.Done():
			if last == nil {
				last = ctx.Err()
			}
			return fmt.Errorf("%w (%w)", last, ErrTime)
		case <-tick(pollPeriod):
		}
	}
}

// ErrTime is wrapped by errors of steps whose time ran out.
var ErrTime = errors.New("the time ran out")

// errFinal marks errors after which waiting makes no sense.
var errFinal = errors.New("waiting ends")
