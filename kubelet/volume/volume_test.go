package volume

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/testkit/wait"
)

func ptr[T any](v T) *T { return &v }

func TestConfigMapIsRewrittenWithinASecond(t *testing.T) {
	o := newObjects()
	o.setMap("cm", map[string]string{"a": "1", "old": "x"})
	m := newTestManager(t, o)
	pod := podWith(cmVolume("v", "cm"))
	prepare(t, m, pod)
	prepare(t, m, pod)
	if got := read(t, m, "v", "a"); got != "1" {
		t.Fatalf("a = %q", got)
	}
	o.setMap("cm", map[string]string{"a": "2", "new": "y"})
	wait.True(t, time.Second, "new content", func() bool {
		return read(t, m, "v", "a") == "2" && read(t, m, "v", "new") == "y" &&
			strings.HasPrefix(read(t, m, "v", "old"), "error")
	})
	if err := m.Teardown(context.Background(), pod.UID); err != nil {
		t.Fatal(err)
	}
	if n := o.watching(); n != 0 {
		t.Errorf("%d watches left after teardown", n)
	}
	if _, ok := m.HostPath(pod.UID, "v"); ok {
		t.Error("volume still there after teardown")
	}
}

func TestANewVersionOfThePodReachesItsVolumes(t *testing.T) {
	m := newTestManager(t, newObjects())
	field := []v1.DownwardAPIVolumeFile{{Path: "labels",
		FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
		{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu",
			Divisor: resource.MustParse("1m")}}}
	pod := podWith(vol("own", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: field}}),
		vol("mixed",
			v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
				Sources: []v1.VolumeProjection{{DownwardAPI: &v1.DownwardAPIProjection{Items: field}}}}}))

	m.Observe(pod) // not prepared: nothing happens
	if _, ok := m.HostPath(pod.UID, "own"); ok {
		t.Error("a volume was made for a pod that was never prepared")
	}
	if err := m.Prepare(context.Background(), pod,
		Facts{Allocatable: v1.ResourceList{"cpu": resource.MustParse("1500m")}}); err != nil {
		t.Fatal(err)
	}

	changed := pod.DeepCopy()
	changed.Labels = map[string]string{"new": "1"}
	m.Observe(changed)
	for _, v := range []string{"own", "mixed"} {
		wait.True(t, time.Second, "new labels in "+v, func() bool { return read(t, m, v, "labels") == `new="1"` })
		if got := read(t, m, v, "cpu"); got != "1500" {
			t.Errorf("%s: cpu %q: what the node allows was forgotten", v, got)
		}
	}
}

func TestShowsChange(t *testing.T) {
	before := podWith()
	before.Labels, before.Annotations, before.Generation = map[string]string{"a": "1"}, map[string]string{"b": "1"}, 1
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		want   bool
	}{
		"status":     {func(p *v1.Pod) { p.Status.Phase, p.ResourceVersion = v1.PodRunning, "7" }, false},
		"label":      {func(p *v1.Pod) { p.Labels["a"] = "2" }, true},
		"annotation": {func(p *v1.Pod) { delete(p.Annotations, "b") }, true},
		"spec":       {func(p *v1.Pod) { p.Generation++ }, true},
	} {
		after := before.DeepCopy()
		if c.change(after); showsChange(before, after) != c.want {
			t.Errorf("another %s: %v, want %v", name, !c.want, c.want)
		}
	}
}

func TestItemsOptionalAndMissing(t *testing.T) {
	o := newObjects()
	o.setMap("cm", map[string]string{"k": "v"})
	m := newTestManager(t, o)
	items := cmVolume("items", "cm")
	items.ConfigMap.Items = []v1.KeyToPath{{Key: "k", Path: "sub/dir/file", Mode: ptr(int32(0o400))}}
	gone := cmVolume("gone", "absent")
	gone.ConfigMap.Optional = ptr(true)
	prepare(t, m, podWith(items, gone))
	if got := read(t, m, "items", "sub/dir/file"); got != "v" {
		t.Errorf("item = %q", got)
	}

	bad, key, up := cmVolume("bad", "absent"), cmVolume("key", "cm"), cmVolume("up", "cm")
	key.ConfigMap.Items = []v1.KeyToPath{{Key: "nokey", Path: "x"}}
	up.ConfigMap.Items = []v1.KeyToPath{{Key: "k", Path: "../x"}}
	pod := podWith(bad, key, up, items)
	pod.UID = "uid-2"
	err := m.Prepare(context.Background(), pod, Facts{})
	failures := Failures(err)
	if len(failures) != 3 {
		t.Fatalf("failures of %v: %d", err, len(failures))
	}
	want := `MountVolume.SetUp failed for volume "bad" : configmaps "absent" not found`
	if got := failures[0].Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, part := range []string{"references non-existent config key: nokey", "must not contain '..'"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

func TestProjected(t *testing.T) {
	o := newObjects()
	o.setMap("kube-root-ca.crt", map[string]string{"ca.crt": "CA"})
	m := newTestManager(t, o)
	tok := &tokens{life: time.Hour}
	m.opts.Tokens = tok
	pod := podWith(vol("api", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr(int64(3607))}},
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "kube-root-ca.crt"},
			Items: []v1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
		{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{
			{Path: "namespace", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.namespace"}},
			{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"}},
		}}},
	}}}))

	prepare(t, m, pod)
	prepare(t, m, pod)
	for path, want := range map[string]string{"token": "tok-1", "ca.crt": "CA", "namespace": "ns",
		"labels": "a=\"x\\\"y\"\nb=\"2\"", "cpu": "0"} {
		if got := read(t, m, "api", path); got != want {
			t.Errorf("%s = %q, want %q", path, got, want)
		}
	}
	if len(tok.asked) != 1 || *tok.asked[0].ExpirationSeconds != 3607 || tok.asked[0].BoundObjectRef.UID != "uid-1" {
		t.Errorf("token requests: %+v", tok.asked)
	}
}

