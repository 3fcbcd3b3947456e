package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/csi"
	"porthole.dev/porthole/kubelet/volume/token"
)

// call returns the volume as a driver is told of it, with the keys of a Secret; ref may be nil.
func (w *work) call(ctx context.Context, ref *v1.SecretReference) (csi.Volume, error) {
	v := csi.Volume{ID: w.Handle, Access: csi.Access{Block: w.block(), Mode: w.mode(), FSType: w.fsType()}}
	if w.inline != nil {
		v.Context = maps.Clone(w.inline.VolumeAttributes)
	} else {
		v.Context = maps.Clone(w.csi().VolumeAttributes)
		v.Access.MountFlags = w.pv.Spec.MountOptions
	}
	if sc := w.pod.Spec.SecurityContext; w.can.MountGroup && sc != nil && sc.FSGroup != nil {
		v.Access.Group = strconv.FormatInt(*sc.FSGroup, 10)
	}

	// The driver gets what the attacher has found out about the volume.
	if w.Attach && w.attachment == nil {
		if ok, why, err := w.readAttachment(ctx); err != nil || !ok {
			return v, fmt.Errorf("volume %s is not attached to the node: %s %w", w.Handle, why, err)
		}
	}
	if w.attachment != nil {
		v.PublishContext = w.attachment.Status.AttachmentMetadata
	}
	// Without a reference the driver wants no secret.
	if ref == nil {
		return v, nil
	}

	if w.o.Secrets == nil {
		return v, fmt.Errorf("no API server to read secret %s/%s from", ref.Namespace, ref.Name)
	}
	secret, err := w.o.Secrets.Secret(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return v, fmt.Errorf("reading secret %s/%s for the driver: %w", ref.Namespace, ref.Name, err)
	}
	v.Secrets = map[string]string{}
	for key, value := range secret.Data {
		v.Secrets[key] = string(value)
	}
	return v, nil
}

// addPod adds what the driver wants to know of the pod: its names, and tokens of its service account. The keys are
// those of CSI's documentation (https://kubernetes-csi.github.io/docs/pod-info.html and /token-requests.html).
func (w *work) addPod(ctx context.Context, v *csi.Volume) error {
	if v.Context == nil {
		v.Context = map[string]string{}
	}
	if w.object.Spec.PodInfoOnMount != nil && *w.object.Spec.PodInfoOnMount {
		v.Context["csi.storage.k8s.io/pod.name"] = w.pod.Name
		v.Context["csi.storage.k8s.io/pod.namespace"] = w.pod.Namespace
		v.Context["csi.storage.k8s.io/pod.uid"] = string(w.pod.UID)
		v.Context["csi.storage.k8s.io/serviceAccount.name"] = w.pod.Spec.ServiceAccountName
		v.Context["csi.storage.k8s.io/ephemeral"] = strconv.FormatBool(w.inline != nil)
	}
	if len(w.object.Spec.TokenRequests) == 0 {
		return nil
	}

	tokens := map[string]authv1.TokenRequestStatus{}
	for _, r := range w.object.Spec.TokenRequests {
		got, err := w.o.Tokens.Request(ctx, w.pod, token.KeyOf(r.Audience, r.ExpirationSeconds))
		if err != nil {
			return err
		}
		tokens[r.Audience] = authv1.TokenRequestStatus{Token: got.Value, ExpirationTimestamp: metaTime(got.Expires)}
	}
	text, err := json.Marshal(tokens)
	if err != nil {
		return err
	}

	// Drivers may ask for tokens as secrets instead.
	const name = "csi.storage.k8s.io/serviceAccount.tokens"
	if in := w.object.Spec.ServiceAccountTokenInSecrets; in == nil || !*in {
		v.Context[name] = string(text)
		return nil
	}
	if v.Secrets == nil {
		v.Secrets = map[string]string{}
	}
	v.Secrets[name] = string(text)
	return nil
}

// Reasons of events, in upstream's words.
const (
	resizeSucceeded = "FileSystemResizeSuccessful"
	resizeFailed    = "VolumeResizeFailed"
)

