package volume

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/kubelet/volume/sources"
)

// notSupported are the fields of v1.VolumeSource that have no kind, and a part of what the event says in their place:
// a pod with such a volume does not start. A new field of the API belongs here or gets a kind.
var notSupported = map[string]string{
	// What upstream's kubelet mounts itself.
	"NFS": "install a CSI driver (nfs.csi.k8s.io)", "ISCSI": "install a CSI driver (iscsi.csi.k8s.io)",
	"FC":         "install a CSI driver",
	"FlexVolume": "install a CSI driver",
	// Removed upstream.
	"CephFS": "cephfs.csi.ceph.com", "RBD": "rbd.csi.ceph.com", "Quobyte": "csi.quobyte.com",
	"ScaleIO":   "csi-vxflexos.dellemc.com",
	"StorageOS": "install a CSI driver", "Flocker": "gone from Kubernetes", "Glusterfs": "gone from Kubernetes",
	"PhotonPersistentDisk": "gone from Kubernetes",
	"GitRepo":              "in an init container",
}

// TestVolumeSources asks of every field of v1.VolumeSource that it has exactly one kind, or is listed as not supported
// and fails with a text that says what to use.
// Row 1.95.
func TestVolumeSources(t *testing.T) {
	m := newTestManager(t, newObjects())
	all := reflect.TypeFor[v1.VolumeSource]()
	for i := range all.NumField() {
		field := all.Field(i)
		v := v1.Volume{Name: "v"}
		reflect.ValueOf(&v.VolumeSource).Elem().Field(i).Set(reflect.New(field.Type.Elem()))
		found := 0
		for _, k := range kinds {
			if k.of(&v) {
				found++
			}
		}

		want, listed := notSupported[field.Name]
		if !listed {
			if found != 1 {
				t.Errorf("a volume of %s is of %d kinds, want 1: give it a kind (kinds.go), or list it in notSupported",
					field.Name, found)
			}
			continue
		}
		if found != 0 {
			t.Errorf("%s is listed as not supported, but has a kind", field.Name)
		}
		err := m.Prepare(context.Background(), podWith(v), Facts{})
		if err == nil || !strings.HasPrefix(err.Error(), `MountVolume.SetUp failed for volume "v" : `) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", field.Name, err, want)
		}
		if at, ok := m.HostPath("uid-1", "v"); ok {
			t.Errorf("%s is at %s", field.Name, at)
		}
	}
	for name := range notSupported {
		if _, ok := all.FieldByName(name); !ok {
			t.Errorf("%s is listed as not supported, but the API does not have it", name)
		}
	}
}

// TestPluginFolders: the folders have upstream's names, so that either kubelet can tear down what the other made, and
// no two kinds share one.
func TestPluginFolders(t *testing.T) {
	var names []string
	for _, k := range kinds {
		if name := k.plugin(); name != "" {
			names = append(names, name)
		}
	}
	want := []string{"kubernetes.io~empty-dir", "kubernetes.io~configmap", "kubernetes.io~secret",
		"kubernetes.io~downward-api", "kubernetes.io~projected"}
	if !slices.Equal(names, want) {
		t.Errorf("folders: %v, want %v", names, want)
	}
}

// TestNeeds: what a pod's files depend on decides what is watched and when they are written again.
func TestNeeds(t *testing.T) {
	pod := podWith(
		cmVolume("cm", "a"),
		vol("secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "b"}}),
		vol("own", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}),
		vol("all", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "c"}}},
			{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "d"}}},
			{DownwardAPI: &v1.DownwardAPIProjection{}},
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{}},
			{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{}},
			{PodCertificate: &v1.PodCertificateProjection{}},
		}}}),
		vol("empty", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}),
		vol("host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}),
		vol("image", v1.VolumeSource{Image: &v1.ImageVolumeSource{}}),
		vol("csi", v1.VolumeSource{CSI: &v1.CSIVolumeSource{}}),
	)
	want := []sources.Need{{Object: sources.ConfigMap, Name: "a"}, {Object: sources.Secret, Name: "b"}, {Pod: true},
		{Object: sources.ConfigMap, Name: "c"}, {Object: sources.Secret, Name: "d"}, {Pod: true}, {Token: true},
		{Object: sources.TrustBundle}, {Object: sources.PodCertificate}}
	if got := needsOf(pod); !slices.Equal(got, want) {
		t.Errorf("needs: %+v, want %+v", got, want)
	}
}

// TestMountsByKind: what the runtime mounts itself is left out, and files that the kubelet writes are read-only.
func TestMountsByKind(t *testing.T) {
	o := newObjects()
	o.setMap("cm", map[string]string{"k": "v"})
	m := newTestManager(t, o)
	base := tempDir(t)
	pod := podWith(cmVolume("cm", "cm"), vol("empty", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}),
		vol("host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: base}}),
		vol("image", v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "i"}}))
	prepare(t, m, pod)
	c := &pod.Spec.Containers[0]
	for _, name := range []string{"host", "image", "cm", "empty"} {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}

	mounts, release, err := m.Mounts(pod, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	var got []string
	for _, one := range mounts {
		name := one.Name
		if one.ReadOnly {
			name += " ro"
		}
		got = append(got, name)
	}
	if want := []string{"host", "cm ro", "empty"}; !slices.Equal(got, want) {
		t.Errorf("mounts: %v, want %v", got, want)
	}
	if at, ok := m.HostPath(pod.UID, "image"); ok {
		t.Errorf("the image is at %s", at)
	}

	var measured []string
	for _, u := range (Measure{m}).Usage(context.Background(), pod.UID) {
		measured = append(measured, u.Name)
		if u.Local != (u.Name == "empty") {
			t.Errorf("%s: local %v", u.Name, u.Local)
		}
	}
	if want := []string{"cm", "empty"}; !slices.Equal(measured, want) {
		t.Errorf("measured: %v, want %v", measured, want)
	}
}

// TestUIDsAreNoPatterns: a name that would stand for the folders of several pods takes away nothing.
func TestUIDsAreNoPatterns(t *testing.T) {
	m := newTestManager(t, newObjects())
	pod := podWith(vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	prepare(t, m, pod)
	for _, uid := range []types.UID{"*", "[a-z]*", "???", "..", "", "a/b"} {
		if err := m.Remove(context.Background(), uid); err == nil {
			t.Errorf("%q was removed", uid)
		}
	}
	if dir, _ := m.HostPath(pod.UID, "e"); dir == "" {
		t.Error("the volume is gone")
	}
}
