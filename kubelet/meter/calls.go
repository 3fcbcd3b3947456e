package meter

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc/stats"
)

// calls are the metrics of calls of the runtime.
type calls struct {
	made, failed *prometheus.CounterVec
	took         *prometheus.HistogramVec
}

func newCalls(to promauto.Factory) calls {
	const operation = "operation_type"
	return calls{
		made: counterVec(to, "runtime_operations_total", "Calls of the runtime by operation.", operation),
		failed: counterVec(to, "runtime_operations_errors_total", "Calls of the runtime that failed, by operation.",
			operation),
		took: to.NewHistogramVec(prometheus.HistogramOpts{Subsystem: "kubelet",
			Name: "runtime_operations_duration_seconds", Help: "How long calls of the runtime took, by operation.",
			Buckets: prometheus.ExponentialBuckets(.005, 2.5, 14)}, []string{operation}),
	}
}

// Calls counts the calls of a connection to the runtime under upstream's names. It is a stats.Handler of gRPC.
type Calls struct{ Meter *Meter }

type callKey struct{}

// call is what is known of a call that is under way. handler is the runtime's handler of a sandbox that is to be made.
type call struct{ method, handler string }

// TagRPC keeps the method's name for HandleRPC.
func (Calls) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, callKey{}, &call{method: info.FullMethodName})
}

// HandleRPC counts a call that ended.
func (c Calls) HandleRPC(ctx context.Context, event stats.RPCStats) {
	made, known := ctx.Value(callKey{}).(*call)
	if c.Meter == nil || !known {
		return
	}
	if out, ok := event.(*stats.OutPayload); ok {
		if request, ok := out.Payload.(interface{ GetRuntimeHandler() string }); ok {
			made.handler = request.GetRuntimeHandler()
		}
		return
	}
	end, ok := event.(*stats.End)
	if !ok {
		return
	}

	name := Operation(made.method)
	took := end.EndTime.Sub(end.BeginTime)
	c.Meter.calls.made.WithLabelValues(name).Inc()
	c.Meter.calls.took.WithLabelValues(name).Observe(took.Seconds())
	if end.Error != nil {
		c.Meter.calls.failed.WithLabelValues(name).Inc()
	}
	if name == "run_podsandbox" {
		c.Meter.parts.life.sandbox(made.handler, took, end.Error)
	}
}

// TagConn does nothing.
func (Calls) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (Calls) HandleConn(context.Context, stats.ConnStats) {}

// Operation returns upstream's name of a CRI method: /runtime.v1.RuntimeService/RunPodSandbox is run_podsandbox.
func Operation(method string) string {
	name := method[strings.LastIndexByte(method, '/')+1:]
	name = strings.ReplaceAll(name, "PodSandbox", "Podsandbox")
	switch name {
	case "UpdateContainerResources":
		return "update_container"
	case "ImageFsInfo":
		return "image_fs_info"
	}
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}
