package storagedriver

import (
	"context"
	"time"
)

// Options configure a Driver. Name and Dir are required.
type Options struct {
	Name, Dir string
	// NodeID is the driver's name for the node that it serves. Without one it serves no node, and its controller knows
	// all nodes.
	NodeID   string
	Topology map[string]string
	// MaxVolumes bounds the volumes of a node; 0 is no bound.
	MaxVolumes int64
	// Attach: volumes are attached by the controller before a node may stage them.
	Attach bool
	// NoStage, NoStats and NoExpand take abilities away.
	NoStage, NoStats, NoExpand bool
	// MountGroup: the driver gives files to the pod's group itself.
	MountGroup bool
	// SingleNodeModes: the driver tells one writer on a node from several.
	SingleNodeModes bool
	// Make: a volume that nobody made is made when it is first attached, staged or published.
	Make bool
	// Call is called before each call is carried out; an error of it is the call's. It may block; nil does nothing.
	Call func(ctx context.Context, method string) error
	// Done is called after each call that was carried out; an error of it is the call's, whose work is done all the
	// same.
	Done func(method string) error
}

// Volume is one volume as the driver knows it.
type Volume struct {
	ID    string
	Name  string `json:",omitempty"`
	Bytes int64
	Block bool `json:",omitempty"`
	// Source is the ID of the volume whose content was copied into this one; empty if the volume was created empty.
	Source string `json:",omitempty"`
	// Ephemeral: the volume was made when it was published, and goes when it is not any more.
	Ephemeral bool `json:",omitempty"`
	// Attached are the nodes that the volume is attached to.
	Attached map[string]bool `json:",omitempty"`
	// Staged is where the volume is staged, by node.
	Staged map[string]string `json:",omitempty"`
	// Published says where the volume is available, and how it was asked for.
	Published map[string]Publication `json:",omitempty"`
	// NodeBytes is the size that the node service was last told.
	NodeBytes int64 `json:",omitempty"`
	// Abnormal is what the driver says of its health.
	Abnormal string `json:",omitempty"`
}

// published counts the places of a node where the volume is available.
func (v *Volume) published(node string) int {
	n := 0
	for _, p := range v.Published {
		if p.Node == node {
			n++
		}
	}
	return n
}

// put sets an element of a map that may be nil.
func put[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}

// Publication is how a volume was asked for.
type Publication struct {
	ReadOnly                bool
	FSType, Group           string
	Flags                   []string
	Mode                    string
	Context, PublishContext map[string]string
	Secrets                 map[string]string
	Node                    string // that it was published on
	Times                   int    // how often it was asked for
	Last                    time.Time
}
