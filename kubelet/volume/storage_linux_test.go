package volume

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/storagedriver"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/measure"
	"porthole.dev/porthole/kubelet/volume/records"
	"porthole.dev/porthole/kubelet/volume/steps"
)

// What a pod writes into a claim's volume is there for the next pod; two pods share it; calls come in CSI's order and
// no more than needed.
func TestClaimOfDriver(t *testing.T) {
	w := newStorageWorld(t, storagedriver.Options{Attach: true})
	w.claim("c")
	one, two := claimPod("one", "c"), claimPod("two", "c")
	w.mustPrepare(one)
	if err := os.WriteFile(filepath.Join(w.mountOf(one), "file"), []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	if in := w.manager.VolumesInUse(); len(in) != 1 || in[0] != "kubernetes.io/csi/test.example.com^h-c" {
		t.Errorf("in use: %v", in)
	}
	w.mustPrepare(one)
	w.restart()
	w.mustPrepare(one) // a restart makes no call for what is right
	w.mustPrepare(two)
	if got := w.driver.Volumes()["h-c"].Published; len(got) != 2 {
		t.Errorf("published at %v", got)
	}
	for _, p := range w.driver.Volumes()["h-c"].Published {
		if p.PublishContext["lun"] != "7" || p.Context["of"] != "c" || p.FSType != "ext4" || p.Times != 1 ||
			p.Mode != "SINGLE_NODE_WRITER" {
			t.Errorf("published with %+v", p)
		}
	}

	w.mustTeardown(one)
	if data, err := os.ReadFile(filepath.Join(w.mountOf(two), "file")); string(data) != "kept" {
		t.Errorf("the second pod reads %q, %v", data, err)
	}
	w.mustTeardown(two)
	w.wantNothingLeft()
	want := []string{"NodeStageVolume", "NodePublishVolume", "NodePublishVolume", "NodeUnpublishVolume",
		"NodeUnpublishVolume", "NodeUnstageVolume"}
	got := slices.DeleteFunc(w.driver.Calls(), func(s string) bool { return s == "NodeGetCapabilities" })
	if !slices.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
	if data, _ := os.ReadFile(filepath.Join(w.root, "backing", "volumes", "h-c", "file")); string(data) != "kept" {
		t.Errorf("the volume has %q", data)
	}
}

// A volume's group is one of the pod's, unless the pod has it already or it is no number.
func TestGroupOfVolume(t *testing.T) {
	w := newStorageWorld(t, storagedriver.Options{})
	for claim, group := range map[string]string{"a": "1234", "b": "1234", "c": "77", "d": "staff", "e": ""} {
		w.claim(claim, func(pv *v1.PersistentVolume) {
			pv.Annotations = map[string]string{"pv.beta.kubernetes.io/gid": group}
		})
	}
	p := claimPod("p", "a")
	for _, claim := range []string{"b", "c", "d", "e"} {
		p.Spec.Volumes = append(p.Spec.Volumes,
			vol(claim, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}))
	}
	p.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroups: []int64{77}}
	if got := w.manager.Groups(p); len(got) > 0 {
		t.Errorf("groups %v before the volumes are known", got)
	}
	w.mustPrepare(p)
	if got := w.manager.Groups(p); !slices.Equal(got, []int64{1234}) {
		t.Errorf("groups %v, want 1234 once", got)
	}
}

// The kubelet is killed before each step of making a volume available, and of taking it away. The next one comes to
// the same end.
func TestKilledAtEachStep(t *testing.T) {
	for kill := steps.NoteUse; kill <= steps.ForgetStage; kill++ {
		for _, goes := range []bool{false, true} { // whether the pod has gone when the next kubelet starts
			w := newStorageWorld(t, storagedriver.Options{Attach: true})
			w.claim("c")
			p := claimPod("p", "c")
			p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(4242))}
			dies := errors.New("killed")
			w.manager.storage.Failpoint = func(k steps.Kind) error {
				if k == kill {
					return dies
				}
				return nil
			}
			err := w.prepare(p)
			died := errors.Is(err, dies)
			if err != nil && !died {
				t.Fatalf("%s: %v", kill, err)
			}
			if !died && kill >= steps.Unpublish {
				if err = w.manager.Teardown(context.Background(), p.UID); !errors.Is(err, dies) {
					t.Fatalf("%s was not reached: %v", kill, err)
				}
				died = true
			}
			if !died && kill != steps.Expand && kill != steps.NoteExpanded {
				t.Errorf("%s was not reached", kill)
			}

			w.restart()
			if !goes && kill < steps.Unpublish {
				w.mustPrepare(p)
				if got := w.driver.Volumes()["h-c"]; len(got.Published) != 1 || len(got.Staged) != 1 {
					t.Errorf("killed before %q: volume is %+v", kill, got)
				}
				if n := mountsAt(t, w.mountOf(p)); n != 1 {
					t.Errorf("killed before %q: mounted %d times", kill, n)
				}
			}
			w.mustTeardown(p)
			w.manager.Sweep(context.Background())
			if left := w.left(); len(left) > 0 {
				t.Errorf("killed before %q, pod gone %t: left:\n%s", kill, goes, strings.Join(left, "\n"))
			}
			if in := w.manager.VolumesInUse(); len(in) > 0 {
				t.Errorf("killed before %q: in use: %v", kill, in)
			}
		}
	}
}

