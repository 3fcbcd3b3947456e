package kubeproxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestWatchFile: other content ends the proxy; the same content written again does not.
func TestWatchFile(t *testing.T) {
	old := watchPeriod
	watchPeriod = 5 * time.Millisecond
	defer func() { watchPeriod = old }()
	given := Options{ConfigFile: filepath.Join(t.TempDir(), "c"), ConfigData: []byte("one")}
	write := func(text string) {
		if err := os.WriteFile(given.ConfigFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	write("one")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() { given.watchFile(ctx, cancel); close(done) }()
	write("one")
	if ctx.Err() != nil {
		t.Fatal("the same content ended the proxy")
	}

	write("two")
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("nobody saw the change")
	}
	if !errors.Is(context.Cause(ctx), errFileChanged) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
}

// TestListening: a port in use ends the proxy only when that is asked for.
func TestListening(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	hard, soft := &listening{hardFail: true}, &listening{failed: func(err error) { t.Error(err) }}
	defer hard.close()
	defer soft.close()
	handler := http.NotFoundHandler()
	if err := hard.serve(ctx, "healthz-bind-address", taken.Addr().String(), handler); err == nil ||
		!strings.Contains(err.Error(), "--healthz-bind-address") {
		t.Errorf("hard: %v", err)
	}

	if err := soft.serve(ctx, "healthz-bind-address", taken.Addr().String(), handler); err != nil {
		t.Errorf("soft: %v", err)
	}
	if err := soft.serve(ctx, "healthz-bind-address", "", handler); err != nil {
		t.Errorf("none: %v", err)
	}
	if len(soft.stops) != 0 {
		t.Errorf("%d servers listen", len(soft.stops))
	}

	// The one before ends: the port is served soon, not after upstream's five seconds.
	taken.Close()
	start := time.Now()
	wait.True(t, 20*time.Second, "the freed port to be served", func() bool {
		answer, err := http.Get("http://" + taken.Addr().String())
		if err == nil {
			answer.Body.Close()
		}
		return err == nil
	})
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("the freed port is served after %v", took)
	}
}
