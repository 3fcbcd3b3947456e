// Command vulns reads the findings of `govulncheck -scan package -format json` and lists the vulnerabilities of
// packages that our programs import. It exits with 1 if one is not in the file of known ones, or if one there is found
// no more. Those of Go's own packages depend on the Go that builds: they are listed, and no error.
//
//	govulncheck -scan package -format json -db file://… ./cmd/... | vulns known.txt
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// standard is the name by which govulncheck reports Go's own packages.
const standard = "stdlib"

// finding is a vulnerability of a module.
type finding struct {
	OSV          string `json:"osv"`
	FixedVersion string `json:"fixed_version"`
	Trace        []struct {
		Module  string `json:"module"`
		Version string `json:"version"`
		Package string `json:"package"` // "": only the module is required, no vulnerable package is imported
	} `json:"trace"`
}

func (f finding) String() string {
	fixed := "not fixed yet"
	if f.FixedVersion != "" {
		fixed = "fixed in " + f.FixedVersion
	}
	at := f.Trace[0]
	return fmt.Sprintf("%s: %s of %s %s, %s", f.OSV, at.Package, at.Module, at.Version, fixed)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: govulncheck … | vulns FILE-OF-KNOWN-ONES")
		os.Exit(2)
	}
	known, err := os.Open(os.Args[1])
	if err == nil {
		defer known.Close()
		err = run(os.Stdout, os.Stdin, known)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vulns:", err)
		os.Exit(1)
	}
}

// run lists what was found. known has a line "GO-2026-1234 why it does not matter" for each that is accepted; empty
// lines and those that begin with # are passed over.
func run(out io.Writer, findings, known io.Reader) error {
	found, err := read(findings)
	if err != nil {
		return err
	}
	accepted := map[string]bool{}
	for scan := bufio.NewScanner(known); scan.Scan(); {
		id, reason, _ := strings.Cut(strings.TrimSpace(scan.Text()), " ")
		if id == "" || strings.HasPrefix(id, "#") {
			continue
		}
		if reason == "" {
			return fmt.Errorf("%s is accepted without a reason", id)
		}
		accepted[id] = true
	}

	var errs []error
	for _, id := range slices.Sorted(maps.Keys(found)) {
		f := found[id]
		switch {
		case f.Trace[0].Module == standard:
			fmt.Fprintf(out, "build with a newer Go: %s\n", f)
		case !accepted[id]:
			errs = append(errs, errors.New(f.String()))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(accepted)) {
		if _, is := found[id]; !is {
			errs = append(errs, fmt.Errorf("%s is accepted and was not found: remove it", id))
		}
	}
	return errors.Join(errs...)
}

// read returns the vulnerabilities of packages that are imported, by their name in the database.
func read(in io.Reader) (map[string]finding, error) {
	found := map[string]finding{}
	scanned := false
	for d := json.NewDecoder(in); ; {
		var message struct {
			Config  json.RawMessage `json:"config"`
			Finding *finding        `json:"finding"`
		}
		err := d.Decode(&message)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading govulncheck's findings: %w", err)
		}
		scanned = scanned || message.Config != nil
		if f := message.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Package != "" {
			found[f.OSV] = *f
		}
	}
	if !scanned {
		return nil, errors.New("govulncheck said nothing: it has not run")
	}
	return found, nil
}
