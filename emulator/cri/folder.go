package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/guest"
)

// folder holds what belongs to one container:
//
//	record.json       what the kubelet asked for
//	lower             the layers of C:, one path a line, top first
//	c/{upper,work,merged}
//	prefix/           registry files and drive letters
//	tmp/              for Wine
type folder struct{ dir string }

// record is kept so that a status shows what was asked for, in Windows terms, and a start can be done at any time.
type record struct {
	Mounts    []*runtimeapi.Mount                   `json:"mounts,omitempty"`
	Resources *runtimeapi.WindowsContainerResources `json:"resources,omitempty"`
	Command   []string                              `json:"command"`
	Dir       string                                `json:"dir"`
	Path      string                                `json:"path,omitempty"`
	Log       string                                `json:"log,omitempty"`
	Name      string                                `json:"name,omitempty"`
	// User is the user that the kubelet asked for; empty: the image's.
	User string `json:"user,omitempty"`
	// StartError is why the container could not be started, with the text of containerd on Windows.
	StartError string `json:"startError,omitempty"`
	// Mismatch is true if the host does not run the image's build of Windows.
	Mismatch bool `json:"mismatch,omitempty"`
}

var validKey = regexp.MustCompile(`^[0-9a-f-]{36}$`)

// folder of the container with this key. A key that is not one of ours gives a folder that never exists.
func (s *Server) folder(key string) folder {
	if !validKey.MatchString(key) {
		key = "invalid"
	}
	return folder{filepath.Join(s.o.containersDir(), key)}
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f folder) driveC() string { return f.path("c/merged") }

// create makes the folder of a new container: an empty upper layer for C:, and a registry of its own, of which add says
// what is appended to which file.
func (f folder) create(template string, lower []string, add map[string]string) error {
	for _, dir := range []string{"c/upper", "c/work", "c/merged"} {
		if err := os.MkdirAll(f.path(dir), 0o755); err != nil {
			return err
		}
	}

	if err := guest.MakePrefix(f.dir, template, add); err != nil {
		return err
	}
	return os.WriteFile(f.path("lower"), []byte(strings.Join(lower, "\n")), 0o644)
}

func (f folder) save(r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(f.path("record.json"), data, 0o644)
}

func (f folder) load() (record, error) {
	var r record
	data, err := os.ReadFile(f.path("record.json"))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

// exitCode returns the exit code of the container's program. ok is false if the launcher ended before it could write the code.
func (f folder) exitCode() (code int32, ok bool) {
	n, ok := guest.ExitCode(f.path("prefix/exit-code"))
	return int32(n), ok
}

// mount makes C: if it is not there already; after the machine was started again it is not.
func (f folder) mount() error {
	lower, err := os.ReadFile(f.path("lower"))
	if err != nil {
		return fmt.Errorf("mounting C: of a container: %w", err)
	}
	return guest.Mount(f.driveC(), strings.Split(string(lower), "\n"), f.path("c/upper"), f.path("c/work"))
}

// imageOfHostProcess is where a HostProcess container finds the files of its image (kubernetes.io, Create a Windows HostProcess Pod;
// containerd from 1.7 on).
const imageOfHostProcess = `C:\hpc`

// showImage makes that folder. The image's files are at the root of the C: that the container has here, so it is a link to the root;
// an image that has such a folder keeps it.
func (f folder) showImage() error {
	err := os.Symlink(".", filepath.Join(f.driveC(), "hpc"))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}

// remove unmounts C: and deletes the folder. Absent is success.
func (f folder) remove() error {
	if err := guest.Unmount(f.driveC()); err != nil {
		return fmt.Errorf("unmounting C: of a container: %w", err)
	}
	if err := os.RemoveAll(f.dir); err != nil {
		return fmt.Errorf("removing a container's folder: %w", err)
	}
	return nil
}

// sweepAge is how old a folder without a container must be: a younger one may belong to a container being made.
const sweepAge = 2 * time.Minute

// sweep removes the folders of containers that are gone, which a kill between two steps can leave. If containerd
// cannot say which there are, nothing is removed.
func (s *Server) sweep(ctx context.Context) error {
	entries, err := os.ReadDir(s.o.containersDir())
	if err != nil || len(entries) == 0 {
		return err
	}
	list, err := s.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return fmt.Errorf("listing containers: %w", err)
	}

	known := map[string]bool{}
	for _, c := range list.Containers {
		known[c.Annotations[keyAnnotation]] = true
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || known[e.Name()] || !validKey.MatchString(e.Name()) || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		if err := s.folder(e.Name()).remove(); err != nil {
			return err
		}
		klog.FromContext(ctx).Info("Removed the folder of a container that is gone", "container", e.Name())
	}
	return nil
}

// Unmount takes away the mounts of all containers of a host, for when the host is deleted. Its containers must have
// been stopped.
func Unmount(hostDir string) error {
	entries, err := os.ReadDir(Options{HostDir: hostDir}.containersDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var all []error
	for _, e := range entries {
		all = append(all, guest.Unmount(filepath.Join(Options{HostDir: hostDir}.containersDir(), e.Name(), "c/merged")))
	}
	return errors.Join(all...)
}
