package dra

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/dra/v1"
	beta "k8s.io/kubelet/pkg/apis/dra/v1beta1"

	"porthole.dev/porthole/kubelet/registration"
)

// driver is one instance of a driver.
type driver struct {
	name, endpoint string
	service        string // one of services
	of             *Drivers
	conn           *grpc.ClientConn
	stop           context.CancelFunc // ends the stream of health

	connected bool // guarded by of.mu
}

// dial makes the connection, without waiting for the driver, and begins to follow the health of its devices.
func (d *driver) dial(ctx context.Context) (err error) {
	measure := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		began := time.Now()
		err := invoke(ctx, method, req, reply, cc, opts...)
		d.of.m.o.Meter.ClaimCall(d.name, method, status.Code(err).String(), time.Since(began))
		return err
	}
	d.conn, err = registration.Dial(strings.TrimPrefix(d.endpoint, "unix://"), grpc.WithUnaryInterceptor(measure),
		grpc.WithStatsHandler(connectionWatch{d}))
	if err != nil {
		return err
	}
	following, stop := context.WithCancel(klog.NewContext(context.Background(), klog.FromContext(ctx)))
	d.stop = stop
	go d.followHealth(following)
	return nil
}

// connect reaches out for the driver although nobody calls it, so that it is known whether it is there.
func (d *driver) connect() { d.conn.Connect() }

func (d *driver) close() {
	d.stop()
	_ = d.conn.Close()
}

func (d *driver) prepare(ctx context.Context, r *api.NodePrepareResourcesRequest) (*api.NodePrepareResourcesResponse,
	error) {
	if d.service == beta.DRAPluginService {
		return beta.V1Beta1ClientWrapper{DRAPluginClient: beta.NewDRAPluginClient(d.conn)}.NodePrepareResources(ctx, r)
	}
	return api.NewDRAPluginClient(d.conn).NodePrepareResources(ctx, r)
}

func (d *driver) unprepare(ctx context.Context,
	r *api.NodeUnprepareResourcesRequest) (*api.NodeUnprepareResourcesResponse, error) {
	if d.service == beta.DRAPluginService {
		return beta.V1Beta1ClientWrapper{DRAPluginClient: beta.NewDRAPluginClient(d.conn)}.NodeUnprepareResources(ctx,
			r)
	}
	return api.NewDRAPluginClient(d.conn).NodeUnprepareResources(ctx, r)
}

// connectionWatch tells whether an instance is connected.
type connectionWatch struct{ d *driver }

func (connectionWatch) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (connectionWatch) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (connectionWatch) HandleRPC(context.Context, stats.RPCStats)                         {}

func (w connectionWatch) HandleConn(_ context.Context, s stats.ConnStats) {
	switch s.(type) {
	case *stats.ConnBegin:
		w.d.of.set(w.d, true)
	case *stats.ConnEnd:
		w.d.of.set(w.d, false)
		go w.d.conn.Connect() // gRPC holds a lock of its own here
	}
}
