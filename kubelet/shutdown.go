package kubelet

import (
	"context"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/wakeup"
	"porthole.dev/porthole/kubelet/admit"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/pod"
)

// systemCritical is the least priority of pods that are critical for the cluster (scheduling.SystemCriticalPriority).
const systemCritical = 2_000_000_000

// ShutdownPeriods returns how long the pods of each priority get when the node shuts down, lowest priority first. The
// configuration has either a list by priority or two periods. An empty result means that pods are not stopped at a
// shutdown.
func ShutdownPeriods(c *v1beta1.KubeletConfiguration) []v1beta1.ShutdownGracePeriodByPodPriority {
	periods := slices.Clone(c.ShutdownGracePeriodByPodPriority)
	if all, critical := c.ShutdownGracePeriod.Duration, c.ShutdownGracePeriodCriticalPods.Duration; len(periods) == 0 &&
		all > 0 && critical <= all {
		periods = []v1beta1.ShutdownGracePeriodByPodPriority{
			{Priority: 0, ShutdownGracePeriodSeconds: int64((all - critical) / time.Second)},
			{Priority: systemCritical, ShutdownGracePeriodSeconds: int64(critical / time.Second)},
		}
	}
	sort.SliceStable(periods, func(i, j int) bool { return periods[i].Priority < periods[j].Priority })
	return periods
}

// ShutdownTime is how long all of the periods take.
func ShutdownTime(periods []v1beta1.ShutdownGracePeriodByPodPriority) time.Duration {
	var seconds int64
	for _, p := range periods {
		seconds += p.ShutdownGracePeriodSeconds
	}
	return time.Duration(seconds) * time.Second
}

// shutdown stops the pods of the node before the machine shuts down.
type shutdown struct {
	pods     *Pods
	changed  wakeup.Signal // the node's conditions have changed
	reported func() bool   // whether the API server knows of each pod that has ended
	event    func(eventType, reason, message string)
	meter    *meter.Meter
	dir      string // where it is written down when the shutdown was
	windows  bool

	active atomic.Bool // the machine is about to shut down
}

// ShutDown stops the pods of the node because it shuts down, those of the lowest priority first. It returns when none
// runs any more, or when their time is over and lastReports. As soon as it is called, the node is not ready and admits
// no pod. A second call has no effect before CancelShutdown.
func (k *Kubelet) ShutDown(ctx context.Context, periods []v1beta1.ShutdownGracePeriodByPodPriority) {
	k.shutdown.stop(ctx, periods)
}

// CancelShutdown makes the node ready again and lets it admit pods: the machine goes on. Pods that have ended stay
// ended.
func (k *Kubelet) CancelShutdown() { k.shutdown.cancel() }

// stop stops the pods of the node because it shuts down, those of the lowest priority first. It returns when none
// runs any more, or when their time is over and lastReports. As soon as it is called, the node is not ready and admits
// no pod. A second call has no effect before cancel.
func (s *shutdown) stop(ctx context.Context, periods []v1beta1.ShutdownGracePeriodByPodPriority) {
	logger := klog.FromContext(ctx)
	if len(periods) == 0 || s.active.Swap(true) {
		return
	}
	logger.Info("The node shuts down: its pods end", "periods", periods)
	detected := "Shutdown manager detected shutdown event" // upstream's words
	if s.windows {
		detected = "Shutdown manager detected preshutdown event"
	}
	s.event(v1.EventTypeNormal, "NodeShutdown", detected)
	s.changed.Wake()
	times := shutdownTimes{StartTime: time.Now()}
	s.note(ctx, times)
	defer func() {
		times.EndTime = time.Now()
		s.note(ctx, times)
	}()

	for i, p := range periods {
		limited, cancel := context.WithTimeout(ctx, time.Duration(p.ShutdownGracePeriodSeconds)*time.Second)
		s.pods.each(func(a *actor) {
			if v := a.view.Load(); v != nil && periodOf(periods, v.Pod) == i {
				a.post(pod.NodeShutdown{Grace: time.Duration(p.ShutdownGracePeriodSeconds) * time.Second})
			}
		})
		ended := await(limited, func() bool {
			return haveEnded(s.pods.View(), func(v *pod.View) bool { return periodOf(periods, v.Pod) == i })
		})
		cancel()
		logger.Info("Pods of a priority have ended", "priority", p.Priority, "inTime", ended)
	}

	// Pods that do not end by themselves are killed at the end of their time, and the API server is to hear of each
	// that has ended: what is not written when this process ends is written by nobody, and the pod seems to run until
	// the node is back.
	limited, cancel := context.WithTimeout(ctx, lastReports)
	defer cancel()
	if !await(limited, func() bool {
		return haveEnded(s.pods.View(), func(*pod.View) bool { return true }) && s.reported()
	}) {
		logger.Info("Pods are left that have not ended, or whose end was not reported")
	}
}

// note writes down and shows when the shutdown began and ended, for those who look for the time that it took.
func (s *shutdown) note(ctx context.Context, times shutdownTimes) {
	s.meter.ShutDown(times.StartTime, times.EndTime)
	if err := writeShutdown(s.dir, times); err != nil {
		klog.FromContext(ctx).Error(err, "When the node shut down cannot be written down")
	}
}

// lastReports is how long a shutdown waits for the reports of pods whose time is over: half of what the service has
// beside the periods of its pods (shutdownSlack of node/kubelet).
const lastReports = 5 * time.Second

// cancel makes the node ready again and lets it admit pods: the machine goes on. Pods that have ended stay
// ended.
func (s *shutdown) cancel() {
	if !s.active.Swap(false) {
		return
	}
	// upstream's words
	s.event(v1.EventTypeNormal, "NodeShutdown", "Shutdown manager detected shutdown cancellation")
	s.changed.Wake()
	s.pods.WakeAll()
}

// periodOf returns the index of the period that a pod belongs to: the one of the highest priority that is not above
// the pod's, or else the first.
func periodOf(periods []v1beta1.ShutdownGracePeriodByPodPriority, p *v1.Pod) int {
	var priority int32
	if p.Spec.Priority != nil {
		priority = *p.Spec.Priority
	}
	i := sort.Search(len(periods), func(i int) bool { return periods[i].Priority > priority })
	return max(i-1, 0)
}

// haveEnded reports whether no container of the chosen pods runs and none of these pods is Running or Pending.
func haveEnded(pods []pod.View, chosen func(*pod.View) bool) bool {
	return !slices.ContainsFunc(pods, func(v pod.View) bool {
		if !chosen(&v) {
			return false
		}
		for _, c := range v.Containers {
			if c.Running {
				return true
			}
		}
		return v.Pod.Status.Phase == v1.PodRunning || v.Pod.Status.Phase == v1.PodPending
	})
}

// await calls done every 100 ms until done returns true, and then returns true. If ctx ends first, await returns false.
func await(ctx context.Context, done func() bool) bool {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// refusal refuses pods while the node shuts down, in upstream's words.
func (s *shutdown) refusal() *admit.Refusal {
	if !s.active.Load() {
		return nil
	}
	return &admit.Refusal{Reason: "NodeShutdown", Message: "Pod was rejected as the node is shutting down."}
}
