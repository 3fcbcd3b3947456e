package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRedact(t *testing.T) {
	jwt := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
	for name, c := range map[string]struct{ in, out string }{
		"service account token": {"token is " + jwt + " here", "token is (removed) here"},
		"bootstrap token":       {"join --token abcdef.0123456789abcdef now", "join --token (removed) now"},
		"bearer":                {"Authorization: Bearer 12345678abc", "Authorization: Bearer (removed)"},
		"password in JSON":      {`{"password":"hunter22","user":"u"}`, `{"password":"(removed)","user":"u"}`},
		"password in a URL":     {"https://user:hunter22@registry/v2", "https://user:(removed)@registry/v2"},
		"private key": {"a\n-----BEGIN RSA PRIVATE KEY-----\nxx\nyy\n-----END RSA PRIVATE KEY-----\nb",
			"a\n(removed)\nb"},
		"names and addresses": {"pod default/web-7f9c of node win01 at 10.244.1.7:80, image registry/shop/cart:1.4",
			"pod default/web-7f9c of node win01 at 10.244.1.7:80, image registry/shop/cart:1.4"},
		"a word like a secret": {"secrets \"x\" not found; tokens are rotated",
			"secrets \"x\" not found; tokens are rotated"},
		"time and digest": {"2026-11-01T12:00:00.123456789Z sha256:0123456789abcdef0123456789abcdef",
			"2026-11-01T12:00:00.123456789Z sha256:0123456789abcdef0123456789abcdef"},
	} {
		got, n := Redact([]byte(c.in))
		if string(got) != c.out {
			t.Errorf("%s: %q becomes %q, want %q", name, c.in, got, c.out)
		}
		if (n > 0) != (c.in != c.out) {
			t.Errorf("%s: %d were replaced", name, n)
		}
	}
}

func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.tar.gz")
	if err := write(file, []entry{{name: "a.txt", data: []byte("hello")}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := write(file, nil, time.Now()); err == nil {
		t.Error("an existing file is replaced")
	}
	st, err := os.Stat(file)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the archive is %v, %v: want it readable for its owner only", st.Mode(), err)
	}

	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(zip)
	header, err := archive.Next()
	if err != nil || header.Name != "porthole-report/a.txt" {
		t.Fatalf("the first file is %v, %v", header, err)
	}
	if text, err := io.ReadAll(archive); err != nil || strings.TrimSpace(string(text)) != "hello" {
		t.Errorf("it has %q, %v", text, err)
	}
}
