package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/dra/v1"
	resources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"porthole.dev/porthole/internal/testkit/claimdriver"
	"porthole.dev/porthole/internal/testkit/wait"
)

const claimDriver = "dra.porthole.test"

// cdiDir is a folder in which containerd looks for devices.
const cdiDir = "/var/run/cdi"

// claimWorld is a driver, which the test itself is, and its claims.
type claimWorld struct {
	*world
	driver *claimdriver.Driver
	cdi    string

	mu    sync.Mutex
	calls []string
}

// testClaims: pods get the devices of their claims from a driver, of each version, that registers, fails, and goes
// away, from our kubelet and upstream's; what a kubelet has had prepared the other gives back, although pod and claim
// are gone.
func testClaims(t *testing.T, w *world) {
	c := &claimWorld{world: w, cdi: filepath.Join(cdiDir, claimDriver+"-"+w.Name+".json")}
	writeCDI(t, c.cdi, "0", "1")
	defer os.Remove(c.cdi)
	defer func() {
		w.kubelet.Stop()
		w.startKubelet()
	}()

	sameOnBoth(t, w, func(upstream bool) string {
		c.serve(t, !upstream)
		defer c.driver.Stop()
		return c.life(t, upstream)
	})
	c.slices(t)

	for _, upstream := range []bool{true, false} {
		c.changes(t, upstream)
	}
}

// sameOnBoth does something with upstream's kubelet on the node and then with ours, and fails unless it sees the same.
// It returns what it saw.
func sameOnBoth(t *testing.T, w *world, see func(upstream bool) string) string {
	t.Helper()
	saw := map[bool]string{}
	for _, upstream := range []bool{true, false} {
		w.kubelet.Stop()
		var err error
		w.kubelet, err = w.StartKubelet(w.ctx, node, upstream)
		must(t, err)
		saw[upstream] = see(upstream)
	}
	if saw[true] != saw[false] {
		t.Errorf("upstream's:\n%s\nours:\n%s", saw[true], saw[false])
	}
	return saw[false]
}

// writeCDI writes a CDI spec with these devices. Each sets an environment variable in the containers that get it.
func writeCDI(t *testing.T, path string, names ...string) {
	type spec map[string]any
	var devices []spec
	for _, name := range names {
		devices = append(devices,
			spec{"name": name, "containerEdits": spec{"env": []string{"DEVICE_" + name + "=given"}}})
	}
	text, err := json.Marshal(spec{"cdiVersion": "0.5.0", "kind": claimDriver + "/dev", "devices": devices})
	must(t, err)
	must(t, os.MkdirAll(cdiDir, 0o755))
	must(t, os.WriteFile(path, text, 0o644))
}

// serve starts the driver. A claim whose name ends with a digit gets the device of that name.
func (c *claimWorld) serve(t *testing.T, beta bool) {
	c.driver = &claimdriver.Driver{Name: claimDriver, Beta: beta, Asked: func(call string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls = append(c.calls, call)
	}}
	c.driver.Devices = func(q *api.Claim) []*api.Device {
		device := q.Name[len(q.Name)-1:]
		return []*api.Device{{PoolName: node, DeviceName: device, RequestNames: []string{"r"},
			CdiDeviceIds: []string{claimDriver + "/dev=" + device}}}
	}
	must(t, c.driver.Serve(c.KubeletRoot(node)))
	c.asked(t, "registered")
}

// asked waits until the driver was told these calls since the last time, and no others. A call that was repeated
// counts once.
func (c *claimWorld) asked(t *testing.T, want ...string) {
	t.Helper()
	must(t, wait.For(c.ctx, 100*time.Second, "calls of the driver", func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if got := slices.Compact(slices.Clone(c.calls)); !slices.Equal(got, want) {
			return fmt.Errorf("they are %q, want %q", c.calls, want)
		}
		c.calls = nil
		return nil
	}))
}

// untilCalled waits until the driver was told a call, and returns all that it was told since the last time.
func (c *claimWorld) untilCalled(t *testing.T, call string) (all string) {
	t.Helper()
	must(t, wait.For(c.ctx, 60*time.Second, "a call of the driver", func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !slices.Contains(c.calls, call) {
			return fmt.Errorf("they are %q, without %s", c.calls, call)
		}
		all, c.calls = "\n"+strings.Join(c.calls, "\n"), nil
		return nil
	}))
	return all
}

