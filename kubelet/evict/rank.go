package evict

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	resources "k8s.io/component-helpers/resource"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
)

// standing is where a pod stands in the ranking.
type standing struct {
	unknown  bool  // nobody knows what it uses
	exceeds  bool  // it uses more than it asked for
	priority int32 // the lowest goes first
	above    int64 // how much more it uses than it asked for
}

// rank orders the pods, the first to go first: those whose usage is unknown, those that use more than they asked for,
// those of the lowest priority, those that exceed their requests most. No pod asks for process ids: there priority
// comes first.
func rank(signal string, o *Observed) []Pod {
	type entry struct {
		p Pod
		s standing
	}
	list := make([]entry, 0, len(o.Pods))
	for _, p := range o.Pods {
		list = append(list, entry{p, stand(signal, o, &p)})
	}

	slices.SortStableFunc(list, func(x, y entry) int {
		a, b := x.s, y.s
		switch {
		case signals[signal].resource == pids:
			return cmp.Or(cmp.Compare(a.priority, b.priority), first(a.unknown, b.unknown),
				cmp.Compare(b.above, a.above))
		case a.unknown || b.unknown:
			return first(a.unknown, b.unknown)
		}
		return cmp.Or(first(a.exceeds, b.exceeds), cmp.Compare(a.priority, b.priority), cmp.Compare(b.above, a.above))
	})

	out := make([]Pod, 0, len(list))
	for _, e := range list {
		out = append(out, e.p)
	}
	return out
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func stand(signal string, o *Observed, p *Pod) standing {
	s := standing{priority: corehelpers.PodPriority(p.Pod)}
	if p.Usage == nil {
		s.unknown = true
		return s
	}

	what := signals[signal].resource
	asked := resources.PodRequests(p.Pod, resources.PodResourcesOptions{})
	var used, requested int64
	switch what {
	case v1.ResourceMemory:
		if p.Usage.Memory != nil {
			used = int64(*p.Usage.Memory)
		}
		requested = asked.Memory().Value()
	case pids:
		s.above = int64(p.Usage.Processes)
		return s
	case v1.ResourceEphemeralStorage:
		used, _ = onDisk(p.Usage, placesOf(signal, o))
		requested = asked.StorageEphemeral().Value()
	case inodes:
		_, used = onDisk(p.Usage, placesOf(signal, o))
	}
	s.exceeds, s.above = used > requested, used-requested
	return s
}

// places are the kinds of files that count for a file system.
type places struct{ layers, logs, volumes bool }

// placesOf returns what is on the file system of a signal. Logs and volumes are on the node's own.
func placesOf(signal string, o *Observed) places {
	own := places{layers: !o.ImagesApart || o.LayersApart, logs: true, volumes: true}
	switch signal {
	case ImageFsAvailable, ImageFsInodesFree:
		if o.ImagesApart {
			return places{layers: !o.LayersApart}
		}
	case ContainerFsAvailable, ContainerFsInodesFree:
		if o.ImagesApart && !o.LayersApart {
			return places{layers: true}
		}
	}
	return own
}

// onDisk adds up bytes and inodes of a pod in these places.
func onDisk(u *Usage, in places) (bytes, objects int64) {
	for _, c := range u.Containers {
		if in.layers {
			bytes = bytes + int64(known(c.Layer))
			objects = objects + int64(c.LayerObjects)
		}
		if in.logs {
			bytes = bytes + int64(known(c.Logs))
			objects = objects + int64(c.LogObjects)
		}
	}
	for _, v := range u.Volumes {
		if in.volumes {
			bytes = bytes + int64(v.Bytes)
			objects = objects + int64(v.Objects)
		}
	}
	if in.volumes {
		bytes = bytes + int64(u.Files)
		objects = objects + int64(u.FileObjects)
	}
	return bytes, objects
}

// known returns 0 for a number that is not known.
func known(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}
