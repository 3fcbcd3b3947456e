package volume

import (
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/volume/steps"
)

// deviceKey names one volume of a driver.
type deviceKey struct{ driver, handle string }

func (k deviceKey) String() string { return k.driver + "^" + k.handle }

// device is what the node has of one volume of a driver, however many pods use it.
type device struct {
	deviceKey
	attach bool
	// staged is where it is staged, by the path of the record; empty if it is not. A driver stages a volume once, but
	// files and raw devices have different places.
	staged map[string]string
	// users are the records of pods that use it; true if the pod has it, or is being given it.
	users map[string]bool
}

func (d *device) unused() bool { return len(d.users) == 0 && len(d.staged) == 0 }

// devices are the volumes of drivers that this node has, as the records on its disk say. It is safe for concurrent use.
type devices struct {
	kubeletFolder kubeletFolder
	read          sync.Once

	mu  sync.Mutex
	all map[deviceKey]*device
}

// load reads the records that an earlier kubelet left. It does so once, and then nothing.
func (d *devices) load() {
	d.read.Do(func() {
		pods := filepath.Join(d.kubeletFolder.root, "pods", "*")
		used, _ := filepath.Glob(filepath.Join(pods, "volumes", csiPlugin, "*", recordName))
		usedDevices, _ := filepath.Glob(filepath.Join(pods, "plugins", csiPlugin, "*", recordName))
		for _, path := range slices.Concat(used, usedDevices) {
			if r, ok, err := readRecord(path); err == nil && ok {
				d.use(r, path)
			}
		}

		staged, _ := filepath.Glob(filepath.Join(d.kubeletFolder.drivers(), "*", "*", recordName))
		for _, path := range staged {
			if r, ok, err := readRecord(path); err == nil && ok {
				d.stage(r, path, filepath.Join(filepath.Dir(path), "globalmount"))
			}
		}
		stagedDevices, _ := filepath.Glob(filepath.Join(d.kubeletFolder.devices(), "*", "data", recordName))
		for _, path := range stagedDevices {
			if r, ok, err := readRecord(path); err == nil && ok {
				name := filepath.Base(filepath.Dir(filepath.Dir(path)))
				d.stage(r, path, filepath.Join(d.kubeletFolder.devices(), "staging", name))
			}
		}
	})
}

// get returns a device, made if there is none. The caller holds d.mu.
func (d *devices) get(r record) *device {
	key := deviceKey{r.Driver, r.Handle}
	if d.all == nil {
		d.all = map[deviceKey]*device{}
	}
	one := d.all[key]
	if one == nil {
		one = &device{deviceKey: key, users: map[string]bool{}, staged: map[string]string{}}
		d.all[key] = one
	}
	// A record of upstream's kubelet does not say whether the volume is attached. To name one as used that is not
	// attached does no harm.
	one.attach = one.attach || r.Attach == "true" || r.State == "" && r.Lifecycle != string(lifecycleEphemeral)
	return one
}

// use notes that the pod of a record uses a volume.
func (d *devices) use(r record, path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.get(r)
	one.users[path] = one.users[path] || r.reached(r.Boot) != steps.Awaited
}

// stage notes that a volume is, or may be, staged.
func (d *devices) stage(r record, path, staging string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.get(r).staged[path] = staging
}

// forget drops a record, of a pod or of the staging.
func (d *devices) forget(key deviceKey, path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.all[key]
	if one == nil {
		return
	}
	delete(one.users, path)
	delete(one.staged, path)
	if one.unused() {
		delete(d.all, key)
	}
}

// others reports whether a pod other than that of the record uses the volume.
func (d *devices) others(key deviceKey, path string) bool {
	d.load()
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.all[key]
	if one == nil {
		return false
	}
	_, own := one.users[path]
	return len(one.users) > 1 || len(one.users) == 1 && !own
}

// hold notes that the pod of a record, which uses the volume, is being given it.
func (d *devices) hold(key deviceKey, path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.all[key]; one != nil {
		if _, uses := one.users[path]; uses {
			one.users[path] = true
		}
	}
}

// held reports whether a pod other than that of the record has the volume, or is being given it.
func (d *devices) held(key deviceKey, path string) bool {
	d.load()
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

// orphans lists the volumes that are staged and that no pod uses.
func (d *devices) orphans() (out []device) {
	d.load()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.all {
		if len(one.users) == 0 {
			staged := map[string]string{}
			for path, at := range one.staged {
				staged[path] = at
			}
			out = append(out, device{deviceKey: one.deviceKey, staged: staged})
		}
	}
	return out
}

// inUse lists the attached volumes that must not be detached from the node, sorted.
func (d *devices) inUse() (names []v1.UniqueVolumeName) {
	d.load()
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, one := range d.all {
		if one.attach {
			names = append(names, uniqueName(key.driver, key.handle))
		}
	}
	slices.Sort(names)
	return names
}

// nodeView is what the API says of the volumes of this node. It is safe for concurrent use.
type nodeView struct {
	mu              sync.Mutex
	attached, inUse map[v1.UniqueVolumeName]bool
	changed         chan struct{} // closed at a change, and then replaced
}

// observe takes a version of the node.
func (n *nodeView) observe(node *v1.Node) {
	attached, inUse := map[v1.UniqueVolumeName]bool{}, map[v1.UniqueVolumeName]bool{}
	for _, a := range node.Status.VolumesAttached {
		attached[a.Name] = true
	}
	for _, name := range node.Status.VolumesInUse {
		inUse[name] = true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.attached, n.inUse = attached, inUse
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// of returns what is known of one volume, and what is closed when there may be news.
func (n *nodeView) of(name v1.UniqueVolumeName) (attached, inUse bool, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.attached[name], n.inUse[name], n.changed
}
