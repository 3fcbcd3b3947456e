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

// Import has containerd take the images of an archive over for a host: it unpacks the variants that the host runs and names the images
// as the archive does, so that pods find them without a registry. conn is containerd's own socket or pipe, which CRI has, too. It needs
// containerd 1.7 or newer, which has the transfer service.
func Import(ctx context.Context, conn *grpc.ClientConn, file io.Reader, host winbuild.Host) error {
	platform := v1.Platform{OS: "windows", Architecture: host.Architecture}
	if host.Version.Build != 0 {
		platform.OSVersion = fmt.Sprintf("10.0.%d", host.Version.Build)
	}
	ctx = namespaces.WithNamespace(ctx, criNamespace)

	from := archive.NewImageImportStream(file, "application/vnd.oci.image.layout.v1+tar")
	// A name of the archive is used as it is; the prefix, as ctr makes it, is for images that have only a tag there.
	to := image.NewStore("", image.WithPlatforms(platform), image.WithUnpack(platform, ""), image.WithNamedPrefix("import", true))
	streams := proxy.NewStreamCreator(conn)
	err := transferproxy.NewTransferrer(conn, streams).Transfer(ctx, from, to)
	var unknown interface{ NotImplemented() } // by which containerd marks it
	if errors.As(err, &unknown) {
		return fmt.Errorf("the runtime has no transfer service, which containerd has since 1.7: %w", err)
	}
	return err
}