// claim makes a claim that is allocated, and reserved for these pods.
func (c *claimWorld) claim(t *testing.T, name string, pods ...*v1.Pod) {
	t.Helper()
	all := c.Client.ResourceV1().ResourceClaims(namespace)
	made, err := all.Create(c.ctx,
		&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
				Requests: []resourcev1.DeviceRequest{{Name: "r",
					Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "any",
						AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}}}},
		metav1.CreateOptions{})
	must(t, err)
	made.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "r", Driver: claimDriver, Pool: node, Device: name[len(name)-1:]}}}}
	for _, p := range pods {
		made.Status.ReservedFor = append(made.Status.ReservedFor,
			resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	}
	_, err = all.UpdateStatus(c.ctx, made, metav1.UpdateOptions{})
	must(t, err)
}

func (c *claimWorld) dropClaim(t *testing.T, name string) {
	t.Helper()
	all := c.Client.ResourceV1().ResourceClaims(namespace)
	made, err := all.Get(c.ctx, name, metav1.GetOptions{})
	must(t, err)
	made.Status = resourcev1.ResourceClaimStatus{}
	_, err = all.UpdateStatus(c.ctx, made, metav1.UpdateOptions{})
	must(t, err)
	must(t, all.Delete(c.ctx, name, metav1.DeleteOptions{}))
}

// claiming makes a pod whose container uses claims.
func claiming(name string, claims []string, args ...string) *v1.Pod {
	p := newPod(name, args...)
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	for _, claim := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims,
			v1.PodResourceClaim{Name: "my-" + claim, ResourceClaimName: &claim})
		p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims,
			v1.ResourceClaim{Name: "my-" + claim})
	}
	return p
}

// life runs pods with claims, and returns what they saw.
func (c *claimWorld) life(t *testing.T, upstream bool) (saw string) {
	name := func(of string) string { return fmt.Sprintf("%s-%v", of, upstream) }
	first := c.create(t, claiming(name("shows"), []string{name("c") + "-0", name("c") + "-1"}, "env", "DEVICE_0",
		"DEVICE_1"))
	holds := c.create(t, claiming(name("holds"), []string{name("c") + "-0"}, "sleep"))
	why := c.event(t, first, "FailedPrepareDynamicResources")
	// the API server says that it is not found, or that no pod of the node has it
	begin, _, _ := strings.Cut(why, "c-"+fmt.Sprint(upstream)+"-0: ")
	saw += begin + "\n"

	c.driver.Fail("not now")
	c.claim(t, name("c")+"-0", first, holds)
	c.claim(t, name("c")+"-1", first)
	c.touch(t, "claimed", first, holds)
	if text := c.event(t, holds, "not now"); !strings.Contains(text,
		"NodePrepareResources failed for ResourceClaim "+name("c")+"-0: not now") {
		t.Errorf("upstream %v: its event is %s", upstream, text)
	}
	c.driver.Fail("")
	c.touch(t, "again", first, holds)
	done := c.until(t, 60*time.Second, first.Name, inPhase(v1.PodSucceeded))
	saw += c.log(t, done, "app")
	held := c.until(t, 60*time.Second, holds.Name, ready)
	saw += strings.NewReplacer(name("c"), "c").Replace(c.heldClaims(t, holds.Name)) + "\n"
	for _, s := range held.Status.ContainerStatuses[0].AllocatedResourcesStatus {
		saw += strings.NewReplacer(name("c"), "c").
			Replace(fmt.Sprintf("%s %s %s\n", s.Name, s.Resources[0].ResourceID, s.Resources[0].Health))
	}

	calls := c.untilCalled(t, "unprepare "+name("c")+"-1")
	if !strings.Contains(calls, "\nprepare "+name("c")+"-0") || strings.Contains(calls, "unprepare "+name("c")+"-0") {
		t.Errorf("upstream %v: the claim of a pod that runs was not prepared, or was given back:\n%s", upstream, calls)
	}
	c.remove(t, first.Name, nil)
	c.remove(t, holds.Name, nil)
	c.untilGone(t, first.Name)
	c.untilGone(t, holds.Name)
	c.asked(t, "unprepare "+name("c")+"-0")
	c.forgotten(t, name("c")+"-0")
	return saw
}

