package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/csi"
	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/records"
	"porthole.dev/porthole/kubelet/volume/steps"
)

// setUp makes a volume of a driver available to a pod. It may be repeated, and then changes only what is not right.
func (s *Volumes) setUp(ctx context.Context, u use) error {
	unlock, err := s.uses.Lock(ctx, u.Record)
	if err != nil {
		return err
	}
	defer unlock()
	w, err := s.newWork(ctx, u)
	if err != nil {
		return err
	}

	// What concerns the node is done under the lock of the volume; the rest, which is the pod's own, is not, so that a
	// call that hangs delays no other pod.
	unshare, err := s.shared.Lock(ctx, u.DeviceKey.String())
	if err != nil {
		return err
	}
	plan, err := s.planUse(w)
	if err == nil && w.exclusive() && s.devices.Held(u.DeviceKey, u.Record) {
		err = errInUse
	}
	if err != nil {
		unshare()
		return err
	}
	own := slices.IndexFunc(plan, func(k steps.Kind) bool { return k >= steps.NotePublish })
	if own < 0 {
		own = len(plan)
	}
	if err = w.do(ctx, plan[:own]); err == nil {
		s.devices.Hold(u.DeviceKey, u.Record)
	}
	unshare()
	if err != nil {
		return err
	}
	return w.do(ctx, plan[own:])
}

// errInUse is what the user of a volume for one pod sees if another pod of the node has it. The words are upstream's.
// The scheduler keeps such pods apart; this is for those that came here past it.
var errInUse = errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")

// exclusive reports whether one pod at a time may have the volume. With several access modes nobody knows which one
// the pod wants.
func (w *work) exclusive() bool {
	return w.pv != nil && len(w.pv.Spec.AccessModes) == 1 && w.pv.Spec.AccessModes[0] == v1.ReadWriteOncePod
}

// planUse compares what is recorded and mounted with the wish, and begins records that are not
// there.
func (s *Volumes) planUse(w *work) (steps.List, error) {
	o, own, staged, err := s.observe(w.use)
	if err != nil {
		return nil, err
	}
	w.own, w.staged, w.observed = own, staged, o
	if o.Used == steps.Absent {
		w.own = w.newRecord()
	}
	if o.Staged == steps.Absent {
		w.staged = w.newRecord()
	}
	return steps.ForUse(w.Wish, o), nil
}

// work is what is being done for one volume of a pod. It belongs to one goroutine.
type work struct {
	*Volumes
	use
	driver *csi.Driver // nil if nothing is to be done
	can    csi.Abilities
	object *storagev1.CSIDriver // what the cluster says of the driver
	steps.Wish
	observed    steps.Observed
	own, staged records.Record
	attachment  *storagev1.VolumeAttachment // nil until it was read
}

// newWork finds out how a volume shall be. The driver is only needed, and waited for, if the pod does not have its
// volume yet.
func (s *Volumes) newWork(ctx context.Context, u use) (*work, error) {
	w := &work{Volumes: s, use: u}
	var err error
	if w.object, err = s.csiDriver(ctx, u.DeviceKey.Driver); err != nil {
		return nil, err
	}
	if err := checkLifecycle(w.object, u.inline != nil); err != nil {
		return nil, err
	}

	w.driver, err = s.driver(ctx, u)
	if err != nil {
		if o, _, _, failed := s.observe(u); failed == nil && o.Used == steps.Done && o.There {
			klog.FromContext(ctx).V(2).
				Info("The driver of a published volume is away", "pod", klog.KObj(u.pod), "volume", u.volume, "driver",
					u.DeviceKey.Driver)
			w.Wish = steps.Wish{}
			return w, nil
		}
		return nil, err
	}
	if w.can, err = w.driver.Abilities(ctx); err != nil {
		return nil, err
	}
	w.Wish = w.wanted()
	return w, nil
}

// driver finds the driver of a volume. A driver that is away is not waited for if the pod has its volume.
func (s *Volumes) driver(ctx context.Context, u use) (*csi.Driver, error) {
	if s.o.Drivers == nil {
		return nil, fmt.Errorf("driver name %s %w", u.DeviceKey.Driver, csi.ErrNotRegistered)
	}
	wait := driverWait
	if there, err := disk.Published(u.Target); err == nil && there {
		wait = 0
	}
	return s.o.Drivers.Await(ctx, u.DeviceKey.Driver, wait)
}

// csiDriver returns what the cluster says of a driver. A driver without such an object has the defaults of the API.
func (s *Volumes) csiDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	if s.o.Claims == nil {
		return &storagev1.CSIDriver{}, nil
	}
	d, err := s.o.Claims.CSIDriver(ctx, name)
	if apierrors.IsNotFound(err) {
		return &storagev1.CSIDriver{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading CSIDriver %s: %w", name, err)
	}
	return d, nil
}

