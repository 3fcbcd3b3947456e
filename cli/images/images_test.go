package images

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"porthole.dev/porthole/cli/program"
)

// registryOf serves one image, shop/app:1, without layers, for the versions of Windows that are given.
func registryOf(t *testing.T, versions ...string) (url string) {
	t.Helper()
	documents := map[string][]byte{}
	kinds := map[string]string{}
	put := func(where, tag, kind string, of any) v1.Descriptor {
		data, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		d := v1.Descriptor{MediaType: kind, Digest: digest.FromBytes(data), Size: int64(len(data))}
		for _, name := range []string{d.Digest.String(), tag} {
			path := "/v2/shop/app/" + where + "/" + name
			documents[path], kinds[path] = data, kind
		}
		return d
	}

	var all []v1.Descriptor
	for _, version := range versions {
		p := v1.Platform{OS: "windows", Architecture: "amd64", OSVersion: version}
		d := put("manifests", "-", v1.MediaTypeImageManifest,
			v1.Manifest{MediaType: v1.MediaTypeImageManifest,
				Config: put("blobs", "-", v1.MediaTypeImageConfig, v1.Image{Platform: p})})
		d.Platform = &p
		all = append(all, d)
	}
	put("manifests", "1", v1.MediaTypeImageIndex, v1.Index{MediaType: v1.MediaTypeImageIndex, Manifests: all})

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := documents[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", kinds[r.URL.Path])
		w.Header().Set("Docker-Content-Digest", digest.FromBytes(data).String())
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		if r.Method == http.MethodGet {
			_, _ = w.Write(data)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// run runs a command and returns what it wrote and its exit code.
func run(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	c := Command()
	var b bytes.Buffer
	c.SetOut(&b)
	c.SetErr(&b)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	var coded program.ExitCode
	switch {
	case errors.As(err, &coded):
		code = int(coded)
	case err != nil:
		code = 1
		fmt.Fprintln(&b, err)
	}
	return b.String(), code
}

func TestCheck(t *testing.T) {
	mirror := registryOf(t, "10.0.17763.1", "10.0.20348.1")
	const head = "docker.io/shop/app:1 is for Windows builds 17763 (Windows Server 2019), 20348 (Windows Server 2022)\n"
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{"shop/app:1 --build 20348,ltsc2025", 0,
			[]string{head, "20348 (Windows Server 2022)  runs    windows/amd64 10.0.20348.1",
				"26100 (Windows Server 2025)  runs    windows/amd64 10.0.20348.1"}},
		{"shop/app:1 --build 18362", 1,
			[]string{"18362 (Windows Server, version 1903)  does not run  windows/amd64 10.0.17763.1",
				"needs Hyper-V isolation"}},
		{"shop/app:1 --build 18362 --isolation hyperv", 0, []string{"runs"}},
		{"shop/app:1 --build 20348 -o json", 0,
			[]string{`"outcome": "runs"`, `"source": "learn.microsoft.com/`, `"version": "10.0.20348.1"`,
				`"build": 20348`}},
		{"shop/app:1 --build 14393 -o json", 1, []string{`"outcome": "does not run"`, "newer build"}},
		{"shop/absent:1 --build 20348", 2, []string{"shop/absent:1", "not found"}},
		{"shop/app:1 --build 2022x", 2, []string{`"2022x" is no build of Windows`, "ltsc2022"}},
		{"shop/app:1 --build 20348 -o yaml", 2, []string{"text and json"}},
		{"shop/app:1 --build 20348 --isolation strict", 2, []string{"process, hyperv and hostprocess"}},
		{"shop/app:1 --dir /nowhere", 2, []string{"no Windows hosts are named", "--build 20348"}},
		{"shop/app:1 --kubeconfig /nowhere", 2, []string{"/nowhere"}},
		{"Shop/App:1:1 --build 20348", 2, []string{"Shop/App:1:1"}},
	} {
		args := append(strings.Fields(c.args), "--mirror", mirror)
		if !strings.Contains(c.args, "--dir") {
			args = append(args, "--dir", t.TempDir())
		}

		out, code := run(t, append([]string{"check"}, args...)...)
		for _, want := range c.want {
			if code != c.code || !strings.Contains(out, want) {
				t.Errorf("%s: exit code %d, want %d and %q\n%s", c.args, code, c.code, want, out)
			}
		}
	}
}

func TestExportAndImportRefuse(t *testing.T) {
	mirror, dir := registryOf(t, "10.0.17763.1", "10.0.20348.1"), t.TempDir()
	archive := filepath.Join(dir, "app.tar")
	if out, code := run(t, "export", "shop/app:1", "--build", "20348", "--output", archive, "--mirror", mirror, "--dir",
		dir); code != 0 || !strings.Contains(out, "wrote "+archive) {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if out, code := run(t, "import", archive, "--build", "26100", "--dry-run", "--dir", dir); code != 0 ||
		!strings.Contains(out, "nothing was imported") {
		t.Errorf("import --dry-run: %d\n%s", code, out)
	}

	absent := filepath.Join(dir, "absent.tar")
	for args, want := range map[string]string{
		"export shop/app:1 --output " + absent:                    "--build is needed",
		"export shop/app:1 --build 20348":                         "--output is needed",
		"export shop/app:1 --build 20348 --output /nowhere/x.tar": "/nowhere",
		"export shop/app:1 --build 17134 --output " +
			absent: "image docker.io/shop/app:1 has nothing for build 17134 (Windows Server, version 1803)",
		"export shop/other:1 --build 20348 --output " + absent:         "shop/other:1",
		"export shop/app:1 --build 20348 --dry-run --output " + absent: "nothing was written",
		"import " + archive +
			" --build 17763": "image docker.io/shop/app:1 has nothing for build 17763 (Windows Server 2019)",
		"import " +
			archive: "which build of Windows the runtime is for is not known",
		"import " + archive + " --node win01":                              "win01",
		"import " + absent + " --build 20348":                              "absent.tar",
		"import " + archive + " --build 20348 --runtime-endpoint http://x": "it must begin with npipe:",
	} {
		list := append(strings.Fields(args), "--dir", filepath.Join(dir, "no-cluster"))
		if list[0] == "export" {
			list = append(list, "--mirror", mirror)
		}
		out, code := run(t, list...)
		if !strings.Contains(out, want) || (code == 0) != strings.Contains(args, "--dry-run") {
			t.Errorf("%s: exit code %d, want %q\n%s", args, code, want, out)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "absent*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(archive); err != nil {
		t.Error(err)
	}
}
