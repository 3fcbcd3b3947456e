package kubelet

import (
	"context"
	"time"

	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/component"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/services"
	core "porthole.dev/porthole/kubelet"
)

// serviceName is the name under which `porthole service install kubelet` installs the kubelet.
const serviceName = "kubelet"

// shutdownSlack is the time that the service gets after the periods of its pods, to end itself.
const shutdownSlack = 10 * time.Second

// awaitShutdown is the component that stops the pods of the node, in the periods of the configuration, before the
// machine shuts down. Windows waits that long for this service, and stops the services that it depends on, such as the
// container runtime, after it; it reports a shutdown to services only. On Linux systemd's login manager waits.
func (p *parts) awaitShutdown() component.Component {
	c := component.Component{Name: "shutdown", Needs: []string{"pods"}}
	periods := core.ShutdownPeriods(p.cfg)
	switch {
	case len(periods) == 0:
	case platform.IsWindows:
		c.Run = func(ctx context.Context) error { p.awaitPreShutdown(ctx, periods); return nil }
	default:
		c.Run = func(ctx context.Context) error { delayShutdown(ctx, periods, p.kubelet); return nil }
	}
	return c
}

// awaitPreShutdown has Windows call the kubelet before the machine shuts down, until ctx ends.
func (p *parts) awaitPreShutdown(ctx context.Context, periods []v1beta1.ShutdownGracePeriodByPodPriority) {
	logger := klog.FromContext(ctx)
	if !platform.IsService() {
		logger.Info(
			"shutdownGracePeriod has no effect: this kubelet is not a service of Windows (`porthole service install kubelet`)")
		return
	}

	platform.OnPreShutdown(func() { p.kubelet.ShutDown(ctx, periods) })
	defer platform.OnPreShutdown(nil)
	if err := services.PrepareShutdown(serviceName, core.ShutdownTime(periods)+shutdownSlack); err != nil {
		logger.Error(err, "Pods may have less than shutdownGracePeriod when the node shuts down")
	}
	<-ctx.Done()
}
