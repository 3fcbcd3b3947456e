package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/storage/ephemeral"
	translation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/volume/records"
)

// ClaimAPI reads what volumes of pods refer to; internal/kube implements it. An object that does not exist is a
// NotFound error.
type ClaimAPI interface {
	Claim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)
	PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error)
	Attachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error)
	// CSIDriver returns what the cluster says of a driver.
	CSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error)
	// PatchClaimStatus sends a strategic merge patch of a claim's status.
	PatchClaimStatus(ctx context.Context, namespace, name string, patch []byte) (*v1.PersistentVolumeClaim, error)
}

// backing is what a volume of a pod turned out to be: a PersistentVolume, or a volume of a driver that lives as long
// as the pod.
type backing struct {
	claim  *v1.PersistentVolumeClaim // nil if the volume has none
	pv     *v1.PersistentVolume      // nil for inline
	inline *v1.CSIVolumeSource
	// name is what the folder of the volume is called: that of pv, or of the pod's volume.
	name     string
	readOnly bool
}

// csi returns the driver's part of pv, nil if it has none.
func (b backing) csi() *v1.CSIPersistentVolumeSource {
	if b.pv == nil {
		return nil
	}
	return b.pv.Spec.CSI
}

// block reports whether the volume is used as a raw device.
func (b backing) block() bool {
	return b.pv != nil && b.pv.Spec.VolumeMode != nil && *b.pv.Spec.VolumeMode == v1.PersistentVolumeBlock
}

// key names the volume of the driver. ok is false for a volume without one.
func (b backing) key(p *v1.Pod) (key records.DeviceKey, ok bool) {
	switch {
	case b.inline != nil:
		return records.DeviceKey{Driver: b.inline.Driver, Handle: records.InlineHandle(p, b.name)}, true
	case b.csi() != nil:
		return records.DeviceKey{Driver: b.csi().Driver, Handle: b.csi().VolumeHandle}, true
	}
	return records.DeviceKey{}, false
}

// mode returns the access mode that the driver is told: the first one, as upstream does.
func (b backing) mode() v1.PersistentVolumeAccessMode {
	if b.pv != nil && len(b.pv.Spec.AccessModes) > 0 {
		return b.pv.Spec.AccessModes[0]
	}
	return v1.ReadWriteOnce
}

// resolve finds out what a volume of a pod is.
func (s *Volumes) resolve(ctx context.Context, p *v1.Pod, v *v1.Volume) (backing, error) {
	if v.CSI != nil {
		return backing{inline: v.CSI, name: v.Name, readOnly: v.CSI.ReadOnly != nil && *v.CSI.ReadOnly}, nil
	}
	translator := translation.New()
	if translator.IsInlineMigratable(v) {
		pv, err := translator.TranslateInTreeInlineVolumeToCSI(klog.FromContext(ctx), v, p.Namespace)
		if err != nil {
			return backing{}, fmt.Errorf("translating the volume for its CSI driver: %w", err)
		}
		return backing{pv: pv, name: pv.Name}, nil
	}

	claim, err := s.readClaim(ctx, p, v)
	if err != nil {
		return backing{}, err
	}
	pv, err := s.o.Claims.PersistentVolume(ctx, claim.Spec.VolumeName)
	if err != nil {
		return backing{}, fmt.Errorf("reading PersistentVolume %s: %w", claim.Spec.VolumeName, err)
	}
	// A PersistentVolume of another claim of the same name must not be used.
	if ref := pv.Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
		return backing{}, fmt.Errorf("PersistentVolume %s is not bound to claim %s/%s", pv.Name, claim.Namespace,
			claim.Name)
	}
	if translator.IsPVMigratable(pv) {
		if pv, err = translator.TranslateInTreePVToCSI(klog.FromContext(ctx), pv); err != nil {
			return backing{}, fmt.Errorf("translating PersistentVolume %s for its CSI driver: %w", pv.Name, err)
		}
	}

	b := backing{claim: claim, pv: pv, name: pv.Name,
		readOnly: v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly}
	return b, checkMode(p, v.Name, b.block())
}

// readClaim reads the claim of a volume, and checks that the pod may use it.
func (s *Volumes) readClaim(ctx context.Context, p *v1.Pod, v *v1.Volume) (*v1.PersistentVolumeClaim, error) {
	if s.o.Claims == nil {
		return nil, errors.New("no API server to read the volume's claim from")
	}
	name := ""
	switch {
	case v.PersistentVolumeClaim != nil:
		name = v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		name = ephemeral.VolumeClaimName(p, v)
	default:
		return nil, Unsupported(&v.VolumeSource)
	}

	claim, err := s.o.Claims.Claim(ctx, p.Namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("persistentvolumeclaim %q not found", name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading claim %s: %w", name, err)
	}
	if v.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(p, claim); err != nil {
			return nil, err
		}
	}
	if claim.DeletionTimestamp != nil && !s.known.has(p.UID, v.Name) { // a pod that uses it already keeps it
		return nil, fmt.Errorf("persistentvolumeclaim %q is being deleted", name)
	}
	if claim.Status.Phase != v1.ClaimBound || claim.Spec.VolumeName == "" {
		return nil, fmt.Errorf("persistentvolumeclaim %q is not bound", name)
	}
	return claim, nil
}

// checkMode returns an error if a container uses a raw device as files, or files as a raw device.
func checkMode(p *v1.Pod, volume string, block bool) error {
	check := func(mounts []v1.VolumeMount, devices []v1.VolumeDevice) error {
		if block && slices.ContainsFunc(mounts, func(m v1.VolumeMount) bool { return m.Name == volume }) {
			return fmt.Errorf("volume %s has volumeMode Block, but is specified in volumeMounts", volume)
		}
		if !block && slices.ContainsFunc(devices, func(d v1.VolumeDevice) bool { return d.Name == volume }) {
			return fmt.Errorf("volume %s has volumeMode Filesystem, but is specified in volumeDevices", volume)
		}
		return nil
	}

	var errs []error
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		errs = append(errs, check(c.VolumeMounts, c.VolumeDevices))
	}
	return errors.Join(errs...)
}