func mountsAt(t *testing.T, dir string) (n int) {
	t.Helper()
	all, err := platform.MountPoints()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m == dir {
			n++
		}
	}
	return n
}

// One call in ten fails, before or after it was carried out, and the kubelet is killed at random. All pods get their
// volumes, and when they have gone nothing is left.
func TestFaultyDriver(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	fault := func(string) error {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(10) == 0 {
			return status.Error(codes.Unavailable, "a fault")
		}
		return nil
	}
	w := newStorageWorld(t, storagedriver.Options{Attach: true,
		Call: func(_ context.Context, m string) error { return fault(m) }, Done: fault})
	var pods []*v1.Pod
	for i := range 6 {
		name := string(rune('a' + i/2)) // two pods each
		if i%2 == 0 {
			w.claim(name)
		}
		pods = append(pods, claimPod("p"+string(rune('0'+i)), name))
	}

	for round := range 4 {
		again := func(what string, f func(p *v1.Pod) error) {
			var all sync.WaitGroup
			for _, p := range pods {
				all.Go(func() {
					for range 40 {
						if f(p) == nil {
							return
						}
					}
					t.Errorf("round %d: %s of pod %s never succeeded", round, what, p.Name)
				})
			}
			all.Wait()
		}
		again("Prepare", w.prepare)
		for _, p := range pods {
			if n := mountsAt(t, w.mountOf(p)); n != 1 {
				t.Errorf("round %d: pod %s has its volume mounted %d times", round, p.Name, n)
			}
		}
		w.restart()
		again("Remove", func(p *v1.Pod) error { return w.manager.Remove(context.Background(), p.UID) })
		for range 40 {
			if w.manager.Sweep(context.Background()); len(w.left()) == 0 {
				break
			}
		}
		w.wantNothingLeft()
		w.restart()
	}
}

// A driver that does not answer for one volume delays no pod with another, and the pod that waits can be removed.
func TestHangingCall(t *testing.T) {
	hung := make(chan struct{})
	var once sync.Once
	var hangs atomic.Bool
	hangs.Store(true)
	w := newStorageWorld(t, storagedriver.Options{Call: func(ctx context.Context, m string) error {
		if m == "NodeStageVolume" && hangs.Swap(false) {
			once.Do(func() { close(hung) })
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}})
	w.claim("slow")
	w.claim("quick")

	slow := claimPod("slow", "slow")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- w.manager.Prepare(ctx, slow, Facts{}) }()
	<-hung

	quick := claimPod("quick", "quick")
	w.mustPrepare(quick)
	w.mustTeardown(quick)
	cancel()
	if err := <-result; err == nil {
		t.Error("Prepare succeeded though its call was cut off")
	}
	w.mustTeardown(slow)
	w.wantNothingLeft()
}

// While the driver is away, pods keep their volumes, new ones get an event that names the driver, and pods that end
// wait for it.
func TestDriverAway(t *testing.T) {
	w := newStorageWorld(t, storagedriver.Options{})
	w.claim("c")
	w.claim("d")
	p, late := claimPod("p", "c"), claimPod("late", "d")
	w.mustPrepare(p)
	w.mu.Lock()
	w.away = true
	w.mu.Unlock()
	w.restart()
	w.mustPrepare(p)
	if err := w.prepare(late); err == nil ||
		!strings.Contains(err.Error(),
			`MountVolume.SetUp failed for volume "data" : driver name test.example.com not found in the list of registered CSI drivers`) {
		t.Errorf("a new pod: %v", err)
	}
	if err := w.manager.Remove(context.Background(), p.UID); err == nil ||
		!strings.Contains(err.Error(), "not found in the list of registered CSI drivers") {
		t.Errorf("a pod that ends: %v", err)
	}

	w.mu.Lock()
	w.away = false
	w.mu.Unlock()
	w.mustTeardown(p)
	w.mustPrepare(late)
	w.mustTeardown(late)
	w.wantNothingLeft()
}

