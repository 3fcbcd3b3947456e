package main

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestParse: the spellings that kubectl and people use, and what is refused.
func TestParse(t *testing.T) {
	for line, want := range map[string]options{
		"cf - /data/x":    {mode: 'c', file: "-", folder: ".", paths: []source{{".", "/data/x"}}},
		"xmf - -C /data":  {mode: 'x', file: "-", folder: "/data", now: true},
		"-xmf - -C /data": {mode: 'x', file: "-", folder: "/data", now: true},
		"--no-same-permissions --no-same-owner -xmf - -C d": {mode: 'x', file: "-", folder: "d", now: true},
		"-czvf a.tgz -C d x -C e y": {mode: 'c', file: "a.tgz", folder: "e", gzip: true,
			verbose: true, paths: []source{{"d", "x"}, {"e", "y"}}},
		"cfv - x": {mode: 'c', file: "-", folder: ".", verbose: true,
			paths: []source{{".", "x"}}},
		"-tfa.tar": {mode: 't', file: "a.tar", folder: "."},
		"-x --strip-components=2 --exclude *.log -f a": {mode: 'x', file: "a", folder: ".", strip: 2,
			exclude: []string{"*.log"}},
	} {
		got, err := parse(strings.Fields(line))
		same := err == nil && got.mode == want.mode && got.file == want.file && got.folder == want.folder &&
			got.now == want.now && got.gzip == want.gzip &&
			got.verbose == want.verbose && got.strip == want.strip && slices.Equal(got.exclude, want.exclude) &&
			slices.Equal(got.paths, want.paths)
		if !same {
			t.Errorf("%s: %+v, %v; want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{"", "-f", "-c", "-cx a", "-q", "--what", "-x --strip-components=x", "-x --exclude"} {
		if o, err := parse(strings.Fields(line)); err == nil {
			t.Errorf("%q: %+v", line, o)
		}
	}
}

// TestRoundTrip archives a tree and extracts it, with names longer than ustar has, and through gzip.
func TestRoundTrip(t *testing.T) {
	from := t.TempDir()
	long := strings.Repeat("folder of many letters/", 12) + strings.Repeat("n", 120) + " é.txt"
	for name, text := range map[string]string{"a.txt": "a\r\n", "d/b.txt": strings.Repeat("b", 100_000), "d/empty": "",
		long: "long", "d/skip.log": "log"} {
		path := filepath.Join(from, filepath.FromSlash(name))
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(text), 0o644))
		when := time.Unix(1_700_000_000, 900_000_000)
		check(t, os.Chtimes(path, when, when))
	}
	check(t, os.Mkdir(filepath.Join(from, "no files"), 0o755))

	for _, flags := range []string{"cf", "czf"} {
		var archive, errs bytes.Buffer
		o, err := parse([]string{flags, "-", "--exclude", "*.log", "-C", from, "."})
		check(t, err)
		if err := o.run(nil, &archive, &errs); err != nil {
			t.Fatalf("%v\n%s", err, &errs)
		}
		to := t.TempDir()
		o, err = parse([]string{"xf", "-", "-C", to})
		check(t, err)
		if err := o.run(&archive, nil, &errs); err != nil {
			t.Fatalf("%v\n%s", err, &errs)
		}
		for name, want := range map[string]string{"a.txt": "a\r\n", "d/b.txt": strings.Repeat("b", 100_000),
			"d/empty": "", long: "long"} {
			got, err := os.ReadFile(filepath.Join(to, filepath.FromSlash(name)))
			before, _ := os.Stat(filepath.Join(from, filepath.FromSlash(name)))
			after, _ := os.Stat(filepath.Join(to, filepath.FromSlash(name)))
			if err != nil || string(got) != want || before.ModTime().Unix() != after.ModTime().Unix() {
				t.Errorf("%.40s: %.20q, %v", name, got, err)
			}
		}
		if _, err := os.Stat(filepath.Join(to, "d/skip.log")); err == nil {
			t.Error("an excluded file is there")
		}
		if st, err := os.Stat(filepath.Join(to, "no files")); err != nil || !st.IsDir() {
			t.Errorf("an empty folder: %v", err)
		}
	}
}

// TestHostile: nothing of an archive comes to lie outside of the folder, the rest is extracted, and the exit code says
// so.
func TestHostile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a right there")
	}
	outer := t.TempDir()
	to := filepath.Join(outer, "to")
	check(t, os.Mkdir(to, 0o755))
	check(t, os.WriteFile(filepath.Join(outer, "victim"), []byte("old"), 0o644))
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range []tar.Header{
		{Name: "../victim"}, {Name: "/" + outer + "/victim"}, {Name: `..\victim`}, {Name: `C:\victim`},
		{Name: "d/../../victim"},
		{Name: "up", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "up/victim"}, {Name: "up/made"},
		{Name: "abs", Typeflag: tar.TypeSymlink, Linkname: outer}, {Name: "abs/victim"},
		{Name: "hard", Typeflag: tar.TypeLink, Linkname: "../victim"},
		{Name: "hard2", Typeflag: tar.TypeLink, Linkname: "up/victim"},
		{Name: "pipe", Typeflag: tar.TypeFifo}, {Name: "device", Typeflag: tar.TypeChar}, {Name: "good"},
		{Name: "./also/good"},
	} {
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, 3
		}
		h.Mode = 0o644
		check(t, w.WriteHeader(&h))
		if h.Size > 0 {
			_, err := w.Write([]byte("new"))
			check(t, err)
		}
	}
	check(t, w.Close())

	var errs bytes.Buffer
	o := options{mode: 'x', file: "-", folder: to}
	if err := o.run(&archive, nil, &errs); err == nil {
		t.Error("no error")
	}
	for _, name := range []string{"good", "also/good"} {
		if text, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(text) != "new" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(outer, "victim")); err != nil || string(text) != "old" {
		t.Errorf("a file outside is %q, %v", text, err)
	}
	for _, name := range []string{"pipe", "device", "hard", "hard2"} {
		if _, err := os.Lstat(filepath.Join(to, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	entries, err := os.ReadDir(outer)
	if err != nil || len(entries) != 2 {
		t.Errorf("outside are %v, %v", entries, err)
	}
	if n := strings.Count(errs.String(), "\n"); n != 12 {
		t.Errorf("%d messages:\n%s", n, &errs)
	}
}

// FuzzExtract: no archive makes tar leave its folder, hang or panic.
func FuzzExtract(f *testing.F) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	_ = w.WriteHeader(&tar.Header{Name: "a", Size: 1, Mode: 0o644})
	_, _ = w.Write([]byte("x"))
	_ = w.Close()
	f.Add(archive.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		outer := t.TempDir()
		to := filepath.Join(outer, "to")
		check(t, os.Mkdir(to, 0o755))
		var errs bytes.Buffer
		_ = options{mode: 'x', file: "-", folder: to}.run(bytes.NewReader(data), &errs, &errs)
		if entries, err := os.ReadDir(outer); err != nil || len(entries) != 1 {
			t.Errorf("outside are %v, %v", entries, err)
		}
	})
}
