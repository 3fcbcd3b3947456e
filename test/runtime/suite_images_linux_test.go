package runtime

import (
	"net/http"
	"path/filepath"
	"time"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/test/images"
)

// suiteList replaces the names of images that can be replaced. The suite's own client knows no mirrors: it pulls from
// the registry that the name says, without TLS if that is this host.
const suiteList = `alpine = "127.0.0.1:5000/containerd/alpine:3.14.0"
busybox = "127.0.0.1:5000/containerd/busybox:1.36"
pause = "127.0.0.1:5000/pause:3.10.2"
resourceConsumer = "127.0.0.1:5000/e2e-test-images/resource-consumer:1.10"
volumeCopyUp = "127.0.0.1:5000/containerd/volume-copy-up:2.2"
volumeOwnership = "127.0.0.1:5000/containerd/volume-ownership:2.1"
argsEscaped = "127.0.0.1:5000/args-escaped-test-image-ns:1.0"
`

// suiteImages are what the suite names, with the names that its sources have. They are not upstream's, which cannot be
// pulled here.
func suiteImages() []images.Image {
	base := func(layers ...string) *images.Variant {
		return &images.Variant{
			Layers: append([]string{"shell"}, layers...), Dir: `C:\`, User: "ContainerUser",
			Env: []string{`PATH=C:\bin;C:\Windows\System32;C:\Windows;`},
		}
	}
	copyUp, ownership := base("copy-up"), base("ownership")
	copyUp.Volumes, ownership.Volumes = []string{"C:/test_dir", "D:"}, []string{"C:/volumes/test_dir"}
	escaped := base().Starting([]string{`ping -t 127.0.0.1`})
	escaped.ArgsEscaped = true
	shell := func() *images.Variant { return base().Starting([]string{"cmd.exe"}) }

	return []images.Image{
		{Repository: "containerd/alpine", Tags: []string{"3.14.0"}, Windows: shell()},
		{Repository: "containerd/busybox", Tags: []string{"1.36"}, Windows: shell()},
		{Repository: "containerd/windows/nanoserver", Tags: []string{"1809", "ltsc2022"}, Windows: shell()},
		{Repository: "pause", Tags: []string{"3.10.2"}, Windows: base("pause").Starting([]string{`C:\pause.exe`})},
		{Repository: "e2e-test-images/resource-consumer", Tags: []string{"1.10"},
			Windows: base("consumer").Starting([]string{`C:\bin\sleep.exe`, "1000"})},
		{Repository: "containerd/volume-copy-up", Tags: []string{"2.2"}, Windows: copyUp},
		{Repository: "containerd/volume-ownership", Tags: []string{"2.1"}, Windows: ownership},
		{Repository: "args-escaped-test-image-ns", Tags: []string{"1.0"}, Windows: escaped},
		{Repository: "e2eteam/busybox", Tags: []string{"1.29-windows-amd64-1909"}, Windows: base("pause"),
			Versions: []string{"10.0.18363.1556"}},
	}
}

// suiteLayers are what these images are made of. testlimit is a program of testdata.
func suiteLayers(bin, testlimit string) map[string]func(*images.Layer) error {
	windows := func(l *images.Layer) {
		l.Dir("Files", 0o755)
		l.Dir("Hives", 0o755)
	}
	file := func(name, from string) func(*images.Layer) error {
		return func(l *images.Layer) error {
			windows(l)
			l.Dir("Files/bin", 0o755)
			return l.File("Files/"+name, from, 0o755)
		}
	}

	return map[string]func(*images.Layer) error{
		"shell": func(l *images.Layer) error {
			return l.WindowsShell(filepath.Join(bin, "conformance", "windows", "sh.exe"))
		},
		"pause":    file("pause.exe", filepath.Join(bin, "bundle", "images", "windows", "pause.exe")),
		"consumer": file("bin/testlimit.exe", testlimit),
		"copy-up": func(l *images.Layer) error {
			windows(l)
			l.Dir("Files/test_dir", 0o777)
			l.Text("Files/test_dir/test_file", "test_content\n")
			return nil
		},
		"ownership": func(l *images.Layer) error {
			windows(l)
			l.Dir("Files/bin", 0o755)
			l.Dir("Files/volumes", 0o777)
			l.Dir("Files/volumes/test_dir", 0o777)
			l.Owner("Files/volumes/test_dir/", images.ContainerUser)
			l.Text("Files/volumes/test_dir/test_file", "test_content\n")
			return l.File("Files/bin/get_owner.exe", filepath.Join(bin, "bundle", "windows", "get_owner.exe"), 0o755)
		},
	}
}

// pushSuiteImages puts them into the registry of the host.
func (w *world) pushSuiteImages() {
	w.t.Helper()
	testlimit := filepath.Join(w.dir, "testlimit.exe")
	command(w.t, forWindows, "go", "build", "-o", testlimit, "./testdata/testlimit")
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		w.t.Fatal(err)
	}
	dial := testkit.DialIn(platform.NetnsPath("porthole-" + w.name))
	registry, err := images.Login("http://"+registryAddress, filepath.Join(w.dir, registryLogin))
	if err != nil {
		w.t.Fatal(err)
	}
	p := &images.Pusher{
		Registry: registry, Parts: suiteLayers(bin, testlimit),
		Client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: dial}},
	}
	if err := p.PushAll(w.t.Context(), suiteImages()); err != nil {
		w.t.Fatal(err)
	}
}
