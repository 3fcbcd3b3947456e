package lab

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	testimages "porthole.dev/porthole/test/images"
)

// TestImageVolume: an image declares the folder D:\data as a volume. Each container of the image has an empty folder
// there and can write to it.
func TestImageVolume(t *testing.T) {
	program := filepath.Join(filepath.Dir(porthole), "bundle", "images", "windows", "testapp.exe")
	variant := testimages.Variant{
		Layers: []string{"testapp"}, Dir: `C:\`, Env: []string{`PATH=C:\Windows\system32;C:\Windows;C:\`},
		Volumes: []string{`D:\data`}, Entrypoint: []string{`C:\testapp.exe`},
		Args: []string{"serve", "--http", ":8080"},
	}
	push(t, layers{"testapp": func(l *testimages.Layer) error { return windowsLayer(l, program) }},
		testimages.Image{Repository: "porthole/volume", Windows: &variant})

	for _, name := range []string{"image-volume-a", "image-volume-b"} {
		apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec: {nodeName: win01, terminationGracePeriodSeconds: 1, containers: [{name: app, image: "porthole/volume:1"}]}
`, name))
		waitPod(t, name, podWait, isReady)

		if out := kubectl(t, "exec", name, "--", "testapp", "ls", `D:\data`); strings.TrimSpace(out) != "" {
			t.Errorf(`%s: D:\data holds %q at first`, name, out)
		}
		kubectl(t, "exec", name, "--", "cmd", "/c", `copy C:\testapp.exe D:\data\kept.exe`)
		if out := kubectl(t, "exec", name, "--", "testapp", "ls", `D:\data`); !strings.Contains(out, "kept.exe") {
			t.Errorf(`%s: D:\data holds %q`, name, out)
		}
	}
}
