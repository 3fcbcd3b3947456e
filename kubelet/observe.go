package kubelet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/probe"
	"porthole.dev/porthole/kubelet/runtime"
)

// follow keeps the actors up to date with the runtime: events, and audits for what they miss.
func (k *Kubelet) follow(ctx context.Context) {
	for ctx.Err() == nil {
		err := k.o.Runtime.Events(ctx, func() { k.running.Go(func() { k.audit(ctx) }) },
			contained(ctx, "taking in an event of the runtime", k.runtimeEvent))
		if ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).V(2).Info("Runtime events ended", "cause", err.Error())
		k.checkRuntime(ctx)
		k.audit(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(pollPeriod):
		}
	}
}

func (k *Kubelet) runtimeEvent(e runtime.Event) {
	if e.UID == "" {
		if e.Removed != "" {
			k.each(func(a *actor) { a.post(func(s *pod.State) { s.Runtime = s.Runtime.Without(e.Removed) }) })
		}
		return
	}
	a := k.actor(types.UID(e.UID), false)
	if a == nil {
		if e.Removed == "" && len(e.Update.Sandboxes)+len(e.Update.Containers) > 0 {
			k.auditSoon() // late news of a pod that is gone, or something that nobody wants
		}
		return
	}
	a.post(func(s *pod.State) {
		if s.Runtime == nil { // the first audit decides
			return
		}
		s.Runtime = s.Runtime.Merge(a.withoutRemoved(e.Update))
		if e.Removed != "" {
			a.removed[e.Removed] = true
			s.Runtime = s.Runtime.Without(e.Removed)
		}
	})
}

// strangerPause is how long after the runtime spoke of a pod that nobody knows an audit looks what there is to it.
const strangerPause = 3 * time.Second

// auditSoon audits once, however often it is asked for meanwhile.
func (k *Kubelet) auditSoon() { k.soon(&k.auditing, strangerPause, k.audit) }

// unmountPause is how long after the end of a pod the mounts that the runtime forgot are looked for: once for the many that
// end at the same time.
const unmountPause = 3 * time.Second

// soon does something once after a pause, however often it is asked for meanwhile.
func (k *Kubelet) soon(pending *atomic.Bool, pause time.Duration, do func(context.Context)) {
	if !pending.CompareAndSwap(false, true) {
		return
	}
	k.running.Go(func() {
		select {
		case <-k.ctx.Done():
		case <-time.After(pause):
			pending.Store(false)
			do(k.ctx)
		}
	})
}

// youth is how long a kubelet keeps the folders of pods that are gone after its start: a sandbox that its predecessor had
// asked for may still be being made, or taken back, and leaves a cgroup that only such a folder tells of.
const youth = 10 * time.Second

// grown waits until the kubelet is no longer young; false when it ends first.
func (k *Kubelet) grown() bool {
	select {
	case <-k.ctx.Done():
		return false
	case <-time.After(time.Until(k.began.Add(youth))):
		return true
	}
}

// audit reads the whole runtime and tells each actor what is there. A pod of which the runtime says nothing waits alone.
func (k *Kubelet) audit(ctx context.Context) {
	began := time.Now()
	tell := func(uid string, found *pod.Runtime) {
		if found != nil && found.Name != "" {
			k.statics.occupied(fullName(found.Namespace, found.Name), types.UID(uid))
		}
		a := k.actor(types.UID(uid), true)
		a.post(func(s *pod.State) { s.Runtime = s.Runtime.Audited(a.withoutRemoved(found), began) })
	}
	uids, err := k.o.Runtime.Audit(ctx, k.known, func(uid string, found *pod.Runtime, err error) {
		if err != nil {
			klog.FromContext(ctx).Error(err, "Reading a pod in the runtime failed", "pod", uid)
			k.running.Go(func() { k.readUntilKnown(ctx, uid, tell) })
			return
		}
		tell(uid, found)
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Reading the runtime failed")
		return
	}
	listed := map[types.UID]bool{}
	for _, uid := range uids {
		listed[types.UID(uid)] = true
		k.actor(types.UID(uid), true)
	}
	k.mu.Lock()
	k.audited = true
	k.mu.Unlock()
	k.each(func(a *actor) {
		if !listed[a.uid] {
			tell(string(a.uid), &pod.Runtime{UID: string(a.uid)})
		}
	})
	k.endPredecessors()
}

// known is what the actor of a pod last saw of it in the runtime.
func (k *Kubelet) known(uid string) *pod.Runtime {
	if a := k.actor(types.UID(uid), false); a != nil {
		return a.known.Load()
	}
	return nil
}

// readUntilKnown asks about one pod until there is an answer.
func (k *Kubelet) readUntilKnown(ctx context.Context, uid string, tell func(string, *pod.Runtime)) {
	for wait := time.Second; ; wait = min(2*wait, auditPeriod) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if found, err := k.o.Runtime.Snapshot(ctx, uid); err == nil {
			tell(uid, found[uid])
			return
		}
	}
}

