package volume

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestMountsOnWindowsNameTheVolume(t *testing.T) {
	m := New(Options{RootDir: `C:\k`})
	m.windows = true
	pod := podWith(vol("data", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/data"}}))
	c := &v1.Container{Name: "c",
		VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "C:/etc/foo", ReadOnly: true}}}
	got, release, err := m.Mounts(pod, c, nil)
	release()
	if err != nil {
		t.Fatal(err)
	}
	want := Mount{Name: "data", HostPath: `C:\data`, ContainerPath: `C:\etc\foo`, ReadOnly: true,
		Propagation: v1.MountPropagationNone}
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, vm := range []v1.VolumeMount{
		{Name: "data", MountPath: `C:\x\..\..\y`}, {Name: "data", MountPath: `C:\x`, SubPath: `..\y`},
		{Name: "data", MountPath: `C:\x`, SubPathExpr: "$(NOPE)"}, {Name: "data", MountPath: `C:\x:y`},
	} {
		c.VolumeMounts = []v1.VolumeMount{vm}
		if _, _, err := m.Mounts(pod, c, nil); err == nil || !strings.Contains(err.Error(), `"data"`) {
			t.Errorf("%+v: %v", vm, err)
		}
	}
}
