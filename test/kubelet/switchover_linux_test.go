package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/storagedriver"
	"porthole.dev/porthole/internal/testkit/wait"
)

const (
	switchDriver = "switch.storage.porthole.dev"
	// ofEachKind is how many pods testSwitchOver makes of each kind.
	ofEachKind = 3
	// turnFile is a file of each running pod that has the pod's annotation "turn".
	turnFile = "kubernetes.io~downward-api/turn/turn"
)

// switchKinds are the kinds of pods that testSwitchOver runs, each with something that a kubelet keeps on the node or
// in the runtime.
var switchKinds = map[string]func(name string, p *v1.Pod){
	"probed": func(_ string, p *v1.Pod) {
		probe := &v1.Probe{PeriodSeconds: 1,
			ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}}
		c := &p.Spec.Containers[0]
		c.Args, c.ReadinessProbe, c.LivenessProbe, c.StartupProbe = []string{"serve"}, probe, probe, probe.DeepCopy()
	},
	"configmap": func(_ string, p *v1.Pod) {
		addVolume(p,
			v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
				LocalObjectReference: v1.LocalObjectReference{Name: "switch"}}}, "")
	},
	"secret": func(_ string, p *v1.Pod) {
		addVolume(p, v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "switch"}}, "")
	},
	"token": func(_ string, p *v1.Pod) {
		addVolume(p,
			v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
				Sources: []v1.VolumeProjection{
					{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}}}}, "")
	},
	"memory": func(_ string, p *v1.Pod) {
		addVolume(p, v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}, "")
	},
	"subpath": func(_ string, p *v1.Pod) {
		addVolume(p, v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, "below")
	},
	"sidecar": func(_ string, p *v1.Pod) {
		always := v1.ContainerRestartPolicyAlways
		side := container("side", "sleep")
		side.RestartPolicy = &always
		p.Spec.InitContainers = []v1.Container{container("init", "exit", "0"), side}
	},
	"guaranteed": func(_ string, p *v1.Pod) { p.Spec.Containers[0].Resources = exactly("20m", "32Mi") },
	"inline": func(_ string, p *v1.Pod) {
		addVolume(p, v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: switchDriver}}, "")
	},
	"claim": func(name string, p *v1.Pod) {
		addVolume(p, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}, "")
	},
}

// addVolume mounts a volume, or the folder sub of it, in the pod's container.
func addVolume(p *v1.Pod, source v1.VolumeSource, sub string) {
	name := fmt.Sprintf("v%d", len(p.Spec.Volumes))
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name, SubPath: sub})
}

// testSwitchOver: 30 pods that upstream's kubelet started, of ten kinds, and one that has ended, are taken over by our
// kubelet, by upstream's again and by ours again. Nothing restarts, nothing is mounted that was not before, and each
// kubelet goes on with the pods' volumes. Pods of one kubelet are ended by the other, without anything left.
func testSwitchOver(t *testing.T, of *world) {
	w := switching{of}
	defer func() {
		w.kubelet.Stop()
		w.startKubelet()
	}()
	w.switchTo(t, true)
	driver, stop := w.switchStorage(t)
	defer stop()
	names := w.switchPods(t)
	w.turns(t, names, 0)
	before := w.switchState(t, names)
	if n := strings.Count(before, "\nmounted "); n < 4*len(names)/ofEachKind {
		t.Errorf("%d mounts are seen:\n%s", n, before)
	}

	for turn, upstream := range []bool{false, true, false} {
		w.switchTo(t, upstream)
		w.turns(t, names, turn+1)
		if after := w.switchState(t, names); after != before {
			t.Fatalf("turn %d, upstream's %v: before\n%s\nafter\n%s", turn, upstream, before, after)
		}

		suffix := fmt.Sprintf("-%d", turn) // this kubelet ends one pod of each kind
		for _, name := range names {
			if strings.HasSuffix(name, suffix) {
				w.remove(t, name, nil)
			}
		}
		for _, name := range names {
			if strings.HasSuffix(name, suffix) {
				w.untilGone(t, name)
			}
		}
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, suffix) })
		before = w.switchState(t, names)
	}

	w.remove(t, "ended", nil)
	w.untilGone(t, "ended")
	if bad := driver.Violations(); len(bad) > 0 {
		t.Errorf("the driver was asked for what CSI does not allow: %q", bad)
	}
	for id, v := range driver.Volumes() {
		if len(v.Staged)+len(v.Published) > 0 {
			t.Errorf("volume %s is still staged or published: %+v", id, v)
		}
	}
}

