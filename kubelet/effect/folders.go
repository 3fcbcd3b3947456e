package effect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/kubelet/logs"
	"porthole.dev/porthole/kubelet/pod/observed"
	"porthole.dev/porthole/kubelet/volume/disk"
)

// Folders is what pods have on the disk of the node: their own folder, logs, links to these, and the cgroup.
type Folders struct {
	Pods    PodFolders
	Cgroups remover
	Logs    string // the folder of the logs of pods
}

// PodFolders are the folders of all pods, also of those that only an earlier kubelet knew; kubelet/volume implements
// it.
type PodFolders interface {
	OnDisk() ([]types.UID, error)
	Remove(ctx context.Context, uid types.UID) error
	// Sweep gives up volumes of the node that no pod uses. All pods must be known.
	Sweep(ctx context.Context)
}

// remover removes the cgroups of pods; kubelet/cgroup implements it. Removing one that is gone succeeds.
type remover interface {
	RemovePod(uid types.UID) error
}

// Remove removes what a pod that has ended has on disk. The pod's own folder goes last: by it a later kubelet finds
// what this one could not finish.
func (f *Folders) Remove(ctx context.Context, uid types.UID) error {
	// A uid can come from the name of a folder, which a container with that folder mounted can make: it is compared,
	// and is no pattern.
	var err error
	for _, name := range namesOf(f.Logs) {
		if strings.HasSuffix(name, "_"+string(uid)) {
			err = errors.Join(err, disk.RemoveTree(filepath.Join(f.Logs, name)))
		}
	}
	if err = errors.Join(err, f.Cgroups.RemovePod(uid)); err != nil {
		return err
	}
	return f.Pods.Remove(ctx, uid)
}

// RemoveUnknown removes what pods that are not known have left on disk. What fails is tried again at the next full
// check. It returns how many there were, and how many of them failed.
func (f *Folders) RemoveUnknown(ctx context.Context, known func(types.UID) bool) (removed, failed int) {
	uids, err := f.Pods.OnDisk()
	if err != nil {
		klog.FromContext(ctx).Error(err, "Listing the folders of pods failed")
		return 0, 0
	}

	for _, uid := range append(uids, f.logged()...) {
		if known(uid) {
			continue
		}
		removed++
		if err := f.Remove(ctx, uid); err != nil {
			failed++
			klog.FromContext(ctx).Error(err, "Removing the folder of a pod failed", "pod", uid)
		}
	}
	f.Pods.Sweep(ctx)
	f.RemoveDeadLinks()
	return removed, failed
}

// namesOf lists a folder; nothing if it is not there or cannot be read.
func namesOf(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // nothing can be removed then
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// logged returns the pods that have a folder of logs, named <namespace>_<name>_<UID>. A folder with a name that no pod
// has is not ours.
func (f *Folders) logged() (uids []types.UID) {
	entries, err := os.ReadDir(f.Logs)
	if err != nil {
		return nil // the folder does not exist yet, or cannot be read: nothing can be removed
	}
	for _, e := range entries {
		if parts := strings.Split(e.Name(), "_"); e.IsDir() && len(parts) == 3 && parts[2] != "" &&
			!strings.ContainsFunc(parts[2], notInUIDs) {
			uids = append(uids, types.UID(parts[2]))
		}
	}
	return uids
}

// notInUIDs reports whether a character cannot be in the UID of a pod: the API server gives those of RFC 4122, and the
// kubelet makes those of static pods of hexadecimal digits.
func notInUIDs(r rune) bool {
	return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// links is the folder of the symbolic links to logs that log collectors look for. It is beside that of the logs.
func (f *Folders) links() string { return filepath.Join(filepath.Dir(f.Logs), "containers") }

// RemoveDeadLinks removes links to logs of ours that are gone. What cannot be removed now is tried again the next time.
func (f *Folders) RemoveDeadLinks() {
	for _, name := range namesOf(f.links()) {
		link := filepath.Join(f.links(), name)
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, f.Logs) {
			continue
		}
		if _, err := os.Stat(target); errors.Is(err, os.ErrNotExist) {
			_ = os.Remove(link)
		}
	}
}

// removeLog removes the log of a container that the runtime no longer has, and the link to it.
func (f *Folders) removeLog(c observed.Container) error {
	if c.LogPath == "" {
		return nil
	}

	for _, name := range namesOf(f.links()) {
		if strings.HasSuffix(name, "-"+c.ID+".log") {
			_ = os.Remove(filepath.Join(f.links(), name))
		}
	}
	return logs.Remove(c.LogPath)
}

// maxLinkName bounds the name of a link to a log, without its ending, in bytes: file names end at 255.
const maxLinkName = 250

// linkLog makes the symbolic link to a log that log collectors look for. On systems without links it does nothing.
func (f *Folders) linkLog(p *v1.Pod, name string, c observed.Container) {
	dir := f.links()
	if c.LogPath == "" || os.MkdirAll(dir, 0o755) != nil {
		return
	}

	prefix := p.Name + "_" + p.Namespace + "_" + name + "-"
	if len(prefix) > maxLinkName-len(c.ID) {
		prefix = prefix[:maxLinkName-len(c.ID)]
	}
	_ = os.Symlink(c.LogPath, filepath.Join(dir, prefix+c.ID+".log"))
}