func TestHostPathTypes(t *testing.T) {
	m := newTestManager(t, newObjects())
	base := tempDir(t)
	file := filepath.Join(base, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		path string
		kind v1.HostPathType
		want string // part of the error
	}{
		{base, "", ""},
		{filepath.Join(base, "absent"), "", ""},
		{base, v1.HostPathDirectory, ""},
		{file, v1.HostPathDirectory, "is not a directory"},
		{filepath.Join(base, "x", "y"), v1.HostPathDirectoryOrCreate, ""},
		{filepath.Join(base, "z"), v1.HostPathFileOrCreate, ""},
		{file, v1.HostPathFile, ""},
		{base, v1.HostPathFile, "is not a file"},
		{filepath.Join(base, "absent"), v1.HostPathFile, "is not a file"},
		{file, v1.HostPathSocket, "is not a socket file"},
		{file, v1.HostPathCharDev, "is not a character device"},
		{file, v1.HostPathBlockDev, "is not a block device"},
		{base + "/../x", "", "must not contain '..'"},
	} {

		v := vol("h", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: c.path, Type: &c.kind}})
		err := m.job(nil, podWith(), Facts{}, &v).prepare(context.Background())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s as %q: %v, want %q", c.path, c.kind, err, c.want)
		}
	}
}

// TestHostPathGoesAway: the file or folder of a host path goes away while the pod lives. A container that mounts it
// does not start, and nothing is made in its place, until it is back: a runtime would make a folder there. With a type
// that asks for it, it is made again, as what it was.
func TestHostPathGoesAway(t *testing.T) {
	base := tempDir(t)
	for kind, make := range map[v1.HostPathType]func(path string) error{
		v1.HostPathFile:              func(p string) error { return os.WriteFile(p, nil, 0o600) },
		v1.HostPathDirectory:         func(p string) error { return os.Mkdir(p, 0o700) },
		v1.HostPathFileOrCreate:      nil,
		v1.HostPathDirectoryOrCreate: nil,
	} {
		m := newTestManager(t, newObjects())
		path := filepath.Join(base, string(kind))
		pod := podWith(vol("h", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: &kind}}))
		c := &pod.Spec.Containers[0]
		c.VolumeMounts = []v1.VolumeMount{{Name: "h", MountPath: "/h"}}
		if make != nil {
			if err := make(path); err != nil {
				t.Fatal(err)
			}
		}
		prepare(t, m, pod)
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}

		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		_, release, err := m.Mounts(pod, c, nil)
		release()
		if make != nil {
			if err == nil || !strings.Contains(err.Error(), path+" is not a") {
				t.Errorf("%s: the container starts although it is gone: %v", kind, err)
			}
			if _, err := os.Lstat(path); !os.IsNotExist(err) {
				t.Errorf("%s: something is in its place: %v", kind, err)
			}
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			if _, release, err = m.Mounts(pod, c, nil); err == nil {
				release()
			}
		}
		after, statErr := os.Stat(path)
		if err != nil || statErr != nil || after.IsDir() != before.IsDir() {
			t.Errorf("%s: back again: %v, %v, %v", kind, after, err, statErr)
		}
	}
}

func TestEmptyDirKeepsContentAndTeardownFollowsNothing(t *testing.T) {
	m := newTestManager(t, newObjects())
	pod := podWith(vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	prepare(t, m, pod)
	dir, _ := m.HostPath(pod.UID, "e")
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("kept"), 0o400); err != nil {
		t.Fatal(err)
	}

	outside := tempDir(t)
	precious := filepath.Join(outside, "precious")
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.Symlink(outside, filepath.Join(dir, "link"))

	m.Close()
	again := New(m.opts) // another process
	prepare(t, again, pod)
	if got := read(t, again, "e", "f"); got != "kept" {
		t.Errorf("after restart: %q", got)
	}
	again.Close()

	last := New(m.opts) // a process that never prepared the pod
	if got, ok := last.HostPath(pod.UID, "e"); !ok || got != dir {
		t.Errorf("HostPath from disk: %q %v", got, ok)
	}

	if err := last.Remove(context.Background(), pod.UID); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("teardown followed a link: %v", err)
	}
	if uids, _ := last.OnDisk(); len(uids) != 0 {
		t.Errorf("left on disk: %v", uids)
	}
}

func TestTeardownRefusesStrangeUIDs(t *testing.T) {
	m := newTestManager(t, newObjects())
	for _, uid := range []string{"", ".", "..", "a/b", `a\b`, "C:"} {
		if err := m.Remove(context.Background(), types.UID(uid)); err == nil {
			t.Errorf("%q accepted", uid)
		}
	}
}

func TestHostsContent(t *testing.T) {
	got := string(HostsContent(Hosts{PodIPs: []string{"10.244.1.3"}, HostName: "web-0",
		Domain:  "web.ns.svc.cluster.local",
		Aliases: []v1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a", "b"}}}}))
	for _, want := range []string{"# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n",
		"10.244.1.3\tweb-0.web.ns.svc.cluster.local\tweb-0\n",
		"\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	host := string(HostsContent(Hosts{HostNetwork: true, Node: []byte("9.9.9.9 x\n")}))
	if host != "# Kubernetes-managed hosts file (host network).\n9.9.9.9 x\n" {
		t.Errorf("host network: %q", host)
	}
}
