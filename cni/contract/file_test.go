package contract

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func fieldFiles(t testing.TB) []string {
	one, err := filepath.Glob("testdata/*.conf")
	lists, err2 := filepath.Glob("testdata/*.conflist")
	found := slices.Concat(one, lists)
	if err != nil || err2 != nil || len(found) < 18 {
		t.Fatalf("%d files: %v %v", len(found), err, err2)
	}
	return found
}

// Every form of configuration that is found on Windows nodes is read to one form, which the golden file beside it has.
// wincni's is that of the Windows guide, byte for byte.
// Rows 1.55, 1.72.
func TestFilesOfTheField(t *testing.T) {
	for _, path := range fieldFiles(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := ReadFile(path, data)
		if err != nil {
			t.Error(err)
			continue
		}

		golden := path + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(f.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), f.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestReadFileRefuses(t *testing.T) {
	for want, text := range map[string]string{
		// A configuration that Azure published lacks a comma in this way.
		`10-azure.conflist, line 4, column 5: invalid character '"'`: "{\n  \"name\": \"azure\",\n    \"adapterName\": \"\"\n    \"plugins\": []}",
		"line 2, column 16": "{\n \"cniVersion\": 1,\n \"name\": \"x\"}",
		"plugin 2: reading the network configuration, line 4, column 42": "{\"name\": \"x\",\n \"plugins\": [\n  {\"type\": \"calico\"},\n  {\"type\": \"win-bridge\", \"apiVersion\": \"2\"}]}",
		"configuration, line 3, column 19":                               "{\"name\": \"x\",\n \"type\": \"win-bridge\",\n \"ipMasqNetwork\": 1}",
		"configuration, line 2, column 44":                               "{\"name\": \"x\", \"type\": \"flannel\",\n \"delegate\": {\"type\": \"win-bridge\", \"dns\": 7}}",
		"there is no plugin in it":                                       `{"name":"n","plugins":[]}`,
		"plugin 2: a plugin has no type":                                 `{"name":"n","plugins":[{"type":"calico"},{}]}`,
		"Weave ended":                                                    `{"name":"weave","type":"weave-net"}`,
		"use `porthole routes --mode vxlan`":                             `{"name":"weave","plugins":[{"type":"weave-net.exe"}]}`,
		"flannel has no delegate":                                        `{"name":"n","type":"flannel"}`,
		"which flannel sets itself":                                      `{"name":"n","type":"flannel","delegate":{"type":"win-bridge","ipam":{}}}`,
		"apiVersion 3":                                                   `{"name":"n","type":"win-bridge","apiVersion":3}`,
		"neither true nor false":                                         `{"name":"n","type":"win-bridge","loopbackDSR":"perhaps"}`,
	} {
		f, err := ReadFile(`C:\etc\cni\net.d\10-azure.conflist`, []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "10-azure.conflist") {
			t.Errorf("%s\nis %v %v, want an error with %q", text, f, err, want)
		}
	}
}

func TestInstead(t *testing.T) {
	for name, want := range map[string]string{"kubenet": "kubenet", "Weave": "Weave", "weave-net.exe": "Weave",
		"IPIP": "IP-in-IP", "ip-in-ip": "IP-in-IP",
		"cni": "", "": "", "vxlan": "", "calico": ""} {
		got := Instead(name)
		if (got == "") != (want == "") || !strings.Contains(got, want) ||
			got != "" && !strings.Contains(got, "use `porthole routes") {
			t.Errorf("%q: %q", name, got)
		}
	}
}

// FuzzReadFile: whatever a file holds, there is an error that names it, or plugins with types.
func FuzzReadFile(f *testing.F) {
	for _, path := range fieldFiles(f) {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := ReadFile("x.conf", data)
		if err != nil {
			if !strings.Contains(err.Error(), "x.conf") {
				t.Fatal(err)
			}
			return
		}
		for _, p := range file.Plugins {
			if p.Type == "" || p.Kind == "" || (p.Kind == Ours || p.Kind == Meta) && p.Config == nil {
				t.Fatalf("%+v", p)
			}
		}
		_ = file.String()
	})
}
