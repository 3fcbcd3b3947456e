package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/slow"
	"porthole.dev/porthole/internal/testkit/statefolder"
)

var (
	porthole string // the program under test
	dir      string // its state folder
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if os.Geteuid() != 0 {
		return 1, fmt.Errorf("these tests make namespaces and mounts: run them as root")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		return 1, err
	}
	porthole = filepath.Join(root, "bin", "porthole")
	if _, err := os.Stat(porthole); err != nil {
		return 1, fmt.Errorf("%s is missing: run `make build` first", porthole)
	}

	dir = os.Getenv("PORTHOLE_LAB_DIR")
	keep := dir != ""
	if !keep {
		var remove func() error
		if dir, remove, err = statefolder.Make(porthole); err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, remove()) }()
	}

	started := time.Now()
	up := []string{"up", "--dir", dir}
	if !keep { // beside a cluster without a name, that of another package
		up = append(up, "--name=lab", "--api-port=7443", "--registry-port=7500")
	}
	if scale := os.Getenv(slow.Variable); scale != "" {
		up = append(up, "--time-scale", scale)
	}
	if nodes := os.Getenv("PORTHOLE_LAB_NODES"); nodes != "" {
		up = append(up, "--windows-nodes", nodes)
	}
	if builds := os.Getenv("PORTHOLE_LAB_BUILDS"); builds != "" {
		up = append(up, "--windows-build", builds)
	}
	if memory := os.Getenv("PORTHOLE_LAB_MEMORY"); memory != "" {
		up = append(up, "--windows-memory", memory)
	}
	out, err := command(slow.Limit(8*time.Minute), porthole, up...)
	fmt.Printf("porthole up took %.1f s\n%s", time.Since(started).Seconds(), out)
	code = 1
	if err == nil {
		code = m.Run()
	}
	if code != 0 && !keep {
		saveLogs()
	}
	return code, err
}

// saveLogs prints the end of every log, since the folder goes away.
func saveLogs() {
	for _, pattern := range []string{"logs/*.log", "hosts/*/logs/*.log"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, f := range files {
			data, _ := os.ReadFile(f)
			if len(data) > 4000 {
				data = data[len(data)-4000:]
			}
			fmt.Printf("---- %s\n%s\n", f, data)
		}
	}
}

// command runs a program for at most limit and returns its standard output. The error includes its standard error.
func command(limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), slow.Limit(limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s%s", filepath.Base(name), strings.Join(args, " "), err,
			strings.TrimSpace(errs.String()), strings.TrimSpace(out.String()))
	}
	return out.String(), err
}

func kubectlErr(args ...string) (string, error) {
	return command(time.Minute, porthole, append([]string{"kubectl", "--dir", dir}, args...)...)
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := kubectlErr(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply applies manifests with kubectl, and deletes their objects when the test ends.
func apply(t *testing.T, manifest string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-f", file)
	t.Cleanup(func() {
		if out, err := kubectlErr("delete", "--ignore-not-found", "--wait=true", "--timeout=50s", "-f",
			file); err != nil {
			t.Errorf("cleaning up: %v %s", err, out)
		}
	})
}

// object reads one object, or a list, into v.
func object(t *testing.T, v any, args ...string) {
	t.Helper()
	out := kubectl(t, append([]string{"get", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), v); err != nil {
		t.Fatal(err)
	}
}

// inNetns runs a program of this machine in a namespace of the lab.
func inNetns(limit time.Duration, netns string, args ...string) (string, error) {
	return command(limit, "nsenter", append([]string{"--net=/var/run/netns/" + netnsOf(netns)}, args...)...)
}

func unmarshal(text string, v any) error { return json.Unmarshal([]byte(text), v) }
