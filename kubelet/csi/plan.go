package csi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

const (
	// nodeIDAnnotation is where the node's ids by driver are; old versions of external-attacher read it.
	nodeIDAnnotation = "csi.volume.kubernetes.io/nodeid"
	// migratedAnnotation tells the scheduler and the controllers which in-tree types this node serves by CSI drivers.
	migratedAnnotation = "storage.alpha.kubernetes.io/migrated-plugins"
)

// migratedPlugins are the in-tree types whose volumes CSI drivers serve: those of k8s.io/csi-translation-lib, whose
// migration can no longer be switched off in Kubernetes 1.36.
var migratedPlugins = []string{"kubernetes.io/aws-ebs", "kubernetes.io/azure-disk", "kubernetes.io/azure-file",
	"kubernetes.io/cinder",
	"kubernetes.io/gce-pd", "kubernetes.io/portworx-volume", "kubernetes.io/vsphere-volume"}

// entry is what a CSINode says of one driver; gone takes it away.
type entry struct {
	driver string
	info   NodeInfo
	gone   bool
}

func (e entry) String() string {
	if e.gone {
		return "remove driver " + e.driver
	}
	return fmt.Sprintf("driver %s: node %s, topology %v, at most %d volumes", e.driver, e.info.NodeID,
		slices.Sorted(maps.Keys(e.info.Topology)), e.info.MaxVolumes)
}

// planCSINode returns the CSINode as it should be, given what the API has, and false if nothing is to be written.
// Entries of other drivers stay: they may be those of drivers that have not come back yet after a restart. e without a
// driver changes annotations only.
func planCSINode(have *storagev1.CSINode, e entry) (*storagev1.CSINode, bool) {
	want := have.DeepCopy()
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[migratedAnnotation] = strings.Join(union(strings.Split(want.Annotations[migratedAnnotation], ","),
		migratedPlugins), ",")

	at := slices.IndexFunc(want.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == e.driver })
	switch {
	case e.driver == "":
	case e.gone && at >= 0:
		want.Spec.Drivers = slices.Delete(want.Spec.Drivers, at, at+1)
	case !e.gone:
		one := storagev1.CSINodeDriver{Name: e.driver, NodeID: e.info.NodeID,
			TopologyKeys: slices.Sorted(maps.Keys(e.info.Topology))}
		if most := int32(min(e.info.MaxVolumes, 1<<31-1)); most > 0 {
			one.Allocatable = &storagev1.VolumeNodeResources{Count: &most}
		}
		if at >= 0 {
			want.Spec.Drivers[at] = one
		} else {
			want.Spec.Drivers = append(want.Spec.Drivers, one)
		}
	}
	return want, !sameCSINode(have, want)
}

func sameCSINode(a, b *storagev1.CSINode) bool {
	x, _ := json.Marshal(a.Spec)
	y, _ := json.Marshal(b.Spec)
	return string(x) == string(y) && a.Annotations[migratedAnnotation] == b.Annotations[migratedAnnotation]
}

// union returns what is in a or b, sorted, without empty strings.
func union(a, b []string) []string {
	all := slices.DeleteFunc(slices.Concat(a, b), func(s string) bool { return s == "" })
	slices.Sort(all)
	return slices.Compact(all)
}

// planNode returns the patch of the node's labels and annotation for a driver, nil if nothing is to be written. Labels
// of a driver that is gone stay, as with upstream: volumes are placed by them. A topology label that has another value
// is an error: the value of a label may not change under the volumes that are placed by it.
func planNode(have *v1.Node, e entry) ([]byte, error) {
	ids := map[string]string{}
	if text := have.Annotations[nodeIDAnnotation]; text != "" {
		if err := json.Unmarshal([]byte(text), &ids); err != nil {
			return nil, fmt.Errorf("reading annotation %s of node %s: %w", nodeIDAnnotation, have.Name, err)
		}
	}
	before := maps.Clone(ids)
	delete(ids, e.driver)
	labels := map[string]string{}
	if !e.gone {
		ids[e.driver] = e.info.NodeID
		for key, value := range e.info.Topology {
			old, there := have.Labels[key]
			if there && old != value {
				return nil, fmt.Errorf("driver %s says that this node's topology %s is %q, but the node's label is %q",
					e.driver, key, value, old)
			}
			if !there {
				labels[key] = value
			}
		}
	}
	if len(labels) == 0 && maps.Equal(before, ids) {
		return nil, nil
	}

	meta := map[string]any{"labels": labels}
	if !maps.Equal(before, ids) {
		var value any // null takes the annotation away
		if len(ids) > 0 {
			text, err := json.Marshal(ids)
			if err != nil {
				return nil, err
			}
			value = string(text)
		}
		meta["annotations"] = map[string]any{nodeIDAnnotation: value}
	}
	return json.Marshal(map[string]any{"metadata": meta})
}

// checkVersions returns an error unless one of a driver's versions is 1.x (0.x is no longer supported, 2.x not known).
func checkVersions(driver string, versions []string) error {
	for _, v := range versions {
		if major, _, _ := strings.Cut(strings.TrimPrefix(v, "v"), "."); major == "1" {
			return nil
		}
	}
	return fmt.Errorf("CSI driver %s supports only the versions %v, none of which is 1.x", driver, versions)
}
