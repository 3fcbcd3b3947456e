package volume

import (
	"fmt"
	"strings"
)

// progress is how far something on the node has come, as the node's disk says.
type progress int

const (
	absent  progress = iota
	awaited          // the pod will use the volume: nobody may unstage it. No call of this kind was made yet.
	begun            // a call was made, and what came of it is not known
	done
)

func (p progress) String() string { return [...]string{"absent", "awaited", "begun", "done"}[p] }

// stepKind is one thing to do for a volume of a driver. Between any two steps the kubelet may be killed: what the next
// one then finds on disk (observed) leads it to the same end.
type stepKind int

const (
	noteUse     stepKind = iota // write down that the pod uses the volume
	awaitAttach                 // wait until the controllers have attached the volume to the node
	noteStage                   // write down that a call to stage it follows
	stage                       // NodeStageVolume
	noteStaged
	notePublish
	publish // NodePublishVolume
	setOwner
	notePublished
	expand // NodeExpandVolume
	noteExpanded

	unpublish // NodeUnpublishVolume
	removeTarget
	forgetUse
	unstage // NodeUnstageVolume
	removeStaging
	forgetStage
)

var stepNames = [...]string{"note the use", "wait for the attachment", "note the staging", "stage",
	"note that it is staged", "note the publishing", "publish",
	"give it to the group", "note that it is published", "expand", "note the size", "unpublish", "remove the target",
	"forget the use", "unstage",
	"remove the staging folder", "forget the staging"}

func (k stepKind) String() string { return stepNames[k] }

// steps are what is to be done for one volume, in this order.
type steps []stepKind

func (s steps) String() string {
	if len(s) == 0 {
		return "nothing to do"
	}
	names := make([]string, len(s))
	for i, k := range s {
		names[i] = k.String()
	}
	return strings.Join(names, ", ")
}

// observed is what the node has of one volume of a driver.
type observed struct {
	used   progress // by this pod: absent, awaited, begun or done
	staged progress // on the node
	// there: something is at the target. A volume that was published is not when the node was booted since.
	there bool
	// size is what the volume was last known to have, in bytes; 0 if that is not known.
	size int64
	// others: other pods of the node use the volume.
	others bool
}

func (o observed) String() string {
	return fmt.Sprintf("used %s, staged %s, there %t, size %d, others %t", o.used, o.staged, o.there, o.size, o.others)
}

// wish is how a volume of a driver shall be for one pod.
type wish struct {
	attach bool // the driver has its volumes attached
	stages bool // the driver stages volumes
	owner  bool // the kubelet gives the files to the pod's group
	// again: the driver wants each volume to be published again from time to time.
	again bool
	// size is what the volume shall have, in bytes; 0 if it shall not grow.
	size int64
	// grow: the API says that the volume is smaller than it shall be.
	grow bool
}

// planUse returns what makes a volume available to a pod. It is empty if the volume is as it should be.
func planUse(w wish, o observed) (s steps) {
	published := o.used == done && o.there
	if published && (o.staged == done || !w.stages) {
		if w.again {
			s = append(s, publish)
		}
		return append(s, planGrowth(w, o)...)
	}

	if o.used == absent {
		s = append(s, noteUse)
	}
	if w.attach {
		s = append(s, awaitAttach)
	}
	if w.stages && o.staged != done {
		s = append(s, noteStage, stage, noteStaged)
	}
	s = append(s, notePublish, publish)
	if w.owner {
		s = append(s, setOwner)
	}
	s = append(s, notePublished)
	return append(s, planGrowth(w, o)...)
}

func planGrowth(w wish, o observed) steps {
	if w.size > 0 && (w.grow || o.size > 0 && o.size < w.size) {
		return steps{expand, noteExpanded}
	}
	return nil
}

// planEnd returns what takes a volume away from a pod that has ended. What planUnstage returns afterwards follows.
func planEnd(o observed) (s steps) {
	if o.used == begun || o.used == done {
		s = append(s, unpublish)
	}
	if o.used != absent {
		s = append(s, removeTarget, forgetUse)
	}
	return s
}

// planUnstage returns what takes a volume away from the node, if nobody uses it.
func planUnstage(o observed) (s steps) {
	if o.used != absent || o.others || o.staged == absent {
		return nil
	}
	if o.staged == begun || o.staged == done {
		s = append(s, unstage)
	}
	return append(s, removeStaging, forgetStage)
}