// checkLifecycle returns an error if the driver does not serve such volumes. Without a list, which the API's default
// fills, it serves persistent ones.
func checkLifecycle(d *storagev1.CSIDriver, inline bool) error {
	mode := storagev1.VolumeLifecyclePersistent
	modes := d.Spec.VolumeLifecycleModes
	if inline {
		mode = storagev1.VolumeLifecycleEphemeral
	}
	if len(modes) == 0 {
		modes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	if !slices.Contains(modes, mode) {
		return fmt.Errorf("volume mode %q not supported by driver %s (only supports %q)", mode, d.Name, modes)
	}
	return nil
}

// wanted returns how the volume shall be.
func (w *work) wanted() steps.Wish {
	out := steps.Wish{Stages: w.can.Stage && w.inline == nil, Owner: w.kubeletOwns(),
		Again: w.object.Spec.RequiresRepublish != nil && *w.object.Spec.RequiresRepublish}
	out.Attach = w.inline == nil && (w.object.Spec.AttachRequired == nil || *w.object.Spec.AttachRequired)
	if w.block() {
		out.Again = false
	}
	if w.claim == nil || !w.can.Expand || w.readOnly {
		return out
	}

	size := w.pv.Spec.Capacity[v1.ResourceStorage]
	reported := w.claim.Status.Capacity[v1.ResourceStorage]
	switch w.claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] {
	case v1.PersistentVolumeClaimNodeResizeInfeasible, v1.PersistentVolumeClaimControllerResizeInProgress,
		v1.PersistentVolumeClaimControllerResizeInfeasible:
		return out
	}
	if f, ok := w.known.get(w.pod.UID, w.volume); ok && f.refused == size.Value() {
		return out // the driver cannot expand it while it is used
	}
	out.Size = size.Value()
	out.Grow = reported.Cmp(size) < 0
	return out
}

// kubeletOwns reports whether the kubelet gives the files to the pod's group (fsGroup): neither the driver does so,
// nor does the driver's policy forbid it.
func (w *work) kubeletOwns() bool {
	sc := w.pod.Spec.SecurityContext
	if disk.OnWindows || sc == nil || sc.FSGroup == nil || w.can.MountGroup || w.readOnly || w.block() {
		return false
	}

	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if w.object.Spec.FSGroupPolicy != nil {
		policy = *w.object.Spec.FSGroupPolicy
	}
	switch policy {
	case storagev1.NoneFSGroupPolicy:
		return false
	case storagev1.FileFSGroupPolicy:
		return true
	}
	if w.fsType() == "" {
		return false
	}
	return w.inline != nil || slices.Contains(w.pv.Spec.AccessModes, v1.ReadWriteOnce) ||
		slices.Contains(w.pv.Spec.AccessModes, v1.ReadWriteOncePod)
}

func (w *work) fsType() string {
	switch {
	case w.inline != nil && w.inline.FSType != nil:
		return *w.inline.FSType
	case w.inline != nil:
		return ""
	}
	return w.csi().FSType
}

func (w *work) newRecord() records.Record {
	life := storagev1.VolumeLifecyclePersistent
	if w.inline != nil {
		life = storagev1.VolumeLifecycleEphemeral
	}
	return records.Record{Driver: w.DeviceKey.Driver, Handle: w.Handle, Name: w.name, Node: w.o.NodeName,
		Lifecycle:  string(life),
		Attachment: records.AttachmentName(w.Handle, w.DeviceKey.Driver, w.o.NodeName),
		Attach:     strconv.FormatBool(w.Attach)}
}