// switching is a world in which the kubelets take turns.
type switching struct{ *world }

func (w switching) switchTo(t *testing.T, upstream bool) {
	t.Helper()
	w.kubelet.Stop()
	var err error
	w.kubelet, err = w.StartKubelet(w.ctx, node, upstream)
	must(t, err)
}

// switchStorage serves a driver, and makes the claims and what else the pods refer to. The caller calls stop.
func (w switching) switchStorage(t *testing.T) (d *storagedriver.Driver, stop func()) {
	t.Helper()
	no, yes, core := false, true, w.Client.CoreV1()
	_, err := w.Client.StorageV1().CSIDrivers().
		Create(w.ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: switchDriver},
			Spec: storagev1.CSIDriverSpec{
				AttachRequired: &no, PodInfoOnMount: &yes,
				VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral,
					storagev1.VolumeLifecyclePersistent}}}, metav1.CreateOptions{})
	must(t, err)
	d, err = storagedriver.New(storagedriver.Options{Name: switchDriver, NodeID: node, Dir: w.Path("switch"),
		Make: true})
	must(t, err)
	root := w.KubeletRoot(node)
	end, err := d.Serve(filepath.Join(root, "plugins", switchDriver, "csi.sock"),
		filepath.Join(root, "plugins_registry", switchDriver+"-reg.sock"), "")
	must(t, err)

	_, err = core.ConfigMaps(namespace).
		Create(w.ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "switch"}, Data: map[string]string{"k": "v"}},
			metav1.CreateOptions{})
	must(t, err)
	_, err = core.Secrets(namespace).
		Create(w.ctx, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "switch"},
			StringData: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	must(t, err)
	for i := range ofEachKind {
		w.boundClaim(t, fmt.Sprintf("claim-%d", i))
	}
	return d, func() {
		end()
		_ = os.Remove(filepath.Join(root, "plugins_registry", switchDriver+"-reg.sock"))
	}
}

// boundClaim makes a volume of the driver and a claim, bound to each other as the controller does that this control
// plane does not run.
func (w switching) boundClaim(t *testing.T, name string) {
	t.Helper()
	core, class := w.Client.CoreV1(), ""
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim, err := core.PersistentVolumeClaims(namespace).
		Create(w.ctx, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1.PersistentVolumeClaimSpec{AccessModes: modes, VolumeName: name, StorageClassName: &class,
				Resources: v1.VolumeResourceRequirements{Requests: size}}}, metav1.CreateOptions{})
	must(t, err)
	volume, err := core.PersistentVolumes().
		Create(w.ctx, &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes,
			ClaimRef:                      &v1.ObjectReference{Namespace: namespace, Name: name, UID: claim.UID},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: switchDriver,
				VolumeHandle: name}}}}, metav1.CreateOptions{})
	must(t, err)

	volume.Status.Phase = v1.VolumeBound
	_, err = core.PersistentVolumes().UpdateStatus(w.ctx, volume, metav1.UpdateOptions{})
	must(t, err)
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: size}
	_, err = core.PersistentVolumeClaims(namespace).UpdateStatus(w.ctx, claim, metav1.UpdateOptions{})
	must(t, err)
}

