package routes

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/sweep"
	"porthole.dev/porthole/internal/loop"
	"porthole.dev/porthole/routes/podnet"
)

// sweepPeriod is how long the networks of sandboxes are left alone. One that the runtime has forgotten is freed with
// the first pass after sweep.Grace.
const sweepPeriod = 2 * time.Minute

// sweepDeadline of one pass: the runtime may be away.
const sweepDeadline = 30 * time.Second

// startSweep starts, once, the task that frees what sandboxes hold that the runtime does not know any more, on a
// system where we keep endpoints and addresses. conf is the CNI configuration that they were made by.
func (a *agent) startSweep(ctx context.Context, tasks *sync.WaitGroup, conf podnet.Conf) {
	if a.sweeping || a.o.ConfDir == "" {
		return
	}
	s := a.maker.sweeper()
	if s == nil {
		return
	}
	a.sweeping = true
	tasks.Go(func() { keepSwept(ctx, s, conf) })
}

// keepSwept frees networks again and again. The same error is logged once in a row.
func keepSwept(ctx context.Context, s *sweep.Sweeper, conf podnet.Conf) {
	last := ""
	loop.Loop{Later: true, Period: sweepPeriod, Pass: func(ctx context.Context) error {
		logger, text := klog.FromContext(ctx), ""
		freed, err := sweepOnce(ctx, s, conf)
		if err != nil {
			text = err.Error()
		}
		if text != last && err != nil {
			logger.Error(err, "Networks of sandboxes that the runtime does not know cannot be freed")
		}
		last = text
		if len(freed) > 0 {
			logger.Info("Freed the networks of sandboxes that the runtime does not know", "sandboxes",
				strings.Join(freed, " "))
		}
		return err
	}}.Run(ctx)
}

// sweepOnce makes a pass for the plugin of the configuration, if it is one of ours.
func sweepOnce(ctx context.Context, s *sweep.Sweeper, conf podnet.Conf) ([]string, error) {
	file, err := contract.ReadFile(conf.Name, conf.Data)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, sweepDeadline)
	defer cancel()
	for _, p := range file.Plugins {
		if p.Kind == contract.Ours && len(p.Config.IPAM) > 0 {
			return s.Pass(ctx, p.Config, time.Now())
		}
	}
	return nil, fmt.Errorf("%s names no plugin whose addresses are kept here", conf.Name)
}
