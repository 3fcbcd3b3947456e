package kubelet

import (
	"context"
	"time"

	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/services"
	core "porthole.dev/porthole/kubelet"
)

// serviceName is the name under which `porthole service install kubelet` installs the kubelet.
const serviceName = "kubelet"

// shutdownSlack is the time that the service gets after the periods of its pods, to end itself.
const shutdownSlack = 10 * time.Second

// prepareShutdown makes the kubelet stop the pods of the node, in the periods of the configuration, before the machine
// shuts down. Windows waits that long for this service, and stops the services that it depends on, such as the
// container runtime, after it; it reports a shutdown to services only. On Linux systemd's login manager waits. cancel
// takes that back.
func prepareShutdown(ctx context.Context, cfg *v1beta1.KubeletConfiguration, k *core.Kubelet) (cancel func()) {
	periods := core.ShutdownPeriods(cfg)
	if len(periods) == 0 {
		return func() {}
	}
	if !platform.IsWindows {
		return delayShutdown(ctx, periods, k)
	}
	logger := klog.FromContext(ctx)
	if !platform.IsService() {
		logger.Info(
			"shutdownGracePeriod has no effect: this kubelet is not a service of Windows (`porthole service install kubelet`)")
		return func() {}
	}

	platform.OnPreShutdown(func() { k.ShutDown(ctx, periods) })
	if err := services.PrepareShutdown(serviceName, core.ShutdownTime(periods)+shutdownSlack); err != nil {
		logger.Error(err, "Pods may have less than shutdownGracePeriod when the node shuts down")
	}
	return func() { platform.OnPreShutdown(nil) }
}