// After a boot nothing is mounted any more, whatever the records say.
func TestBooted(t *testing.T) {
	w := newStorageWorld(t, storagedriver.Options{})
	w.claim("c")
	p := claimPod("p", "c")
	w.mustPrepare(p)
	at := w.mountOf(p)
	if err := disk.Unmount(at); err != nil {
		t.Fatal(err)
	}
	w.boot = "boot-2"
	w.restart()
	w.mustPrepare(p)
	calls := w.driver.Calls()
	if n := mountsAt(t, at); n != 1 || strings.Count(strings.Join(calls, " "), "NodeStageVolume") != 2 {
		t.Errorf("mounted %d times, calls %v", n, calls)
	}
	w.mustTeardown(p)
	w.wantNothingLeft()
}

// A pod waits for its volume until the node says that it uses it, and the controllers that it is attached.
func TestAwaitsAttachment(t *testing.T) {
	w := newStorageWorld(t, storagedriver.Options{Attach: true})
	w.claim("c")
	w.manual = true
	w.restart()
	p := claimPod("p", "c")
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := w.manager.Prepare(ctx, p, Facts{}); err == nil || !strings.Contains(err.Error(), "to be attached") {
		t.Fatalf("not attached: %v", err)
	}
	result := make(chan error, 1)
	go func() { result <- w.prepare(p) }()
	w.mu.Lock()
	w.manual = false
	w.mu.Unlock()
	w.nodeChanged()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	w.mustTeardown(p)
	w.wantNothingLeft()
}

// fsGroup: who gives the files to the group depends on the driver's policy and its abilities.
func TestOwnerOfDriverVolume(t *testing.T) {
	const group = 4242
	for _, c := range []struct {
		name     string
		options  storagedriver.Options
		policy   storagev1.FSGroupPolicy
		change   func(*v1.PersistentVolume)
		want     bool // the files have the group
		wantCall string
	}{
		{name: "default", want: true},
		{name: "no fsType", change: func(pv *v1.PersistentVolume) { pv.Spec.CSI.FSType = "" }},
		{name: "many writers", change: func(pv *v1.PersistentVolume) {
			pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
		}},
		{name: "None", policy: storagev1.NoneFSGroupPolicy},
		{name: "File", policy: storagev1.FileFSGroupPolicy, change: func(pv *v1.PersistentVolume) {
			pv.Spec.CSI.FSType, pv.Spec.AccessModes = "", []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
		}, want: true},
		{name: "driver does it", options: storagedriver.Options{MountGroup: true}, policy: storagev1.FileFSGroupPolicy,
			wantCall: "4242"},
	} {
		w := newStorageWorld(t, c.options)
		if c.policy != "" {
			w.object.Spec.FSGroupPolicy = &c.policy
		}
		w.claim("c", func(pv *v1.PersistentVolume) {
			if c.change != nil {
				c.change(pv)
			}
		})

		p := claimPod("p", "c")
		p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(group))}
		w.mustPrepare(p)
		info, err := os.Stat(w.mountOf(p))
		if err != nil {
			t.Fatal(err)
		}
		if got := int64(info.Sys().(*syscall.Stat_t).Gid) == group; got != c.want {
			t.Errorf("%s: has the group %t, want %t", c.name, got, c.want)
		}
		for _, pub := range w.driver.Volumes()["h-c"].Published {
			if pub.Group != c.wantCall {
				t.Errorf("%s: the driver was told group %q, want %q", c.name, pub.Group, c.wantCall)
			}
		}
		w.mustTeardown(p)
		w.wantNothingLeft()
	}
}

