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

const serviceName = "kubelet"

// shutdownSlack is what the service gets beyond the periods of its pods, to end itself.
const shutdownSlack = 10 * time.Second

// prepareShutdown has the pods of the node end in the periods of the configuration before Windows shuts down: Windows waits that
// long for this service, and ends what it depends on, such as the container runtime, after it. cancel takes that back. Only a
// service of Windows is told of a shutdown.
func prepareShutdown(ctx context.Context, cfg *v1beta1.KubeletConfiguration, k *core.Kubelet) (cancel func()) {
	periods := core.ShutdownPeriods(cfg)
	if len(periods) == 0 || !platform.IsWindows {
		return func() {}
	}
	logger := klog.FromContext(ctx)
	if !platform.IsService() {
		logger.Info("shutdownGracePeriod has no effect: this kubelet is not a service of Windows (`porthole service install kubelet`)")
		return func() {}
	}

	platform.OnPreShutdown(func() { k.ShutDown(ctx, periods) })
	if err := services.PrepareShutdown(serviceName, core.ShutdownTime(periods)+shutdownSlack); err != nil {
		logger.Error(err, "Pods may have less than shutdownGracePeriod when the node shuts down")
	}
	return func() { platform.OnPreShutdown(nil) }
}
