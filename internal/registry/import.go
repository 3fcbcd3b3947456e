package registry

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/streaming/proxy"
	"github.com/containerd/containerd/v2/core/transfer/archive"
	"github.com/containerd/containerd/v2/core/transfer/image"
	transferproxy "github.com/containerd/containerd/v2/core/transfer/proxy"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc"

	"porthole.dev/porthole/internal/winbuild"
)

// criNamespace is where containerd keeps the images of Kubernetes.
const criNamespace = "k8s.io"

// Import makes containerd import the images of an archive for a host: it unpacks the variants that the host runs and
// gives the images their names in the archive, so that pods find them without a registry. conn leads to containerd's
// socket or pipe, the same as for CRI. It needs containerd 1.7 or newer, which has the transfer service.
func Import(ctx context.Context, conn *grpc.ClientConn, file io.Reader, host winbuild.Host) error {
	platform := v1.Platform{OS: "windows", Architecture: host.Architecture}
	if host.Version.Build != 0 {
		platform.OSVersion = fmt.Sprintf("10.0.%d", host.Version.Build)
	}
	ctx = namespaces.WithNamespace(ctx, criNamespace)

	from := archive.NewImageImportStream(file, "application/vnd.oci.image.layout.v1+tar")
	// Full names of the archive are used as they are. An image that has only a tag there gets a name with this prefix,
	// as with ctr.
	to := image.NewStore("", image.WithPlatforms(platform), image.WithUnpack(platform, ""),
		image.WithNamedPrefix("import", true))
	streams := proxy.NewStreamCreator(conn)
	err := transferproxy.NewTransferrer(conn, streams).Transfer(ctx, from, to)
	var unknown interface{ NotImplemented() } // containerd marks the error by this method
	if errors.As(err, &unknown) {
		return fmt.Errorf("the runtime has no transfer service, which containerd has since 1.7: %w", err)
	}
	return err
}
