package runtime

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage bounds one CRI answer, in bytes; upstream's value.
const maxMessage = 16 << 20

// Dial prepares a connection to a CRI endpoint: unix:///path, tcp://host:port or (on Windows) npipe:////./pipe/name.
// It does not wait for the runtime; calls do. Each call is reported to the counters.
func Dial(endpoint string, counters ...stats.Handler) (*grpc.ClientConn, error) {
	scheme, address, ok := strings.Cut(endpoint, "://")
	if !ok {
		scheme, address = "unix", endpoint
	}

	var dial func(ctx context.Context, _ string) (net.Conn, error)
	switch scheme {
	case "unix", "tcp":
		dial = func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, scheme, address)
		}
	case "npipe":
		pipe := strings.ReplaceAll(address, "/", `\`)
		dial = func(ctx context.Context, _ string) (net.Conn, error) { return dialPipe(ctx, pipe) }
	default:
		return nil, fmt.Errorf("runtime endpoint %q: scheme must be unix, tcp or npipe", endpoint)
	}

	bo := backoff.DefaultConfig
	bo.BaseDelay, bo.MaxDelay = 100*time.Millisecond, 3*time.Second
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial), grpc.WithAuthority("localhost"),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: bo, MinConnectTimeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.WaitForReady(true))}
	for _, c := range counters {
		opts = append(opts, grpc.WithStatsHandler(c))
	}

	conn, err := grpc.NewClient("passthrough:///cri", opts...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the runtime at %s: %w", endpoint, err)
	}
	return conn, nil
}

// New returns a Runtime that calls over conn.
func New(conn grpc.ClientConnInterface, o Options) *Runtime {
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 2 * time.Minute
	}
	return &Runtime{conn: conn, client: cri.NewRuntimeServiceClient(conn), o: o}
}
