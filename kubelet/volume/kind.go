package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
)

// kind is one type of volume. Everything that differs between types is behind it: a new type is a file with a kind, and
// a line in kinds. The methods are safe for concurrent use.
type kind interface {
	// of reports whether v is of this kind.
	of(v *v1.Volume) bool
	// plugin returns the name of the folder that holds the volumes of this kind, below the pod's folder volumes. It is
	// upstream's name of the plugin with a ~ for the slash. It is empty for a kind without a folder there.
	plugin() string
	// path returns where on the node the volume is, or "" if the runtime mounts it without our help.
	path(j job) (string, error)
	// prepare makes the volume ready. It may be called again, and then changes only what is not right. The folder above
	// the volume exists.
	prepare(ctx context.Context, j job) error
	// usage measures the volume. It returns false if the volume's content is not the pod's.
	usage(j job) (Usage, bool)
	// teardown undoes what is mounted at dir, the folder of a volume of this kind. It may be called again, also by a
	// process that did not prepare the volume; files and folders are removed afterwards.
	teardown(ctx context.Context, dir string) error
}

// kinds lists every type of volume that is supported. No volume is of more than one kind.
var kinds = []kind{
	hostPathKind{},
	emptyDirKind{inFolder: "kubernetes.io~empty-dir"},
	configMapKind,
	secretKind,
	downwardKind,
	projectedKind,
	imageKind{},
}

// errNotSupported is what the user of a volume without a kind sees, in the event FailedMount.
var errNotSupported = errors.New("this type of volume is not supported")

// kindOf returns the kind of a volume, nil if its type is not supported.
func kindOf(v *v1.Volume) kind {
	for _, k := range kinds {
		if k.of(v) {
			return k
		}
	}
	return nil
}

// kindAt returns the kind whose volumes are in the folder called plugin. A folder that no kind has, which another
// kubelet may have left, gets a kind that can tear it down.
func kindAt(plugin string) interface {
	teardown(ctx context.Context, dir string) error
} {
	for _, k := range kinds {
		if k.plugin() == plugin {
			return k
		}
	}
	return inFolder(plugin)
}

// job is one volume of one pod that something is done with.
type job struct {
	manager *Manager
	state   *podVolumes // what the manager knows of the pod; nil outside of prepare
	pod     *v1.Pod
	facts   Facts
	volume  *v1.Volume
}

// group returns the group that shall own the volume (fsGroup), nil if the pod names none.
func (j job) group() *int64 {
	if sc := j.pod.Spec.SecurityContext; sc != nil {
		return sc.FSGroup
	}
	return nil
}

// path returns where on the node the volume is, or "" if the runtime mounts it without our help.
func (j job) path() (string, error) {
	k := kindOf(j.volume)
	if k == nil {
		return "", errNotSupported
	}
	return k.path(j)
}

// prepare makes the volume ready, whatever its kind.
func (j job) prepare(ctx context.Context) error {
	if err := checkVolumeName(j.volume.Name); err != nil {
		return err
	}
	k := kindOf(j.volume)
	if k == nil {
		return errNotSupported
	}

	if k.plugin() != "" { // only the kubelet may enter the folder above the volume
		if err := os.MkdirAll(filepath.Join(j.manager.volumesDir(j.pod.UID), k.plugin()), 0o750); err != nil {
			return fmt.Errorf("making volume folder: %w", err)
		}
	}
	return k.prepare(ctx, j)
}

// inFolder is the common part of kinds whose volumes are folders below the pod's folder. Its value is the name of the
// plugin.
type inFolder string

func (k inFolder) plugin() string { return string(k) }

func (k inFolder) path(j job) (string, error) { return k.dir(j), nil }

func (k inFolder) dir(j job) string {
	return filepath.Join(j.manager.volumesDir(j.pod.UID), string(k), j.volume.Name)
}

// usage measures the file system of a volume that has one of its own, else the files in its folder.
func (k inFolder) usage(j job) (Usage, bool) {
	u, own := filesystem(k.dir(j))
	if !own {
		u = tree(k.dir(j))
	}
	return u, true
}

func (k inFolder) teardown(_ context.Context, dir string) error { return unmountAll(dir) }

// noFolder is the common part of kinds whose volumes have no folder below the pod's folder.
type noFolder struct{}

func (noFolder) plugin() string { return "" }

func (noFolder) usage(job) (Usage, bool) { return Usage{}, false }

func (noFolder) teardown(context.Context, string) error { return nil }
