package kubelet

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/logind"
	"porthole.dev/porthole/internal/retry"
	"porthole.dev/porthole/internal/wakeup"
	core "porthole.dev/porthole/kubelet"
)

// busBackoff are the waits before a connection with D-Bus is made again; upstream's kubelet waits a second.
var busBackoff = retry.Backoff{First: time.Second, Max: time.Minute}

// delayShutdown has systemd's login manager wait until the pods have ended, until ctx ends. A machine
// without a login manager ends its pods as it ends all programs.
func delayShutdown(ctx context.Context, periods []v1beta1.ShutdownGracePeriodByPodPriority,
	k *core.Kubelet) {
	o := logind.Options{Who: "kubelet", Why: "Kubelet needs time to handle node shutdown",
		Time:     core.ShutdownTime(periods) + shutdownSlack,
		ShutDown: func() { k.ShutDown(ctx, periods) }, Cancelled: k.CancelShutdown}

	for failures := 1; ; failures++ {
		err := logind.Delay(ctx, o, func() {
			failures = 0
			klog.FromContext(ctx).Info("Shutdowns of the machine wait for its pods", "limit", o.Time)
		})
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, logind.ErrNoBus) && failures == 1 {
			klog.FromContext(ctx).Info("shutdownGracePeriod has no effect until there is a login manager", "cause",
				err.Error())
		} else if failures <= 1 {
			klog.FromContext(ctx).Error(err, "Shutdowns of the machine do not wait for its pods; trying again")
		}
		if !wakeup.Pause(ctx, busBackoff.Wait(max(failures, 1))) {
			return
		}
	}
}
