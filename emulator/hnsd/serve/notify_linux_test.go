package serve

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/platform"
)

// TestServiceCallback lets a Windows program subscribe through computenetwork.dll, and restarts HNS under it.
func TestServiceCallback(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("network namespaces and mounts need root")
	}
	h := startBridgeHost(t, 20348)
	h.build(".", "go", "test", "-c", "-o", filepath.Join(h.prefix.DriveC(), "hcn.test.exe"),
		"porthole.dev/porthole/hns/hcn")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := h.tools.Command(ctx, h.prefix, `C:\hcn.test.exe`, "-test.v", "-test.run", "TestNotifications")
	cmd.Env = append(cmd.Env, "HNS_RESTARTS=1")
	in, err := cmd.StdinPipe()
	must(t, err)
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	must(t, platform.StartInNetns(h.path, cmd))
	exit := make(chan error, 1)
	go func() { exit <- cmd.Wait(); write.Close() }()
	var out strings.Builder
	for lines := bufio.NewScanner(read); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		if strings.TrimSpace(lines.Text()) == "restart" {
			h.stop() // the whole daemon, which closes all connections
			h.stop = h.serve()
			_, err := io.WriteString(in, "it runs\n")
			must(t, err)
		}
	}

	if err := <-exit; err != nil || !strings.Contains(out.String(), "--- PASS: TestNotifications") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
