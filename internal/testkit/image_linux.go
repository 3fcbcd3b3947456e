package testkit

import (
	"bytes"
	"context"
	"fmt"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
)

// Import puts an image made by Archive into the containerd at socket, where CRI finds it.
func Import(ctx context.Context, socket, ref string, programs map[string]string, entrypoint ...string) error {
	var data bytes.Buffer
	if err := Archive(&data, ref, programs, entrypoint...); err != nil {
		return err
	}
	client, err := containerd.New(socket)
	if err != nil {
		return fmt.Errorf("connecting to containerd at %s: %w", socket, err)
	}
	defer client.Close()
	ctx = namespaces.WithNamespace(ctx, "k8s.io")
	images, err := client.Import(ctx, &data)
	if err != nil {
		return fmt.Errorf("importing image %s: %w", ref, err)
	}
	for _, i := range images {
		if err := containerd.NewImage(client, i).Unpack(ctx, ""); err != nil {
			return fmt.Errorf("unpacking image %s: %w", ref, err)
		}
	}
	return nil
}
