package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRequirements(t *testing.T) {
	got := requirements(`module example.com/m

go 1.26.0

require example.com/one v1.0.0

require (
	example.com/two/v2 v2.0.0-20260101000000-abcdefabcdef // indirect
	k8s.io/api v0.0.0
)

replace k8s.io/api => k8s.io/api v0.36.3

replace (
	k8s.io/unused => k8s.io/unused v0.36.3
)

exclude (
	example.com/one v1.1.0
	example.com/three v1.0.0
)
exclude k8s.io/api v0.37.0
`)

	want := "map[example.com/one:v1.0.0 example.com/two/v2:v2.0.0-20260101000000-abcdefabcdef k8s.io/api:v0.36.3]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestRun(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                        "module m\nrequire example.com/a v1.0.0\nrequire go.etcd.io/bbolt v1.4.3\n",
		"bundle/x/go.mod":               "module x\nrequire example.com/a v1.1.0\nrequire go.etcd.io/bbolt v1.5.0\n",
		"bundle/nerdctl/go.mod":         "module n\nrequire example.com/b v0.9.0\n",
		"test/conformance/suite/go.mod": "module y\nrequire example.com/b v1.1.0\n",
	} {
		full := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	var out bytes.Buffer
	ok, err := run(&out, root)
	if ok || err != nil || !strings.Contains(out.String(),
		"example.com/a differs:\n\tv1.0.0 in .\n\tv1.1.0 in bundle/x\n") {
		t.Errorf("%t, %v\n%s", ok, err, out.String())
	}
	if strings.Contains(out.String(), "bbolt") || strings.Contains(out.String(), "example.com/b") {
		t.Errorf("modules that may differ or stand alone are listed:\n%s", out.String())
	}
}
