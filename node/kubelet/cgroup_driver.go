package kubelet

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// driverPause is the time between two calls of RuntimeConfig, which tells the runtime's cgroup driver, while the call
// fails.
const driverPause = 2 * time.Second

// decideDriver returns how the pods' cgroups are made: as the runtime does it, for a runtime refuses the cgroups of
// the other driver. The configuration counts only if the runtime does not tell. A call that fails says nothing, so the
// runtime is asked until it answers.
func decideDriver(ctx context.Context, configured string, ask func(context.Context) (string, error)) (string, error) {
	log := klog.FromContext(ctx)
	told, err := ask(ctx)
	for err != nil {
		log.Error(err, "How cgroups are made is not known yet; no pod starts")
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(driverPause):
		}
		told, err = ask(ctx)
	}

	if told == "" {
		log.Info("The runtime does not tell its cgroup driver; the configuration's is used", "driver", configured)
		return configured, nil
	}
	if told != configured {
		log.Info("The runtime's cgroup driver is used, which is not the configuration's (cgroupDriver)", "driver", told,
			"configured", configured)
	}
	return told, nil
}
