package install

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SumsFile is the file with the SHA-256 of each file of an archive.
const SumsFile = "SHA256SUMS"

// VersionDigits is how many hexadecimal digits of a SHA-256 name a version: 128 bits, so that nobody makes another
// program of that name.
const VersionDigits = 32

// ErrNoSums is wrapped by errors about a folder of programs without SumsFile, or in whose SumsFile a program is
// missing.
var ErrNoSums = errors.New("nothing says that the programs are those of the archive")

// ReadSums reads a file of sha256sum: the hash of each file by its path, with slashes. A file that is not there has
// none.
func ReadSums(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		sum, name, ok := strings.Cut(lines.Text(), " ")
		if !ok || len(sum) != 2*sha256.Size {
			return nil, fmt.Errorf("%s: %q is no line of sha256sum", path, lines.Text())
		}
		sums[strings.TrimPrefix(strings.TrimLeft(name, " *"), "./")] = strings.ToLower(sum)
	}
	return sums, lines.Err()
}

// CheckSums compares the programs in the folder of an unpacked archive with its SumsFile, which must have all of them
// that exist. names are their paths in it, with slashes. The sums find damage, and programs that somebody put beside
// those of an archive; who can write the whole folder can write the sums too.
func CheckSums(dir string, names []string) error {
	listed, err := ReadSums(filepath.Join(dir, SumsFile))
	if err != nil {
		return err
	}
	if listed == nil {
		return fmt.Errorf("%s has no %s: %w: unpack the archive of a release, or allow it with --skip-sums",
			dir, SumsFile, ErrNoSums)
	}

	for _, name := range names {
		sum, err := sumOfFile(filepath.Join(dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		switch want := listed[name]; {
		case want == "":
			return fmt.Errorf("%s is not in %s: %w: unpack the archive again, or allow it with --skip-sums",
				filepath.Join(dir, name), SumsFile, ErrNoSums)
		case want != sum:
			return fmt.Errorf("%s is damaged: its SHA-256 is %s, and %s says %s: unpack the archive again",
				filepath.Join(dir, name), sum, SumsFile, want)
		}
	}
	return nil
}

func sumOfFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
