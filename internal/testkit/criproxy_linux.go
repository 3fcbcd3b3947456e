package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Fault decides about one call to the runtime: the call is passed on when hold is closed, or at once if hold is nil.
// The method is its gRPC name, such as /runtime.v1.RuntimeService/StopContainer. The request is protobuf, in which ids
// and names are plain text.
type Fault func(method string, request []byte) (hold <-chan struct{})

// CRIProxy passes every call on to containerd, without decoding it. Its fault can hold up calls.
type CRIProxy struct {
	server *grpc.Server
	conn   *grpc.ClientConn

	mu    sync.Mutex
	fault Fault
}

// ProxyRuntime puts a proxy in front of containerd, for kubelets that are started from now on.
func (w *World) ProxyRuntime() (*CRIProxy, error) {
	path := w.Path("containerd", "proxy.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening before the runtime: %w", err)
	}
	conn, err := grpc.NewClient("unix://"+w.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		l.Close()
		return nil, err
	}
	p := &CRIProxy{conn: conn}
	p.server = grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(p.pass))
	go func() { _ = p.server.Serve(l) }()
	w.proxy = path
	return p, nil
}

// Set replaces the fault. With nil every call is passed on at once.
func (p *CRIProxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

// Close ends the proxy and every call through it.
func (p *CRIProxy) Close() {
	p.server.Stop()
	p.conn.Close()
}

// pass forwards one call as bytes, without knowing its messages, after the test's fault has let it go on. Calls that
// stream answers, such as events, are passed on one by one.
func (p *CRIProxy) pass(_ any, in grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(in)
	if !ok {
		return errors.New("a call without a name")
	}
	var m []byte // CRI has calls with one request only
	if err := in.RecvMsg(&m); err != nil {
		return err
	}

	p.mu.Lock()
	fault := p.fault
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	if fault != nil {
		if hold := fault(method, m); hold != nil {
			select {
			case <-hold:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}

	out, err := p.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	if err := errors.Join(out.SendMsg(&m), out.CloseSend()); err != nil {
		return err
	}

	for {
		var answer []byte
		switch err := out.RecvMsg(&answer); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := in.SendMsg(&answer); err != nil {
			return err
		}
	}
}

// rawCodec passes messages on without decoding them.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

// Marshal and Unmarshal take messages as bytes, whatever their types are.
func (rawCodec) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("cannot pass on a %T", v)
	}
	return *b, nil
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot pass on a %T", v)
	}
	*b = append([]byte(nil), data...)
	return nil
}