// do carries out steps one after the other. It ends at the first that fails.
func (w *work) do(ctx context.Context, plan steps.List) error {
	if len(plan) > 0 {
		klog.FromContext(ctx).V(2).
			Info("Plan of a volume", "pod", klog.KObj(w.pod), "volume", w.volume, "driver", w.DeviceKey.Driver, "plan",
				plan.String(),
				"observed", w.observed.String())
	}
	for _, k := range plan {
		if w.Failpoint != nil {
			if err := w.Failpoint(k); err != nil {
				return err
			}
		}
		err := w.step(ctx, k)
		if errors.Is(err, errKeptSize) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// step carries out one step of making a volume available. Each can be repeated.
func (w *work) step(ctx context.Context, k steps.Kind) error {
	switch k {
	case steps.NoteUse:
		return w.noteUse(steps.Awaited)
	case steps.AwaitAttach:
		return w.awaitAttach(ctx)
	case steps.NoteStage:
		return w.noteStage(steps.Begun)
	case steps.Stage:
		return w.stageVolume(ctx)
	case steps.NoteStaged:
		return w.noteStage(steps.Done)

	case steps.NotePublish:
		return w.noteUse(steps.Begun)
	case steps.Publish:
		return w.publishVolume(ctx)
	case steps.SetOwner:
		return w.setOwner()
	case steps.NotePublished:
		return w.noteUse(steps.Done)
	case steps.Expand:
		return w.expandVolume(ctx)
	case steps.NoteExpanded:
		w.own.Size = strconv.FormatInt(w.Size, 10)
		return records.Write(w.Record, w.own)
	}
	return fmt.Errorf("%s is not a step of making a volume available", k)
}

// noteUse records how far the use is. The node's status is renewed when an attachment is needed.
func (w *work) noteUse(p steps.Progress) error {
	w.own.State, w.own.Boot, w.own.Attach = p.String(), w.o.BootID, strconv.FormatBool(w.Attach)
	if p == steps.Done && w.own.Size == "" && !w.Grow && w.Size > 0 {
		w.own.Size = strconv.FormatInt(w.Size, 10)
	}
	if err := records.Write(w.Record, w.own); err != nil {
		return err
	}
	w.devices.Use(w.own, w.Record)
	if w.Attach && p == steps.Awaited && w.o.NodeChanged != nil {
		w.o.NodeChanged()
	}
	return nil
}

// noteStage records how far the staging is, and makes its folder at its beginning.
func (w *work) noteStage(p steps.Progress) error {
	if p == steps.Begun {
		if err := os.MkdirAll(w.Staging, 0o750); err != nil {
			return fmt.Errorf("making the staging folder: %w", err)
		}
	}
	w.staged.State, w.staged.Boot, w.staged.Attach = p.String(), w.o.BootID, strconv.FormatBool(w.Attach)
	if err := records.Write(w.StageRecord, w.staged); err != nil {
		return err
	}
	w.devices.Stage(w.staged, w.StageRecord, w.Staging)
	return nil
}

// awaitAttach waits until the node's status says that the volume is in use and attached, and the attachment says so
// too.
func (w *work) awaitAttach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attachWait)
	defer cancel()
	name := records.UniqueName(w.DeviceKey.Driver, w.Handle)
	poll := time.NewTicker(attachPoll)
	defer poll.Stop()

	// last is why the attachment was not enough when it was looked at last.
	last, look := "", false
	for {
		attached, inUse, changed := w.node.of(name)
		if inUse && (attached || look) {
			ok, why, err := w.readAttachment(ctx)
			if ok {
				return nil
			}
			if last = why; err != nil && ctx.Err() == nil {
				last = err.Error()
			}
		}

		look = false
		select {
		case <-changed:
		case <-poll.C:
			look = true
		case <-ctx.Done():
			if last != "" {
				last = ": " + last
			}
			return fmt.Errorf("waiting for volume %s to be attached to the node%s: %w", w.Handle, last,
				context.Cause(ctx))
		}
	}
}

// readAttachment reads the attachment. why says why the volume is not attached.
func (w *work) readAttachment(ctx context.Context) (ok bool, why string, err error) {
	a, err := w.o.Claims.Attachment(ctx, records.AttachmentName(w.Handle, w.DeviceKey.Driver, w.o.NodeName))
	switch {
	case apierrors.IsNotFound(err):
		return false, "there is no VolumeAttachment yet", nil
	case err != nil:
		return false, "", fmt.Errorf("reading the volume's attachment: %w", err)
	case a.DeletionTimestamp != nil:
		return false, "the volume is being detached", nil
	case !a.Status.Attached:
		if e := a.Status.AttachError; e != nil {
			w.refreshLimit(ctx, e)
			return false, e.Message, nil
		}
		return false, "the driver's controller has not attached it", nil
	}
	w.attachment = a
	return true, "", nil
}

// stageVolume and publishVolume call the driver with the secrets of that call.
func (w *work) stageVolume(ctx context.Context) error {
	v, err := w.call(ctx, w.csi().NodeStageSecretRef)
	if err != nil {
		return err
	}
	return w.driver.Stage(ctx, v, w.Staging)
}

func (w *work) publishVolume(ctx context.Context) error {
	var ref *v1.SecretReference
	switch {
	case w.inline != nil && w.inline.NodePublishSecretRef != nil:
		ref = &v1.SecretReference{Namespace: w.pod.Namespace, Name: w.inline.NodePublishSecretRef.Name}
	case w.inline == nil:
		ref = w.csi().NodePublishSecretRef
	}
	v, err := w.call(ctx, ref)
	if err != nil {
		return err
	}
	if err := w.addPod(ctx, &v); err != nil {
		return err
	}

	if err := os.MkdirAll(filepath.Dir(w.Target), 0o750); err != nil {
		return fmt.Errorf("making the folder of the volume: %w", err)
	}
	if err := w.driver.Publish(ctx, v, w.at()); err != nil {
		return err
	}
	if w.Link == "" {
		return nil
	}
	return disk.LinkDevice(w.Target, w.Link)
}

// at is where the volume is for the pod.
func (w *work) at() csi.Target {
	t := csi.Target{Path: w.Target, ReadOnly: w.readOnly}
	if w.Stages {
		t.Staging = w.Staging
	}
	return t
}

// setOwner gives the volume's files to the pod's group.
func (w *work) setOwner() error {
	sc := w.pod.Spec.SecurityContext
	if err := disk.SetGroup(w.Target, *sc.FSGroup, sc.FSGroupChangePolicy); err != nil {
		return fmt.Errorf("giving the volume to group %d: %w", *sc.FSGroup, err)
	}
	return nil
}
