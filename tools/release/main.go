// Command release packs what was built into the archives, packages and image that users get: `make release
// VERSION=v0.1.0` calls it after the build. The same programs, version and time give the same bytes.
package main

import (
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// versions are those that can be part of a file's name and of a Windows path.
var versions = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$`)

func main() {
	r := release{level: gzip.BestCompression}
	flag.StringVar(&r.version, "version", "", "version of the release, such as v0.1.0 or v0.1.0-rc.1")
	flag.StringVar(&r.root, "root", ".", "folder of the repository")
	flag.StringVar(&r.out, "out", "dist", "folder for the archives; those of other versions stay")
	flag.StringVar(&r.only, "only", "",
		"for tests: make the archive for linux or windows, the packages, the image of a node, or that of a cluster, alone and quickly, without sums")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: go run ./tools/release -version v0.1.0 [-root DIR] [-out DIR]")
		flag.PrintDefaults()
	}
	flag.Parse()

	if err := r.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one run of the command.
type release struct {
	version, root, out string
	at                 time.Time // of all files in the archives
	modules            string    // Go's module cache
	level              int       // of compression
	only               string    // linux, windows, packages, image or cluster; "": everything
}

// run makes all files of the release and the list of their sums.
func (r *release) run(ctx context.Context) error {
	if !versions.MatchString(r.version) {
		return fmt.Errorf("version %q: give one such as v0.1.0 (make release VERSION=v0.1.0)", r.version)
	}
	if err := r.ask(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}

	if r.only != "" {
		return r.one(ctx)
	}
	made, err := r.files(ctx)
	if err != nil {
		return err
	}
	// The provenance is about all files, so it comes after them; the sums have it as well.
	provenance, err := r.provenance(ctx, made)
	if err != nil {
		return err
	}
	file := filepath.Join(r.out, "porthole-"+r.version+".provenance.json")
	if err := os.WriteFile(file, provenance, 0o644); err != nil {
		return err
	}
	sums, err := sumsOf(append(made, file))
	if err != nil {
		return err
	}
	file = filepath.Join(r.out, "porthole-"+r.version+".SHA256SUMS")
	if err := os.WriteFile(file, sums, 0o644); err != nil {
		return err
	}
	// The sums are signed, and with them every file that is in them.
	return sign(ctx, signSums, file)
}

// one makes one file, and compresses it little.
func (r *release) one(ctx context.Context) (err error) {
	r.level = gzip.BestSpeed
	switch r.only {
	case "image":
		_, err = r.image(nodeImage)
	case "cluster":
		_, err = r.image(clusterImage)
	case "linux":
		_, err = r.make(ctx, linuxArchive(r.version))
	case "windows":
		_, err = r.make(ctx, windowsArchive(r.version))
	case "packages":
		_, err = r.packages()
	default:
		err = fmt.Errorf("-only %s: linux, windows, packages, image or cluster", r.only)
	}
	return err
}

// files makes everything that users get and prints the size of each.
func (r *release) files(ctx context.Context) (made []string, err error) {
	for _, a := range []archive{linuxArchive(r.version), windowsArchive(r.version)} {
		path, err := r.make(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.file, err)
		}
		made = append(made, path)
	}
	// Packages are signed before their sums are taken.
	packages, err := r.packages()
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		if err := sign(ctx, signPackages, p); err != nil {
			return nil, err
		}
	}
	made = append(made, packages...)
	for _, i := range []image{nodeImage, clusterImage} {
		file, err := r.image(i)
		if err != nil {
			return nil, err
		}
		made = append(made, file)
	}

	for _, path := range made {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		fmt.Printf("%s  %.1f MB\n", path, float64(info.Size())/1e6)
	}
	return made, nil
}

// ask fills in what git and go know: the time of the last commit, unless SOURCE_DATE_EPOCH has one
// (https://reproducible-builds.org/specs/source-date-epoch), and the module cache.
func (r *release) ask(ctx context.Context) error {
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		out, err := exec.CommandContext(ctx, "git", "-C", r.root, "log", "-1", "--format=%ct").Output()
		if err != nil {
			return fmt.Errorf("asking git for the time of the last commit (SOURCE_DATE_EPOCH gives another): %w", err)
		}
		seconds = strings.TrimSpace(string(out))
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	r.at = time.Unix(n, 0).UTC()

	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return fmt.Errorf("asking go for its module cache: %w", err)
	}
	r.modules = strings.TrimSpace(string(out))
	return nil
}
