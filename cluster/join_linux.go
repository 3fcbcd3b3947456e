package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// prepareJoins gives the cluster what machines that join it need.
func prepareJoins(ctx context.Context, o UpOptions) error {
	ca, err := os.ReadFile(filepath.Join(o.Layout.PKI(), "ca.crt"))
	if err != nil {
		return err
	}
	config, err := joinConfig(o.Config, ca)
	if err != nil {
		return err
	}
	own, err := declaration(o.Config)
	if err != nil {
		return err
	}

	for _, manifest := range []string{joinManifest, config, own} {
		if err := apply(ctx, o.Layout, manifest); err != nil {
			return err
		}
	}
	return nil
}

// CreateToken makes a bootstrap token of the cluster in a folder, and returns the command line that joins a machine
// with it.
func CreateToken(ctx context.Context, l Layout, life time.Duration) (t Token, command string, err error) {
	ca, _, err := readPair(l.PKI(), "ca")
	if errors.Is(err, os.ErrNotExist) {
		return t, "", fmt.Errorf("there is no cluster in %s: `porthole up` makes it", l.Dir)
	}
	if err != nil {
		return t, "", err
	}
	if t, err = newToken(time.Now().Add(life)); err != nil {
		return t, "", err
	}
	manifest, err := t.manifest()
	if err != nil {
		return t, "", err
	}
	if err := apply(ctx, l, manifest); err != nil {
		return t, "", fmt.Errorf("making a token: %w", err)
	}
	command, err = joinCommand(t, ca)
	return t, command, err
}
