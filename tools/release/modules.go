package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode"
)

// infoOf returns what the Go compiler wrote into a program; nil for other files.
func infoOf(e entry) *debug.BuildInfo {
	if !e.exec || e.path == "" {
		return nil
	}
	info, err := buildinfo.ReadFile(e.path)
	if err != nil {
		return nil // a DLL from C, or data
	}
	return info
}

// inFolder reports whether a module is a folder of this repository, which stands for another module.
func inFolder(m *debug.Module) bool { return m.Version == "" || m.Version == "(devel)" }

// module returns the module whose sources were compiled: the one that replaces m, if one does.
func module(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

// modulesOf returns the modules of all programs, each once, sorted. Those of a folder of this repository are not among
// them.
func modulesOf(entries []entry) ([]debug.Module, error) {
	known := map[debug.Module]bool{}
	for _, e := range entries {
		info := infoOf(e)
		if info == nil {
			continue
		}
		for _, m := range info.Deps {
			if m = module(m); !inFolder(m) {
				known[debug.Module{Path: m.Path, Version: m.Version}] = true
			}
		}
	}
	if len(known) == 0 {
		return nil, errors.New("no program has modules: it was not built with Go's modules")
	}

	var list []debug.Module
	for m := range known {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b debug.Module) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Version, b.Version))
	})
	return list, nil
}

// licenseName fits names such as LICENSE, COPYING.md and NOTICE.
var licenseName = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice)([.-].*)?$`)

// licenses returns the files with licenses of modules from the module cache. A module without one is an error: nobody
// may pass it on.
func licenses(modules []debug.Module, cache string) (list []entry, err error) {
	for _, m := range modules {
		dir := filepath.Join(cache, escaped(m.Path)+"@"+escaped(m.Version))
		found := false
		files, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("licenses of %s: %w", m.Path, err)
		}
		for _, f := range files {
			if f.Type().IsRegular() && licenseName.MatchString(f.Name()) {
				list = append(list,
					entry{name: path.Join("licenses", m.Path+"@"+m.Version, f.Name()),
						path: filepath.Join(dir, f.Name())})
				found = true
			}
		}
		if !found {
			return nil, fmt.Errorf("module %s %s has no license in %s: %w", m.Path, m.Version, dir, fs.ErrNotExist)
		}
	}
	return list, nil
}

// escaped writes capitals as the module cache does (https://go.dev/ref/mod#module-cache).
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// The parts of CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json) that are used.
type (
	bill struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string      `json:"type"`
		Name       string      `json:"name"`
		Version    string      `json:"version,omitempty"`
		PURL       string      `json:"purl,omitempty"`
		Hashes     []hash      `json:"hashes,omitempty"`
		Components []component `json:"components,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
)

// packagesName is the list of Debian's packages that the root folder of emulated hosts is made of (tools/root): name,
// version, size, SHA-256, path.
const packagesName = "root/packages"

// packagesOf returns the packages of such a list.
func packagesOf(e entry) (list []component, err error) {
	text, err := e.read()
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 5 || f[0] == "#" {
			continue
		}
		list = append(list, component{Type: "library", Name: f[0], Version: f[1], Hashes: []hash{{"SHA-256", f[3]}},
			PURL: "pkg:deb/debian/" + f[0] + "@" + url.QueryEscape(f[1])})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s names no package", e.path)
	}
	return list, nil
}

// billOf lists each program and DLL with its sum, and the modules in it as `go version -m` shows them, and Debian's
// packages.
func billOf(entries []entry, version string, at time.Time) ([]byte, error) {
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1,
		Metadata: metadata{at.Format(time.RFC3339), component{Type: "application", Name: "porthole", Version: version}}}

	for _, e := range entries {
		if e.name == packagesName {
			packages, err := packagesOf(e)
			if err != nil {
				return nil, err
			}
			b.Components = append(b.Components, packages...)
		}
		// Files below root/ are Debian's, which packages describe, unless they are programs of Go.
		if !e.exec || e.link != "" || strings.HasPrefix(e.name, "root/") && infoOf(e) == nil {
			continue
		}
		data, err := e.read()
		if err != nil {
			return nil, err
		}
		c := component{Type: "file", Name: e.name, Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(data))}}}
		if info := infoOf(e); info != nil {
			c.Type = "application"
			c.Components = append(c.Components, component{Type: "platform", Name: "go", Version: info.GoVersion})
			for _, m := range info.Deps {
				if m = module(m); inFolder(m) {
					continue
				}
				c.Components = append(c.Components,
					component{Type: "library", Name: m.Path, Version: m.Version,
						PURL: "pkg:golang/" + m.Path + "@" + m.Version})
			}
		}
		b.Components = append(b.Components, c)
	}
	return json.MarshalIndent(b, "", " ")
}
