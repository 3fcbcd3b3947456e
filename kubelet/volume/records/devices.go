package records

import (
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"porthole.dev/porthole/kubelet/volume/steps"
)

// DeviceKey names one volume of a driver.
type DeviceKey struct{ Driver, Handle string }

func (k DeviceKey) String() string { return k.Driver + "^" + k.Handle }

// Device is what the node has of one volume of a driver, however many pods use it.
type Device struct {
	DeviceKey
	attach bool
	// Staged is where it is staged, by the path of the record; empty if it is not. A driver stages a volume once, but
	// files and raw devices have different places.
	Staged map[string]string
	// users are the records of pods that use it; true if the pod has it, or is being given it.
	users map[string]bool
}

// unused reports whether neither a pod nor a staging folder needs the device.
func (d *Device) unused() bool { return len(d.users) == 0 && len(d.Staged) == 0 }

// Devices are the volumes of drivers that this node has, as the records on its disk say. It is safe for concurrent use.
type Devices struct {
	Folder Folder
	read   sync.Once

	mu  sync.Mutex
	all map[DeviceKey]*Device
}

// Load reads the records that an earlier kubelet left. It does so once, and then nothing.
func (d *Devices) Load() {
	d.read.Do(func() {
		pods := filepath.Join(d.Folder.Root, "pods", "*")
		used, _ := filepath.Glob(filepath.Join(pods, "volumes", CSIPlugin, "*", FileName))
		usedDevices, _ := filepath.Glob(filepath.Join(pods, "plugins", CSIPlugin, "*", FileName))
		for _, path := range slices.Concat(used, usedDevices) {
			if r, ok, err := Read(path); err == nil && ok {
				d.Use(r, path)
			}
		}

		staged, _ := filepath.Glob(filepath.Join(d.Folder.drivers(), "*", "*", FileName))
		for _, path := range staged {
			if r, ok, err := Read(path); err == nil && ok {
				d.Stage(r, path, filepath.Join(filepath.Dir(path), "globalmount"))
			}
		}
		stagedDevices, _ := filepath.Glob(filepath.Join(d.Folder.devices(), "*", "data", FileName))
		for _, path := range stagedDevices {
			if r, ok, err := Read(path); err == nil && ok {
				name := filepath.Base(filepath.Dir(filepath.Dir(path)))
				d.Stage(r, path, filepath.Join(d.Folder.devices(), "staging", name))
			}
		}
	})
}

// get returns a device, made if there is none. The caller holds d.mu.
func (d *Devices) get(r Record) *Device {
	key := r.Key()
	if d.all == nil {
		d.all = map[DeviceKey]*Device{}
	}
	one := d.all[key]
	if one == nil {
		one = &Device{DeviceKey: key, users: map[string]bool{}, Staged: map[string]string{}}
		d.all[key] = one
	}
	// A record of upstream's kubelet does not say whether the volume is attached. To name one as used that is not
	// attached does no harm.
	one.attach = one.attach || r.Attach == "true" ||
		r.State == "" && r.Lifecycle != string(storagev1.VolumeLifecycleEphemeral)
	return one
}

// Use notes that the pod of a record uses a volume.
func (d *Devices) Use(r Record, path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.get(r)
	one.users[path] = one.users[path] || r.Reached(r.Boot) != steps.Awaited
}

// Stage notes that a volume is, or may be, staged.
func (d *Devices) Stage(r Record, path, staging string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.get(r).Staged[path] = staging
}

// Forget drops a record, of a pod or of the staging.
func (d *Devices) Forget(key DeviceKey, path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.all[key]
	if one == nil {
		return
	}
	delete(one.users, path)
	delete(one.Staged, path)
	if one.unused() {
		delete(d.all, key)
	}
}

// Others reports whether a pod other than that of the record uses the volume.
func (d *Devices) Others(key DeviceKey, path string) bool {
	d.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.all[key]
	if one == nil {
		return false
	}
	_, own := one.users[path]
	return len(one.users) > 1 || len(one.users) == 1 && !own
}

// Hold notes that the pod of a record, which uses the volume, is being given it.
func (d *Devices) Hold(key DeviceKey, path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.all[key]; one != nil {
		if _, uses := one.users[path]; uses {
			one.users[path] = true
		}
	}
}

// Held reports whether a pod other than that of the record has the volume, or is being given it.
func (d *Devices) Held(key DeviceKey, path string) bool {
	d.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.all[key]
	if one == nil {
		return false
	}
	for other, has := range one.users {
		if has && other != path {
			return true
		}
	}
	return false
}

// Orphans lists the volumes that are staged and that no pod uses.
func (d *Devices) Orphans() (out []Device) {
	d.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.all {
		if len(one.users) == 0 {
			staged := map[string]string{}
			for path, at := range one.Staged {
				staged[path] = at
			}
			out = append(out, Device{DeviceKey: one.DeviceKey, Staged: staged})
		}
	}
	return out
}

// InUse lists the attached volumes that must not be detached from the node, sorted.
func (d *Devices) InUse() (names []v1.UniqueVolumeName) {
	d.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, one := range d.all {
		if one.attach {
			names = append(names, UniqueName(key.Driver, key.Handle))
		}
	}
	slices.Sort(names)
	return names
}
