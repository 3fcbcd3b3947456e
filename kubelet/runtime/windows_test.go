package runtime

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestWindowsSecurity: users, credentials and HostProcess of a pod and of its containers, as upstream's kubelet asks
// for them. Users and labels of Linux do not reach a Windows runtime.
func TestWindowsSecurity(t *testing.T) {
	text := func(s string) *string { return &s }
	yes, user := true, int64(1000)
	group := user
	options := func(o v1.WindowsSecurityContextOptions) *v1.WindowsSecurityContextOptions { return &o }

	for _, c := range []struct {
		name  string
		pod   *v1.WindowsSecurityContextOptions
		own   *v1.WindowsSecurityContextOptions
		image string
		// want is user, credential and HostProcess of the sandbox, then of the container.
		want string
	}{
		{"nothing", nil, nil, "", "|||||"},
		{"the image's user", nil, nil, "ContainerUser", "|||ContainerUser||"},
		{"the pod's user", options(v1.WindowsSecurityContextOptions{RunAsUserName: text("A")}), nil, "ContainerUser",
			"A|||A||"},
		{"the container's own", options(v1.WindowsSecurityContextOptions{RunAsUserName: text("A")}),
			options(v1.WindowsSecurityContextOptions{RunAsUserName: text("B")}), "", "A|||B||"},
		{"the pod's credential", options(v1.WindowsSecurityContextOptions{GMSACredentialSpec: text("{p}")}), nil, "",
			"|{p}|||{p}|"},
		{"a credential of its own", options(v1.WindowsSecurityContextOptions{GMSACredentialSpec: text("{p}")}),
			options(v1.WindowsSecurityContextOptions{GMSACredentialSpec: text("{c}")}), "", "|{p}|||{c}|"},
		{"a name that nobody has resolved", options(v1.WindowsSecurityContextOptions{GMSACredentialSpec: text("{p}")}),
			options(v1.WindowsSecurityContextOptions{GMSACredentialSpecName: text("n")}), "", "|{p}||||"},
		{"HostProcess of the pod",
			options(v1.WindowsSecurityContextOptions{HostProcess: &yes, RunAsUserName: text(`NT AUTHORITY\SYSTEM`)}),
			nil, "", `NT AUTHORITY\SYSTEM||host|NT AUTHORITY\SYSTEM||host`},
		{"HostProcess of the container", nil, options(v1.WindowsSecurityContextOptions{HostProcess: &yes}), "",
			"||host|||host"},
	} {

		p := &v1.Pod{Spec: v1.PodSpec{HostNetwork: true, Containers: []v1.Container{{Name: "c"}},
			SecurityContext: &v1.PodSecurityContext{WindowsOptions: c.pod, RunAsUser: &user, RunAsGroup: &group,
				FSGroup: &group, SELinuxOptions: &v1.SELinuxOptions{Level: "s0"}}}}
		if c.own != nil {
			p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{WindowsOptions: c.own}
		}
		o := Options{Windows: true, CPUs: 4}
		box := sandboxOf(t, o, SandboxSpec{Pod: p})
		cfg, err := o.containerConfig(ContainerSpec{Sandbox: SandboxSpec{Pod: p}, Container: &p.Spec.Containers[0],
			ImageUser: ImageUser{Name: c.image}})
		if err != nil {
			t.Fatal(err)
		}

		flag := map[bool]string{true: "host"}
		b, own := box.Windows.SecurityContext, cfg.Windows.SecurityContext
		got := strings.Join([]string{b.RunAsUsername, b.CredentialSpec, flag[b.HostProcess], own.RunAsUsername,
			own.CredentialSpec, flag[own.HostProcess]}, "|")
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if l := box.Linux.SecurityContext; l.RunAsUser != nil || l.RunAsGroup != nil || len(l.SupplementalGroups) > 0 ||
			l.SelinuxOptions != nil || cfg.Linux != nil {
			t.Errorf("%s: the runtime is told of Linux users: %v", c.name, l)
		}
	}
}

// TestWindowsNonRoot: which field the refusal names, in upstream's words.
func TestWindowsNonRoot(t *testing.T) {
	yes, admin := true, "CONTAINERADMINISTRATOR"
	for _, c := range []struct{ asked, image, want string }{
		{"", "", ""},
		{"", "ContainerUser", ""},
		{"", "ContainerAdministrator",
			"container's runAsUser (ContainerAdministrator) which will be regarded as root identity and will break non-root policy"},
		{admin, "ContainerUser",
			"container's runAsUserName (CONTAINERADMINISTRATOR) which will be regarded as root identity and will break non-root policy"},
		{"ContainerUser", "ContainerAdministrator", ""},
	} {
		p := &v1.Pod{Spec: v1.PodSpec{SecurityContext: &v1.PodSecurityContext{RunAsNonRoot: &yes},
			Containers: []v1.Container{{Name: "c"}}}}
		if c.asked != "" {
			p.Spec.SecurityContext.WindowsOptions = &v1.WindowsSecurityContextOptions{RunAsUserName: &c.asked}
		}
		err := checkNonRoot(p, &p.Spec.Containers[0], ImageUser{Name: c.image}, true)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("asked for %q, image %q: %v, want %q", c.asked, c.image, err, c.want)
		}
	}
}

// TestWindowsResources: CPU limits are a share of all processors, in hundredths of a percent; requests are not sent.
func TestWindowsResources(t *testing.T) {
	limits := func(cpu, memory string) *v1.Container {
		c := &v1.Container{Resources: v1.ResourceRequirements{Limits: v1.ResourceList{}}}
		if cpu != "" {
			c.Resources.Limits[v1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			c.Resources.Limits[v1.ResourceMemory] = resource.MustParse(memory)
		}
		return c
	}
	for _, c := range []struct {
		container       *v1.Container
		maximum, memory int64
	}{
		{limits("", ""), 0, 0},
		{limits("1", "64Mi"), 2500, 64 << 20},
		{limits("1m", ""), 2, 0},
		{limits("8", ""), 10000, 0},
	} {
		if got := windowsResources(c.container, 4); got.CpuMaximum != c.maximum || got.MemoryLimitInBytes != c.memory ||
			got.CpuShares != 0 || got.CpuCount != 0 {
			t.Errorf("limits %v: %v, want %d and %d", c.container.Resources.Limits, got, c.maximum, c.memory)
		}
	}
}
