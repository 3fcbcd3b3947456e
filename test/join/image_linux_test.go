package join

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
)

const pauseImage = "registry.k8s.io/pause:3.10.2"

// ourVersion is that of the Kubernetes whose kubelet we are.
const ourVersion = "v1.36.3"

// controlPlaneImages are the names that `kubeadm config images list` prints for v1.36.3, for the programs of
// bundle/controlplane.
var controlPlaneImages = []string{"registry.k8s.io/kube-apiserver:v1.36.3",
	"registry.k8s.io/kube-controller-manager:v1.36.3",
	"registry.k8s.io/kube-scheduler:v1.36.3", "registry.k8s.io/etcd:3.6.8-0", "registry.k8s.io/kube-proxy:v1.36.3"}

// imagesOf are the names that another version of kubeadm prints, for its programs.
func imagesOf(m *machine, version string) (list []string) {
	m.t.Helper()
	for _, name := range strings.Fields(m.ok(m.kubeadm, "kubeadm", "config", "images", "list", "--kubernetes-version",
		version)) {
		if !strings.Contains(name, "/coredns") && !strings.Contains(name, "/pause") {
			list = append(list, name)
		}
	}
	return list
}

// programNames are links to one file in those images.
var programNames = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "kube-proxy"}

// importImage makes an image of one program under several names, with links to it, and puts it into a containerd.
func (m *machine) importImage(program string, links, refs []string) {
	m.t.Helper()
	m.load(imageArchive(m.t, program, links, refs))
}

// load imports an archive of images into a machine's containerd, as `ctr images import` does, and returns their names.
func (m *machine) load(archive []byte) (names []string) {
	m.t.Helper()
	client, err := containerd.New(filepath.Join(m.dir, "c", "containerd.sock"))
	must(m.t, err)
	defer client.Close()
	ctx := namespaces.WithNamespace(context.Background(), "k8s.io")
	images, err := client.Import(ctx, bytes.NewReader(archive))
	must(m.t, err)
	for _, i := range images {
		must(m.t, containerd.NewImage(client, i).Unpack(ctx, ""))
		names = append(names, i.Name)
	}
	return names
}

func imageArchive(t testing.TB, program string, links, refs []string) []byte {
	t.Helper()
	data, err := os.ReadFile(program)
	must(t, err)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	name := "usr/local/bin/" + links[0]
	for _, dir := range []string{"usr/", "usr/local/", "usr/local/bin/", "etc/", "var/", "var/lib/"} {
		must(t, w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}))
	}
	must(t, w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}))
	must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}))
	_, err = w.Write(data)
	must(t, err)
	for _, l := range links[1:] {
		must(t,
			w.WriteHeader(&tar.Header{Name: "usr/local/bin/" + l, Typeflag: tar.TypeLink, Linkname: name, Mode: 0o755}))
	}
	must(t, w.Close())

	sum := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	config, err := json.Marshal(map[string]any{"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/" + name},
			"Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + sum(layer.Bytes())}}})
	must(t, err)
	manifest, err := json.Marshal(
		[]map[string]any{{"Config": sum(config) + ".json", "RepoTags": refs, "Layers": []string{"layer.tar"}}})
	must(t, err)

	var out bytes.Buffer
	a := tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		data []byte
	}{{"layer.tar", layer.Bytes()}, {sum(config) + ".json", config}, {"manifest.json", manifest}} {
		must(t, a.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.data))}))
		_, err := a.Write(f.data)
		must(t, err)
	}
	must(t, a.Close())
	return out.Bytes()
}
