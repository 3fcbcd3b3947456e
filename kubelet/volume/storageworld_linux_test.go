package volume

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit/storagedriver"
	"porthole.dev/porthole/kubelet/csi"
	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/records"
)

const driverName = "test.example.com"

// storageWorld is a node with one storage driver, real up to its socket and its mounts, and the objects of a cluster.
type storageWorld struct {
	t       *testing.T
	root    string
	driver  *storagedriver.Driver
	client  *csi.Driver
	manager *Manager
	boot    string
	secrets *objects
	tokens  *tokens

	mu     sync.Mutex
	away   bool // the driver is not registered
	object *storagev1.CSIDriver
	claims map[string]*v1.PersistentVolumeClaim
	pvs    map[string]*v1.PersistentVolume
	manual bool // nobody attaches volumes
	events []string
}

// newStorageWorld starts a driver and a manager. It needs root, to mount.
func newStorageWorld(t *testing.T, o storagedriver.Options) *storageWorld {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: volumes are mounted")
	}

	root := tempDir(t)
	w := &storageWorld{t: t, root: root, boot: "boot-1", claims: map[string]*v1.PersistentVolumeClaim{},
		pvs:     map[string]*v1.PersistentVolume{},
		secrets: newObjects(), tokens: &tokens{life: time.Hour}}
	o.Name, o.NodeID, o.Dir = driverName, "node", filepath.Join(root, "backing")
	driver, err := storagedriver.New(o)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(root, "csi.sock")
	stop, err := driver.Serve(socket, "", "")
	if err != nil {
		t.Fatal(err)
	}
	if w.client, err = csi.Dial(driverName, socket, nil); err != nil {
		t.Fatal(err)
	}

	w.driver = driver
	attach := o.Attach
	w.object = &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName},
		Spec: storagev1.CSIDriverSpec{AttachRequired: &attach}}
	w.restart()
	t.Cleanup(func() {
		w.manager.Close()
		w.client.Close()
		stop()
		all, _ := platform.MountPoints()
		for _, m := range all {
			if strings.HasPrefix(m, root+"/") {
				_ = disk.Unmount(m)
			}
		}
	})
	return w
}

// restart makes a new manager on the same disk, as a kubelet that was killed and started again has it.
func (w *storageWorld) restart() {
	if w.manager != nil {
		w.manager.Close()
	}
	w.manager = New(Options{RootDir: filepath.Join(w.root, "kubelet"), NodeName: "node", Claims: w, Drivers: w,
		BootID: w.boot, Objects: w.secrets, Tokens: w.tokens,
		NodeChanged: w.nodeChanged,
		Event: func(_ *v1.Pod, kind, reason, message string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, kind+" "+reason+" "+message)
		}})
	w.nodeChanged()
}

// nodeChanged plays the node's status and the controllers: what is in use is reported, and attached.
func (w *storageWorld) nodeChanged() {
	if w.manager == nil {
		return
	}
	w.mu.Lock()
	manual := w.manual
	w.mu.Unlock()
	n := &v1.Node{}
	n.Status.VolumesInUse = w.manager.VolumesInUse()
	for _, name := range n.Status.VolumesInUse {
		if !manual {
			_, handle, _ := strings.Cut(string(name), "^")
			_ = w.driver.Change(handle, func(v *storagedriver.Volume) { v.Attached = map[string]bool{"node": true} })
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, v1.AttachedVolume{Name: name})
		}
	}
	w.manager.ObserveNode(n)
}

func notFound(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

func (w *storageWorld) Claim(_ context.Context, _, name string) (*v1.PersistentVolumeClaim, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.claims[name]; c != nil {
		return c.DeepCopy(), nil
	}
	return nil, notFound("persistentvolumeclaims", name)
}

func (w *storageWorld) PersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pv := w.pvs[name]; pv != nil {
		return pv.DeepCopy(), nil
	}
	return nil, notFound("persistentvolumes", name)
}

func (w *storageWorld) Attachment(_ context.Context, name string) (*storagev1.VolumeAttachment, error) {
	for id, v := range w.driver.Volumes() {
		if records.AttachmentName(id, driverName, "node") == name {
			return &storagev1.VolumeAttachment{Status: storagev1.VolumeAttachmentStatus{Attached: v.Attached["node"],
				AttachmentMetadata: map[string]string{"lun": "7"}}}, nil
		}
	}
	return nil, notFound("volumeattachments", name)
}

func (w *storageWorld) CSIDriver(_ context.Context, name string) (*storagev1.CSIDriver, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.object == nil {
		return nil, notFound("csidrivers", name)
	}
	return w.object, nil
}

