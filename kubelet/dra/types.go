package dra

import (
	"context"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/meter"
)

// API is what is read and written of the cluster; internal/kube implements it. An object that does not exist is a
// NotFound error.
type API interface {
	ResourceClaim(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaim, error)
	// DeleteResourceSlices deletes those of this node by which a driver offers devices; those of all drivers for "".
	DeleteResourceSlices(ctx context.Context, driver string) error
}

// AnyDriver is the name under which claims are counted once, whatever drivers they have; it is upstream's.
const AnyDriver = "<any>"

// Options configure a Manager. API and Dir are required.
type Options struct {
	API API
	// Dir is the kubelet's folder, in which the file with the claims is.
	Dir string
	// Meter counts; nil counts nothing.
	Meter *meter.Meter
	// Messages shows what drivers say about the health of a device in the status of pods.
	Messages bool
	// Alive reports whether a pod has its place on the node, and whether all pods that have one are known. Required.
	Alive func(types.UID) (alive, complete bool)
	// Changed is told the pods whose devices are of another health; nil: nobody is. It must not block.
	Changed func([]types.UID)
}

// Device is what a driver has said of a device of a claim.
type Device struct {
	Driver, Pool, Name string
	// Share tells the shares of a device apart that several claims have; nil for a whole device.
	Share *types.UID
	// Requests of the claim that the device is for; none stands for all.
	Requests []string
	// CDI are the qualified names by which the runtime finds the device.
	CDI []string
}

// Held is a claim of a container with its devices.
type Held struct {
	Name, Namespace string
	Devices         []Device
}

const (
	// callTimeout bounds a call to a driver.
	callTimeout = 45 * time.Second
	// wipeDelay is how long a driver may be away before its ResourceSlices are deleted.
	wipeDelay = 30 * time.Second
	// sweepPeriod is how often claims are looked for whose pods are gone.
	sweepPeriod = time.Minute
)