// expandVolume lets the driver make the volume as large as its PersistentVolume says, and tells the claim. A volume
// that cannot grow does not keep the pod from starting.
func (w *work) expandVolume(ctx context.Context) error {
	v, err := w.call(ctx, w.csi().NodeExpandSecretRef)
	if err != nil {
		return err
	}
	// The claim says first that the node is at work, as upstream's kubelet has it.
	if w.Grow {
		if err := w.claimStatus(ctx, func(s *v1.PersistentVolumeClaimStatus) {
			s.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{
				v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizeInProgress}
		}); err != nil {
			return err
		}
	}

	err = w.driver.Expand(ctx, v, csi.Growth{Target: w.at(), Bytes: w.Size})
	if err != nil {
		return w.notExpanded(ctx, err)
	}
	w.event(v1.EventTypeNormal, resizeSucceeded,
		fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q", w.name))
	if !w.Grow {
		return nil
	}
	return w.claimStatus(ctx, func(s *v1.PersistentVolumeClaimStatus) {
		if s.Capacity == nil {
			s.Capacity = v1.ResourceList{}
		}
		s.Capacity[v1.ResourceStorage] = w.pv.Spec.Capacity[v1.ResourceStorage]
		delete(s.AllocatedResourceStatuses, v1.ResourceStorage)
		s.Conditions = withoutResize(s.Conditions)
	})
}

// notExpanded reports that a volume could not grow. It returns an error only if a repetition may help.
func (w *work) notExpanded(ctx context.Context, cause error) error {
	w.event(v1.EventTypeWarning, resizeFailed,
		fmt.Sprintf("MountVolume.NodeExpandVolume failed for volume %q: %v", w.name, cause))
	// Some causes do not change by repetition; the size that was refused is remembered.
	give := csi.Infeasible(cause) || csi.InUse(cause)
	if give {
		w.known.update(w.pod.UID, w.volume, func(f *found) { f.refused = w.Size })
	}
	if !w.Grow {
		return nil
	}

	err := w.claimStatus(ctx, func(s *v1.PersistentVolumeClaimStatus) {
		if csi.Infeasible(cause) {
			s.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{
				v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizeInfeasible}
		}
		s.Conditions = append(withoutType(s.Conditions, v1.PersistentVolumeClaimNodeResizeError),
			v1.PersistentVolumeClaimCondition{
				Type: v1.PersistentVolumeClaimNodeResizeError, Status: v1.ConditionTrue,
				LastTransitionTime: metaTime(w.o.Now()),
				Message:            "failed to expand pvc with " + cause.Error()})
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Telling a claim that it could not be expanded failed", "pod",
			klog.KObj(w.pod), "volume", w.volume)
	}
	if csi.InUse(cause) {
		return errKeptSize
	}
	return cause
}

// errKeptSize ends the growth of a volume that cannot grow now. The pod can use it as it is.
var errKeptSize = errors.New("the driver does not expand the volume while it is used")

// claimStatus changes the status of the claim.
func (w *work) claimStatus(ctx context.Context, change func(*v1.PersistentVolumeClaimStatus)) error {
	after := w.claim.DeepCopy()
	change(&after.Status)
	old, err := json.Marshal(w.claim)
	if err != nil {
		return err
	}
	now, err := json.Marshal(after)
	if err != nil {
		return err
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(old, now, v1.PersistentVolumeClaim{})
	if err != nil {
		return fmt.Errorf("working out the status of claim %s: %w", w.claim.Name, err)
	}
	if string(patch) == "{}" {
		return nil
	}

	got, err := w.o.Claims.PatchClaimStatus(ctx, w.claim.Namespace, w.claim.Name, patch)
	if err != nil {
		return fmt.Errorf("writing the status of claim %s: %w", w.claim.Name, err)
	}
	w.claim = got
	return nil
}

func withoutType(list []v1.PersistentVolumeClaimCondition,
	drop ...v1.PersistentVolumeClaimConditionType) (out []v1.PersistentVolumeClaimCondition) {
	for _, c := range list {
		keep := true
		for _, t := range drop {
			keep = keep && c.Type != t
		}
		if keep {
			out = append(out, c)
		}
	}
	return out
}

// withoutResize returns the conditions that are not about a growth that has ended.
func withoutResize(list []v1.PersistentVolumeClaimCondition) []v1.PersistentVolumeClaimCondition {
	return withoutType(list, v1.PersistentVolumeClaimFileSystemResizePending, v1.PersistentVolumeClaimResizing,
		v1.PersistentVolumeClaimControllerResizeError, v1.PersistentVolumeClaimNodeResizeError)
}

// event sends an event about the pod, if somebody takes events.
func (w *work) event(kind, reason, message string) {
	if w.o.Event != nil {
		w.o.Event(w.pod, kind, reason, message)
	}
}

// refreshLimit asks the driver again how many volumes the node may have, if an attachment failed because there are too
// many.
func (w *work) refreshLimit(ctx context.Context, e *storagev1.VolumeError) {
	if e.ErrorCode == nil || *e.ErrorCode != csi.ResourceExhausted ||
		w.object.Spec.NodeAllocatableUpdatePeriodSeconds == nil {
		return
	}
	if err := w.o.Drivers.Refresh(ctx, w.DeviceKey.Driver); err != nil {
		klog.FromContext(ctx).Error(err, "Asking a driver for its limit of volumes failed", "driver",
			w.DeviceKey.Driver)
	}
}

func metaTime(t time.Time) metav1.Time { return metav1.NewTime(t) }
