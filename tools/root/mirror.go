package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// mirrorVariable is the environment variable that names a mirror of Debian. It is needed on a machine without apt, and
// where apt's mirror does not have the suite.
const mirrorVariable = "PORTHOLE_DEBIAN"

// findMirror returns the address of a mirror of Debian: that of the variable, or the first one of apt's sources that
// has the suite.
func findMirror(ctx context.Context) (string, error) {
	if mirror := os.Getenv(mirrorVariable); mirror != "" {
		return strings.TrimSuffix(mirror, "/"), nil
	}
	apt := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages",
		"Component: main")
	out, err := apt.Output()
	if err != nil {
		return "", fmt.Errorf("asking apt for a mirror of Debian (%s names one without it): %w", mirrorVariable, err)
	}
	for _, mirror := range strings.Fields(string(out)) {
		mirror = strings.TrimSuffix(mirror, "/")
		r, err := get(ctx, mirror+"/dists/"+suite+"/InRelease")
		if err == nil {
			r.Close()
			return mirror, nil
		}
	}
	return "", fmt.Errorf("none of apt's sources has Debian %s: %s names a mirror that has it", suite, mirrorVariable)
}

// errAbsent is for what a mirror has not.
var errAbsent = errors.New("it is not there")

// get returns the body, which the caller closes; errAbsent if the mirror does not have it.
func get(ctx context.Context, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		if answer.StatusCode == http.StatusNotFound {
			return nil, fmt.Errorf("fetching %s: %w", url, errAbsent)
		}
		return nil, fmt.Errorf("fetching %s: %s", url, answer.Status)
	}
	return answer.Body, nil
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	r, err := get(ctx, url)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// keyring has the keys with which Debian signs its releases.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

const indexName = "main/binary-amd64/Packages.xz"

// renew finds the newest packages of the suite. That the index is Debian's is checked by its signature.
func renew(ctx context.Context, mirror string) ([]*pkg, error) {
	dist := mirror + "/dists/" + suite + "/"
	signed, err := fetch(ctx, dist+"InRelease")
	if err != nil {
		return nil, err
	}
	check := exec.CommandContext(ctx, "gpgv", "--quiet", "--keyring", keyring, "--output", "-")
	check.Stdin = bytes.NewReader(signed)
	var says bytes.Buffer
	check.Stderr = &says
	release, err := check.Output()
	if err != nil {
		return nil, fmt.Errorf("checking the signature of %sInRelease with gpgv: %w: %s", dist, err, says.String())
	}
	sum := regexp.MustCompile(`(?m)^ ([0-9a-f]{64}) +\d+ ` + regexp.QuoteMeta(indexName) + `$`).FindSubmatch(release)
	if sum == nil {
		return nil, fmt.Errorf("%sInRelease names no %s", dist, indexName)
	}
	packed, err := fetch(ctx, dist+indexName)
	if err != nil {
		return nil, err
	}
	if is := sha256.Sum256(packed); hex.EncodeToString(is[:]) != string(sum[1]) {
		return nil, fmt.Errorf("%s%s is damaged, or just being replaced: InRelease has another checksum", dist,
			indexName)
	}

	unpack := exec.CommandContext(ctx, "xz", "-dc")
	unpack.Stdin = bytes.NewReader(packed)
	index, err := unpack.Output()
	if err != nil {
		return nil, fmt.Errorf("unpacking %s with xz: %w", indexName, err)
	}
	all, err := parseIndex(bytes.NewReader(index))
	if err != nil {
		return nil, err
	}
	return closure(all, wanted, excluded)
}

// download puts a package into a folder, if it is not there, and returns its path.
func download(ctx context.Context, mirror string, p *pkg, dir string) (string, error) {
	file := filepath.Join(dir, filepath.Base(p.path))
	if whole(file, p) == nil {
		return file, nil
	}
	url := mirror + "/" + p.path
	r, err := get(ctx, url)
	if err != nil {
		return "", err
	}
	defer r.Close()

	to, err := os.Create(file)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, io.LimitReader(r, p.size+1))
	if err := errors.Join(err, to.Close()); err != nil {
		return "", fmt.Errorf("fetching %s: %w", url, err)
	}
	if err := whole(file, p); err != nil {
		return "", errors.Join(fmt.Errorf("the download of %s is damaged: %w", url, err), os.Remove(file))
	}
	return file, nil
}

// whole checks that a file is the package.
func whole(file string, p *pkg) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); n != p.size || sum != p.sha256 {
		return fmt.Errorf("it has %d bytes with the SHA-256 %s, root.lock says %d and %s", n, sum, p.size, p.sha256)
	}
	return nil
}

// full adds to the error of a full disk what is needed.
func full(err error, dir string) error {
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("%w: a root folder needs 1.5 GB in %s while it is made", err, dir)
	}
	return err
}