// cleanOrphans lets the pods that only the runtime knows end, now that all that should run are known, and audits.
func (k *Kubelet) cleanOrphans(ctx context.Context) {
	select {
	case <-k.statics.ready:
	case <-ctx.Done():
		return
	}
	k.mu.Lock()
	k.sourcesReady = true // the first audit may come later than this, and find more
	k.mu.Unlock()
	k.each(func(a *actor) { a.post(func(s *pod.State) { a.sourcesReady = true }) })
	audited := func() bool { k.mu.Lock(); defer k.mu.Unlock(); return k.audited }
	if until(ctx, audited) != nil || !k.grown() {
		return
	}
	k.cleanFolders(ctx)
	k.unmountForgotten(ctx)
	tick := time.NewTicker(auditPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.audit(ctx)
		}
		k.cleanFolders(ctx)
		k.unmountForgotten(ctx)
	}
}

// unmountForgotten has the mounts of containers that the runtime forgot undone. What fails is tried at the next audit.
func (k *Kubelet) unmountForgotten(ctx context.Context) {
	if err := k.o.Runtime.UnmountForgotten(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Unmounting what the runtime has forgotten failed")
	}
}

// cleanFolders removes what pods that neither the API nor the runtime knows have left on disk.
func (k *Kubelet) cleanFolders(ctx context.Context) {
	uids, err := k.o.Volumes.OnDisk()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Listing the folders of pods failed")
		return
	}
	for _, uid := range append(uids, loggedPods(k.o.PodLogsDir)...) {
		k.mu.Lock()
		known := k.actors[uid] != nil || !k.audited
		k.mu.Unlock()
		if known {
			continue
		}
		if err := k.removeFolders(ctx, uid); err != nil {
			klog.FromContext(ctx).Error(err, "Removing the folder of a pod failed", "pod", uid)
		}
	}
	cleanLinks(k.o.PodLogsDir)
}

// loggedPods are the pods that have a folder of logs, named <namespace>_<name>_<UID>.
func loggedPods(podLogs string) (uids []types.UID) {
	entries, err := os.ReadDir(podLogs)
	if err != nil {
		return nil // none yet, or none that could be removed
	}
	for _, e := range entries {
		if parts := strings.Split(e.Name(), "_"); e.IsDir() && len(parts) == 3 && parts[2] != "" {
			uids = append(uids, types.UID(parts[2]))
		}
	}
	return uids
}

// cleanLinks removes links of log collectors that pointed to a log below podLogs that is gone. What cannot be removed
// now is tried again the next time.
func cleanLinks(podLogs string) {
	links, _ := filepath.Glob(filepath.Join(filepath.Dir(podLogs), "containers", "*.log"))
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, podLogs) {
			continue
		}
		if _, err := os.Stat(target); errors.Is(err, os.ErrNotExist) {
			_ = os.Remove(link)
		}
	}
}

func (k *Kubelet) probed(r probe.Result) {
	a := k.actor(r.Key.Pod, false)
	if a == nil {
		return
	}
	a.post(func(s *pod.State) {
		if c, ok := s.Runtime.Latest(r.Key.Container); !ok || c.ID != r.ContainerID {
			return // about an instance that is gone
		}
		p := s.Probes[r.Key.Container]
		if p.ContainerID != r.ContainerID {
			p = pod.Probe{ContainerID: r.ContainerID}
		}
		ok := r.Verdict == probe.Success
		switch r.Kind {
		case probe.Startup:
			p.Started = &ok
			if !ok {
				p.Live, p.Message = &ok, "failed startup probe"
			}
		case probe.Readiness:
			p.Ready = &ok
		case probe.Liveness:
			p.Live = &ok
			if !ok {
				p.Message = "failed liveness probe"
			}
		}
		s.Probes[r.Key.Container] = p
	})
}
