package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/storagedriver"
	"porthole.dev/porthole/internal/testkit/wait"
)

// deedParts measure the restart of a kubelet, eviction, CSI volumes, and updates of ConfigMap volumes.
func deedParts() []kubeletPart {
	return []kubeletPart{
		{name: "restart", measure: restarts,
			lines: []line{{key: "restart", name: fmt.Sprintf("kubelet-restart-%d-pods", restarted), unit: "s",
				target: fixed(2),
				note: fmt.Sprintf(
					"killed, %d containers end, started again: until the API shows these restarted; all other pods are as before", endedMeanwhile)}}},
		{name: "evict", rounds: 3, measure: evictions,
			lines: []line{{key: "evict", name: "kubelet-eviction", unit: "s", target: fixed(12),
				note: "hard, memory: from the moment when the pods' cgroup holds more than the threshold leaves until the pod is Failed in the API"}}},
		{name: "csi", rounds: 9, measure: csiVolumes,
			lines: []line{{key: "csi", name: "kubelet-csi-volume", unit: "s", target: fixed(0.060),
				note: "bind to Ready of a pod with an inline volume, less that of a pod without one and the driver's own time"}}},
		{name: "edits", measure: edits, lines: []line{
			{key: "edits-worst", name: "kubelet-configmap-edits-worst-delay", unit: "s", target: fixed(1),
				note: fmt.Sprintf(
					"%d edits a minute over %d pods; upstream's kubelet takes up to a minute for each and is not measured", editsAMinute, restarted)},
			{key: "edits-cpu", name: "kubelet-configmap-edits-cpu", unit: "CPUs", target: fixed(0.3)}}},
	}
}

const (
	restarted      = 110 // pods of a node, upstream's default for maxPods
	endedMeanwhile = 10
)

// restarts kills the kubelet of 110 pods, ends ten of their containers, and starts it again.
func restarts(ctx context.Context, s *side, _ int) error {
	b, err := s.start(ctx, restarted, nil)
	if err != nil {
		return err
	}
	if err := pause(ctx, settling); err != nil {
		return err
	}
	list, err := s.w.Runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return err
	}
	s.kubelet.Kill()
	// Containers end while no kubelet runs: the one that starts has to find that out from the
	// runtime.
	var ended []string
	for _, c := range list.Containers[:min(endedMeanwhile, len(list.Containers))] {
		if _, err := s.crash(ctx, c.Id); err != nil {
			return err
		}
		ended = append(ended, c.Labels["io.kubernetes.pod.name"])
	}

	limited, cancel := context.WithTimeout(ctx, patience(restarted))
	defer cancel()
	// The watch begins before the kubelet does, so that no change is missed.
	if err := b.seen.follow(limited, s.w.Client.CoreV1().Pods(namespace)); err != nil {
		return err
	}
	began := time.Now()
	if s.kubelet, err = s.w.LaunchKubelet(s.name, s.name == peer); err != nil {
		return err
	}
	last := began
	for _, name := range ended {
		at, err := b.seen.wait(limited, "to run again", name, func(p *v1.Pod) bool {
			return isReady(p) && p.Status.ContainerStatuses[0].RestartCount > 0
		})
		if err != nil {
			return err
		}
		if at.After(last) {
			last = at
		}
	}
	s.add("restart", last.Sub(began).Seconds())

	// The containers of the other pods are the same as before.
	now, err := s.w.Client.CoreV1().Pods(namespace).List(limited, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, p := range now.Items {
		if !isReady(&p) || p.Status.ContainerStatuses[0].RestartCount > 0 && !slices.Contains(ended, p.Name) {
			return fmt.Errorf("pod %s was to stay as it was: %+v", p.Name, p.Status.ContainerStatuses)
		}
	}
	_, err = b.end(ctx)
	return err
}

// Memory in MiB that the eviction benchmark uses. podsMemory is the limit of all pods together, memoryLeft the
// eviction threshold. The other two are what the pod that may stay and the pod that is to be evicted allocate.
const (
	podsMemory, memoryLeft = 800, 100
	askedMemory            = 300
	greedyMemory           = 450
)

// evictions lets a pod take more memory than the pods of the node may have. What is not theirs is reserved, so that
// what others do on this machine has no part in it.
func evictions(ctx context.Context, s *side, rounds int) error {
	host, err := platform.ReadHost("/")
	if err != nil {
		return err
	}
	err = s.restartWith(ctx, map[string]any{
		// What the node may give to pods is its memory less the reserved; the kubelet enforces it
		// as a limit of the pods' cgroup.
		"systemReserved":                   map[string]string{"memory": fmt.Sprint(host.MemoryBytes - podsMemory<<20)},
		"enforceNodeAllocatable":           []string{"pods"},
		"evictionHard":                     map[string]string{"memory.available": fmt.Sprintf("%dMi", memoryLeft)},
		"evictionPressureTransitionPeriod": "5s"})
	if err != nil {
		return err
	}
	// This pod asks for more than it uses and so must stay: eviction takes first who uses more than
	// was asked for.
	asked, err := s.start(ctx, 1, func(_ int, p *v1.Pod) {
		c := &p.Spec.Containers[0]
		c.Args = []string{"hog",
			fmt.Sprint(askedMemory)}
		c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse("400Mi")}
	})
	if err != nil {
		return err
	}

	for range rounds {
		if err := evict(ctx, s); err != nil {
			return err
		}
	}
	if _, err := asked.end(ctx); err != nil {
		return err
	}
	return s.restartWith(ctx, nil)
}