// touch changes pods: upstream's kubelet looks at a pod that failed so after a minute only, or when it has changed.
func (c *claimWorld) touch(t *testing.T, how string, pods ...*v1.Pod) {
	t.Helper()
	for _, p := range pods {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"touched":%q}}}`, how)
		_, err := c.Client.CoreV1().Pods(namespace).
			Patch(c.ctx, p.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		must(t, err)
	}
}

// event waits for an event about a pod with that reason, or with that word in its text, and returns its text.
func (c *claimWorld) event(t *testing.T, p *v1.Pod, word string) (text string) {
	t.Helper()
	must(t, wait.For(c.ctx, 60*time.Second, "an event of "+p.Name, func(ctx context.Context) error {
		list, err := c.Client.CoreV1().Events(namespace).
			List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(p.UID)})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == word || strings.Contains(e.Message, word) {
				text = e.Message
				return nil
			}
		}
		return fmt.Errorf("there is none with %s", word)
	}))
	return text
}

// heldClaims asks the pod-resources API for the claims of a pod's container.
func (c *claimWorld) heldClaims(t *testing.T, name string) string {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+filepath.Join(c.KubeletRoot(node), "pod-resources", "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer conn.Close()
	answer, err := resources.NewPodResourcesListerClient(conn).
		Get(c.ctx, &resources.GetPodResourcesRequest{PodName: name, PodNamespace: namespace})
	must(t, err)
	var out []string
	for _, r := range answer.PodResources.Containers[0].DynamicResources {
		for _, d := range r.ClaimResources {
			out = append(out, fmt.Sprint(r.ClaimNamespace, " ", r.ClaimName, " ", d.DriverName, " ", d.PoolName, " ",
				d.DeviceName, " ", d.CdiDevices[0].Name))
		}
	}
	// upstream's names a device twice that two pods have asked for at the same time
	return strings.Join(slices.Compact(out), "\n")
}

// slices: the ResourceSlices of a driver that is away are deleted, those of one that is there are not.
func (c *claimWorld) slices(t *testing.T) {
	all := c.Client.ResourceV1().ResourceSlices()
	where := node
	made, err := all.Create(c.ctx,
		&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: claimDriver, NodeName: &where, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}}},
		metav1.CreateOptions{})
	must(t, err)
	began := time.Now()
	must(t, wait.For(c.ctx, 60*time.Second, "the slice of the driver that ended to be deleted",
		func(ctx context.Context) error {
			_, err := all.Get(ctx, made.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(err, errors.New("it is still there"))
		}))
	t.Logf("the slice was deleted after %v", time.Since(began).Round(time.Second))
}

// changes: a pod with a claim runs on while another kubelet takes its node over, which gives the claim back at its
// end; and a kubelet that starts gives back those of a pod that ended by force meanwhile, although the claim is gone
// too.
func (c *claimWorld) changes(t *testing.T, upstream bool) {
	name := fmt.Sprintf("moves-%v-0", upstream)
	start := func(upstream bool) {
		var err error
		c.kubelet, err = c.StartKubelet(c.ctx, node, upstream)
		must(t, err)
	}
	c.kubelet.Stop()
	start(upstream)
	c.serve(t, false)
	defer c.driver.Stop()
	p := c.create(t, claiming(name, []string{name}, "sleep"))
	c.claim(t, name, p)
	id := c.until(t, 60*time.Second, name, ready).Status.ContainerStatuses[0].ContainerID
	c.asked(t, "prepare "+name)

	c.kubelet.Kill()
	start(!upstream)
	c.asked(t, "registered")
	if now := c.until(t, 30*time.Second, name, ready).Status.ContainerStatuses[0]; now.ContainerID != id ||
		now.RestartCount != 0 {
		t.Errorf("from upstream %v to %v: the container was replaced", upstream, !upstream)
	}
	c.kubelet.Kill()
	c.remove(t, name, new(int64))
	c.dropClaim(t, name)
	start(false) // upstream's kubelet does so within a minute
	c.asked(t, "registered", "unprepare "+name)
	c.forgotten(t, name)
}

// forgotten waits until the kubelet's checkpoint no longer has a claim. The test's driver records a call before it
// answers it. If the test stopped the driver in between, the kubelet would call the next driver to unprepare the claim.
func (c *claimWorld) forgotten(t *testing.T, claim string) {
	t.Helper()
	must(t, wait.For(c.ctx, 30*time.Second, "the kubelet to forget the claim "+claim, func(context.Context) error {
		text, err := os.ReadFile(filepath.Join(c.KubeletRoot(node), "dra_manager_state"))
		if err == nil && strings.Contains(string(text), claim) {
			err = fmt.Errorf("it has %s", text)
		}
		return err
	}))
}
