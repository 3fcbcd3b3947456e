package cri

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func descriptor(name, os, arch, version string) v1.Descriptor {
	return v1.Descriptor{Digest: digest.FromString(name), Platform: &v1.Platform{OS: os, Architecture: arch, OSVersion: version}}
}

// TestSelectManifest: the choice is containerd's, its oddities included.
func TestSelectManifest(t *testing.T) {
	linux := descriptor("linux", "linux", "amd64", "")
	w2019 := descriptor("2019", "windows", "amd64", "10.0.17763.7314")
	w2022old := descriptor("2022old", "windows", "amd64", "10.0.20348.99")
	w2022 := descriptor("2022", "windows", "amd64", "10.0.20348.3695")
	w2025 := descriptor("2025", "windows", "amd64", "10.0.26100.4061")
	arm := descriptor("arm", "windows", "arm64", "10.0.20348.3695")
	anyBuild := descriptor("any", "windows", "amd64", "")
	lookalike := descriptor("lookalike", "windows", "amd64", "10.0.2034.1")
	unnamed := v1.Descriptor{Digest: digest.FromString("unnamed")}
	cases := map[string]struct {
		of    []v1.Descriptor
		build int
		want  v1.Descriptor // empty: none
	}{
		"the build of the host":        {[]v1.Descriptor{linux, w2019, arm, w2022}, 20348, w2022},
		"revisions compare as text":    {[]v1.Descriptor{w2022, w2022old}, 20348, w2022old},
		"no version is any build":      {[]v1.Descriptor{linux, anyBuild}, 26100, anyBuild},
		"a version before none":        {[]v1.Descriptor{anyBuild, w2022}, 20348, w2022},
		"2022 on 2025":                 {[]v1.Descriptor{linux, w2019, w2022}, 26100, w2022},
		"2025 before 2022 on 2025":     {[]v1.Descriptor{w2022, w2025}, 26100, w2025},
		"2019 on 2022":                 {[]v1.Descriptor{linux, w2019}, 20348, v1.Descriptor{}},
		"2025 on 2022":                 {[]v1.Descriptor{w2025}, 20348, v1.Descriptor{}},
		"2022 on 2019":                 {[]v1.Descriptor{w2022, w2025}, 17763, v1.Descriptor{}},
		"a prefix is not enough":       {[]v1.Descriptor{lookalike}, 20348, v1.Descriptor{}},
		"no platform: the last choice": {[]v1.Descriptor{unnamed, w2022}, 20348, w2022},
		"no platform only":             {[]v1.Descriptor{w2019, unnamed}, 20348, unnamed},
		"nothing":                      {nil, 20348, v1.Descriptor{}},
	}

	for name, c := range cases {
		got, ok := selectManifest(c.of, Options{Arch: "amd64", Build: c.build}.matcher())
		if ok != (c.want.Digest != "") || got.Digest != c.want.Digest {
			t.Errorf("%s: got %v, %v", name, got.Platform, ok)
		}
	}
}