// Inline volumes live as long as the pod; the driver is told of the pod, its tokens and secrets, again and again if it
// wants.
func TestInlineVolume(t *testing.T) {
	w := newStorageWorld(t, storagedriver.Options{})
	w.object.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}
	w.object.Spec.PodInfoOnMount, w.object.Spec.RequiresRepublish = ptr(true), ptr(true)
	w.object.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: "aud", ExpirationSeconds: ptr(int64(1200))}}
	w.secrets.secrets["s"] = &v1.Secret{Data: map[string][]byte{"key": []byte("value")}}
	p := podWith(vol("in",
		v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driverName, VolumeAttributes: map[string]string{"a": "b"},
			NodePublishSecretRef: &v1.LocalObjectReference{Name: "s"}}}))
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "in", MountPath: "/in"}}
	p.Spec.ServiceAccountName = "account"
	w.mustPrepare(p)
	w.mustPrepare(p)

	got := w.driver.Volumes()[records.InlineHandle(p, "in")]
	pub := got.Published[w.mountOf(p)]
	for key, want := range map[string]string{"a": "b", "csi.storage.k8s.io/pod.name": "p",
		"csi.storage.k8s.io/pod.namespace": "ns",
		"csi.storage.k8s.io/pod.uid":       "uid-1", "csi.storage.k8s.io/serviceAccount.name": "account",
		"csi.storage.k8s.io/ephemeral": "true"} {
		if pub.Context[key] != want {
			t.Errorf("%s is %q, want %q", key, pub.Context[key], want)
		}
	}
	if text := pub.Context["csi.storage.k8s.io/serviceAccount.tokens"]; !strings.HasPrefix(text,
		`{"aud":{"token":"tok-2","expirationTimestamp":"`) {
		t.Errorf("tokens: %s", text)
	}
	if pub.Secrets["key"] != "value" || pub.Times != 2 || !got.Ephemeral {
		t.Errorf("published as %+v of %+v", pub, got)
	}
	if in := w.manager.VolumesInUse(); len(in) > 0 {
		t.Errorf("an inline volume is not attached, but in use: %v", in)
	}
	w.mustTeardown(p)
	w.wantNothingLeft()
	if all := w.driver.Volumes(); len(all) > 0 {
		t.Errorf("the driver still has %v", all)
	}

	w.object.Spec.VolumeLifecycleModes = nil
	if err := w.prepare(p); err == nil ||
		!strings.Contains(err.Error(),
			`volume mode "Ephemeral" not supported by driver test.example.com (only supports ["Persistent"])`) {
		t.Errorf("not an inline driver: %v", err)
	}
	w.mustTeardown(p)
}

// A claim that has grown is expanded while the pod runs, and told so. What cannot grow keeps no pod from starting
// twice.
func TestExpansion(t *testing.T) {
	fail := atomic.Pointer[error]{}
	w := newStorageWorld(t, storagedriver.Options{Call: func(_ context.Context, m string) error {
		if e := fail.Load(); e != nil && m == "NodeExpandVolume" {
			return *e
		}
		return nil
	}})
	w.claim("c")
	p := claimPod("p", "c")
	w.mustPrepare(p)
	grow := func(to string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pvs["pv-c"].Spec.Capacity[v1.ResourceStorage] = resource.MustParse(to)
		w.claims["c"].Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{
			v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending}
		w.claims["c"].Status.Conditions = []v1.PersistentVolumeClaimCondition{
			{Type: v1.PersistentVolumeClaimFileSystemResizePending, Status: v1.ConditionTrue}}
	}
	claim := func() v1.PersistentVolumeClaimStatus {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.claims["c"].Status
	}
	grow("2Gi")
	w.mustPrepare(p)
	w.mustPrepare(p)
	st := claim()
	size := st.Capacity[v1.ResourceStorage]
	if size.String() != "2Gi" || len(st.AllocatedResourceStatuses) > 0 || len(st.Conditions) > 0 {
		t.Errorf("the claim's status is %+v", st)
	}
	if got := w.driver.Volumes()["h-c"].NodeBytes; got != 2<<30 {
		t.Errorf("the node's volume has %d bytes", got)
	}
	if len(w.events) != 1 ||
		w.events[0] != `Normal FileSystemResizeSuccessful MountVolume.NodeExpandVolume succeeded for volume "pv-c"` {
		t.Errorf("events %q", w.events)
	}

	// Infeasible: told once, not tried again, and no pod waits for it.
	e := status.Error(codes.OutOfRange, "too large")
	fail.Store(&e)
	grow("4Gi")
	if err := w.prepare(p); err == nil {
		t.Error("no error tells of an expansion that failed")
	}
	w.mustPrepare(p)
	if st := claim(); st.AllocatedResourceStatuses[v1.ResourceStorage] != v1.PersistentVolumeClaimNodeResizeInfeasible {
		t.Errorf("the claim's status is %+v", st)
	}
	if n := strings.Count(strings.Join(w.driver.Calls(), " "), "NodeExpandVolume"); n != 2 {
		t.Errorf("%d calls to expand", n)
	}
	w.mustTeardown(p)
	w.wantNothingLeft()
}

