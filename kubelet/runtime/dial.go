package runtime

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage bounds one CRI answer, in bytes; upstream's value.
const maxMessage = 16 << 20

// Dial prepares a connection to a CRI endpoint: unix:///path, tcp://host:port or (on Windows) npipe:////./pipe/name,
// which has other spellings too. It does not wait for the runtime; calls do. Each call is reported to the counters.
// The error says what is wrong with the endpoint.
func Dial(text string, counters ...stats.Handler) (*grpc.ClientConn, error) {
	at, err := parseEndpoint(text)
	if err == nil {
		err = checkNetwork(at.network)
	}
	if err != nil {
		return nil, err
	}

	// The address that gRPC hands over is that of no network: the real one is at.
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		if at.network == "npipe" {
			return dialPipe(ctx, at.address)
		}
		var d net.Dialer
		return d.DialContext(ctx, at.network, at.address)
	}

	// A runtime that starts again is found again within MaxDelay.
	bo := backoff.DefaultConfig
	bo.BaseDelay, bo.MaxDelay = 100*time.Millisecond, 3*time.Second
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial),
		grpc.WithAuthority("localhost"),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: bo, MinConnectTimeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.WaitForReady(true))}
	for _, c := range counters {
		opts = append(opts, grpc.WithStatsHandler(c))
	}

	// "passthrough" keeps gRPC from looking the address up.
	conn, err := grpc.NewClient("passthrough:///cri", opts...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the runtime at %s: %w", text, err)
	}
	return conn, nil
}

// New returns a Runtime that calls over conn.
func New(conn grpc.ClientConnInterface, o Options) *Runtime {
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 2 * time.Minute
	}
	return &Runtime{client: cri.NewRuntimeServiceClient(conn),
		containerd: containerd{conn, time.Now(), 2 * o.RequestTimeout}, o: o,
		boxProfile: boxProfile{path: o.SandboxProfile}}
}