func (w *storageWorld) PatchClaimStatus(_ context.Context, _, name string, patch []byte) (*v1.PersistentVolumeClaim,
	error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, _ := json.Marshal(w.claims[name])
	after, err := strategicpatch.StrategicMergePatch(before, patch, v1.PersistentVolumeClaim{})
	if err != nil {
		return nil, err
	}
	out := &v1.PersistentVolumeClaim{}
	if err := json.Unmarshal(after, out); err != nil {
		return nil, err
	}
	w.claims[name] = out
	return out.DeepCopy(), nil
}

func (w *storageWorld) Driver(name string) (*csi.Driver, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away || name != driverName {
		return nil, fmt.Errorf("driver name %s %w", name, csi.ErrNotRegistered)
	}
	return w.client, nil
}

func (w *storageWorld) Await(_ context.Context, name string, _ time.Duration) (*csi.Driver, error) {
	return w.Driver(name)
}

func (w *storageWorld) Refresh(context.Context, string) error { return nil }

// claim makes a bound claim with a volume of the driver.
func (w *storageWorld) claim(name string, change ...func(*v1.PersistentVolume)) {
	w.t.Helper()
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
		Spec: v1.PersistentVolumeSpec{Capacity: size.DeepCopy(),
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			ClaimRef:    &v1.ObjectReference{UID: types.UID(name)}}}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "h-" + name, FSType: "ext4",
		VolumeAttributes: map[string]string{"of": name}}
	for _, c := range change {
		c(pv)
	}
	w.mu.Lock()
	w.pvs[pv.Name] = pv
	w.claims[name] = &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns",
		UID: types.UID(name)},
		Spec:   v1.PersistentVolumeClaimSpec{VolumeName: pv.Name},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, Capacity: size.DeepCopy()}}
	w.mu.Unlock()
	if pv.Spec.CSI != nil {
		if err := w.driver.Change(pv.Spec.CSI.VolumeHandle,
			func(v *storagedriver.Volume) { v.Bytes = 1 << 30 }); err != nil {
			w.t.Fatal(err)
		}
	}
}

// pod returns a pod whose volume data is the claim.
func claimPod(uid, claim string) *v1.Pod {
	p := podWith(vol("data",
		v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}))
	p.Name, p.UID = uid, types.UID(uid)
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return p
}

func (w *storageWorld) prepare(p *v1.Pod) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return w.manager.Prepare(ctx, p, Facts{})
}

func (w *storageWorld) mustPrepare(p *v1.Pod) {
	w.t.Helper()
	if err := w.prepare(p); err != nil {
		w.t.Fatal(err)
	}
}

func (w *storageWorld) mustTeardown(p *v1.Pod) {
	w.t.Helper()
	if err := w.manager.Remove(context.Background(), p.UID); err != nil {
		w.t.Fatal(err)
	}
}

func (w *storageWorld) mountOf(p *v1.Pod) string {
	w.t.Helper()
	mounts, release, err := w.manager.Mounts(p, &p.Spec.Containers[0], nil)
	release()
	if err != nil || len(mounts) != 1 {
		w.t.Fatalf("mounts %v: %v", mounts, err)
	}
	return mounts[0].HostPath
}

// left lists what is on the node of volumes: mounts, records, and what the driver has.
func (w *storageWorld) left() (out []string) {
	all, err := platform.MountPoints()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range all {
		if strings.HasPrefix(m, filepath.Join(w.root, "kubelet")+"/") {
			out = append(out, "mount "+m)
		}
	}
	_ = filepath.WalkDir(filepath.Join(w.root, "kubelet"), func(p string, d os.DirEntry, err error) error {
		if err == nil && (d.Name() == records.FileName || d.Name() == "globalmount") {
			out = append(out, p)
		}
		return nil
	})
	for id, v := range w.driver.Volumes() {
		if len(v.Staged)+len(v.Published) > 0 {
			out = append(out, fmt.Sprintf("volume %s staged at %v, published at %d places", id, v.Staged,
				len(v.Published)))
		}
	}
	return append(out, w.driver.Violations()...)
}

func (w *storageWorld) wantNothingLeft() {
	w.t.Helper()
	if left := w.left(); len(left) > 0 {
		w.t.Errorf("left on the node:\n%s", strings.Join(left, "\n"))
	}
	if in := w.manager.VolumesInUse(); len(in) > 0 {
		w.t.Errorf("still in use: %v", in)
	}
}
