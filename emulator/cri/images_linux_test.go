package cri_test

import (
	"bytes"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/registry"
	"porthole.dev/porthole/internal/winbuild"
)

// imageTests are the tests of images that are not pulled by name.
type imageTests struct{ *world }

// found looks an image up in the world's registry.
func (w imageTests) found(t *testing.T, name string) *registry.Image {
	t.Helper()
	i, err := registry.Find(w.ctx, name, registry.Options{Mirror: w.mirror})
	must(t, err)
	return i
}

func hostOf(build winbuild.Build) winbuild.Host {
	return winbuild.Host{Version: winbuild.Version{Build: build, Revision: -1}, Architecture: "amd64"}
}

// testMismatch: the platform of an image without an index is not compared at the pull; its container fails when it is started.
func (w imageTests) testMismatch(t *testing.T, p pod) {
	selection, err := w.found(t, "porthole/testapp:ltsc2019").Select(w.ctx, []winbuild.Host{hostOf(winbuild.Server2019)}, winbuild.Process)
	must(t, err)
	name := "porthole/testapp@" + selection.Manifests()[0].String()
	pulled, err := w.images.PullImage(w.ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	must(t, err)

	id, err := w.create(t, p, "mismatch", func(c *runtimeapi.ContainerConfig) { c.Image.Image = pulled.ImageRef }, "env")
	must(t, err)
	_, err = w.runtime.StartContainer(w.ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	if err == nil || !strings.Contains(err.Error(), "The container operating system does not match the host operating system.") {
		t.Errorf("starting it: %v", err)
	}
	w.remove(t, id)
}

// testImport: an archive brings an image under a name that no registry has; one for other builds only is refused.
func (w imageTests) testImport(t *testing.T, p pod) {
	archive := func(name string, build winbuild.Build) []byte {
		i := w.found(t, "porthole/testapp:1")
		i.Name = name
		selection, err := i.Select(w.ctx, []winbuild.Host{hostOf(build)}, winbuild.Process)
		must(t, err)
		var file bytes.Buffer
		must(t, registry.WriteArchive(w.ctx, &file, []*registry.Selection{selection}, nil))
		return file.Bytes()
	}
	const name = "offline.local/app:7"
	must(t, registry.Import(w.ctx, w.conn, bytes.NewReader(archive(name, testBuild)), hostOf(testBuild)))

	spec := &runtimeapi.ImageSpec{Image: name}
	st, err := w.images.ImageStatus(w.ctx, &runtimeapi.ImageStatusRequest{Image: spec})
	must(t, err)
	if st.GetImage() == nil {
		t.Fatal("the image is not there")
	}
	id := w.started(t, p, "imported", func(c *runtimeapi.ContainerConfig) { c.Image = spec }, "env")
	if s := w.exited(t, id); s.ExitCode != 0 || !strings.Contains(w.log(t, id), "PORTHOLE_IMAGE_BUILD=10.0.20348.") {
		t.Errorf("exit code %d:\n%s", s.ExitCode, w.log(t, id))
	}
	w.remove(t, id)

	err = registry.Import(w.ctx, w.conn, bytes.NewReader(archive("offline.local/other:1", winbuild.Server2019)), hostOf(testBuild))
	if err == nil || !strings.Contains(err.Error(), "image might be filtered out: no match for platform in manifest") {
		t.Errorf("an archive for another build: %v", err)
	}
	err = registry.Import(w.ctx, w.conn, strings.NewReader("no archive"), hostOf(testBuild))
	if err == nil {
		t.Error("what is no archive was imported")
	}
}
