package volume

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Folders of upstream's layout: plugins with a ~ for the slash below the pods' folders, and with the slash below the
// kubelet's.
const (
	csiPlugin   = "kubernetes.io~csi"
	localPlugin = "kubernetes.io~local-volume"
)

// places are where the parts of one volume of a driver are for one pod. All but record are upstream's paths.
//
//	files    <root>/pods/<uid>/volumes/kubernetes.io~csi/<name>/{vol_data.json,mount}      record, target
//	         <root>/plugins/kubernetes.io/csi/<driver>/<hash>/{vol_data.json,globalmount}  stageRecord, staging
//	device   <root>/pods/<uid>/plugins/kubernetes.io~csi/<name>/vol_data.json              record (ours)
//	         <root>/pods/<uid>/volumeDevices/kubernetes.io~csi/<name>                      link to the target
//	         <root>/plugins/kubernetes.io/csi/volumeDevices/publish/<name>/<uid>           target
//	         <root>/plugins/kubernetes.io/csi/volumeDevices/staging/<name>                 staging
//	         <root>/plugins/kubernetes.io/csi/volumeDevices/<name>/data/vol_data.json      stageRecord
type places struct {
	record, target, link string
	stageRecord, staging string
}

// kubeletFolder knows where things are below the kubelet's folder.
type kubeletFolder struct{ root string }

func (l kubeletFolder) pod(uid types.UID) string { return filepath.Join(l.root, "pods", string(uid)) }

func (l kubeletFolder) drivers() string {
	return filepath.Join(l.root, "plugins", "kubernetes.io", "csi")
}

func (l kubeletFolder) devices() string { return filepath.Join(l.drivers(), "volumeDevices") }

// escape makes the name of a volume one name of a folder, as upstream does.
func escape(name string) string { return strings.ReplaceAll(name, "/", "~") }

// files returns the places of a volume whose files a pod uses. name is that of the PersistentVolume, or of the pod's
// volume.
func (l kubeletFolder) files(uid types.UID, name, driver, handle string) places {
	own := filepath.Join(l.pod(uid), "volumes", csiPlugin, escape(name))
	shared := filepath.Join(l.drivers(), driver, fmt.Sprintf("%x", sha256.Sum256([]byte(handle))))
	return places{record: filepath.Join(own, recordName), target: filepath.Join(own, "mount"),
		stageRecord: filepath.Join(shared, recordName), staging: filepath.Join(shared, "globalmount")}
}

// device returns the places of a volume that a pod uses as a raw device.
func (l kubeletFolder) device(uid types.UID, name string) places {
	name = escape(name)
	return places{record: filepath.Join(l.pod(uid), "plugins", csiPlugin, name, recordName),
		link:        filepath.Join(l.pod(uid), "volumeDevices", csiPlugin, name),
		target:      filepath.Join(l.devices(), "publish", name, string(uid)),
		stageRecord: filepath.Join(l.devices(), name, "data", recordName),
		staging:     filepath.Join(l.devices(), "staging", name)}
}

// attachmentName is the name of the VolumeAttachment that the controllers make for a volume and a node.
func attachmentName(handle, driver, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}

// uniqueName is what node.status calls a volume that is attached.
func uniqueName(driver, handle string) v1.UniqueVolumeName {
	return v1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + handle)
}

// inlineHandle is the handle that upstream's kubelet gives to a volume that lives as long as its pod.
func inlineHandle(p *v1.Pod, volume string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(p.UID)+volume)))
}
