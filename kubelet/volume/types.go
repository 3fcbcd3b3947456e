package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/volume/podcert"
	"porthole.dev/porthole/kubelet/volume/sources"
	"porthole.dev/porthole/kubelet/volume/storage"
	"porthole.dev/porthole/kubelet/volume/token"
)

// objectRef names one API object; kind is ConfigMap or Secret.
type objectRef struct {
	kind, namespace, name string
}

// ObjectGetter reads ConfigMaps and Secrets, watches these, TrustBundles and PodCertificates; internal/kube implements
// it with one watch per object in use. An object that does not exist is an error for which apierrors.IsNotFound is
// true.
type ObjectGetter interface {
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
	// Watch keeps the object of kind ConfigMap or Secret, or all of kind TrustBundle or PodCertificate, fresh and
	// calls changed after it changed, and maybe when it is first seen. changed does not block. release may be called
	// more than once.
	Watch(kind, namespace, name string, changed func()) (release func())
}

// Options configure a Manager. RootDir is required. Without Objects, volumes that show ConfigMaps and Secrets fail;
// without Tokens, those that show service account tokens.
type Options struct {
	RootDir  string // the kubelet's root folder, absolute
	NodeName string
	Objects  ObjectGetter
	Tokens   token.Requester
	// TrustBundles reads the cluster's bundles of authorities. Without it, volumes that show them fail: the feature is
	// switched off.
	TrustBundles sources.TrustBundles
	// Certificates requests certificates of pods. Without it, volumes that show them fail: the feature is switched off.
	Certificates podcert.API
	// Claims reads claims and what they stand for, Drivers knows the storage drivers of the node. Without them,
	// volumes of that kind fail.
	Claims  storage.ClaimAPI
	Drivers storage.DriverSource
	// BootID tells this boot of the machine from others: what was mounted in another one is gone.
	BootID string
	// NodeChanged is called when VolumesInUse has changed; optional. It does not block.
	NodeChanged func()
	// Event records an event about a pod; optional.
	Event func(pod *v1.Pod, eventType, reason, message string)
	// Measure counts what was done about one volume: volume_mount, volume_unmount, or overall_volume_mount for the
	// time from the first attempt until it was there. plugin is upstream's name of its type; optional.
	Measure func(plugin, operation string, took time.Duration, err error)
	// Failed is called when a rewrite in the background failed; optional. It does not block.
	Failed func(pod *v1.Pod, err error)
	// Now is the clock for tokens and certificates; nil means time.Now.
	Now func() time.Time
}

// Facts are what the content of a pod's volumes depends on beyond its spec and the API's objects.
type Facts struct {
	// Allocatable of the node: the default of resourceFieldRef limits, and the bound of memory-backed volumes.
	Allocatable v1.ResourceList
}

// Mount is one mount of a container as the runtime wants it. Paths have the form of the node's system.
type Mount struct {
	Name              string // of the volume
	HostPath          string
	ContainerPath     string
	ReadOnly          bool
	RecursiveReadOnly bool
	// RecursiveIfPossible asks for that where the runtime can do it.
	RecursiveIfPossible bool
	Propagation         v1.MountPropagationMode // never empty
}

// Device is one raw device of a container.
type Device struct {
	HostPath, ContainerPath string
	ReadOnly                bool
}

// Error is the failure of one volume. Its text begins as upstream's FailedMount events do.
type Error struct {
	Volume string
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.Volume, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Failures returns the volumes that failed, from an error of Prepare. Each is worth an event.
func Failures(err error) []*Error {
	var one *Error
	var many interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &many):
		var all []*Error
		for _, e := range many.Unwrap() {
			all = append(all, Failures(e)...)
		}
		return all
	case errors.As(err, &one):
		return []*Error{one}
	}
	return nil
}