// The driver measures volumes in the background; a volume that is not well gives an event once.
func TestVolumeStats(t *testing.T) {
	w := newStorageWorld(t, storagedriver.Options{})
	w.claim("c")
	p := claimPod("p", "c")
	w.mustPrepare(p)
	if err := w.driver.Change("h-c", func(v *storagedriver.Volume) { v.Abnormal = "it smokes" }); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.mountOf(p), "file"), make([]byte, 5000), 0o644); err != nil {
		t.Fatal(err)
	}

	var got []measure.Usage
	wait.True(t, 20*time.Second, "the volume is measured", func() bool {
		got = Measure{w.manager}.Usage(context.Background(), p.UID)
		return len(got) > 0
	})
	if len(got) != 1 || got[0].UsedBytes != 5000 || got[0].CapacityBytes != 1<<30 || got[0].Claim != "c" ||
		got[0].Abnormal == nil || !*got[0].Abnormal || got[0].Name != "data" {
		t.Errorf("usage %+v", got)
	}
	if len(w.events) != 1 || w.events[0] != "Warning VolumeConditionAbnormal Volume data: it smokes" {
		t.Errorf("events %q", w.events)
	}
	w.mustTeardown(p)
	w.wantNothingLeft()
}

// A volume for one pod is not given to another one of the node, which is told why, also by a kubelet that has just
// started.
func TestVolumeForOnePod(t *testing.T) {
	w := newStorageWorld(t, storagedriver.Options{Attach: true})
	w.claim("c", func(pv *v1.PersistentVolume) {
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	})
	w.claim("both", func(pv *v1.PersistentVolume) {
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod, v1.ReadWriteMany}
	})
	first, second := claimPod("p", "c"), claimPod("q", "c")
	w.mustPrepare(first)

	for range 2 {
		err := w.prepare(second)
		if err == nil || !strings.Contains(err.Error(),
			`MountVolume.SetUp failed for volume "data" : volume uses the ReadWriteOncePod access mode and is already in use by another pod`) {
			t.Errorf("a second pod: %v", err)
		}
		w.restart()
		w.mustPrepare(first)
	}
	w.mustTeardown(first)
	w.mustPrepare(second)
	w.mustTeardown(second)

	third, fourth := claimPod("r", "both"), claimPod("s", "both")
	w.mustPrepare(third)
	w.mustPrepare(fourth) // which of the modes it wants, nobody knows
	w.mustTeardown(third)
	w.mustTeardown(fourth)
	w.wantNothingLeft()
}

// A raw device is in the container as a device, not as a mount.
func TestRawDevice(t *testing.T) {
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("needs loop devices:", err)
	}
	w := newStorageWorld(t, storagedriver.Options{})
	block := v1.PersistentVolumeBlock
	w.claim("c", func(pv *v1.PersistentVolume) { pv.Spec.VolumeMode = &block })
	file := filepath.Join(w.root, "backing", "volumes", "h-c.img")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := w.driver.Change("h-c", func(v *storagedriver.Volume) { v.Block = true }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.driver.Delete(context.Background(), "h-c") })

	p := claimPod("p", "c")
	if err := w.prepare(p); err == nil ||
		!strings.Contains(err.Error(), "volume data has volumeMode Block, but is specified in volumeMounts") {
		t.Errorf("a raw device as files: %v", err)
	}
	p.Spec.Containers[0].VolumeMounts = nil
	p.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "data", DevicePath: "/dev/xvda"}}
	w.mustPrepare(p)
	devices, err := w.manager.Devices(p, &p.Spec.Containers[0])
	if err != nil || len(devices) != 1 || devices[0].ContainerPath != "/dev/xvda" {
		t.Fatalf("devices %v, %v", devices, err)
	}
	if info, err := os.Stat(devices[0].HostPath); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("%s is no device: %v", devices[0].HostPath, err)
	}
	w.restart()
	w.mustPrepare(p)
	w.mustTeardown(p)
	w.wantNothingLeft()
}

