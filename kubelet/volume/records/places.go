package records

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
	CSIPlugin   = "kubernetes.io~csi"
	LocalPlugin = "kubernetes.io~local-volume"
)

// Places are where the parts of one volume of a driver are for one pod. All but the Record of a device are upstream's
// paths.
//
//	files    <root>/pods/<uid>/volumes/kubernetes.io~csi/<name>/{vol_data.json,mount}      Record, Target
//	         <root>/plugins/kubernetes.io/csi/<driver>/<hash>/{vol_data.json,globalmount}  StageRecord, Staging
//	device   <root>/pods/<uid>/plugins/kubernetes.io~csi/<name>/vol_data.json              Record (ours)
//	         <root>/pods/<uid>/volumeDevices/kubernetes.io~csi/<name>                      Link to Target
//	         <root>/plugins/kubernetes.io/csi/volumeDevices/publish/<name>/<uid>           Target
//	         <root>/plugins/kubernetes.io/csi/volumeDevices/staging/<name>                 Staging
//	         <root>/plugins/kubernetes.io/csi/volumeDevices/<name>/data/vol_data.json      StageRecord
type Places struct {
	Record, Target, Link string
	StageRecord, Staging string
}

// Folder knows where things are below the kubelet's folder.
type Folder struct{ Root string }

// Pod returns the folder of a pod.
func (l Folder) Pod(uid types.UID) string { return filepath.Join(l.Root, "pods", string(uid)) }

func (l Folder) drivers() string {
	return filepath.Join(l.Root, "plugins", "kubernetes.io", "csi")
}

func (l Folder) devices() string { return filepath.Join(l.drivers(), "volumeDevices") }

// Escape makes the name of a volume one name of a folder, as upstream does.
func Escape(name string) string { return strings.ReplaceAll(name, "/", "~") }

// Files returns the places of a volume whose files a pod uses. name is that of the PersistentVolume, or of the pod's
// volume.
func (l Folder) Files(uid types.UID, name, driver, handle string) Places {
	own := filepath.Join(l.Pod(uid), "volumes", CSIPlugin, Escape(name))
	shared := filepath.Join(l.drivers(), driver, fmt.Sprintf("%x", sha256.Sum256([]byte(handle))))
	return Places{Record: filepath.Join(own, FileName), Target: filepath.Join(own, "mount"),
		StageRecord: filepath.Join(shared, FileName), Staging: filepath.Join(shared, "globalmount")}
}

// Device returns the places of a volume that a pod uses as a raw device.
func (l Folder) Device(uid types.UID, name string) Places {
	name = Escape(name)
	return Places{Record: filepath.Join(l.Pod(uid), "plugins", CSIPlugin, name, FileName),
		Link:        filepath.Join(l.Pod(uid), "volumeDevices", CSIPlugin, name),
		Target:      filepath.Join(l.devices(), "publish", name, string(uid)),
		StageRecord: filepath.Join(l.devices(), name, "data", FileName),
		Staging:     filepath.Join(l.devices(), "staging", name)}
}

// AttachmentName is the name of the VolumeAttachment that the controllers make for a volume and a node.
func AttachmentName(handle, driver, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}

// UniqueName is what node.status calls a volume that is attached.
func UniqueName(driver, handle string) v1.UniqueVolumeName {
	return v1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + handle)
}

// InlineHandle is the handle that upstream's kubelet gives to a volume that lives as long as its pod.
func InlineHandle(p *v1.Pod, volume string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(p.UID)+volume)))
}