// evict is one round of evictions.
func evict(ctx context.Context, s *side) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	// The pressure of the round before must be over, or the pod would be evicted at once, or not
	// admitted.
	err := wait.For(ctx, 2*time.Minute, "the pressure's end", func(ctx context.Context) error {
		n, err := s.w.Client.CoreV1().Nodes().Get(ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeMemoryPressure && c.Status == v1.ConditionTrue {
				return errors.New(c.Message)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}

	seen := newWatcher()
	pods := s.w.Client.CoreV1().Pods(namespace)
	if err := seen.follow(ctx, pods); err != nil {
		return err
	}
	p := benchPod(s.pod(), s.name)
	p.Spec.Containers[0].Args = []string{"hog", fmt.Sprint(greedyMemory)}
	if _, err := pods.Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return err
	}
	began, err := crossed(ctx, s)
	if err != nil {
		return err
	}
	at, err := seen.wait(ctx, "to be evicted", p.Name, func(p *v1.Pod) bool {
		return p != nil && p.Status.Reason == "Evicted" && p.Status.Phase == v1.PodFailed
	})
	if err != nil {
		return err
	}
	s.add("evict", at.Sub(began).Seconds())
	return pods.Delete(ctx, p.Name, metav1.DeleteOptions{})
}

// crossed returns when the pods' cgroup holds more memory than the threshold allows.
// It reads the file of cgroup v1 or v2, whichever there is. The moment is that of the look, and
// looks are as far apart as wait.For makes them.
func crossed(ctx context.Context, s *side) (at time.Time, err error) {
	below := filepath.Join(s.w.CgroupRoot(), "kubepods")
	files := []string{filepath.Join("/sys/fs/cgroup/memory", below, "memory.usage_in_bytes"),
		filepath.Join("/sys/fs/cgroup", below, "memory.current")}
	return at, wait.For(ctx, time.Minute, "the pods to use their memory", func(context.Context) error {
		var data []byte
		var err error
		for _, f := range files {
			if data, err = os.ReadFile(f); err == nil {
				break
			}
		}
		if err != nil {
			return err
		}
		used, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
		at = time.Now()
		if err == nil && used>>20 < podsMemory-memoryLeft {
			err = fmt.Errorf("they use %d MiB", used>>20)
		}
		return err
	})
}

// restartWith starts the kubelet of this side again with other fields in its configuration.
func (s *side) restartWith(ctx context.Context, config map[string]any) (err error) {
	s.kubelet.Stop()
	s.w.KubeletConfig = config
	s.kubelet, err = s.w.StartKubelet(ctx, s.name, s.name == peer)
	return err
}

// benchDriver is the name under which the test driver registers with the kubelet.
const benchDriver = "bench.storage.porthole.dev"

// csiVolumes measures what a kubelet adds to the time that a storage driver takes.
// Each round starts a pod without the volume and one with it. The difference, less what the driver
// took itself, is the sample, which may be negative when the machine is busy.
func csiVolumes(ctx context.Context, s *side, rounds int) error {
	driver, remove, err := storageDriver(ctx, s)
	if err != nil {
		return err
	}
	defer remove()
	volume := v1.Volume{Name: "data", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: benchDriver}}}
	one := func(change func(int, *v1.Pod)) (float64, error) {
		b, err := s.start(ctx, 1, change)
		if err != nil {
			return 0, err
		}
		_, err = b.end(ctx)
		return b.all, err
	}

	for range rounds {
		without, err := one(nil)
		if err != nil {
			return err
		}
		before := driver.Took()
		with, err := one(func(_ int, p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{volume}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: volume.Name, MountPath: "/data"}}
		})
		if err != nil {
			return err
		}
		own := (driver.Took()["NodePublishVolume"] - before["NodePublishVolume"]).Seconds()
		if own == 0 {
			return errors.New("the driver was not asked to publish the volume")
		}
		s.add("csi", with-without-own)
	}
	if bad := driver.Violations(); len(bad) > 0 {
		return fmt.Errorf("the driver was asked for what CSI does not allow: %q", bad)
	}
	return nil
}

// storageDriver serves the driver of our tests to the kubelet, and returns when the node has it. The caller calls
// remove.
func storageDriver(ctx context.Context, s *side) (d *storagedriver.Driver, remove func(), err error) {
	// The volume is ephemeral, so that neither a PersistentVolume nor an attacher has a part in it.
	drivers := s.w.Client.StorageV1().CSIDrivers()
	no, yes := false, true
	object := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: benchDriver},
		Spec: storagev1.CSIDriverSpec{AttachRequired: &no, PodInfoOnMount: &yes,
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}}}
	if _, err := drivers.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return nil, nil, err
	}
	if d, err = storagedriver.New(storagedriver.Options{Name: benchDriver, NodeID: s.name,
		Dir: s.w.Path("volumes-" + s.name)}); err != nil {
		return nil, nil, err
	}
	root := s.w.KubeletRoot(s.name)
	stop, err := d.Serve(filepath.Join(root, "plugins", benchDriver, "csi.sock"),
		filepath.Join(root, "plugins_registry", benchDriver+"-reg.sock"), "")
	if err != nil {
		return nil, nil, err
	}

	// The registration's socket goes as well, so that no kubelet finds a driver that does not
	// answer.
	remove = func() {
		stop()
		_ = os.Remove(filepath.Join(root, "plugins_registry", benchDriver+"-reg.sock"))
		_ = drivers.Delete(ctx, benchDriver, metav1.DeleteOptions{})
	}
	err = wait.For(ctx, time.Minute, "the driver in the CSINode", func(ctx context.Context) error {
		n, err := s.w.Client.StorageV1().CSINodes().Get(ctx, s.name, metav1.GetOptions{})
		if err == nil && len(n.Spec.Drivers) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
	if err != nil {
		remove()
	}
	return d, remove, err
}
