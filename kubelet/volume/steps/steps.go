// Package steps decides what is to be done, and in which order, to give a volume of a storage driver to a pod and to
// end that. It is given what the node has of the volume, and computes.
package steps

import (
	"fmt"
	"strings"
)

// Progress is how far something on the node has come, as the node's disk says.
type Progress int

// In this order, the later the further.
const (
	Absent  Progress = iota
	Awaited          // the pod will use the volume: nobody may unstage it. No call of this kind was made yet.
	Begun            // a call was made, and what came of it is not known
	Done
)

func (p Progress) String() string { return [...]string{"absent", "awaited", "begun", "done"}[p] }

// Kind is one thing to do for a volume of a driver. Between any two steps the kubelet may be killed: what the next
// one then finds on disk (Observed) leads it to the same end.
type Kind int

// The steps of making a volume available, and of its end.
const (
	NoteUse     Kind = iota // write down that the pod uses the volume
	AwaitAttach             // wait until the controllers have attached the volume to the node
	NoteStage               // write down that a call to stage it follows
	Stage                   // NodeStageVolume
	NoteStaged
	NotePublish
	Publish // NodePublishVolume
	SetOwner
	NotePublished
	Expand // NodeExpandVolume
	NoteExpanded

	Unpublish // NodeUnpublishVolume
	RemoveTarget
	ForgetUse
	Unstage // NodeUnstageVolume
	RemoveStaging
	ForgetStage
)

// stepNames are in the order of the steps' numbers.
var stepNames = [...]string{"note the use", "wait for the attachment", "note the staging", "stage",
	"note that it is staged", "note the publishing", "publish",
	"give it to the group", "note that it is published", "expand", "note the size", "unpublish", "remove the target",
	"forget the use", "unstage",
	"remove the staging folder", "forget the staging"}

func (k Kind) String() string { return stepNames[k] }

// List is what is to be done for one volume, in this order.
type List []Kind

func (s List) String() string {
	if len(s) == 0 {
		return "nothing to do"
	}
	names := make([]string, len(s))
	for i, k := range s {
		names[i] = k.String()
	}
	return strings.Join(names, ", ")
}

// Observed is what the node has of one volume of a driver.
type Observed struct {
	Used   Progress // by this pod: absent, awaited, begun or done
	Staged Progress // on the node
	// There: something is at the target. A volume that was published is not when the node was booted since.
	There bool
	// Size is what the volume was last known to have, in bytes; 0 if that is not known.
	Size int64
	// Others: other pods of the node use the volume.
	Others bool
}

func (o Observed) String() string {
	return fmt.Sprintf("used %s, staged %s, there %t, size %d, others %t", o.Used, o.Staged, o.There, o.Size, o.Others)
}

// Wish is how a volume of a driver shall be for one pod.
type Wish struct {
	Attach bool // the driver has its volumes attached
	Stages bool // the driver stages volumes
	Owner  bool // the kubelet gives the files to the pod's group
	// Again: the driver wants each volume to be published again from time to time.
	Again bool
	// Size is what the volume shall have, in bytes; 0 if it shall not grow.
	Size int64
	// Grow: the API says that the volume is smaller than it shall be.
	Grow bool
}

// ForUse returns what makes a volume available to a pod. It is empty if the volume is as it should be.
func ForUse(w Wish, o Observed) (s List) {
	published := o.Used == Done && o.There
	if published && (o.Staged == Done || !w.Stages) {
		if w.Again {
			s = append(s, Publish)
		}
		return append(s, planGrowth(w, o)...)
	}

	if o.Used == Absent {
		s = append(s, NoteUse)
	}
	if w.Attach {
		s = append(s, AwaitAttach)
	}
	if w.Stages && o.Staged != Done {
		s = append(s, NoteStage, Stage, NoteStaged)
	}
	s = append(s, NotePublish, Publish)
	if w.Owner {
		s = append(s, SetOwner)
	}
	s = append(s, NotePublished)
	return append(s, planGrowth(w, o)...)
}

// planGrowth is empty for a volume that has its size already.
func planGrowth(w Wish, o Observed) List {
	if w.Size > 0 && (w.Grow || o.Size > 0 && o.Size < w.Size) {
		return List{Expand, NoteExpanded}
	}
	return nil
}

// ForEnd returns what takes a volume away from a pod that has ended. What ForUnstage returns afterwards follows.
func ForEnd(o Observed) (s List) {
	if o.Used == Begun || o.Used == Done {
		s = append(s, Unpublish)
	}
	if o.Used != Absent {
		s = append(s, RemoveTarget, ForgetUse)
	}
	return s
}

// ForUnstage returns what takes a volume away from the node, if nobody uses it.
func ForUnstage(o Observed) (s List) {
	if o.Used != Absent || o.Others || o.Staged == Absent {
		return nil
	}
	if o.Staged == Begun || o.Staged == Done {
		s = append(s, Unstage)
	}
	return append(s, RemoveStaging, ForgetStage)
}
