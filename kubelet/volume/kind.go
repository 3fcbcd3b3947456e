package volume

import (
	"context"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/volume/disk"
	"porthole.dev/porthole/kubelet/volume/measure"
	"porthole.dev/porthole/kubelet/volume/sources"
	"porthole.dev/porthole/kubelet/volume/storage"
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
	// usage measures the volume, until ctx ends. It returns false if the volume's content is not the pod's.
	usage(ctx context.Context, j job) (measure.Usage, bool)
	// teardown undoes what is mounted at dir, the folder of a volume of this kind. It may be called again, also by a
	// process that did not prepare the volume; files and folders are removed afterwards.
	teardown(ctx context.Context, dir string) error
}

// checked are kinds whose volumes can go away while the pod lives, without anybody's telling the kubelet.
type checked interface {
	// beforeStart reports whether the volume is still as it should be. It is called before each start of a container
	// that mounts it.
	beforeStart(j job) error
}

// job is one volume of one pod that something is done with, and what its kind may use for that.
type job struct {
	pod    *v1.Pod
	facts  Facts // only for prepare
	volume *v1.Volume

	volumes string // the folder with the pod's volumes, each at <plugin>/<name>
	windows bool   // the node's system
	storage *storage.Volumes
	from    sources.API // its parts for tokens and certificates are only for prepare
}

// group returns the group that shall own the volume (fsGroup), nil if the pod names none.
func (j job) group() *int64 {
	if sc := j.pod.Spec.SecurityContext; sc != nil {
		return sc.FSGroup
	}
	return nil
}

// inFolder is the common part of kinds whose volumes are folders below the pod's folder. Its value is the name of the
// plugin.
type inFolder string

func (k inFolder) plugin() string { return string(k) }

func (k inFolder) path(j job) (string, error) { return k.dir(j), nil }

func (k inFolder) dir(j job) string {
	return filepath.Join(j.volumes, string(k), j.volume.Name)
}

// usage measures the file system of a volume that has one of its own, else the files in its folder.
func (k inFolder) usage(ctx context.Context, j job) (measure.Usage, bool) {
	u, own := measure.FileSystem(k.dir(j))
	if !own {
		u = measure.Files(ctx, k.dir(j))
	}
	return u, true
}

func (k inFolder) teardown(_ context.Context, dir string) error { return disk.UnmountAll(dir) }

// noFolder is the common part of kinds whose volumes have no folder below the pod's folder.
type noFolder struct{}

func (noFolder) plugin() string { return "" }

func (noFolder) usage(context.Context, job) (measure.Usage, bool) { return measure.Usage{}, false }

func (noFolder) teardown(context.Context, string) error { return nil }