// Volumes of the node itself, and types that became drivers or that no driver took over.
// Rows 1.93, 1.95.
func TestOtherBackings(t *testing.T) {
	w := newStorageWorld(t, storagedriver.Options{})
	folder := filepath.Join(w.root, "disk")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	w.claim("local", func(pv *v1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: folder}}
	})
	p := claimPod("p", "local")
	w.mustPrepare(p)
	w.mustPrepare(p)
	at := w.mountOf(p)
	if err := os.WriteFile(filepath.Join(at, "file"), nil, 0o644); err != nil || mountsAt(t, at) != 1 {
		t.Errorf("writing: %v, mounted %d times", err, mountsAt(t, at))
	}
	w.mustTeardown(p)
	if _, err := os.Stat(filepath.Join(folder, "file")); err != nil {
		t.Errorf("the file is gone with the pod: %v", err)
	}

	for name, c := range map[string]struct {
		volume v1.VolumeSource
		want   string
	}{
		"migrated": {v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}},
			"driver name ebs.csi.aws.com not found in the list of registered CSI drivers"},
		"nfs": {v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}},
			"install a CSI driver (nfs.csi.k8s.io)"},
		"flex": {v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: "ms/smb"}},
			"flexVolume (ms/smb) volumes are not mounted by this kubelet: install a CSI driver"},
		"no claim": {v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "none"}},
			`persistentvolumeclaim "none" not found`},
	} {
		q := podWith(vol("data", c.volume))
		q.UID = types.UID(name)
		if err := w.prepare(q); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		w.mustTeardown(q)
	}
	w.wantNothingLeft()
}

// What upstream's kubelet left is taken over: its records have no state, and say less. Nothing is mounted twice, and
// nothing stays.
func TestTakesOverFromUpstream(t *testing.T) {
	for _, again := range []bool{true, false} { // whether this kubelet prepares the pod before it ends
		w := newStorageWorld(t, storagedriver.Options{Attach: true})
		w.claim("c")
		p := claimPod("p", "c")
		w.mustPrepare(p)
		at := w.manager.storage.Files(p.UID, "pv-c", driverName, "h-c")
		for path, text := range map[string]string{
			at.Record: `{"attachmentID":"` + records.AttachmentName("h-c", driverName, "node") +
				`","driverName":"test.example.com","nodeName":"node",` +
				`"specVolID":"pv-c","volumeHandle":"h-c","volumeLifecycleMode":"Persistent"}` + "\n",
			at.StageRecord: `{"driverName":"test.example.com","volumeHandle":"h-c"}` + "\n",
		} {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}

		w.restart()
		if in := w.manager.VolumesInUse(); len(in) != 1 {
			t.Errorf("in use: %v", in)
		}
		if again {
			w.mustPrepare(p)
			if n := mountsAt(t, w.mountOf(p)); n != 1 {
				t.Errorf("mounted %d times", n)
			}
		}
		w.mustTeardown(p)
		w.wantNothingLeft()
	}
}

// A generic ephemeral volume is the claim that is named after pod and volume, and only if it belongs to the pod.
func TestGenericEphemeralVolume(t *testing.T) {
	w := newStorageWorld(t, storagedriver.Options{})
	w.claim("p-scratch")
	p := podWith(vol("scratch", v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}))
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	if err := w.prepare(p); err == nil || !strings.Contains(err.Error(), "was not created for pod ns/p") {
		t.Errorf("a claim of somebody else: %v", err)
	}
	w.mu.Lock()
	w.claims["p-scratch"].OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p",
		UID: p.UID, Controller: ptr(true)}}
	w.mu.Unlock()
	w.mustPrepare(p)
	if n := mountsAt(t, w.mountOf(p)); n != 1 {
		t.Errorf("mounted %d times", n)
	}
	w.mustTeardown(p)
	w.wantNothingLeft()
}

// The machine lost its power, and the records are empty. The next kubelet makes the volume available all the same, and
// removes it.
func TestBrokenRecords(t *testing.T) {
	for _, again := range []bool{true, false} {
		w := newStorageWorld(t, storagedriver.Options{})
		w.claim("c")
		p := claimPod("p", "c")
		w.mustPrepare(p)
		at := w.manager.storage.Files(p.UID, "pv-c", driverName, "h-c")
		broken := []string{at.Record}
		if again {
			broken = append(broken, at.StageRecord)
		}
		for _, path := range broken {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		w.restart()
		if again {
			w.mustPrepare(p)
			if n := mountsAt(t, w.mountOf(p)); n != 1 {
				t.Errorf("mounted %d times", n)
			}
			w.mustTeardown(p)
			w.wantNothingLeft()
			continue
		}

		// Without the pod, the kubelet does not know of which driver the volume was: nothing is mounted for the pod,
		// and its folder goes.
		w.mustTeardown(p)
		if _, err := os.Stat(filepath.Join(w.root, "kubelet", "pods", "p")); !os.IsNotExist(err) {
			t.Errorf("the pod's folder: %v", err)
		}
	}
}