// switchPods makes the pods, waits until they are Ready, and returns the names of those that run.
func (w switching) switchPods(t *testing.T) (names []string) {
	t.Helper()
	for kind, change := range switchKinds {
		for i := range ofEachKind {
			name := fmt.Sprintf("%s-%d", kind, i)
			p := newPod(name, "sleep")
			p.Annotations = map[string]string{"turn": ""}
			p.Spec.Volumes = []v1.Volume{{Name: "turn",
				VolumeSource: v1.VolumeSource{
					DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{{
						Path: "turn", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.annotations['turn']"}}}}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "turn", MountPath: "/turn"}}
			change(name, p)
			w.create(t, p)
			names = append(names, name)
		}
	}
	ended := newPod("ended", "exit", "3")
	ended.Spec.RestartPolicy = v1.RestartPolicyNever
	w.create(t, ended)

	w.until(t, 2*time.Minute, "ended", inPhase(v1.PodFailed))
	slices.Sort(names)
	for _, name := range names {
		w.until(t, 2*time.Minute, name, ready)
	}
	return names
}

// turns changes an annotation of each pod, and waits until the kubelet has written it to the file in the pod's volume:
// then it has dealt with the pod.
func (w switching) turns(t *testing.T, names []string, turn int) {
	t.Helper()
	uids := map[string]types.UID{}
	for _, name := range names {
		p, err := w.Client.CoreV1().Pods(namespace).
			Patch(w.ctx, name, types.StrategicMergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{"turn":"%d"}}}`, turn), metav1.PatchOptions{})
		must(t, err)
		uids[name] = p.UID
	}
	must(t, wait.For(w.ctx, 3*time.Minute, "the kubelet to deal with all pods", func(context.Context) (err error) {
		for name, uid := range uids {
			data, readErr := os.ReadFile(filepath.Join(w.KubeletRoot(node), "pods", string(uid), "volumes", turnFile))
			if readErr == nil && string(data) != fmt.Sprint(turn) {
				readErr = fmt.Errorf("pod %s: the file has %q", name, data)
			}
			err = errors.Join(err, readErr)
		}
		return err
	}))
	for _, name := range names {
		w.until(t, time.Minute, name, ready)
	}
	w.until(t, time.Minute, "ended", inPhase(v1.PodFailed))
}

// switchState describes the pods in the API and in the runtime, and what is mounted for them.
func (w switching) switchState(t *testing.T, names []string) string {
	t.Helper()
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, name := range append([]string{"ended"}, names...) {
		p, err := w.Client.CoreV1().Pods(namespace).Get(w.ctx, name, metav1.GetOptions{})
		must(t, err)
		say("pod %s %s", name, p.Status.Phase)
		if name != "ended" { // upstream's kubelet forgets the address of a pod that ended before its start
			say("pod %s has %s", name, p.Status.PodIP)
		}
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			say("pod %s container %s %s restarts %d ready %v", name, c.Name, c.ContainerID, c.RestartCount, c.Ready)
		}
	}

	boxes, err := w.Runtime.ListPodSandbox(w.ctx, &cri.ListPodSandboxRequest{})
	must(t, err)
	for _, b := range boxes.Items {
		if b.State == cri.PodSandboxState_SANDBOX_READY { // those of pods that have ended go when a kubelet comes to it
			say("sandbox %s %s", b.Metadata.Name, b.Id)
		}
	}
	containers, err := w.Runtime.ListContainers(w.ctx, &cri.ListContainersRequest{})
	must(t, err)
	for _, c := range containers.Containers {
		if c.State == cri.ContainerState_CONTAINER_RUNNING {
			say("container %s %s", c.Metadata.Name, c.Id)
		}
	}
	mounts, err := w.Mounts()
	must(t, err)
	for _, m := range mounts {
		if strings.HasPrefix(m, w.KubeletRoot(node)) { // not the runtime's, which go a little later than their pods
			say("mounted %s", m)
		}
	}
	slices.Sort(lines)
	return "\n" + strings.Join(lines, "\n")
}
