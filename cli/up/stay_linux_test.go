package up

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReap: the ends of all children are taken note of, also of those that others leave behind, and the status is
// that of the one that is waited for.
func TestReap(t *testing.T) {
	// as the first process of a container is
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	// The outer shell ends with 3. Its grandchild `sleep` goes on, and becomes a child of this test.
	script := `sh -c 'sleep 0.1 & echo $!' ; exit 3`
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	child, err := os.StartProcess(sh, []string{"sh", "-c", script}, &os.ProcAttr{Files: []*os.File{nil, write, nil}})
	if err != nil {
		t.Fatal(err)
	}
	write.Close()

	status, err := reap(t.Context(), child.Pid)
	if err != nil || status.ExitStatus() != 3 {
		t.Errorf("status %v, %v", status.ExitStatus(), err)
	}
	text := make([]byte, 100)
	n, _ := read.Read(text)
	left, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reap(t.Context(), left); err != nil {
		t.Error(err)
	}
	if err := unix.Kill(left, 0); err != unix.ESRCH {
		t.Errorf("process %d, which was left behind: %v", left, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := reap(ctx, 0); err != nil {
		t.Errorf("after the end of the context: %v", err)
	}
}