func TestLinuxResources(t *testing.T) {
	cases := map[string]struct {
		windows       *runtimeapi.WindowsContainerResources
		cpus          int
		quota, memory int64
	}{
		"none":                     {nil, 2, 0, 0},
		"half of two CPUs":         {&runtimeapi.WindowsContainerResources{CpuMaximum: 5000}, 2, 100_000, 0},
		"all":                      {&runtimeapi.WindowsContainerResources{CpuMaximum: 10000}, 2, 0, 0},
		"the smallest share":       {&runtimeapi.WindowsContainerResources{CpuMaximum: 1}, 2, 1_000, 0},
		"one of four CPUs":         {&runtimeapi.WindowsContainerResources{CpuCount: 1}, 4, 100_000, 0},
		"maximum wins over count":  {&runtimeapi.WindowsContainerResources{CpuCount: 1, CpuMaximum: 5000}, 4, 200_000, 0},
		"memory, and no swap":      {&runtimeapi.WindowsContainerResources{MemoryLimitInBytes: 64 << 20}, 2, 0, 64 << 20},
		"more CPUs than there are": {&runtimeapi.WindowsContainerResources{CpuCount: 8}, 2, 0, 0},
	}
	for name, c := range cases {
		got := linuxResources(c.windows, c.cpus)
		if got.CpuQuota != c.quota || got.MemoryLimitInBytes != c.memory || got.MemorySwapLimitInBytes != c.memory {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestCommandOf(t *testing.T) {
	image := v1.ImageConfig{Entrypoint: []string{`C:\app.exe`}, Cmd: []string{"serve"}}
	cases := map[string]struct {
		command, args, want []string
	}{
		"image":            {nil, nil, []string{`C:\app.exe`, "serve"}},
		"args":             {nil, []string{"a", "b"}, []string{`C:\app.exe`, "a", "b"}},
		"command":          {[]string{"cmd"}, nil, []string{"cmd"}},
		"command and args": {[]string{"cmd"}, []string{"/c", "ver"}, []string{"cmd", "/c", "ver"}},
	}
	for name, c := range cases {
		got, err := commandOf(&runtimeapi.ContainerConfig{Command: c.command, Args: c.args}, image)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := commandOf(&runtimeapi.ContainerConfig{}, v1.ImageConfig{}); err == nil {
		t.Error("no command was accepted")
	}
}

func TestEnvironment(t *testing.T) {
	image := v1.ImageConfig{Env: []string{`PATH=C:\Windows;C:\`, "Mode=image"}}
	c := &runtimeapi.ContainerConfig{Envs: []*runtimeapi.KeyValue{{Key: "MODE", Value: []byte("pod")}, {Key: "WINEPREFIX", Value: []byte("/etc")}}}
	var got []string
	for _, kv := range environment(c, image, Options{Wine: "/w", WineServer: "/s"}) {
		got = append(got, kv.Key+"="+string(kv.Value))
	}
	for _, want := range []string{"MODE=pod", `WINEPATH=C:\Windows;C:\`, "WINEPREFIX=/prefix", "WINELOADER=/w"} {
		if !slices.Contains(got, want) {
			t.Errorf("environment lacks %s: %q", want, got)
		}
	}
	if slices.Contains(got, "Mode=image") {
		t.Error("a variable came twice")
	}
}

func TestRegistryAdditions(t *testing.T) {
	system, user := registryAdditions("a-very-long-pod-name.sub", &runtimeapi.DNSConfig{Servers: []string{"1.1.1.1", "2.2.2.2"}, Searches: []string{"a.example", "b.example"}}, []*runtimeapi.KeyValue{{Key: "Tmp", Value: []byte(`C:\a "b" ü`)}, {Key: "X", Value: []byte("y")}})
	for _, want := range []string{`"Hostname"="a-very-long-pod-name.sub"`, `"ComputerName"="A-VERY-LONG-POD"`, `[System\\CurrentControlSet\\Services\\Tcpip\\Parameters]`,
		`\\Interfaces\\{`, `"SearchList"="a.example,b.example"`, `"NameServer"="1.1.1.1,2.2.2.2"`} {
		if !strings.Contains(system, want) {
			t.Errorf("system hive lacks %s:\n%s", want, system)
		}
	}
	if want := "\n[Environment]\n\"TMP\"=\"C:\\\\a \\\"b\\\" \\x00fc\"\n"; user != want {
		t.Errorf("user hive gets %q, not %q", user, want)
	}
}

func TestWindowsPath(t *testing.T) {
	for _, path := range []string{`C:\a\..\b`, "..", `C:/..`, `D:\x`, `\\server\share`, `\\.\pipe\x`, "C:\\a\x00b"} {
		if got, err := windowsPath("/c", path); err == nil {
			t.Errorf("%q was accepted as %s", path, got)
		}
	}
	if got, err := windowsPath("/c", `C:\a/b`); err != nil || got != "/c/a/b" {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestRuntimeHandler: an emulated host has containerd's handler for process isolation, and answers as containerd for every other.
func TestRuntimeHandler(t *testing.T) {
	for _, known := range []string{"", processHandler} {
		if got, err := runtimeHandler(known); err != nil || got != "" {
			t.Errorf("handler %q: %q, %v", known, got, err)
		}
	}
	for _, absent := range []string{"runhcs-wcow-hypervisor", "runc"} {
		if _, err := runtimeHandler(absent); err == nil || err.Error() != `failed to get sandbox runtime: no runtime for "`+absent+`" is configured` {
			t.Errorf("handler %q: %v", absent, err)
		}
	}
}
