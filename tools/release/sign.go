package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Commands of the user that sign, by the environment variable that has them; without one nothing is signed. A shell
// runs each with the path of a file behind it, and the command changes that file or writes a signature beside it. What
// is signed is not reproducible.
const (
	signPrograms = "RELEASE_AUTHENTICODE" // each .exe of the archive for Windows, before it is packed
	signPackages = "RELEASE_PKG"          // each deb and rpm
	signSums     = "RELEASE_SIGN"         // the list of sums of the release
)

// sign runs the command of a variable on a file, if there is one.
func sign(ctx context.Context, variable, file string) error {
	command := os.Getenv(variable)
	if command == "" {
		return nil
	}
	out, err := exec.CommandContext(ctx, "sh", "-c", command+` "$1"`, "sh", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s on %s: %w\n%s", variable, file, err, out)
	}
	return nil
}

// signedPrograms returns the entries with each .exe replaced by a signed copy in a folder of its own.
func signedPrograms(ctx context.Context, entries []entry, dir string) ([]entry, error) {
	if os.Getenv(signPrograms) == "" {
		return entries, nil
	}
	for i, e := range entries {
		if !e.exec || !strings.HasSuffix(e.name, ".exe") {
			continue
		}
		data, err := e.read()
		if err != nil {
			return nil, err
		}
		copied := filepath.Join(dir, strings.ReplaceAll(e.name, "/", "-"))
		if err := os.WriteFile(copied, data, 0o755); err != nil {
			return nil, err
		}
		if err := sign(ctx, signPrograms, copied); err != nil {
			return nil, err
		}
		entries[i].path = copied
	}
	return entries, nil
}

// provenance returns from what the files were made, in the form of SLSA (https://slsa.dev/spec/v1.0/provenance). It
// names no machine and no user: the same sources give the same text everywhere.
func (r *release) provenance(ctx context.Context, files []string) ([]byte, error) {
	type object = map[string]any
	var subjects []object
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects,
			object{"name": filepath.Base(f), "digest": object{"sha256": fmt.Sprintf("%x", sha256.Sum256(data))}})
	}

	var sources []object
	// Without a repository there is no commit to name, for example in the archive of one.
	if commit, err := exec.CommandContext(ctx, "git", "-C", r.root, "rev-parse", "HEAD").Output(); err == nil {
		sources = append(sources,
			object{"uri": "git+https://porthole.dev/porthole",
				"digest": object{"gitCommit": strings.TrimSpace(string(commit))}})
	}
	return json.MarshalIndent(object{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType": "https://porthole.dev/make-release/v1", "resolvedDependencies": sources,
				"externalParameters": object{"command": "make release VERSION=" + r.version},
				"internalParameters": object{"go": runtime.Version(), "SOURCE_DATE_EPOCH": r.at.Unix()},
			},
			"runDetails": object{"builder": object{"id": "https://porthole.dev/make-release/v1"}},
		},
	}, "", "  ")
}
