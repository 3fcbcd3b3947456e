package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	streamingapi "github.com/containerd/containerd/api/services/streaming/v1"
	transferapi "github.com/containerd/containerd/api/services/transfer/v1"
	transfertypes "github.com/containerd/containerd/api/types/transfer"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	transferstreaming "github.com/containerd/containerd/v2/core/transfer/streaming"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/typeurl/v2"
	"github.com/distribution/reference"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// importer is containerd's transfer service, limited to the import of archives of images, by which nodes without a registry get images.
// A client such as ctr opens a stream by name, and then asks for the transfer from that stream to the image store.
type importer struct {
	transferapi.UnimplementedTransferServer
	streamingapi.UnimplementedStreamingServer
	*Server

	mu      sync.Mutex
	streams map[string]*clientStream
}

func registerImporter(server *grpc.Server, s *Server) {
	i := &importer{Server: s, streams: map[string]*clientStream{}}
	transferapi.RegisterTransferServer(server, i)
	streamingapi.RegisterStreamingServer(server, i)
}

// clientStream is one stream of a client. It implements the Stream interface of containerd's core/streaming.
type clientStream struct {
	stream streamingapi.Streaming_StreamServer
	once   sync.Once
	closed chan struct{}
}

// Send sends a message to the client, such as how many bytes it may send.
func (c *clientStream) Send(a typeurl.Any) error { return c.stream.Send(typeurl.MarshalProto(a)) }

// Recv waits for the next message.
func (c *clientStream) Recv() (typeurl.Any, error) {
	a, err := c.stream.Recv()
	if err != nil { // a nil message must not become an interface that is not nil
		return nil, err
	}
	return a, nil
}

// Close makes the call to Stream return.
func (c *clientStream) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// Stream registers a stream of a client under the name in its first message. It returns when the stream is closed or the client ends it.
func (i *importer) Stream(stream streamingapi.Streaming_StreamServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	var init streamingapi.StreamInit
	if err := typeurl.UnmarshalTo(first, &init); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}

	c := &clientStream{stream: stream, closed: make(chan struct{})}
	i.mu.Lock()
	_, taken := i.streams[init.ID]
	if !taken {
		i.streams[init.ID] = c
	}
	i.mu.Unlock()
	if taken {
		return status.Errorf(codes.AlreadyExists, "stream %q", init.ID)
	}
	defer func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.streams, init.ID)
	}()

	if err := c.Send(mustMarshal(&emptypb.Empty{})); err != nil { // the client waits for an answer
		return err
	}
	select {
	case <-stream.Context().Done():
	case <-c.closed:
	}
	return nil
}

// mustMarshal packs a message of ours, which cannot fail.
func mustMarshal(message any) typeurl.Any {
	a, err := typeurl.MarshalAny(message)
	if err != nil {
		panic(err)
	}
	return a
}

// Transfer imports the archive that a stream carries.
func (i *importer) Transfer(ctx context.Context, r *transferapi.TransferRequest) (*emptypb.Empty, error) {
	var from transfertypes.ImageImportStream
	var to transfertypes.ImageStore
	if typeurl.UnmarshalTo(r.GetSource(), &from) != nil || typeurl.UnmarshalTo(r.GetDestination(), &to) != nil {
		return nil, status.Errorf(codes.Unimplemented, "method Transfer not implemented for %s to %s", r.GetSource().GetTypeUrl(), r.GetDestination().GetTypeUrl())
	}
	if of, _ := namespaces.Namespace(ctx); of != namespace {
		return nil, status.Errorf(codes.Unimplemented, "an emulated host keeps images in containerd's namespace %s only, not in %q", namespace, of)
	}
	i.mu.Lock()
	stream := i.streams[from.Stream]
	i.mu.Unlock()
	if stream == nil {
		return nil, status.Errorf(codes.NotFound, "stream %q", from.Stream)
	}

	if err := i.importStream(ctx, stream); err != nil {
		code := codes.Unknown
		if isNotFound(err) {
			code = codes.NotFound
		}
		return nil, status.Error(code, err.Error())
	}
	return &emptypb.Empty{}, nil
}

// importStream imports those images of an archive that have a variant for this host. As with containerd it is an error if there are none.
func (i *importer) importStream(ctx context.Context, stream *clientStream) error {
	ctx, done, err := i.containerd.WithLease(namespaces.WithNamespace(ctx, namespace))
	if err != nil {
		return err
	}
	defer done(context.WithoutCancel(ctx))

	content := transferstreaming.ReceiveStream(ctx, stream)
	if c, ok := content.(io.Closer); ok { // otherwise the goroutine that reads the stream would wait for ever after an error
		defer c.Close()
	}
	top, err := archive.ImportIndex(ctx, i.containerd.ContentStore(), content)
	if err != nil {
		return err
	}
	var index v1.Index
	if err := i.readJSON(ctx, top, &index); err != nil {
		return err
	}

	var missing error
	imported := 0
	for _, d := range index.Manifests {
		ref, err := reference.ParseDockerRef(d.Annotations[images.AnnotationImageName])
		if err != nil {
			return fmt.Errorf("an image of the archive has the name %q: %w", d.Annotations[images.AnnotationImageName], err)
		}
		_, err = install(ctx, i.Server, ref, d, func(v1.Descriptor) error { return nil }) // the content store has everything already
		if none := (noMatchError{}); errors.As(err, &none) {
			missing = err
			continue
		}
		if err != nil {
			return err
		}
		imported++
	}
	if imported == 0 && missing != nil {
		return fmt.Errorf("image might be filtered out: %w", missing)
	}
	return nil
}
