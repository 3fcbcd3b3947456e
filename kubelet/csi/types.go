package csi

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Volume is the volume that a call is about.
type Volume struct {
	ID string // the volume handle
	// Context are the attributes of the volume, PublishContext what the driver's controller said when it attached it.
	Context, PublishContext map[string]string
	Secrets                 map[string]string
	Access                  Access
}

// Access is how a volume is used.
type Access struct {
	Block      bool // a raw device; the other fields but Mode are for file systems only
	FSType     string
	MountFlags []string
	// Group is the group that the driver shall give the files to; empty if it shall not.
	Group string
	Mode  v1.PersistentVolumeAccessMode
}

// Target is where a volume is made available to one pod.
type Target struct {
	Path string
	// Staging is where the volume was staged; empty for a driver that stages nothing.
	Staging  string
	ReadOnly bool
}

// Growth is a wish for a larger volume.
type Growth struct {
	Target
	Bytes int64 // at least
}

// Abilities are what a driver's node service can do.
type Abilities struct {
	Stage, Stats, Expand, Condition, MountGroup bool
	// SingleNodeModes: the driver tells apart one writer and several writers on one node.
	SingleNodeModes bool
}

// NodeInfo is what a driver says of this node.
type NodeInfo struct {
	NodeID string
	// MaxVolumes bounds the volumes of the driver on the node; 0 is no bound.
	MaxVolumes int64
	Topology   map[string]string
}

// Stats is what a driver measures of a volume. What it does not measure is 0.
type Stats struct {
	UsedBytes, AvailableBytes, CapacityBytes    int64
	UsedInodes, AvailableInodes, CapacityInodes int64
	// Condition is nil if the driver says nothing of it.
	Condition *Condition
}

// Condition is what a driver says of the health of a volume.
type Condition struct {
	Abnormal bool
	Message  string
}

// NodeAPI is what a Registry writes about the node; internal/kube implements it. An object that does not exist is a
// NotFound error.
type NodeAPI interface {
	CSINode(ctx context.Context) (*storagev1.CSINode, error)
	CreateCSINode(ctx context.Context, n *storagev1.CSINode) (*storagev1.CSINode, error)
	// UpdateCSINode returns a Conflict error if somebody changed the object meanwhile.
	UpdateCSINode(ctx context.Context, n *storagev1.CSINode) (*storagev1.CSINode, error)
	GetNode(ctx context.Context) (*v1.Node, error)
	PatchNode(ctx context.Context, patch []byte) (*v1.Node, error)
}

// Options configure a Registry. API and NodeName are required.
type Options struct {
	NodeName string
	API      NodeAPI
	// Measure is told each call to a driver; optional. code is gRPC's name of the status code.
	Measure func(driver, method, code string, took time.Duration)
	// Changed is called after a driver came or went; optional. It does not block.
	Changed func()
}

// ErrNotRegistered is the error about a driver that is not on this node, or not any more.
var ErrNotRegistered = errors.New("not found in the list of registered CSI drivers")

// CallTimeout bounds a call to a driver (upstream's pkg/volume/csi has the same).
const CallTimeout = 2 * time.Minute
