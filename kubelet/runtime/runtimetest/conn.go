package runtimetest

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Conn is a connection to the fake without a network, so that it works in a synctest bubble. Messages are copied on
// both ways.
type Conn struct {
	fake   *Fake
	closed chan struct{}
	once   sync.Once
}

// Dial makes a connection.
func (f *Fake) Dial() *Conn { return &Conn{fake: f, closed: make(chan struct{})} }

// Register adds the fake's services to a server, for a client that is a program of its own.
func Register(r grpc.ServiceRegistrar, f *Fake) {
	cri.RegisterRuntimeServiceServer(r, runtimeServer{Fake: f})
	cri.RegisterImageServiceServer(r, imageServer{Fake: f})
}

// Close ends the connection as the end of the client's process does: calls under way are cancelled at the runtime.
func (c *Conn) Close() { c.once.Do(func() { close(c.closed) }) }

// bounded is ctx until the connection is closed.
func (c *Conn) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-c.closed:
			cancel()
		case <-done:
		}
	}()
	return ctx, sync.OnceFunc(func() { close(done); cancel() })
}

// errClosed is the error of gRPC for a connection that was closed.
var errClosed = status.Error(codes.Canceled, "grpc: the client connection is closing")

// Invoke implements grpc.ClientConnInterface. A method that the fake does not have is Unimplemented.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	select {
	case <-c.closed:
		return errClosed
	default:
	}
	server, handler := handlerOf(c.fake, method)
	if handler == nil {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	out, err := handler(server, ctx,
		func(in any) error { proto.Merge(in.(proto.Message), args.(proto.Message)); return nil }, nil)
	if err != nil {
		return status.Convert(err).Err()
	}
	proto.Merge(reply.(proto.Message), out.(proto.Message))
	return nil
}

// handlerOf finds the method of a path such as /runtime.v1.RuntimeService/Version; it returns nil for an unknown one.
func handlerOf(f *Fake, path string) (server any, handler grpc.MethodHandler) {
	service, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	for _, s := range []struct {
		desc   *grpc.ServiceDesc
		server any
	}{{&cri.RuntimeService_ServiceDesc, runtimeServer{Fake: f}}, {&cri.ImageService_ServiceDesc,
		imageServer{Fake: f}}} {
		if s.desc.ServiceName != service {
			continue
		}
		for _, m := range s.desc.Methods {
			if m.MethodName == name {
				return s.server, m.Handler
			}
		}
	}
	return nil, nil
}

// NewStream implements grpc.ClientConnInterface. The only stream is that of container events.
func (c *Conn) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string,
	_ ...grpc.CallOption) (grpc.ClientStream, error) {
	if method != cri.RuntimeService_GetContainerEvents_FullMethodName {
		return nil, status.Errorf(codes.Unimplemented, "unknown stream %s", method)
	}
	if _, err := c.fake.enter(ctx, Call{Method: "GetContainerEvents"}); err != nil {
		return nil, err
	}
	return &clientStream{ctx: ctx, conn: c, events: c.fake.subscribe()}, nil
}

// clientStream is the client's end of an event stream.
type clientStream struct {
	ctx    context.Context
	conn   *Conn
	events *eventStream
}

// The methods of grpc.ClientStream that CRI does not need.
func (s *clientStream) Header() (metadata.MD, error) { return nil, nil }
func (s *clientStream) Trailer() metadata.MD         { return nil }
func (s *clientStream) CloseSend() error             { return nil }
func (s *clientStream) Context() context.Context     { return s.ctx }
func (s *clientStream) SendMsg(any) error            { return nil }

// RecvMsg waits for the next event.
func (s *clientStream) RecvMsg(m any) error {
	for {
		if e := s.events.pop(); e != nil {
			proto.Merge(m.(proto.Message), e)
			return nil
		}
		select {
		case <-s.ctx.Done():
			s.conn.fake.unsubscribe(s.events)
			return status.FromContextError(s.ctx.Err()).Err()
		case <-s.conn.closed:
			s.conn.fake.unsubscribe(s.events)
			return errClosed
		case <-s.events.broken:
			return status.Error(codes.Unavailable, "error reading from server: EOF")
		case <-s.events.more:
		}
	}
}
